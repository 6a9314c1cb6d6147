#include <weft/nursery.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::forked_fibonacci;
using testing::let_others_block;
using testing::on_seeds;
using testing::on_workers;

constexpr bool kSanitized = arch::kAsan || arch::kTsan;

// Deep recursion needs more room where a sanitizer pads every frame.
constexpr std::size_t kDeepStack = kSanitized ? 8 * 1024 * 1024 : 1024 * 1024;

// Where order or a fiber's standing still matters: one worker, and simulation.
void on_both_engines(const std::function<void()>& f) {
  on_workers({1U}, f, kDeepStack);
  on_seeds(f, testing::kSeeds, kDeepStack, testing::Preempt::never);
  testing::on_blocking(f);
}

void on_many_workers(const std::function<void()>& f) { on_workers({2U, 4U, 16U}, f, kDeepStack); }

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_many_workers(f);
}

struct Oddity {
  int number;
};

// ── results ─────────────────────────────────────────────────────────────────────────────────────

TEST(Nursery, ReturnsTheBodysValue) {
  on_every_engine([] {
    EXPECT_EQ(nursery([](Nursery&) { return 7; }), 7);
    EXPECT_EQ(nursery([](Nursery&) { return std::string{"text"}; }), "text");
    const std::unique_ptr<int> moved = nursery([](Nursery& n) {
      n.spawn([] { this_fiber::yield(); });
      return std::make_unique<int>(9);
    });
    EXPECT_EQ(*moved, 9);
    nursery([](Nursery&) {});
  });
}

TEST(Nursery, ReturnsOnlyWhenEveryChildHasEnded) {
  on_every_engine([] {
    std::atomic<int> ended{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&, i] {
          if (i % 3 == 0) this_fiber::yield();
          if (i % 4 == 0) sleep_for(1us);
          ++ended;
        });
    });
    EXPECT_EQ(ended, 20);
  });
}

TEST(Nursery, AnEmptyOneEndsAtOnce) {
  on_every_engine([] {
    for (int i = 0; i < 100; ++i) nursery([](Nursery&) {});
    SUCCEED();
  });
}

TEST(Nursery, S3_10_1_ChildrenRunOnce) {
  on_every_engine([] {
    std::vector<int> runs(100, 0);
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < runs.size(); ++i) n.spawn([&, i] { ++runs[i]; });
    });
    EXPECT_THAT(runs, ::testing::Each(1));
  });
}

TEST(Nursery, SpawnReturnsBeforeTheChildRuns) {
  on_both_engines([] {
    int ran = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 1'000; ++i) n.spawn([&] { ++ran; });
      EXPECT_EQ(ran, 0);
    });
    EXPECT_EQ(ran, 1'000);
  });
}

// ── failures ────────────────────────────────────────────────────────────────────────────────────

TEST(Nursery, S3_10_2_AChildsExceptionIsThrown) {
  on_every_engine([] {
    EXPECT_THROW(nursery([](Nursery& n) { n.spawn([] { throw std::runtime_error{"child"}; }); }),
                 std::runtime_error);
    EXPECT_THROW(nursery([](Nursery& n) { n.spawn([] { throw 42; }); }), int);
    EXPECT_THROW(nursery([](Nursery& n) { n.spawn([] { throw Oddity{1}; }); }), Oddity);
    EXPECT_THROW(nursery([](Nursery& n) { n.spawn([] { throw "text"; }); }), const char*);
    EXPECT_THROW(nursery([](Nursery& n) {
                   n.spawn([] {
                     this_fiber::yield();
                     throw Oddity{2};
                   });
                 }),
                 Oddity);
  });
}

TEST(Nursery, TheBodysExceptionIsThrown) {
  on_every_engine([] {
    EXPECT_THROW(nursery([](Nursery&) { throw std::runtime_error{"body"}; }), std::runtime_error);
    EXPECT_THROW(nursery([](Nursery&) -> int { throw Oddity{3}; }), Oddity);
  });
}

TEST(Nursery, ABodyThatThrowsWhileChildrenRunCancelsAndJoinsThem) {
  on_both_engines([] {
    int unwound = 0;
    struct Mark {
      int& count;
      ~Mark() { ++count; }
    };
    std::string thrown;
    try {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 8; ++i)
          n.spawn([&] {
            const Mark mark{unwound};
            Event{}.wait();  // for ever, but for the cancellation
          });
        let_others_block();
        throw std::runtime_error{"the body's"};
      });
    } catch (const std::runtime_error& error) {
      thrown = error.what();
      EXPECT_EQ(unwound, 8) << "they have ended before the exception leaves";
    }
    EXPECT_EQ(thrown, "the body's");
  });
}

TEST(Nursery, AFailingChildCancelsBodyAndSiblings) {
  on_both_engines([] {
    std::vector<std::string> unwound;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.spawn([&] {
                     try {
                       Event{}.wait();
                     } catch (const Cancelled&) {
                       unwound.emplace_back("sibling");
                       throw;
                     }
                   });
                   n.spawn([] {
                     let_others_block();
                     throw Oddity{1};
                   });
                   try {
                     Event{}.wait();
                   } catch (const Cancelled&) {
                     unwound.emplace_back("body");
                     throw;
                   }
                 }),
                 Oddity);
    EXPECT_THAT(unwound, ::testing::UnorderedElementsAre("sibling", "body"));
  });
}

TEST(Nursery, AFailingChildDiscardsTheBodysValue) {
  on_every_engine([] {
    EXPECT_THROW(nursery([](Nursery& n) {
                   n.spawn([] { throw Oddity{1}; });
                   return 5;
                 }),
                 Oddity);
  });
}

TEST(Nursery, S3_8_1_TheFirstErrorWins) {
  on_both_engines([] {
    for (const bool body_first : {true, false}) {
      int thrown = 0;
      try {
        nursery([&](Nursery& n) {
          n.spawn([&] {
            if (body_first) {
              try {
                Event{}.wait();
              } catch (const Cancelled&) {
                throw Oddity{2};  // after the body's
              }
            }
            throw Oddity{1};
          });
          if (body_first) {
            let_others_block();
            throw Oddity{1};
          }
          try {
            Event{}.wait();
          } catch (const Cancelled&) {
            throw Oddity{2};  // after the child's
          }
        });
      } catch (const Oddity& oddity) {
        thrown = oddity.number;
      }
      EXPECT_EQ(thrown, 1) << (body_first ? "body first" : "child first");
    }
  });
}

TEST(Nursery, S3_4_4_ErrorBeatsCancellation) {
  on_both_engines([] {
    EXPECT_THROW(nursery([](Nursery& n) {
                   n.spawn([] {
                     try {
                       Event{}.wait();
                     } catch (const Cancelled&) {
                       throw std::runtime_error{"while it was being cancelled"};
                     }
                   });
                   let_others_block();
                   n.cancel();
                 }),
                 std::runtime_error);
  });
}

TEST(Nursery, ExceptionsOfManyChildrenLeaveOne) {
  on_every_engine([] {
    for (int round = 0; round < 10; ++round)
      EXPECT_THROW(nursery([](Nursery& n) {
                     for (int i = 0; i < 100; ++i)
                       n.spawn([i] {
                         if (i % 2 == 0) this_fiber::yield();
                         throw i;
                       });
                   }),
                   int);
  });
}

TEST(Nursery, AnExceptionCrossesManyNurseries) {
  on_every_engine([] {
    struct Deep {
      static void go(int levels) {
        if (levels == 0) throw Oddity{99};
        nursery([levels](Nursery& n) { n.spawn([levels] { go(levels - 1); }); });
      }
    };
    try {
      Deep::go(100);
      ADD_FAILURE();
    } catch (const Oddity& oddity) {
      EXPECT_EQ(oddity.number, 99);
    }
  });
}

TEST(Nursery, WorksInsideACatchBlock) {
  on_every_engine([] {
    try {
      throw Oddity{5};
    } catch (const Oddity&) {
      std::atomic<int> sum{0};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          EXPECT_EQ(std::current_exception(), nullptr) << "the child has its own";
          ++sum;
        });
        n.spawn([&] {
          try {
            throw 1;
          } catch (int) {
            this_fiber::yield();
            ++sum;
          }
        });
      });
      EXPECT_EQ(sum, 2);
      EXPECT_THROW(throw, Oddity);
    }
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST(Nursery, OwnCancelOfAVoidNurseryReturnsNormally) {
  on_every_engine([] {
    bool unwound = false;
    EXPECT_NO_THROW(nursery([&](Nursery& n) {
      n.cancel();
      try {
        Event{}.wait();
      } catch (const Cancelled&) {
        unwound = true;
        throw;
      }
    }));
    EXPECT_TRUE(unwound);
    EXPECT_FALSE(this_fiber::cancelled());
  });
}

TEST(Nursery, OwnCancelOfANurseryWithAValueSaysSo) {
  on_every_engine([] {
    EXPECT_THROW(nursery([](Nursery& n) {
                   n.cancel();
                   Event{}.wait();
                   return 1;
                 }),
                 NurseryCancelled);
    EXPECT_EQ(nursery([](Nursery& n) {
                n.cancel();
                return 1;  // it got as far as this
              }),
              1);
  });
}

TEST(Nursery, S3_2_3_CancelMovesToCancelling) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(n.state(), NurseryState::open);
      n.cancel();
      EXPECT_EQ(n.state(), NurseryState::cancelling);
      n.cancel();
      EXPECT_EQ(n.state(), NurseryState::cancelling);
    });
    EXPECT_THROW(nursery([](Nursery& n) {
                   n.spawn([&n] {
                     try {
                       Event{}.wait();
                     } catch (const Cancelled&) {
                       EXPECT_EQ(n.state(), NurseryState::cancelling);
                       throw;
                     }
                   });
                   let_others_block();
                   throw 1;
                 }),
                 int);
  });
}

TEST(Nursery, S3_10_4_CancelReachesNestedNurseries) {
  on_every_engine([] {
    std::atomic<int> begun{0};
    std::atomic<int> unwound{0};
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        nursery([&](Nursery& inner) {
          inner.spawn([&] {
            ++begun;
            try {
              for (;;) this_fiber::yield();
            } catch (const Cancelled&) {
              ++unwound;
              throw;
            }
          });
          inner.spawn([&] {
            ++begun;
            try {
              Event{}.wait();
            } catch (const Cancelled&) {
              ++unwound;
              throw;
            }
          });
        });
        ADD_FAILURE() << "what unwound the children goes on unwinding";
      });
      while (begun < 2) this_fiber::yield();
      outer.cancel();
    });
    EXPECT_EQ(unwound, 2);
  });
}

// A body that has returned must not go on with children that were cut off half way.
TEST(Nursery, AnOuterCancelThatUnwoundAChildUnwindsItsParentToo) {
  on_both_engines([] {
    bool used = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        const int fetched = nursery([](Nursery& inner) {
          inner.spawn([] { sleep_for(1h); });
          return 1;
        });
        used = fetched == 1;
      });
      let_others_block();
      outer.cancel();
    });
    EXPECT_FALSE(used);
  });
}

TEST(Nursery, CancelledNeverLeavesTheNurseryThatWasCancelled) {
  on_both_engines([] {
    bool went_on = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        nursery([](Nursery& inner) {
          inner.spawn([] { Event{}.wait(); });
          let_others_block();
          inner.cancel();
          Event{}.wait();
        });
        went_on = true;
        sleep_for(1us);
      });
    });
    EXPECT_TRUE(went_on);
  });
}

TEST(Nursery, TheJoinIsNotACancelPoint) {
  on_both_engines([] {
    Event release;
    bool child_ended = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        try {
          nursery([&](Nursery& inner) {
            inner.spawn([&] {
              CancelScope shield{Fiber::current().scope, Shield::present};
              const Entered entered{Fiber::current(), shield};
              release.wait();
              child_ended = true;
            });
          });
        } catch (const Cancelled&) {
          EXPECT_TRUE(child_ended) << "joined first";
          throw;
        }
      });
      let_others_block();
      outer.cancel();
      CancelScope shield{Fiber::current().scope, Shield::present};
      const Entered entered{Fiber::current(), shield};
      let_others_block();
      EXPECT_FALSE(child_ended);
      release.set();
    });
    EXPECT_TRUE(child_ended);
  });
}

TEST(Nursery, SpawnAfterCancelDoesNotRunTheChild) {
  on_every_engine([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      n.cancel();
      for (int i = 0; i < 10; ++i)
        EXPECT_THROW(n.spawn([captured] { ++*captured; }), NurseryClosed);
    });
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1);
  });
}

// ── shape ───────────────────────────────────────────────────────────────────────────────────────

TEST(Nursery, ChildrenSpawnSiblings) {
  on_every_engine([] {
    std::atomic<int> ran{0};
    struct Crawl {
      static void go(Nursery& n, std::atomic<int>& ran, int more) {
        ++ran;
        if (more == 0) return;
        n.spawn([&n, &ran, more] { go(n, ran, more - 1); });
        this_fiber::yield();
        n.spawn([&n, &ran, more] { go(n, ran, more - 1); });
      }
    };
    nursery([&](Nursery& n) {
      n.spawn([&] { Crawl::go(n, ran, 6); });
    });
    EXPECT_EQ(ran, 127);
  });
}

TEST(Nursery, S0_1_2_TheLastSiblingMayBeSpawnedByTheLastChild) {
  on_every_engine([] {
    int ran = 0;
    nursery([&](Nursery& n) {
      struct Next {
        Nursery& n;
        int& ran;
        int left;
        void operator()() {
          ++ran;
          if (left > 0) n.spawn(Next{n, ran, left - 1});
        }
      };
      n.spawn(Next{n, ran, 500});
    });
    EXPECT_EQ(ran, 501);
  });
}

TEST(Nursery, AChildOfAnInnerNurserySpawnsIntoTheOuterOne) {
  on_both_engines([] {
    std::vector<std::string> order;
    nursery([&](Nursery& outer) {
      nursery([&](Nursery& inner) {
        inner.spawn([&] {
          outer.spawn([&] { order.emplace_back("outer child"); });
          inner.spawn([&] { order.emplace_back("inner child"); });
        });
      });
      order.emplace_back("inner joined");
    });
    EXPECT_THAT(order, ::testing::UnorderedElementsAre("outer child", "inner child",
                                                       "inner joined"));
    EXPECT_NE(order.front(), "inner joined");
  });
}

TEST(Nursery, AThreadThatAChildWaitsForMaySpawn) {
  on_every_engine([] {
    if (io().kind() == "SimIo") return;  // where no thread may interfere
    std::atomic<int> ran{0};
    nursery([&](Nursery& n) {
      Event done;
      std::thread thread{[&] {
        for (int i = 0; i < 10; ++i) n.spawn([&] { ++ran; });
        done.set();
      }};
      done.wait();
      thread.join();
    });
    EXPECT_EQ(ran, 10);
  });
}

TEST(Nursery, AThousandDeepInOneFiber) {
  on_every_engine([] {
    struct Deep {
      static int go(int levels) {
        if (levels == 0) return 0;
        return 1 + nursery([levels](Nursery&) { return go(levels - 1); });
      }
    };
    EXPECT_EQ(Deep::go(1'000), 1'000);
  });
}

TEST(Nursery, AThousandDeepInChildren) {
  on_every_engine([] {
    struct Deep {
      static void go(int levels, int& depth) {
        ++depth;
        if (levels == 0) return;
        nursery([levels, &depth](Nursery& n) {
          n.spawn([levels, &depth] { go(levels - 1, depth); });
        });
      }
    };
    int depth = 0;
    Deep::go(1'000, depth);
    EXPECT_EQ(depth, 1'001);
  });
}

TEST(Nursery, AHundredThousandWide) {
  constexpr int kChildren = kSanitized ? 20'000 : 100'000;
  const auto wide = [&] {
    std::atomic<int> ran{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < kChildren; ++i) n.spawn([&] { ++ran; });
    });
    EXPECT_EQ(ran, kChildren);
    ran = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kChildren; ++i) n.spawn([&] { ++ran; });
      this_fiber::yield();
      Event done;
      n.spawn([&done] { done.set(); });
      done.wait();
    });
    EXPECT_EQ(ran, kChildren) << "joined by waiting, not in place";
  };
  FiberIo{{.workers = 1}}.run(wide);
  on_many_workers(wide);
}

TEST(Nursery, TenThousandWideInSimulation) {
  constexpr int kChildren = 10'000;  // each choice erases from a vector
  SimIo io;
  int ran = 0;
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < kChildren; ++i) n.spawn([&] { ++ran; });
    });
  });
  EXPECT_EQ(ran, kChildren);
}

TEST(Nursery, S3_10_5_InnerNurseriesEndBeforeOuterOnes) {
  on_every_engine([] {
    std::vector<std::string> log;
    struct Log {
      std::vector<std::string>& log;
      const char* text;
      ~Log() { log.emplace_back(text); }
    };
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Log cleanup{log, "inner cleanup"};
        nursery([](Nursery& inner) { inner.spawn([] { this_fiber::yield(); }); });
        log.emplace_back("inner done");
      });
    });
    log.emplace_back("outer cleanup");
    EXPECT_THAT(log, ElementsAre("inner done", "inner cleanup", "outer cleanup"));
  });
}

// ── joined in place ─────────────────────────────────────────────────────────────────────────────

bool in_place() { return Fiber::current().strand->beneath != nullptr; }

constexpr const char* kNeedsOwnStack = "ThreadSanitizer wants a stack for every fiber";

TEST(JoinInPlace, AnUnbornChildIsCalledOnItsParentsStack) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    const FiberId parent = this_fiber::id();
    nursery([&](Nursery& n) {
      n.spawn("child", [&] {
        EXPECT_TRUE(in_place());
        EXPECT_NE(this_fiber::id(), parent) << "it is a fiber of its own";
        EXPECT_EQ(this_fiber::name(), "child");
        EXPECT_EQ(Fiber::current().strand->beneath->id, parent);
      });
    });
    EXPECT_EQ(this_fiber::id(), parent);
    EXPECT_EQ(this_fiber::name(), "main");
  });
}

TEST(JoinInPlace, NewestFirst) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i) n.spawn([&, i] { order.push_back(i); });
    });
    EXPECT_THAT(order, ElementsAre(3, 2, 1, 0));
  });
}

TEST(JoinInPlace, TheChildMayParkAndYieldAndSleep) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    Event go;
    std::vector<std::string> order;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        order.emplace_back("helper");
        this_fiber::yield();
        go.set();
      });
      n.spawn([&] {
        EXPECT_TRUE(in_place());
        order.emplace_back("parks");
        go.wait();
        EXPECT_TRUE(in_place());
        this_fiber::yield();
        sleep_for(1us);
        order.emplace_back("parked");
      });
    });
    EXPECT_THAT(order, ElementsAre("parks", "helper", "parked"));
  });
}

TEST(JoinInPlace, TheChildMayThrow) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    for (int i = 0; i < 10; ++i)
      EXPECT_THROW(nursery([](Nursery& n) {
                     n.spawn([] { ADD_FAILURE() << "older, so cancelled before its start"; });
                     n.spawn([] {
                       EXPECT_TRUE(in_place());
                       throw Oddity{1};
                     });
                   }),
                   Oddity);
  });
}

TEST(JoinInPlace, TheChildMaySpawnSiblingsAndNurseries) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    int ran = 0;
    int there = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        there += in_place();
        n.spawn([&] {
          there += in_place();
          ++ran;
        });
        nursery([&](Nursery& inner) {
          inner.spawn([&] {
            there += in_place();
            ++ran;
          });
        });
        ++ran;
      });
    });
    EXPECT_EQ(ran, 3);
    EXPECT_EQ(there, 3);
  });
}

TEST(JoinInPlace, NeverAChildOfAnotherNursery) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    bool stranger_in_place = false;
    nursery([&](Nursery& outer) {
      nursery([&](Nursery& inner) {
        inner.spawn([] {});
        outer.spawn([&] { stranger_in_place = in_place(); });  // the newest, and not inner's
      });
      EXPECT_FALSE(stranger_in_place);
    });
  });
}

TEST(JoinInPlace, NotWhileAnExceptionIsInFlight) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo{{.workers = 1}}.run([] {
    const auto child_runs_in_place = [] {
      bool there = false;
      nursery([&](Nursery& n) { n.spawn([&] { there = in_place(); }); });
      return there;
    };
    EXPECT_TRUE(child_runs_in_place());
    try {
      throw 1;
    } catch (int) {
      EXPECT_FALSE(child_runs_in_place()) << "in a catch block";
    }
    struct Cleanup {
      const decltype(child_runs_in_place)& f;
      ~Cleanup() { EXPECT_FALSE(f()) << "while unwinding"; }
    };
    try {
      const Cleanup cleanup{child_runs_in_place};
      throw 2;
    } catch (int) {
    }
    EXPECT_TRUE(child_runs_in_place());
  });
}

TEST(JoinInPlace, FallsBackToAStackOfItsOwnWhenRoomRunsOut) {
  if constexpr (arch::kTsan) GTEST_SKIP() << kNeedsOwnStack;
  FiberIo io{{.workers = 1, .stack_bytes = 64 * 1024}};
  io.run([] {
    struct Deep {
      static void go(int levels, int& shared, int& own) {
        (in_place() ? shared : own) += 1;
        EXPECT_GT(this_fiber::stack_remaining(), 32U * 1024)
            << "a child never begins on a stack that is half used";
        if (levels == 0) return;
        nursery([&, levels](Nursery& n) {
          n.spawn([&, levels] { go(levels - 1, shared, own); });
        });
      }
    };
    int shared = 0;
    int own = 0;
    Deep::go(500, shared, own);
    EXPECT_EQ(shared + own, 501);
    EXPECT_GT(shared, 0);
    EXPECT_GT(own, 1);
  });
}

TEST(JoinInPlace, ADeepTreeOfForksAndJoins) {
  FiberIo{{.workers = 1}}.run([] { EXPECT_EQ(forked_fibonacci(20), 6'765); });
  on_many_workers([] { EXPECT_EQ(forked_fibonacci(18), 2'584); });
  SimIo{}.run([] { EXPECT_EQ(forked_fibonacci(12), 144); });
}

TEST(JoinInPlace, WhenTheChildIsCancelledBeforeItsStartTheClosureIsDropped) {
  FiberIo{{.workers = 1}}.run([] {
    const auto captured = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      n.spawn([captured] { ++*captured; });
      n.cancel();
    });
    EXPECT_EQ(*captured, 0);
    EXPECT_EQ(captured.use_count(), 1);
  });
}

}  // namespace
}  // namespace weft
