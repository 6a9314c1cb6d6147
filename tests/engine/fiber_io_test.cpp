#include <weft/engine.hpp>

#include <weft/arch/fault.hpp>
#include <weft/arch/sanitizer.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/semaphore.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/errors.hpp>
#include <support/frames.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using arch::fault::Site;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::frames_in_use;
using ::testing::HasSubstr;
using testing::text_of;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

struct Oddity {
  int number;
};

std::size_t mappings() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

// What holds however many workers there are; the tests called FiberIo say how many they need.
class FiberIoOn : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, FiberIoOn, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

// ── run ─────────────────────────────────────────────────────────────────────────────────────────

TEST_P(FiberIoOn, RunReturnsValuesOfEveryKind) {
  FiberIo io{{.workers = GetParam()}};
  EXPECT_EQ(io.run([] { return 5; }), 5);
  EXPECT_EQ(io.run([] { return std::string(1'000, 'x'); }).size(), 1'000U);
  const std::unique_ptr<int> moved = io.run([] { return std::make_unique<int>(7); });
  EXPECT_EQ(*moved, 7);
  bool ran = false;
  io.run([&] { ran = true; });
  EXPECT_TRUE(ran);
  struct NoDefault {
    explicit NoDefault(int value_in) : value(value_in) {}
    int value;
  };
  EXPECT_EQ(io.run([] { return NoDefault{3}; }).value, 3);
  int there = 0;
  EXPECT_EQ(io.run([&] { return &there; }), &there);
  EXPECT_EQ(weft::run([] { return 11; }), 11);
  weft::run([] {});
}

TEST_P(FiberIoOn, RunThrowsWhatTheRootThrows) {
  FiberIo io{{.workers = GetParam()}};
  EXPECT_THROW(io.run([] { throw std::runtime_error{"root"}; }), std::runtime_error);
  EXPECT_THROW(io.run([]() -> int { throw std::out_of_range{"root"}; }), std::out_of_range);
  EXPECT_THROW(io.run([] { throw Oddity{1}; }), Oddity);
  EXPECT_THROW(io.run([] { throw 1; }), int);
  EXPECT_THROW(io.run([] { nursery([](Nursery& n) { n.spawn([] { throw 'c'; }); }); }), char);
  EXPECT_THROW(weft::run([] { throw 1.5; }), double);
  EXPECT_EQ(io.run([] { return 1; }), 1) << "and the engine is as good as before";
}

TEST_P(FiberIoOn, RunAgainAndAgain) {
  FiberIo io{{.workers = GetParam()}};
  int sum = 0;
  for (int i = 0; i < 500; ++i)
    io.run([&] { nursery([&](Nursery& n) { n.spawn([&] { ++sum; }); }); });
  EXPECT_EQ(sum, 500);
}

TEST_P(FiberIoOn, RunInsideACatchBlock) {
  FiberIo io{{.workers = GetParam()}};
  try {
    throw Oddity{7};
  } catch (const Oddity&) {
    io.run([] {
      EXPECT_EQ(std::current_exception(), nullptr) << "fibers have their own";
      try {
        throw 1;
      } catch (int) {
        this_fiber::yield();
      }
    });
    EXPECT_THROW(io.run([] { throw 2; }), int);
    try {
      throw;
    } catch (const Oddity& oddity) {
      EXPECT_EQ(oddity.number, 7);
    }
  }
}

TEST_P(FiberIoOn, RunInADestructorDuringUnwinding) {
  FiberIo io{{.workers = GetParam()}};
  int ran = 0;
  struct Cleanup {
    FiberIo& io;
    int& ran;
    ~Cleanup() {
      io.run([this] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        nursery([this](Nursery& n) { n.spawn([this] { ++ran; }); });
      });
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  try {
    const Cleanup cleanup{io, ran};
    throw Oddity{1};
  } catch (const Oddity& oddity) {
    EXPECT_EQ(oddity.number, 1);
  }
  EXPECT_EQ(ran, 1);
}

TEST_P(FiberIoOn, RunWhileRunningIsRefused) {
  FiberIo io{{.workers = GetParam()}};
  io.run([&] {
    const std::string text = text_of<std::logic_error>([&] { io.run([] {}); });
    EXPECT_THAT(text, AllOf(HasSubstr("run()"), HasSubstr("running already")));
    std::thread{[&] { EXPECT_THROW(io.run([] {}), std::logic_error); }}.join();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_THROW(io.run([] {}), std::logic_error); });
    });
  });
  io.run([] {});
}

TEST_P(FiberIoOn, RunFromTwoThreadsAtOnceRefusesOne) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> inside{0};
  std::atomic<int> ran{0};
  std::atomic<int> refused{0};
  const auto often = [&] {
    for (unsigned i = 0; i < 2'000 / GetParam(); ++i) {
      try {
        io.run([&] {
          EXPECT_EQ(inside.fetch_add(1), 0);
          inside.fetch_sub(1);
          ran.fetch_add(1);
        });
      } catch (const std::logic_error&) {
        refused.fetch_add(1);
      }
    }
  };
  std::thread other{often};
  often();
  other.join();
  EXPECT_EQ(ran + refused, static_cast<int>(2 * (2'000 / GetParam())));
  EXPECT_GT(ran, 0);
}

TEST_P(FiberIoOn, RootCancelledWithoutErrorThrowsInsteadOfReturningGarbage) {
  FiberIo io{{.workers = GetParam()}};
  EXPECT_ANY_THROW(io.run([] {
    Fiber::current().scope->cancel();
    Event{}.wait();
    return 1;
  }));
  EXPECT_EQ(io.run([] { return 2; }), 2);
}

TEST_P(FiberIoOn, MovesBetweenThreadsFromRunToRun) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> sum{0};
  for (int i = 0; i < 20; ++i)
    std::thread{[&] {
      io.run([&] {
        nursery([&](Nursery& n) {
          for (int k = 0; k < 10; ++k)
            n.spawn([&] {
              this_fiber::yield();
              sleep_for(1us);
              ++sum;
            });
        });
      });
    }}.join();
  EXPECT_EQ(sum, 200);
}

TEST_P(FiberIoOn, IoIsTheRunningEngine) {
  FiberIo outer{{.workers = GetParam()}};
  FiberIo inner{{.workers = GetParam()}};
  outer.run([&] {
    EXPECT_EQ(&io(), &outer);
    EXPECT_EQ(io().kind(), "FiberIo");
    inner.run([&] { EXPECT_EQ(&io(), &inner); });
    EXPECT_EQ(&io(), &outer);
  });
}

// ── several engines ─────────────────────────────────────────────────────────────────────────────

TEST_P(FiberIoOn, EnginesNest) {
  FiberIo outer{{.workers = GetParam()}};
  outer.run([] {
    std::atomic<int> sum{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          this_fiber::yield();
          FiberIo inner{{.workers = GetParam()}};
          sum += inner.run([] {
            std::atomic<int> inside{0};
            nursery([&](Nursery& m) {
              for (int k = 0; k < 4; ++k)
                m.spawn([&] {
                  this_fiber::yield();
                  ++inside;
                });
            });
            SimIo innermost;
            return inside.load() + innermost.run([] {
              sleep_for(1h);
              return 100;
            });
          });
          this_fiber::yield();
        });
    });
    EXPECT_EQ(sum, 312);
  });
}

TEST_P(FiberIoOn, AnExceptionLeavesANestedEngine) {
  FiberIo outer{{.workers = GetParam()}};
  EXPECT_THROW(outer.run([] {
    try {
      FiberIo{{.workers = GetParam()}}.run([] { throw Oddity{1}; });
    } catch (const Oddity&) {
      this_fiber::yield();
      throw;
    }
  }),
               Oddity);
}

TEST(FiberIo, AnInnerEngineWakesFibersOfTheOuterOne) {
  FiberIo outer{{.workers = 1}};
  outer.run([] {
    Event event;
    bool woken = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        event.wait();
        woken = true;
      });
      this_fiber::yield();
      FiberIo{{.workers = 1}}.run([&] { event.set(); });
      EXPECT_FALSE(woken) << "the outer engine stands still meanwhile";
    });
    EXPECT_TRUE(woken);
  });
}

TEST_P(FiberIoOn, EnginesInSeveralThreadsTalkThroughEvents) {
  constexpr int kRallies = kSanitized ? 200 : 2'000;
  Event ping, pong;
  std::thread other{[&] {
    FiberIo{{.workers = GetParam()}}.run([&] {
      for (int i = 0; i < kRallies; ++i) {
        ping.wait();
        ping.reset();
        pong.set();
      }
    });
  }};
  FiberIo{{.workers = GetParam()}}.run([&] {
    for (int i = 0; i < kRallies; ++i) {
      ping.set();
      pong.wait();
      pong.reset();
    }
  });
  other.join();
}

// ── options ─────────────────────────────────────────────────────────────────────────────────────

TEST(FiberIo, OptionsThatMakeNoSenseAreRefusedWithAReason) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4'096}, std::size_t{1} << 40, ~std::size_t{0}})
    EXPECT_THAT(text_of<std::invalid_argument>([&] { FiberIo io{{.stack_bytes = bytes}}; }),
                AllOf(HasSubstr("stack_bytes"), HasSubstr(std::to_string(bytes)),
                      HasSubstr("must be")));
  for (const unsigned workers : {1'025U, 4'000'000'000U})
    EXPECT_EQ(text_of<std::invalid_argument>([&] { FiberIo io{{.workers = workers}}; }),
              "weft::Options::workers is " + std::to_string(workers) +
                  ": must be 1 to 1024, or 0 for the usable cores");
}

TEST(FiberIo, OptionsAtTheirLimitsWork) {
  const auto works = [](const Options& options) {
    FiberIo io{options};
    return io.run([] {
      std::atomic<int> sum{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 10; ++i)
          n.spawn([&] {
            this_fiber::yield();
            ++sum;
          });
      });
      return sum.load();
    });
  };
  EXPECT_EQ(works({.workers = 0}), 10);
  EXPECT_EQ(works({.workers = 1}), 10);
  EXPECT_EQ(works({.workers = 64}), 10);
  EXPECT_EQ(works({.stack_bytes = (kSanitized ? 64U : 16U) * 1024}), 10);
  EXPECT_EQ(works({.stack_bytes = 100'001}), 10) << "rounded up to pages";
  EXPECT_EQ(works({.stack_bytes = 64U * 1024 * 1024}), 10);
}

TEST_P(FiberIoOn, StackBytesIsAPromise) {
  for (const std::size_t bytes : {std::size_t{64} * 1024, std::size_t{100'001}}) {
    FiberIo io{{.workers = GetParam(), .stack_bytes = bytes}};
    io.run([&] { EXPECT_GT(this_fiber::stack_remaining() + 8 * 1024, bytes); });
  }
}

// ── posts and foreign wakes ─────────────────────────────────────────────────────────────────────

TEST_P(FiberIoOn, PostIsRefusedWhenNotRunning) {
  FiberIo io{{.workers = GetParam()}};
  const auto captured = std::make_shared<int>(0);
  EXPECT_FALSE(io.post([captured] { ++*captured; }));
  EXPECT_EQ(captured.use_count(), 1) << "destroyed unrun";
  io.run([] {});
  EXPECT_FALSE(io.post([captured] { ++*captured; }));
  EXPECT_THROW(io.run([] { throw 1; }), int);
  EXPECT_FALSE(io.post([captured] { ++*captured; }));
  EXPECT_EQ(captured.use_count(), 1);
  EXPECT_EQ(*captured, 0);
}

TEST_P(FiberIoOn, PostedFunctionsAreChildrenOfRun) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<int> ran{0};
  Event all_posted;
  std::thread poster;
  io.run([&] {
    poster = std::thread{[&] {
      for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(io.post([&] {
          this_fiber::yield();
          sleep_for(1us);
          nursery([&](Nursery& n) { n.spawn([&] { ++ran; }); });
        }));
      all_posted.set();
    }};
    all_posted.wait();
  });  // the root function has returned; its posted siblings are waited for
  poster.join();
  EXPECT_EQ(ran, 100);
}

TEST(FiberIo, PostsOfOneThreadArriveInOrder) {
  FiberIo io{{.workers = 1}};
  std::vector<int> order;
  io.run([&] {
    Event done;
    std::thread poster{[&] {
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(io.post([&, i] { order.push_back(i); }));
      done.set();
    }};
    done.wait();
    poster.join();
  });
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(FiberIo, PostFromAFiberOfItsOwn) {
  FiberIo io{{.workers = 1}};
  int ran = 0;
  io.run([&] {
    EXPECT_TRUE(io.post([&] { ++ran; }));
    EXPECT_EQ(ran, 0);
  });
  EXPECT_EQ(ran, 1);
}

TEST_P(FiberIoOn, AnExceptionOfAPostedFunctionFailsRun) {
  FiberIo io{{.workers = GetParam()}};
  bool root_cancelled = false;
  EXPECT_THROW(io.run([&]() -> int {
    std::thread{[&] { EXPECT_TRUE(io.post([] { throw Oddity{3}; })); }}.join();
    try {
      Event{}.wait();
    } catch (const Cancelled&) {
      root_cancelled = true;
      throw;
    }
    return 1;
  }),
               Oddity);
  EXPECT_TRUE(root_cancelled);
  EXPECT_THROW(io.run([&] {
    std::thread{[&] { EXPECT_TRUE(io.post([] { throw 1; })); }}.join();
    return 5;  // the root succeeds, and yet run() throws
  }),
               int);
  EXPECT_EQ(io.run([] { return 6; }), 6);
}

TEST_P(FiberIoOn, PostedFibersHaveFreshIds) {
  FiberIo io{{.workers = GetParam()}};
  std::mutex lock;
  std::set<FiberId> ids;
  int fibers = 0;
  const auto note = [&] {
    const std::lock_guard locked{lock};
    ids.insert(this_fiber::id());
    ++fibers;
  };
  for (int round = 0; round < 3; ++round)
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 300; ++i) n.spawn([&] { note(); });
      });
      Event done;
      std::thread poster{[&] {
        for (int i = 0; i < 300; ++i) EXPECT_TRUE(io.post([&] { note(); }));
        done.set();
      }};
      done.wait();
      poster.join();
    });
  EXPECT_EQ(fibers, 1'800);
  EXPECT_EQ(ids.size(), 1'800U);
}

// Throws when it is moved into the fiber's frame, after the engine has been let go.
struct ThrowsLate {
  ThrowsLate(Event& admitted_in, Event& root_ended_in)
      : admitted(&admitted_in), root_ended(&root_ended_in) {}
  ThrowsLate(ThrowsLate&& other) : admitted(other.admitted), root_ended(other.root_ended) {
    admitted->set();
    root_ended->wait();
    throw Oddity{4};
  }
  void operator()() const { ADD_FAILURE() << "it was never posted"; }
  Event* admitted;
  Event* root_ended;
};

TEST_P(FiberIoOn, PostWhoseMoveThrowsAfterTheRootEndedLetsRunReturn) {
  for (int round = 0; round < 20; ++round) {
    FiberIo io{{.workers = GetParam()}};
    Event admitted, root_ended;
    std::thread poster;
    struct SetsAtEnd {
      Event& event;
      ~SetsAtEnd() { event.set(); }
    };
    io.run([&] {
      poster = std::thread{[&] {
        EXPECT_THROW(io.post(ThrowsLate{admitted, root_ended}), Oddity);
      }};
      admitted.wait();
      nursery([&](Nursery& n) { n.spawn([&] { const SetsAtEnd last{root_ended}; }); });
    });
    poster.join();
  }
}

TEST_P(FiberIoOn, PostRacesTheEndOfRun) {
  FiberIo io{{.workers = GetParam()}};
  std::atomic<bool> stop{false};
  std::atomic<int> accepted{0};
  std::atomic<int> ran{0};
  std::thread poster{[&] {
    while (!stop.load()) {
      if (io.post([&] { ran.fetch_add(1); })) accepted.fetch_add(1);
      // One at a time: whoever always posts another keeps run() from ending.
      while (ran.load() != accepted.load()) std::this_thread::yield();
    }
  }};
  for (unsigned i = 0; i < (kSanitized ? 200 : 2'000) / GetParam(); ++i)
    io.run([] { this_fiber::yield(); });
  stop.store(true);
  poster.join();
  EXPECT_EQ(accepted.load(), ran.load()) << "each accepted function ran, each refused one did not";
}

TEST_P(FiberIoOn, AForeignThreadWakesASleepingEngine) {
  FiberIo io{{.workers = GetParam()}};
  for (int i = 0; i < 50; ++i) {
    Event event;
    std::thread waker;
    io.run([&] {
      waker = std::thread{[&] { event.set(); }};
      event.wait();
    });
    waker.join();
  }
}

TEST_P(FiberIoOn, TheDestructorWaitsForForeignWakersInside) {
  for (unsigned i = 0; i < (kSanitized ? 100 : 500) / GetParam(); ++i) {
    Event event;
    std::thread waker;
    {
      FiberIo io{{.workers = GetParam()}};
      io.run([&] {
        waker = std::thread{[&] { event.set(); }};
        event.wait();
      });
    }  // the waker may still be on its way out of the engine
    waker.join();
  }
}

// ── order ───────────────────────────────────────────────────────────────────────────────────────

TEST(FiberIo, TheNewestUnbornFiberStartsFirst) {
  FiberIo{{.workers = 1}}.run([] {
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i) n.spawn([&, i] { order.push_back(i); });
      this_fiber::yield();
    });
    EXPECT_THAT(order, ElementsAre(3, 2, 1, 0));
  });
}

// A parked crowd, woken all at once in order of arrival.
template <class F>
void crowd(Nursery& n, Event& start, int count, F each) {
  for (int i = 0; i < count; ++i) {
    n.spawn([&start, each, i] {
      start.wait();
      each(i);
    });
    this_fiber::yield();
  }
}

TEST(FiberIo, ReadyFibersTakeTurnsFirstInFirstOut) {
  FiberIo{{.workers = 1}}.run([] {
    constexpr int kFibers = 7;
    Event start;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      crowd(n, start, kFibers, [&order](int i) {
        for (int turn = 0; turn < 4; ++turn) {
          order.push_back(i);
          this_fiber::yield();
        }
      });
      start.set();
    });
    ASSERT_EQ(order.size(), 28U);
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], int(i % kFibers));
  });
}

TEST(FiberIo, TheReadyRingOverflowsInOrder) {
  // ThreadSanitizer knows some 8,000 fibers at most; the ring has 2,048 places.
  constexpr int kFibers = arch::kTsan ? 3'000 : 10'000;
  FiberIo io{{.workers = 1, .stack_bytes = 64 * 1024}};
  io.run([&] {
    Event start;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kFibers; ++i) {
        n.spawn([&, i] {
          start.wait();
          for (int turn = 0; turn < 3; ++turn) {
            order.push_back(i);
            this_fiber::yield();
          }
        });
        this_fiber::yield();
      }
      start.set();
    });
    ASSERT_EQ(order.size(), 3U * kFibers);
    for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], int(i % kFibers));
  });
}

TEST(FiberIo, AWokenFiberRunsNextToItsWaker) {
  FiberIo{{.workers = 1}}.run([] {
    Event start, partner;
    std::vector<std::string> order;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        partner.wait();
        order.emplace_back("partner");
      });
      this_fiber::yield();
      crowd(n, start, 3, [&](int i) {
        order.push_back(std::to_string(i));
        if (i == 0) partner.set();
      });
      start.set();
    });
    EXPECT_THAT(order, ElementsAre("0", "partner", "1", "2"));
  });
}

TEST(FiberIo, TheNextSlotCannotStarveAReadyFiber) {
  FiberIo{{.workers = 1}}.run([] {
    Event ping, pong, start;
    int rallies = 0;
    int rallies_before = -1;
    bool stop = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!stop) {
          ping.wait();
          ping.reset();
          pong.set();
        }
      });
      n.spawn([&] {
        start.wait();
        for (; !stop && rallies < 100'000; ++rallies) {
          ping.set();
          pong.wait();
          pong.reset();
        }
        stop = true;
        ping.set();
      });
      n.spawn([&] {
        start.wait();
        this_fiber::yield();  // ready, behind a pair that hands each other the next slot
        rallies_before = rallies;
        stop = true;
      });
      for (int i = 0; i < 3; ++i) this_fiber::yield();
      start.set();
    });
    EXPECT_GE(rallies_before, 0);
    EXPECT_LE(rallies_before, 64) << "bounded turns";
  });
}

TEST(FiberIo, TheOldestUnbornFiberIsNotStarvedByTheLiving) {
  FiberIo{{.workers = 1}}.run([] {
    int turns = 0;
    int turns_before = -1;
    bool stop = false;
    nursery([&](Nursery& n) {
      n.spawn("oldest", [&] {
        turns_before = turns;
        stop = true;
      });
      n.spawn([&] {
        for (; !stop && turns < 100'000; ++turns) this_fiber::yield();
        stop = true;
      });
      while (!stop) {
        ++turns;
        this_fiber::yield();
      }
    });
    EXPECT_GE(turns_before, 0);
    EXPECT_LE(turns_before, 17 * 61) << "every 976th pick runs the oldest unborn fiber";
  });
}

// Where turns are long, more of them would be for ever.
TEST(FiberIo, TheOldestUnbornFiberDoesNotWaitForManyLongTurns) {
  FiberIo{{.workers = 1}}.run([] {
    int turns = 0;
    int born = 0;
    int longest = 0;
    constexpr int kChildren = 4;
    const auto take_turns = [&] {
      int since = turns;
      for (int seen = born; born < kChildren && turns < 100'000; ++turns) {
        if (std::exchange(seen, born) != born) since = turns;
        longest = std::max(longest, turns - since);
        for (const Instant begin = Clock::now(); Clock::now() - begin < 10us;) {}
        this_fiber::yield();
      }
    };
    nursery([&](Nursery& n) {
      for (int i = 0; i < kChildren; ++i) n.spawn([&] { ++born; });
      n.spawn(take_turns);
      take_turns();
    });
    EXPECT_EQ(born, kChildren);
    EXPECT_LE(longest, 5 * 61) << "a millisecond is over at every 244th pick";
  });
}

// Picks and joins in place in every rhythm: whoever has the turn of the unborn, it is not lost.
TEST(FiberIo, NoRhythmOfWakesAndJoinsStarvesTheOldestUnbornFiber) {
  for (int skew = 0; skew < 8; ++skew) {
    FiberIo{{.workers = 1}}.run([&] {
      constexpr int kRounds = 100'000;
      Semaphore ping{1}, pong{0};
      bool stop = false;
      int rounds = 0;
      const auto rally = [&](Semaphore& mine, Semaphore& theirs) {
        for (; !stop && rounds < kRounds; ++rounds) {
          mine.acquire();
          nursery([](Nursery& n) { n.spawn([] {}); });
          theirs.release();
        }
        theirs.release();
      };
      nursery([&](Nursery& n) {
        n.spawn("oldest", [&] { stop = true; });
        n.spawn([&] { rally(ping, pong); });
        n.spawn([&] {
          for (int i = 0; i < skew; ++i) this_fiber::yield();
          rally(pong, ping);
        });
      });
      EXPECT_LT(rounds, kRounds) << "skew " << skew;
    });
  }
}

TEST(FiberIo, APostedFunctionIsNotStarvedByTheLiving) {
  FiberIo io{{.workers = 1}};
  io.run([&] {
    int turns = 0;
    bool stop = false;
    std::thread{[&] { EXPECT_TRUE(io.post([&] { stop = true; })); }}.join();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!stop && turns < 100'000) this_fiber::yield();
      });
      for (; !stop && turns < 100'000; ++turns) this_fiber::yield();
    });
    EXPECT_LE(turns, 2 * 61);
  });
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

void busy_until(Instant when) {
  while (Clock::now() < when) {
  }
}

// Fibers that sleep until `offsets[i]` past a common instant, all due before the worker looks at
// the time again; the order in which they armed and in which they woke.
struct Slept {
  std::vector<int> armed, woken;
};
Slept sleep_together(const std::vector<Duration>& offsets) {
  for (Duration ahead = 5ms;; ahead *= 2) {
    Slept slept;
    bool in_time = false;
    FiberIo{{.workers = 1}}.run([&] {
      nursery([&](Nursery& n) {
        const Instant base = Clock::now() + ahead;
        for (int i = 0; i < int(offsets.size()); ++i) {
          n.spawn([&, base, i] {
            slept.armed.push_back(i);
            sleep_until(base + offsets[std::size_t(i)]);
            slept.woken.push_back(i);
          });
          this_fiber::yield();
        }
        in_time = Clock::now() < base;  // a busy machine may have held us up: again, with more time
        busy_until(base + *std::max_element(offsets.begin(), offsets.end()));
      });
    });
    if (in_time) return slept;
  }
}

TEST(FiberIo, SleepersDueTogetherWakeInOrderOfTheirInstants) {
  const Slept slept = sleep_together({300us, 100us, 400us, 200us, 500us});
  EXPECT_THAT(slept.armed, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(slept.woken, ElementsAre(1, 3, 0, 2, 4));
}

TEST(FiberIo, SleepersWithEqualInstantsWakeInOrderOfArming) {
  const Slept slept = sleep_together({5us, 5us, 5us, 5us, 5us, 5us});
  EXPECT_THAT(slept.woken, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_P(FiberIoOn, SleepsNeverEndEarly) {
  FiberIo{{.workers = GetParam()}}.run([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([i] {
          const Instant before = Clock::now();
          sleep_for(i * 100us);
          EXPECT_GE(Clock::now() - before, i * 100us);
        });
    });
  });
}

TEST(FiberIo, ZeroAndNegativeSleepsYield) {
  FiberIo{{.workers = 1}}.run([] {
    int others = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] { ++others; });
      sleep_for(0ns);
      EXPECT_EQ(others, 1);
      n.spawn([&] { ++others; });
      sleep_for(-1h);
      EXPECT_EQ(others, 2);
      n.spawn([&] { ++others; });
      sleep_until(Instant::min());
      EXPECT_EQ(others, 3);
    });
  });
}

TEST_P(FiberIoOn, AnEndlessSleepEndsByCancellationOnly) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> started{0};
    std::atomic<int> cancelled{0};
    nursery([&](Nursery& n) {
      const auto endless = [&](auto sleep) {
        n.spawn([&, sleep] {
          ++started;
          EXPECT_THROW(sleep(), Cancelled);
          ++cancelled;
        });
      };
      endless([] { sleep_for(Duration::max()); });
      endless([] { sleep_for(std::chrono::hours::max()); });
      endless([] { sleep_until(Instant::max()); });
      while (started != 3) sleep_for(1ms);  // one that has not started never runs
      n.cancel();
    });
    EXPECT_EQ(cancelled, 3);
  });
}

constexpr Duration kTick = 20us;  // timers are rounded up to ticks, which are shorter than this

TEST(FiberIo, TimersAreNotStarvedByTheLiving) {
  FiberIo{{.workers = 1}}.run([] {
    bool fired = false;
    int turns_late = 0;
    nursery([&](Nursery& n) {
      const Instant due = Clock::now() + 1ms;
      n.spawn([&, due] {
        sleep_until(due);
        fired = true;
      });
      while (!fired && turns_late < 100'000) {
        if (Clock::now() > due + kTick) ++turns_late;
        this_fiber::yield();
      }
    });
    EXPECT_LE(turns_late, 3 * 61);
  });
}

TEST(FiberIo, ForkJoinInPlaceDoesNotStarveTimers) {
  FiberIo{{.workers = 1}}.run([] {
    bool fired = false;
    int joins_late = 0;
    nursery([&](Nursery& n) {
      const Instant due = Clock::now() + 1ms;
      n.spawn([&, due] {
        sleep_until(due);
        fired = true;
      });
      this_fiber::yield();
      while (!fired && joins_late < 100'000) {
        if (Clock::now() > due + kTick) ++joins_late;
        nursery([](Nursery& inner) { inner.spawn([] {}); });
      }
    });
    EXPECT_LE(joins_late, 10 * 61);
  });
}

TEST(FiberIo, ForkJoinInPlaceDoesNotStarveTheReadyNorPosts) {
  FiberIo io{{.workers = 1}};
  io.run([&] {
    bool posted = false;
    bool turned = false;
    int joins = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        this_fiber::yield();
        turned = true;
      });
      this_fiber::yield();
      std::thread{[&] { EXPECT_TRUE(io.post([&] { posted = true; })); }}.join();
      while (!(posted && turned) && joins < 100'000) {
        ++joins;
        nursery([](Nursery& inner) { inner.spawn([] {}); });
      }
    });
    EXPECT_LE(joins, 10 * 61);
  });
}

TEST_P(FiberIoOn, AnIdleEngineSleepsThroughManyTimers) {
  FiberIo{{.workers = GetParam()}}.run([] {
    std::atomic<int> woken{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 200; ++i)
        n.spawn([&, i] {
          sleep_for((i * 37) % 100 * 20us);
          ++woken;
        });
    });
    EXPECT_EQ(woken, 200);
  });
}

// ── faults ──────────────────────────────────────────────────────────────────────────────────────

// Children that all live at the same time, so each needs a stack.
std::string run_children(FiberIo& io, int count, std::atomic<int>& ended) {
  return text_of<OutOfStacks>([&] {
    io.run([&] {
      Event all_live;
      nursery([&](Nursery& n) {
        for (int i = 0; i < count; ++i) {
          n.spawn([&] {
            all_live.wait();
            ++ended;
          });
          this_fiber::yield();
        }
        all_live.set();
      });
    });
  });
}

TEST(FiberIo, NoFrameForTheRootFailsRun) {
  FiberIo io{{.workers = 1}};
  std::thread{[&] {  // a new thread has no frames of its own
    EXPECT_EQ(this_fiber::id(), 0U);
    FrameCache hoard;
    std::vector<Fiber*> all;
    {
      const arch::fault::Scoped no_memory{Site::mmap, {.every = 1}};
      try {
        for (;;) all.push_back(&hoard.take(FrameSize::small));  // what earlier tests left behind
      } catch (const std::bad_alloc&) {
      }
      EXPECT_THROW(io.run([] {}), std::bad_alloc);
    }
    for (Fiber* frame : all) hoard.give(*frame);
  }}.join();
  EXPECT_EQ(io.run([] { return 4; }), 4) << "when memory is back the engine works";
}

TEST(FiberIo, NoFrameForAChildThrowsInSpawn) {
  FiberIo io{{.workers = 1}};
  io.run([] {
    int spawned = 0;
    int ran = 0;
    nursery([&](Nursery& n) {
      const arch::fault::Scoped no_memory{Site::mmap, {.every = 1}};
      try {
        for (;; ++spawned) n.spawn([&ran] { ++ran; });  // until the pool is empty
      } catch (const std::bad_alloc&) {
      }
    });
    EXPECT_EQ(ran, spawned) << "those that were spawned run, on the stacks there are";
    nursery([&](Nursery& n) {
      for (int i = 0; i < 100; ++i) n.spawn([&ran] { ++ran; });
    });
    EXPECT_EQ(ran, spawned + 100);
  });
}

TEST(FiberIo, NoStackForTheRootFailsRun) {
  FiberIo{{.workers = 1}}.run([] {});  // leaves frames: only the stack is missing below
  FiberIo io{{.workers = 1}};
  {
    const arch::fault::Scoped no_memory{Site::mmap, {.every = 1}};
    bool ran = false;
    EXPECT_THAT(text_of<OutOfStacks>([&] { io.run([&] { ran = true; }); }),
                AllOf(HasSubstr("mmap"), HasSubstr("ENOMEM")));
    EXPECT_FALSE(ran);
    EXPECT_GT(no_memory.failures(), 0U);
  }
  EXPECT_EQ(io.run([] { return 4; }), 4) << "when memory is back the engine works";
}

void expect_orderly_failure(unsigned workers, Site site, int error, const char* named) {
  SCOPED_TRACE(named);
  const std::size_t frames = frames_in_use();
  {
    FiberIo io{{.workers = workers, .stack_bytes = 64 * 1024}};
    std::atomic<int> ended{0};
    std::string text;
    {
      // The first slab and its guards succeed; the children outgrow them.
      io.run([] {});
      const arch::fault::Scoped fault{site, {.every = 1, .error = error}};
      text = run_children(io, 2'000, ended);
      EXPECT_GT(fault.failures(), 0U);
    }
    EXPECT_THAT(text, HasSubstr(named)) << "the failure of a child, thrown by its nursery";
    EXPECT_LT(ended, 2'000);
    EXPECT_EQ(frames_in_use(), frames) << "every child's frame was given back";
    ended = 0;
    run_children(io, 2'000, ended);
    EXPECT_EQ(ended, 2'000) << "the engine is usable afterwards";
  }
  EXPECT_EQ(frames_in_use(), frames);
}

TEST_P(FiberIoOn, NoMemoryForStacksIsTheChildsFailure) {
  expect_orderly_failure(GetParam(), Site::mmap, ENOMEM, "mmap");
}

TEST_P(FiberIoOn, NoGuardForStacksIsTheChildsFailure) {
  expect_orderly_failure(GetParam(), Site::madvise_guard, ENOMEM, "MADV_GUARD_INSTALL");
}

TEST_P(FiberIoOn, GuardsFallBackToMprotectAndFailWithIt) {
  const arch::fault::Scoped no_kernel_guards{Site::madvise_guard, {.every = 1, .error = EINVAL}};
  FiberIo io{{.workers = GetParam(), .stack_bytes = 64 * 1024}};
  std::atomic<int> ended{0};
  run_children(io, 100, ended);
  EXPECT_EQ(ended, 100) << "mprotect does instead";
  expect_orderly_failure(GetParam(), Site::mprotect, ENOMEM, "mprotect");
}

TEST_P(FiberIoOn, AFutureTellsThatThereWasNoStack) {
  FiberIo io{{.workers = GetParam(), .stack_bytes = 64 * 1024}};
  io.run([] {
    std::vector<Future<int>> futures;
    {
      const arch::fault::Scoped no_memory{Site::mmap, {.every = 1}};
      const arch::fault::Scoped no_guards{Site::madvise_guard, {.every = 1}};
      const arch::fault::Scoped no_mprotect{Site::mprotect, {.every = 1}};
      EXPECT_THROW(nursery([&](Nursery& n) {
                     for (int i = 0; i < 500; ++i) {
                       futures.push_back(n.async([] {
                         sleep_for(1h);
                         return 1;
                       }));
                       this_fiber::yield();
                     }
                   }),
                   OutOfStacks);
    }
    int without_stack = 0;
    for (Future<int>& future : futures) {
      try {
        ADD_FAILURE() << future.get() << " of a child that was to sleep for an hour";
      } catch (const OutOfStacks&) {
        ++without_stack;
      } catch (const ChildCancelled&) {  // because of that one
      }
    }
    EXPECT_GE(without_stack, 1);
  });
}

TEST_P(FiberIoOn, OutOfStacksCanBeCaughtBesideTheNursery) {
  FiberIo io{{.workers = GetParam(), .stack_bytes = 64 * 1024}};
  io.run([] {
    std::atomic<int> ended{0};
    {
      const arch::fault::Scoped no_memory{Site::mmap, {.every = 1}};
      const arch::fault::Scoped no_guards{Site::madvise_guard, {.every = 1}};
      const arch::fault::Scoped no_mprotect{Site::mprotect, {.every = 1}};
      EXPECT_THROW(nursery([&](Nursery& n) {
                     for (int i = 0; i < 500; ++i) {
                       n.spawn([&] {
                         sleep_for(1h);
                         ++ended;
                       });
                       this_fiber::yield();
                     }
                   }),
                   OutOfStacks);
    }
    EXPECT_EQ(ended, 0);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 500; ++i)
        n.spawn([&] {
          sleep_for(1us);
          ++ended;
        });
    });
    EXPECT_EQ(ended, 500);
  });
}

TEST_P(FiberIoOn, ChildrenAmongRandomFaultsAllEndOneWayOrTheOther) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    FiberIo io{{.workers = GetParam(), .stack_bytes = 64 * 1024}};
    const arch::fault::Scoped maps{Site::mmap, {.probability = 0.3, .seed = seed}};
    const arch::fault::Scoped guards{Site::madvise_guard, {.probability = 0.3, .seed = seed}};
    const auto captured = std::make_shared<int>(0);
    try {
      io.run([&] {
        for (int round = 0; round < 5; ++round) {
          try {
            nursery([&](Nursery& n) {
              for (int i = 0; i < 300; ++i)
                n.spawn([captured] {
                  this_fiber::yield();
                  sleep_for(1us);
                });
            });
          } catch (const OutOfStacks&) {
          }
          EXPECT_EQ(captured.use_count(), 1);
        }
      });
    } catch (const OutOfStacks&) {  // the root's own
    }
    EXPECT_EQ(captured.use_count(), 1);
  }
}

// ── orderly end ─────────────────────────────────────────────────────────────────────────────────

TEST_P(FiberIoOn, EverythingIsGivenBack) {
  const auto use = [&] {
    FiberIo io{{.workers = GetParam(), .stack_bytes = 64 * 1024}};
    for (int i = 0; i < 3; ++i) {
      try {
        io.run([i] {
          nursery([i](Nursery& n) {
            for (int k = 0; k < 500; ++k)
              n.spawn([i, k] {
                sleep_for(k * 1us);
                if (i == 1 && k == 250) throw Oddity{k};
              });
          });
        });
      } catch (const Oddity&) {
      }
    }
  };
  use();
  const std::size_t frames = frames_in_use();
  const std::uint64_t made = frames_made();
  const std::size_t maps = mappings();
  // Which workers take part is chance: each keeps up to so many frames that another may miss, and
  // the allocator maps an arena for its thread. What is lost in every round would be more.
  constexpr std::size_t kKept = 2048;
  // There may be twice as many for a while.
  const std::size_t slack = GetParam() == 1 ? 0 : 2 * GetParam();
  for (std::size_t i = 0; i < 5 + 2 * slack; ++i) use();
  EXPECT_EQ(frames_in_use(), frames);
  EXPECT_LE(frames_made(), made + slack * kKept);
  if constexpr (!kSanitized) {
    EXPECT_LE(mappings(), maps + 2 + 2 * slack) << "stacks are unmapped";
  }
}

TEST(FiberIo, AnEngineThatNeverRanIsDestroyedQuietly) {
  for (int i = 0; i < 100; ++i) FiberIo io;
  SUCCEED();
}

TEST_P(FiberIoOn, ManyEnginesAtOnce) {
  const Options options{.workers = GetParam()};
  std::vector<std::unique_ptr<FiberIo>> engines;
  for (int i = 0; i < 50; ++i) engines.push_back(std::make_unique<FiberIo>(options));
  int sum = 0;
  for (const auto& engine : engines)
    engine->run([&] { nursery([&](Nursery& n) { n.spawn([&] { ++sum; }); }); });
  for (auto it = engines.rbegin(); it != engines.rend(); ++it) (*it)->run([&] { ++sum; });
  EXPECT_EQ(sum, 100);
}

// ── chance ──────────────────────────────────────────────────────────────────────────────────────

// 64 bits: that two of some thousand are equal does not happen by chance.
TEST_P(FiberIoOn, RandomNumbersDifferBetweenFibersThreadsAndEngines) {
  constexpr std::size_t kEach = 200;
  std::mutex guard;
  std::set<std::uint64_t> seen;
  const auto draw = [&](Io& from) {
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::uint64_t number = from.random();
      const std::scoped_lock lock{guard};
      seen.insert(number);
    }
  };
  FiberIo first{{.workers = GetParam()}};
  FiberIo second{{.workers = GetParam()}};
  for (FiberIo* const engine : {&first, &second}) {
    engine->run([&] {
      std::thread one{[&] { draw(*engine); }};
      std::thread two{[&] { draw(*engine); }};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 8; ++i) n.spawn([&] { draw(io()); });
      });
      one.join();
      two.join();
    });
  }
  EXPECT_EQ(seen.size(), 20 * kEach);
}

TEST_P(FiberIoOn, RandomNumbersAreEvenlySpread) {
  FiberIo engine{{.workers = GetParam()}};
  engine.run([] {
    std::vector<int> ones(64, 0);
    for (int i = 0; i < 10'000; ++i) {
      const std::uint64_t number = io().random();
      for (std::size_t bit = 0; bit < 64; ++bit) ones[bit] += number >> bit & 1 ? 1 : 0;
    }
    for (const int count : ones) {
      EXPECT_GT(count, 4'500);
      EXPECT_LT(count, 5'500);
    }
  });
}

}  // namespace
}  // namespace weft
