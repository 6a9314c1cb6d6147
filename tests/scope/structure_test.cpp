// What a nursery does beyond spawning and joining: states, results, policies, budgets, the arena,
// and the soft cancel. The basics are in nursery_test.cpp.
#include <weft/nursery.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/mutex.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/child_process.hpp>
#include <support/engines.hpp>
#include <support/errors.hpp>
#include <support/frames.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = NurseryResult::Kind;
using testing::everywhere;
using testing::expect_no_timer_left;
using testing::frames_in_use;
using testing::let_others_block;
using testing::on_seeds;
using testing::on_workers;
using testing::simulated;
using testing::what;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

// Deep recursion needs more room where a sanitizer pads every frame.
constexpr std::size_t kDeepStack = kSanitized ? 8 * 1024 * 1024 : 1024 * 1024;

[[noreturn]] void fail(const char* text) { throw std::runtime_error{text}; }

// Waits for the cancellation, then goes down with an error of its own.
[[noreturn]] void fail_when_cancelled(const char* text) {
  try {
    Event{}.wait();
  } catch (const Cancelled&) {
  }
  fail(text);
}

// Looks at its nursery when that empties its arena.
struct Ending {
  std::optional<NurseryResult> result;
  std::optional<NurseryState> state;
  std::size_t live = 99;

  class Probe {
   public:
    Probe(Nursery& nursery, Ending& to) : nursery_(nursery), to_(to) {}
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;
    ~Probe() {
      to_.result = nursery_.result();
      to_.state = nursery_.state();
      to_.live = nursery_.live();
    }

   private:
    Nursery& nursery_;
    Ending& to_;
  };
  void watch(Nursery& n) { n.make<Probe>(n, *this); }
};

// Runs a nursery around `body`, and tells how it ended.
template <class Body>
Ending ending_of(Body body) {
  Ending ending;
  try {
    nursery([&](Nursery& n) {
      ending.watch(n);
      EXPECT_FALSE(n.result()) << "the body has not returned";
      body(n);
    });
  } catch (const std::exception&) {
  }
  return ending;
}

void expect_kind(const Ending& ending, Kind kind) {
  ASSERT_TRUE(ending.result);
  EXPECT_EQ(ending.result->kind, kind);
  EXPECT_EQ(ending.result->error != nullptr, kind == Kind::child_failed);
}

// ── S3 §10, the scenarios, by their results ─────────────────────────────────────────────────────

TEST(Structure, S3_10_1_BasicCompletionIsSuccess) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] {});
      n.spawn([] { this_fiber::yield(); });
    });
    expect_kind(ending, Kind::success);
    EXPECT_EQ(ending.state, NurseryState::closed);
  });
}

TEST(Structure, S3_10_2_AChildsErrorIsChildFailed) {
  everywhere([] {
    std::atomic<FiberId> failed{0};
    const Ending ending = ending_of([&](Nursery& n) {
      n.spawn([] {});
      n.spawn([&] {
        failed = this_fiber::id();
        fail("child");
      });
    });
    expect_kind(ending, Kind::child_failed);
    EXPECT_EQ(what(ending.result->error), "child");
    EXPECT_EQ(ending.result->child, failed);
    EXPECT_EQ(ending.state, NurseryState::cancelled);
  });
}

TEST(Structure, ABodysErrorIsChildFailedWithTheOwnersId) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery&) { fail("body"); });
    expect_kind(ending, Kind::child_failed);
    EXPECT_EQ(what(ending.result->error), "body");
    EXPECT_EQ(ending.result->child, this_fiber::id());
  });
}

TEST(Structure, S3_10_3_ExplicitCancelIsCancelled) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] {
        for (;;) this_fiber::yield();
      });
      n.cancel();
    });
    expect_kind(ending, Kind::cancelled);
    EXPECT_EQ(ending.state, NurseryState::cancelled);
  });
}

TEST(Structure, S3_10_4_NestedCancelIsCancelledAtEveryLevel) {
  everywhere([] {
    Ending inner_ending;
    const Ending outer_ending = ending_of([&](Nursery& outer) {
      Event running;
      outer.spawn([&inner_ending, &running] {
        nursery([&](Nursery& inner) {
          inner_ending.watch(inner);
          inner.spawn([&running] {
            running.set();
            for (;;) this_fiber::yield();
          });
        });
      });
      running.wait();
      outer.cancel();
    });
    expect_kind(outer_ending, Kind::cancelled);
    expect_kind(inner_ending, Kind::cancelled);
    EXPECT_EQ(inner_ending.state, NurseryState::cancelled);
  });
}

TEST(Structure, S3_10_5_InnerNurseriesEndFirstWhenCancelledToo) {
  everywhere([] {
    std::vector<std::string> log;
    struct Log {
      std::vector<std::string>& log;
      const char* text;
      ~Log() { log.emplace_back(text); }
    };
    nursery([&](Nursery& outer) {
      Event running;
      outer.spawn([&log, &running] {
        const Log cleanup{log, "task a"};
        nursery([&](Nursery& inner) {
          inner.spawn([&log, &running] {
            const Log child{log, "task b"};
            running.set();
            Event{}.wait();
          });
        });
        log.emplace_back("unreachable");
      });
      running.wait();
      outer.cancel();
    });
    log.emplace_back("outer");
    EXPECT_THAT(log, ElementsAre("task b", "task a", "outer"));
  });
}

// ── S3 §4.4, the table ──────────────────────────────────────────────────────────────────────────

TEST(Structure, S3_4_4_ChildErrorsThenCancel) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] { fail("first"); });
      while (n.state() == NurseryState::open) this_fiber::yield();
      n.cancel();
    });
    expect_kind(ending, Kind::child_failed);
  });
}

TEST(Structure, S3_4_4_CancelThenChildErrors) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      Event running;
      n.spawn([&running] {
        running.set();
        fail_when_cancelled("after the cancel");
      });
      running.wait();
      n.cancel();
    });
    expect_kind(ending, Kind::child_failed);
    EXPECT_EQ(what(ending.result->error), "after the cancel");
  });
}

TEST(Structure, S3_4_4_CancelAndAllExitCleanly) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] {});
      let_others_block();
      n.cancel();
    });
    expect_kind(ending, Kind::cancelled);
  });
}

TEST(Structure, S3_4_4_NormalCompletion) {
  everywhere([] { expect_kind(ending_of([](Nursery&) {}), Kind::success); });
}

// ── states ──────────────────────────────────────────────────────────────────────────────────────

TEST(Structure, S3_2_3_OpenClosingClosed) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] { this_fiber::yield(); });
      EXPECT_EQ(n.state(), NurseryState::open);
      EXPECT_TRUE(n.close());
      EXPECT_EQ(n.state(), NurseryState::closing);
      EXPECT_FALSE(n.close()) << "it was closed already";
    });
    expect_kind(ending, Kind::success);
    EXPECT_EQ(ending.state, NurseryState::closed);
  });
}

TEST(Structure, S3_2_3_ClosingCancellingCancelled) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] { Event{}.wait(); });
      EXPECT_TRUE(n.close());
      n.cancel();
      EXPECT_EQ(n.state(), NurseryState::cancelling);
      EXPECT_FALSE(n.close());
      EXPECT_EQ(n.state(), NurseryState::cancelling) << "no way back";
    });
    expect_kind(ending, Kind::cancelled);
    EXPECT_EQ(ending.state, NurseryState::cancelled);
  });
}

TEST(Structure, S3_2_3_AParentsCancelMovesToCancelling) {
  everywhere([] {
    std::optional<NurseryState> seen;
    nursery([&](Nursery& outer) {
      Event running;
      outer.spawn([&seen, &running] {
        nursery([&](Nursery& inner) {
          inner.spawn([&seen, &running, &inner] {
            running.set();
            try {
              Event{}.wait();
            } catch (const Cancelled&) {
              seen = inner.state();
              throw;
            }
          });
        });
      });
      running.wait();
      outer.cancel();
    });
    EXPECT_EQ(seen, NurseryState::cancelling);
  });
}

TEST(Structure, CloseRefusesTheBody) {
  everywhere([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      n.spawn([captured] { ++*captured; });
      n.close();
      EXPECT_THROW(n.spawn([captured] { *captured += 10; }), NurseryClosed);
      EXPECT_THROW(n.spawn("named", [captured] { *captured += 10; }), NurseryClosed);
      EXPECT_FALSE(n.try_spawn([captured] { *captured += 10; }));
    });
    EXPECT_EQ(*captured, 1) << "those of before run, those of after do not";
    EXPECT_EQ(captured.use_count(), 1);
  });
}

TEST(Structure, CloseRefusesChildren) {
  everywhere([] {
    int refused = 0;
    Event closed;  // outside: the child may come to it after the body has returned
    nursery([&](Nursery& n) {
      n.spawn([&n, &closed, &refused] {
        closed.wait();
        try {
          n.spawn([] { ADD_FAILURE(); });
        } catch (const NurseryClosed&) {
          ++refused;
        }
        if (!n.try_spawn([] { ADD_FAILURE(); })) ++refused;
      });
      n.close();
      closed.set();
      let_others_block();
    });
    EXPECT_EQ(refused, 2);
  });
}

TEST(Structure, AChildMayClose) {
  everywhere([] {
    nursery([&](Nursery& n) {
      n.spawn([&n] { EXPECT_TRUE(n.close()); });
      while (n.state() == NurseryState::open) this_fiber::yield();
      EXPECT_THROW(n.spawn([] { ADD_FAILURE(); }), NurseryClosed);
    });
  });
}

TEST(Structure, CloseDoesNotStopWhatRuns) {
  everywhere([] {
    int sum = 0;
    nursery([&](Nursery& n) {
      n.spawn([&sum] {
        this_fiber::yield();
        nursery([&](Nursery& inner) { inner.spawn([&sum] { ++sum; }); });
        ++sum;
      });
      n.close();
      this_fiber::checkpoint();
    });
    EXPECT_EQ(sum, 2);
  });
}

TEST(Structure, SpawnAfterOwnCancelThrows) {
  everywhere([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      n.cancel();
      EXPECT_THROW(n.spawn([captured] { ++*captured; }), NurseryClosed);
      EXPECT_FALSE(n.try_spawn([captured] { ++*captured; }));
    });
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1);
  });
}

// Who spawns cannot know that something above was cancelled, so it is no error of his.
TEST(Structure, SpawnUnderACancelledParentRunsNothing) {
  everywhere([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& outer) {
      outer.cancel();
      nursery([&](Nursery& inner) {
        for (int i = 0; i < 10; ++i) inner.spawn([captured] { ++*captured; });
      });
      ADD_FAILURE() << "what dropped the children goes on unwinding";
    });
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1);
  });
}

TEST(Structure, ChildrenCancelledBeforeTheirStartNeverRun) {
  testing::on_calm_seeds([] {
    const std::size_t frames = frames_in_use();
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i) n.spawn([captured] { ++*captured; });
      EXPECT_EQ(captured.use_count(), 51);
      n.cancel();
    });
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1) << "their captures are gone";
    EXPECT_EQ(frames_in_use(), frames);
  });
  on_workers([] {
    const auto captured = std::make_shared<std::atomic<int>>(0);
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i) n.spawn([captured] { ++*captured; });
      n.cancel();
    });
    EXPECT_EQ(captured.use_count(), 1) << "their captures are gone";
  });
}

// ── error policies ──────────────────────────────────────────────────────────────────────────────

TEST(Structure, SuperviseLetsTheOthersFinishAndThrowsTheFirst) {
  everywhere([] {
    std::atomic<int> finished{0};
    std::string thrown;
    std::vector<std::string> suppressed;
    Event failed;
    try {
      nursery({.on_error = ErrorPolicy::supervise,
               .on_suppressed = [&](std::exception_ptr error,
                                    FiberId) { suppressed.push_back(what(error)); }},
              [&](Nursery& n) {
                n.spawn([&] {
                  const std::shared_ptr<void> last{nullptr, [&](void*) { failed.set(); }};
                  fail("first");
                });
                for (int i = 0; i < 5; ++i)
                  n.spawn([&] {
                    failed.wait();
                    let_others_block();
                    this_fiber::checkpoint();
                    ++finished;
                  });
                failed.wait();
                let_others_block();
                EXPECT_FALSE(this_fiber::cancelled());
                EXPECT_EQ(n.state(), NurseryState::open);
                n.spawn([&] { ++finished; });
                fail("second, the body's");
              });
    } catch (const std::runtime_error& error) {
      thrown = error.what();
    }
    EXPECT_EQ(finished, 6);
    ASSERT_EQ(suppressed.size(), 1U);
    // `failed` was set while the exception left the child: on another worker it may not have failed
    // yet when the body does.
    if (!simulated() && thrown != "first") std::swap(thrown, suppressed[0]);
    EXPECT_EQ(thrown, "first");
    EXPECT_EQ(suppressed[0], "second, the body's");
  });
}

TEST(Structure, CollectThrowsThemAllInOrder) {
  on_seeds([] {
    std::vector<std::string> collected;
    std::string first;
    int finished = 0;
    try {
      nursery({.on_error = ErrorPolicy::collect,
               .on_suppressed = [](std::exception_ptr, FiberId) { ADD_FAILURE(); }},
              [&](Nursery& n) {
                for (const int i : {3, 1, 2})
                  n.spawn([i] {
                    sleep_for(std::chrono::milliseconds{i});
                    throw std::runtime_error{"child " + std::to_string(i)};
                  });
                n.spawn([&finished] {
                  sleep_for(10ms);
                  ++finished;
                });
                sleep_for(2500us);
                fail("body");
              });
    } catch (const ChildErrors& errors) {
      first = errors.what();
      for (const std::exception_ptr& error : errors.errors()) collected.push_back(what(error));
    }
    EXPECT_THAT(collected, ElementsAre("child 1", "child 2", "body", "child 3"));
    EXPECT_THAT(first, HasSubstr("child 1"));
    EXPECT_EQ(finished, 1);
  });
}

TEST(Structure, CollectOnManyWorkersLosesNone) {
  on_workers([] {
    std::size_t collected = 0;
    try {
      nursery({.on_error = ErrorPolicy::collect}, [](Nursery& n) {
        for (int i = 0; i < 200; ++i)
          n.spawn([i] {
            if (i % 2 == 0) this_fiber::yield();
            if (i % 4 != 3) throw i;
          });
      });
    } catch (const ChildErrors& errors) {
      collected = errors.errors().size();
    }
    EXPECT_EQ(collected, 150U);
  });
}

TEST(Structure, CollectWithoutErrorsReturns) {
  everywhere([] {
    EXPECT_EQ(nursery({.on_error = ErrorPolicy::collect},
                      [](Nursery& n) {
                        n.spawn([] {});
                        return 4;
                      }),
              4);
  });
}

TEST(Structure, ChildErrorsCanBeCopiedAsExceptionsMust) {
  const ChildErrors errors{
      {std::make_exception_ptr(std::runtime_error{"one"}), std::make_exception_ptr(2)}};
  const ChildErrors copy{errors};
  EXPECT_EQ(copy.errors().size(), 2U);
  EXPECT_STREQ(copy.what(), errors.what());
  EXPECT_THAT(copy.what(), HasSubstr("one"));
}

TEST(Structure, OnSuppressedGetsEveryOtherErrorOnTheFiberThatFailed) {
  everywhere([] {
    std::mutex lock;
    std::vector<std::pair<FiberId, std::string>> expected;
    std::vector<std::pair<FiberId, std::string>> seen;
    std::string thrown;
    std::atomic<int> running{0};
    try {
      nursery({.on_suppressed =
                   [&](std::exception_ptr error, FiberId who) {
                     EXPECT_EQ(who, this_fiber::id());
                     const std::scoped_lock locked{lock};
                     seen.emplace_back(who, what(error));
                   }},
              [&](Nursery& n) {
                for (int i = 0; i < 5; ++i)
                  n.spawn([&, i] {
                    const std::string text = "late " + std::to_string(i);
                    {
                      const std::scoped_lock locked{lock};
                      expected.emplace_back(this_fiber::id(), text);
                    }
                    ++running;
                    fail_when_cancelled(text.c_str());
                  });
                while (running < 5) this_fiber::yield();
                fail("first");
              });
    } catch (const std::runtime_error& error) {
      thrown = error.what();
    }
    EXPECT_EQ(thrown, "first");
    EXPECT_THAT(seen, ::testing::UnorderedElementsAreArray(expected));
  });
}

// Prints two lines; run by the next one, in a process of its own.
TEST(Structure, DISABLED_SuppressesTwoErrors) {
  SimIo{}.run([] {
    EXPECT_THROW(nursery({.name = "kitchen"},
                         [](Nursery& n) {
                           n.spawn([] { fail_when_cancelled("burnt"); });
                           n.spawn([] {
                             try {
                               Event{}.wait();
                             } catch (const Cancelled&) {
                             }
                             throw 42;
                           });
                           settle();
                           fail("first");
                         }),
                 std::runtime_error);
  });
}

TEST(Structure, SuppressedErrorsArePrintedOneLineEach) {
  const weft::testing::ChildResult result = weft::testing::run_child(
      {weft::testing::sibling_program("structure_test"), "--gtest_also_run_disabled_tests",
       "--gtest_filter=Structure.DISABLED_SuppressesTwoErrors"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  std::vector<std::string> lines;
  for (std::size_t at = 0; (at = result.output.find("weft: ", at)) != std::string::npos; ++at)
    lines.push_back(result.output.substr(at, result.output.find('\n', at) - at));
  ASSERT_EQ(lines.size(), 2U) << result.output;
  EXPECT_THAT(lines, Each(HasSubstr("kitchen")));
  EXPECT_THAT(lines, Each(HasSubstr("fiber #")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("burnt")));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("not a std::exception")));
}

// ── budgets ─────────────────────────────────────────────────────────────────────────────────────

TEST(Structure, MaxLiveIsReachedAndNotExceeded) {
  on_seeds([] {
    int live = 0;
    int peak = 0;
    int ran = 0;
    const Instant start = Clock::now();
    nursery({.max_live = 3}, [&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&] {
          peak = std::max(peak, ++live);
          sleep_for(1ms);
          --live;
          ++ran;
        });
    });
    EXPECT_EQ(peak, 3);
    EXPECT_EQ(ran, 20);
    EXPECT_EQ(Clock::now() - start, 7ms) << "seven rounds of at most three";
  });
}

TEST(Structure, MaxLiveHoldsOnManyWorkers) {
  on_workers([] {
    std::atomic<int> live{0};
    std::atomic<int> over{0};
    std::atomic<int> ran{0};
    nursery({.max_live = 4}, [&](Nursery& n) {
      for (int i = 0; i < 500; ++i)
        n.spawn([&] {
          if (++live > 4) ++over;
          this_fiber::yield();
          --live;
          ++ran;
        });
    });
    EXPECT_EQ(over, 0);
    EXPECT_EQ(ran, 500);
  });
}

TEST(Structure, PlacesGoToThoseWhoWaitInTheirOrder) {
  on_seeds([] {
    std::vector<int> order;
    nursery({.max_live = 1}, [&](Nursery& limited) {
      Event& release = limited.make<Event>();
      limited.spawn([&release] { release.wait(); });
      nursery([&](Nursery& spawners) {
        for (int i = 0; i < 6; ++i)
          spawners.spawn([&, i] {
            sleep_for(std::chrono::milliseconds{i});
            limited.spawn([&order, i] { order.push_back(i); });
          });
        sleep_for(10ms);
        EXPECT_FALSE(limited.try_spawn([] {})) << "no place, and not at the head of the queue";
        release.set();
      });
    });
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5));
  });
}

TEST(Structure, ACancelWhileWaitingForAPlaceGivesTheBudgetBack) {
  on_seeds([] {
    int ran = 0;
    nursery({.max_live = 1, .max_spawns = 2}, [&](Nursery& n) {
      Event& release = n.make<Event>();
      n.spawn([&release] { release.wait(); });
      for (int i = 0; i < 3; ++i)
        EXPECT_FALSE(timeout(1ms, [&] { n.spawn([] { ADD_FAILURE(); }); }));
      release.set();
      n.spawn([&ran] { ++ran; });
      EXPECT_THROW(n.spawn([] { ADD_FAILURE(); }), BudgetExhausted);
    });
    EXPECT_EQ(ran, 1);
  });
}

TEST(Structure, APlaceComesBackFromAChildThatThrows) {
  on_seeds([] {
    int ran = 0;
    EXPECT_THROW(nursery({.on_error = ErrorPolicy::collect, .max_live = 1},
                         [&](Nursery& n) {
                           for (int i = 0; i < 5; ++i)
                             n.spawn([&ran] {
                               ++ran;
                               throw 1;
                             });
                         }),
                 ChildErrors);
    EXPECT_EQ(ran, 5);
  });
}

// The spawner waits behind a shield: nobody but the dropped children can give it a place.
// Found in simulation: the fiber was not running yet for the checks, and stayed on its scope's
// roll.
TEST(Structure, WhatAnUnrunClosureOwnsMayWaitWhenItIsDestroyed) {
  struct LocksWhenItGoes {
    explicit LocksWhenItGoes(Mutex& mutex_in, std::atomic<int>& gone_in) noexcept
        : mutex(&mutex_in), gone(&gone_in) {}
    LocksWhenItGoes(LocksWhenItGoes&& other) noexcept
        : mutex(std::exchange(other.mutex, nullptr)), gone(other.gone) {}
    ~LocksWhenItGoes() {
      if (!mutex) return;
      const std::scoped_lock lock{*mutex};
      static_cast<void>(this_fiber::cancelled());  // looks at its scope
      ++*gone;
    }
    Mutex* mutex;
    std::atomic<int>* gone;
  };
  everywhere([] {
    Mutex mutex;
    std::atomic<int> gone{0};
    nursery([&](Nursery& holders) {
      mutex.lock();
      holders.spawn([&] {
        nursery([&](Nursery& n) {
          for (int i = 0; i < 5; ++i) n.spawn([held = LocksWhenItGoes{mutex, gone}] {});
          n.cancel();
        });
      });
      let_others_block();
      mutex.unlock();
    });
    EXPECT_EQ(gone, 5);
  });
}

TEST(Structure, APlaceComesBackFromChildrenCancelledBeforeTheirStart) {
  testing::on_calm_seeds([] {
    int ran = 0;
    nursery([&](Nursery& outer) {
      nursery({.max_live = 2}, [&](Nursery& n) {
        n.spawn([&ran] { ++ran; });
        n.spawn([&ran] { ++ran; });
        outer.cancel();
        shielded([&] { n.spawn([&ran] { ++ran; }); });
      });
    });
    EXPECT_EQ(ran, 0);
  });
}

struct ThrowsAtMove {
  explicit ThrowsAtMove(int move) : moves_left(move) {}
  ThrowsAtMove(ThrowsAtMove&& other) : moves_left(other.moves_left - 1) {
    if (moves_left == 0) throw std::length_error{"move"};
  }
  void operator()() const {}
  int moves_left;
};

TEST(Structure, APlaceComesBackWhenTheClosuresMoveThrows) {
  everywhere([] {
    bool all_threw = true;
    for (int move = 1; all_threw && move < 20; ++move) {
      nursery({.max_live = 1}, [&](Nursery& n) {
        try {
          n.spawn(ThrowsAtMove{move});
          all_threw = false;
        } catch (const std::length_error&) {
          EXPECT_EQ(n.live(), 0U);
          EXPECT_TRUE(n.try_spawn([] {})) << "the place is free again, move " << move;
        }
      });
    }
    EXPECT_FALSE(all_threw) << "at last there were fewer moves";
  });
}

TEST(Structure, TheBudgetComesBackWhenTheClosuresMoveThrows) {
  everywhere([] {
    bool all_threw = true;
    for (int move = 1; all_threw && move < 20; ++move) {
      nursery({.max_spawns = 1}, [&](Nursery& n) {
        try {
          n.spawn(ThrowsAtMove{move});
          all_threw = false;
        } catch (const std::length_error&) {
          EXPECT_TRUE(n.try_spawn([] {})) << "nothing was spawned, move " << move;
        }
      });
    }
  });
}

TEST(Structure, MaxSpawnsCountsAllThatEverWere) {
  everywhere([] {
    std::atomic<int> ran{0};
    nursery({.max_spawns = 5}, [&](Nursery& n) {
      for (int i = 0; i < 4; ++i) {
        n.spawn([&] { ++ran; });
        let_others_block();
      }
      EXPECT_TRUE(n.try_spawn([&] { ++ran; }));
      EXPECT_FALSE(n.try_spawn([] { ADD_FAILURE(); }));
      EXPECT_THROW(n.spawn([] { ADD_FAILURE(); }), BudgetExhausted);
      EXPECT_FALSE(this_fiber::cancelled()) << "an error of the caller's, not the nursery's";
    });
    EXPECT_EQ(ran, 5);
  });
}

TEST(Structure, MaxSpawnsCountsWhatChildrenSpawn) {
  everywhere([] {
    std::atomic<int> ran{0};
    std::atomic<int> refused{0};
    struct Split {
      Nursery& n;
      std::atomic<int>& ran;
      std::atomic<int>& refused;
      void operator()() {
        ++ran;
        for (int i = 0; i < 2; ++i)
          if (!n.try_spawn(Split{n, ran, refused})) ++refused;
      }
    };
    nursery({.max_spawns = 31}, [&](Nursery& n) { n.spawn(Split{n, ran, refused}); });
    EXPECT_EQ(ran, 31);
    EXPECT_EQ(refused, 32);
  });
}

TEST(Structure, TrySpawnFailsWhereSpawnWouldWait) {
  on_seeds([] {
    int ran = 0;
    nursery({.max_live = 2}, [&](Nursery& n) {
      Event& release = n.make<Event>();
      const auto child = [&release, &ran] {
        release.wait();
        ++ran;
      };
      EXPECT_TRUE(n.try_spawn(child));
      EXPECT_TRUE(n.try_spawn(child));
      EXPECT_FALSE(n.try_spawn(child));
      release.set();
      settle();
      EXPECT_EQ(ran, 2);
      EXPECT_TRUE(n.try_spawn(child));
    });
    EXPECT_EQ(ran, 3);
  });
}

TEST(Structure, TrySpawnWithoutLimitsIsASpawn) {
  everywhere([] {
    std::atomic<int> ran{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(n.try_spawn([&] { ++ran; }));
    });
    EXPECT_EQ(ran, 20);
  });
}

// close() takes effect for those who are waiting as well.
TEST(Structure, CloseRefusesWhoWaitsForAPlace) {
  on_seeds([] {
    int refused = 0;
    nursery({.max_live = 1}, [&](Nursery& n) {
      n.spawn([&n] {
        sleep_for(1ms);
        n.close();
      });
      try {
        n.spawn([] { ADD_FAILURE() << "after close()"; });
      } catch (const NurseryClosed&) {
        ++refused;
      }
    });
    EXPECT_EQ(refused, 1);
  });
}

// ── the arena ───────────────────────────────────────────────────────────────────────────────────

struct Logged {
  Logged(std::vector<std::string>& log_in, std::string text_in)
      : log(log_in), text(std::move(text_in)) {}
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;
  ~Logged() { log.push_back("~" + text); }
  std::vector<std::string>& log;
  std::string text;
};

TEST(Structure, TheArenaIsEmptiedInReverseOrderAfterTheLastChild) {
  everywhere([] {
    std::vector<std::string> log;
    nursery([&](Nursery& n) {
      Logged& first = n.make<Logged>(log, "first");
      EXPECT_EQ(first.text, "first");
      n.make<Logged>(log, "second");
      n.spawn([&first] {
        for (int i = 0; i < 20; ++i) this_fiber::yield();
        first.log.emplace_back("child");
      });
      n.make<Logged>(log, "third");
    });
    log.emplace_back("after");
    EXPECT_THAT(log, ElementsAre("child", "~third", "~second", "~first", "after"));
  });
}

TEST(Structure, TheArenaIsEmptiedWhenTheNurseryFails) {
  everywhere([] {
    std::vector<std::string> log;
    try {
      nursery([&](Nursery& n) {
        n.make<Logged>(log, "made");
        n.spawn([&log] {
          try {
            Event{}.wait();
          } catch (const Cancelled&) {
            log.emplace_back("child");
            throw;
          }
        });
        let_others_block();
        let_others_block();
        fail("body");
      });
    } catch (const std::runtime_error&) {
      log.emplace_back("caught");
    }
    EXPECT_EQ(log.back(), "caught");
    ASSERT_GE(log.size(), 2U);
    EXPECT_EQ(log[log.size() - 2], "~made");
  });
}

TEST(Structure, AConstructorThatThrowsLeavesNothingInTheArena) {
  everywhere([] {
    struct Never {
      Never() { throw 7; }
    };
    nursery([&](Nursery& n) {
      EXPECT_THROW(n.make<Never>(), int);
      EXPECT_EQ(n.make<int>(5), 5);
    });
  });
}

TEST(Structure, ChildrenMayMakeToo) {
  everywhere([] {
    std::atomic<int> destroyed{0};
    struct Counted {
      std::atomic<int>& count;
      explicit Counted(std::atomic<int>& count_in) : count(count_in) {}
      ~Counted() { ++count; }
    };
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&] {
          n.make<Counted>(destroyed);
          this_fiber::yield();
          EXPECT_EQ(destroyed, 0);
        });
    });
    EXPECT_EQ(destroyed, 20);
  });
}

// Nothing orders what the children make before the owner's arrival at the join.
TEST(Structure, ChildrenMayMakeWhileTheBodyEnds) {
  on_workers([] {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> made{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 8; ++i)
          n.spawn([&] {
            for (int k = 0; k < 20; ++k) EXPECT_EQ(n.make<int>(k), k);
            made.fetch_add(1, std::memory_order_relaxed);
          });
        for (int i = 0; i < 300'000 && made.load(std::memory_order_relaxed) == 0; ++i)
          std::atomic_signal_fence(std::memory_order_seq_cst);
      });
      EXPECT_EQ(made, 8);
    }
  });
}

// A child that is run in place by the joining owner makes the first thing in the arena.
TEST(Structure, ResultIsSeenByWhatAChildMade) {
  everywhere([] {
    Ending ending;
    nursery([&](Nursery& n) { n.spawn([&] { ending.watch(n); }); });
    expect_kind(ending, Kind::success);
  });
}

TEST(Structure, ResultIsEmptyWhileAChildRuns) {
  everywhere([] {
    nursery([](Nursery& n) {
      n.spawn([&n] {
        this_fiber::yield();
        EXPECT_FALSE(n.result());
      });
      EXPECT_FALSE(n.result());
    });
  });
}

// ── live ────────────────────────────────────────────────────────────────────────────────────────

TEST(Structure, LiveCountsThoseWhoHaveNotEnded) {
  testing::on_calm_seeds([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(n.live(), 0U);
      Event& release = n.make<Event>();
      for (int i = 0; i < 3; ++i) n.spawn([&release] { release.wait(); });
      EXPECT_EQ(n.live(), 3U);
      settle();
      EXPECT_EQ(n.live(), 3U);
      n.spawn([&n, &release] {
        n.spawn([&release] { release.wait(); });
        release.wait();
      });
      settle();
      EXPECT_EQ(n.live(), 5U) << "one by a child";
      n.spawn([] {});
      settle();
      EXPECT_EQ(n.live(), 5U);
      release.set();
      settle();
      EXPECT_EQ(n.live(), 0U);
      n.spawn([] {});
      EXPECT_EQ(n.live(), 1U);
    });
  });
}

TEST(Structure, LiveSeenByAChildDuringTheJoin) {
  on_seeds([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&n, i] {
          sleep_for(std::chrono::milliseconds{i + 1});
          EXPECT_EQ(n.live(), static_cast<std::size_t>(4 - i));
        });
    });
  });
}

TEST(Structure, LiveIsZeroAfterTheJoin) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      for (int i = 0; i < 3; ++i) n.spawn([] { this_fiber::yield(); });
    });
    EXPECT_EQ(ending.live, 0U);
  });
}

// ── the soft cancel ─────────────────────────────────────────────────────────────────────────────

TEST(Structure, AGraceIsSeenFirstAndEndsInACancel) {
  on_seeds([] {
    const Instant start = Clock::now();
    std::vector<std::string> log;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!this_fiber::stopping()) sleep_for(1ms);
        EXPECT_FALSE(this_fiber::cancelled());
        EXPECT_EQ(Clock::now() - start, 6ms) << "the first look after the request";
        log.emplace_back("heeds");
      });
      n.spawn([&] {
        try {
          sleep_for(1h);
        } catch (const Cancelled&) {
          EXPECT_EQ(Clock::now() - start, 15'500us);
          log.emplace_back("cut off");
          throw;
        }
      });
      sleep_for(5'500us);
      EXPECT_FALSE(this_fiber::stopping());
      n.cancel(10ms);
      EXPECT_TRUE(this_fiber::stopping()) << "the body, too";
      EXPECT_FALSE(this_fiber::cancelled());
      EXPECT_EQ(n.state(), NurseryState::open);
      n.spawn([&] { log.emplace_back("spawned in the grace"); });
    });
    EXPECT_THAT(log, ElementsAre("spawned in the grace", "heeds", "cut off"));
    EXPECT_EQ(Clock::now() - start, 15'500us);
    expect_no_timer_left();
  });
}

TEST(Structure, StoppingIsSeenBelowButNotBehindAShieldNorOutside) {
  on_seeds([] {
    nursery([](Nursery& outer) {
      outer.spawn([] {
        sleep_for(2ms);
        EXPECT_FALSE(this_fiber::stopping()) << "a sibling of the owner";
      });
      nursery([](Nursery& n) {
        n.spawn([] {
          nursery([](Nursery& inner) {
            inner.spawn([] {
              sleep_for(1ms);
              EXPECT_TRUE(this_fiber::stopping());
              EXPECT_FALSE(shielded([] { return this_fiber::stopping(); }));
            });
          });
        });
        n.cancel(1h);
      });
      EXPECT_FALSE(this_fiber::stopping());
    });
  });
}

TEST(Structure, AfterTheGraceTheNurseryIsCancelling) {
  on_seeds([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.cancel(1ms);
      EXPECT_FALSE(sleep_for(1h, no_throw));
      EXPECT_EQ(n.state(), NurseryState::cancelling);
      EXPECT_THROW(n.spawn([] { ADD_FAILURE(); }), NurseryClosed);
    });
    expect_kind(ending, Kind::cancelled);
  });
}

TEST(Structure, AGraceOfNothingIsACancel) {
  everywhere([] {
    const Ending ending = ending_of([](Nursery& n) {
      n.cancel(0ms);
      EXPECT_TRUE(this_fiber::cancelled());
      EXPECT_EQ(n.state(), NurseryState::cancelling);
    });
    expect_kind(ending, Kind::cancelled);
  });
}

TEST(Structure, TheFirstGraceStands) {
  on_seeds([] {
    const Instant start = Clock::now();
    nursery([](Nursery& n) {
      n.cancel(5ms);
      n.cancel(50ms);
      n.cancel(1ms);
      sleep_for(1h);
    });
    EXPECT_EQ(Clock::now() - start, 5ms);
    expect_no_timer_left();
  });
}

TEST(Structure, AHardCancelCutsTheGraceShort) {
  on_seeds([] {
    const Instant start = Clock::now();
    nursery([](Nursery& n) {
      n.cancel(1h);
      n.spawn([&n] {
        sleep_for(2ms);
        n.cancel();
      });
      sleep_for(2h);
    });
    EXPECT_EQ(Clock::now() - start, 2ms);
    expect_no_timer_left();
  });
}

TEST(Structure, WhenAllHaveEndedBeforeTheGraceTheTimerIsGone) {
  on_seeds([] {
    const Instant start = Clock::now();
    const Ending ending = ending_of([](Nursery& n) {
      n.spawn([] {
        while (!this_fiber::stopping()) sleep_for(1ms);
      });
      n.cancel(10ms);
    });
    EXPECT_LE(Clock::now() - start, 1ms);
    expect_kind(ending, Kind::success);
    sleep_for(1h);  // nothing comes late
    EXPECT_FALSE(this_fiber::cancelled());
    expect_no_timer_left();
  });
  on_workers([] {
    for (int i = 0; i < 50; ++i)
      nursery([](Nursery& n) {
        n.spawn([] {
          while (!this_fiber::stopping()) this_fiber::yield();
        });
        n.cancel(1h);
      });
    this_fiber::checkpoint();
  });
}

TEST(Structure, AForeignThreadMayGiveAGrace) {
  on_workers([] {
    for (int round = 0; round < 10; ++round) {
      std::atomic<bool> asked{false};
      std::atomic<bool> cut_off{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          while (!this_fiber::stopping()) this_fiber::yield();
          asked = true;
          try {
            Event{}.wait();
          } catch (const Cancelled&) {
            cut_off = true;
            throw;
          }
        });
        std::thread thread{[&n] { n.cancel(1ms); }};
        thread.join();
      });
      EXPECT_TRUE(asked || !cut_off);
      EXPECT_TRUE(cut_off || !asked);
    }
  });
}

TEST(Structure, AForeignThreadMayCancel) {
  on_workers([] {
    for (int round = 0; round < 10; ++round) {
      std::atomic<int> unwound{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 5; ++i)
          n.spawn([&] {
            const std::shared_ptr<void> mark{nullptr, [&](void*) { ++unwound; }};
            Event{}.wait();
          });
        let_others_block();
        std::thread thread{[&n] { n.cancel(); }};
        thread.join();
      });
      EXPECT_LE(unwound, 5);
    }
  });
}

// ── size ────────────────────────────────────────────────────────────────────────────────────────

TEST(Structure, ACancelReachesTheBottomOfAThousandNestedNurseries) {
  constexpr int kDepth = 1'000;
  struct Deep {
    static void go(int levels, Event& bottom, std::atomic<int>& unwound) {
      const std::shared_ptr<void> mark{nullptr, [&](void*) { ++unwound; }};
      if (levels == 0) {
        bottom.set();
        Event{}.wait();
      }
      nursery([&](Nursery& n) { n.spawn([&, levels] { go(levels - 1, bottom, unwound); }); });
    }
  };
  const auto test = [] {
    std::atomic<int> unwound{0};
    Event bottom;
    nursery([&](Nursery& n) {
      n.spawn([&] { Deep::go(kDepth, bottom, unwound); });
      bottom.wait();
      n.cancel();
    });
    EXPECT_EQ(unwound, kDepth + 1);
  };
  for (const unsigned workers : {1U, 4U}) {
    SCOPED_TRACE("FiberIo, workers: " + std::to_string(workers));
    FiberIo{{.workers = workers, .stack_bytes = kDeepStack}}.run(test);
  }
  SimIo{{.stack_bytes = kDeepStack}}.run(test);
}

TEST(Structure, AnErrorInOneOfAHundredThousandEndsThemAll) {
  constexpr int kChildren = kSanitized ? 5'000 : 100'000;
  for (const unsigned workers : {1U, 4U}) {
    SCOPED_TRACE("FiberIo, workers: " + std::to_string(workers));
    FiberIo{{.workers = workers, .stack_bytes = 64 * 1024}}.run([&] {
      const auto captured = std::make_shared<int>(0);
      EXPECT_THROW(nursery([&](Nursery& n) {
                     Event& never = n.make<Event>();
                     for (int i = 0; i < kChildren; ++i)
                       n.spawn([captured, &never, i] {
                         if (i < 1'000) never.wait();
                       });
                     for (int i = 0; i < 10; ++i) this_fiber::yield();
                     fail("body");
                   }),
                   std::runtime_error);
      EXPECT_EQ(captured.use_count(), 1);
    });
  }
}

TEST(Structure, AHundredThousandWithALimitOfAHundred) {
  constexpr int kChildren = kSanitized ? 5'000 : 100'000;
  for (const unsigned workers : {1U, 4U}) {
    SCOPED_TRACE("FiberIo, workers: " + std::to_string(workers));
    FiberIo{{.workers = workers}}.run([&] {
      std::atomic<int> ran{0};
      nursery({.max_live = 100}, [&](Nursery& n) {
        for (int i = 0; i < kChildren; ++i) n.spawn([&] { ++ran; });
      });
      EXPECT_EQ(ran, kChildren);
    });
  }
}

}  // namespace
}  // namespace weft
