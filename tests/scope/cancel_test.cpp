#include <weft/cancel.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <support/engines.hpp>
#include <support/frames.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::everywhere;
using testing::expect_no_timer_left;
using testing::frames_in_use;
using testing::on_seeds;
using testing::on_workers;

CancelScope& my_scope() { return *Fiber::current().scope; }

// Waits for ever; the reason it was cancelled with.
CancelReason reason_of_the_end() {
  try {
    Event{}.wait();
  } catch (const Cancelled& cancelled) {
    return cancelled.reason();
  }
  return CancelReason::none;
}

static_assert(!std::is_base_of_v<std::exception, Cancelled>);
static_assert(std::is_same_v<decltype(timeout(1s, [] {})), bool>);
static_assert(std::is_same_v<decltype(timeout(1s, [] { return 1; })), std::optional<int>>);
static_assert(noexcept(std::declval<CancelScope&>().cancel()));

// ── what a scope returns ────────────────────────────────────────────────────────────────────────

TEST(Cancel, AScopeReturnsItsBodysValue) {
  everywhere([] {
    EXPECT_EQ(cancel_scope([](CancelScope&) { return 5; }), 5);
    EXPECT_TRUE(cancel_scope([](CancelScope&) {}));
    EXPECT_EQ(timeout(1h, [] { return std::string{"text"}; }), "text");
    EXPECT_TRUE(timeout(1h, [] {}));
    EXPECT_EQ(deadline(Instant::max(), [] { return 6; }), 6);
    EXPECT_EQ(with_stop(std::stop_token{}, [] { return 7; }), 7);
    EXPECT_EQ(shielded([] { return 8; }), 8);
    std::optional<std::unique_ptr<int>> moved =
        timeout(1h, [] { return std::make_unique<int>(9); });
    ASSERT_TRUE(moved);
    EXPECT_EQ(**moved, 9);
  });
}

TEST(Cancel, AScopeThatWasCancelledReturnsNothing) {
  everywhere([] {
    EXPECT_EQ(cancel_scope([](CancelScope& scope) {
                scope.cancel();
                this_fiber::checkpoint();
                return 5;
              }),
              std::nullopt);
    EXPECT_FALSE(cancel_scope([](CancelScope& scope) {
      scope.cancel();
      this_fiber::yield();
    }));
    EXPECT_FALSE(this_fiber::cancelled()) << "it is over";
    this_fiber::checkpoint();
  });
}

TEST(Cancel, ABodyThatFinishesInSpiteOfTheCancelHasItsValueReturned) {
  everywhere([] {
    EXPECT_EQ(cancel_scope([](CancelScope& scope) {
                scope.cancel();
                EXPECT_TRUE(this_fiber::cancelled());
                return 5;
              }),
              5);
    EXPECT_EQ(cancel_scope([](CancelScope& scope) {
                scope.cancel();
                EXPECT_FALSE(sleep_for(1h, no_throw));
                return 6;
              }),
              6);
    EXPECT_EQ(timeout(0s, [] { return 7; }), 7);
    this_fiber::checkpoint();
  });
}

TEST(Cancel, AnExceptionPassesEveryKindOfScope) {
  everywhere([] {
    EXPECT_THROW(static_cast<void>(cancel_scope([](CancelScope&) { throw 1; })), int);
    EXPECT_THROW(static_cast<void>(timeout(1h, [] { throw 1; })), int);
    EXPECT_THROW(static_cast<void>(with_stop(std::stop_token{}, [] { throw 1; })), int);
    EXPECT_THROW(shielded([] { throw 1; }), int);
    EXPECT_THROW(static_cast<void>(cancel_scope([](CancelScope& scope) {
                   scope.cancel();
                   throw 1;  // an error beats the cancellation here as well
                 })),
                 int);
  });
}

TEST(Cancel, OutsideAnEngineScopesAreRefused) {
  EXPECT_THROW(static_cast<void>(cancel_scope([](CancelScope&) {})), std::logic_error);
  EXPECT_THROW(shielded([] {}), std::logic_error);
  EXPECT_THROW(static_cast<void>(with_stop(std::stop_token{}, [] {})), std::logic_error);
}

// ── unwinding ───────────────────────────────────────────────────────────────────────────────────

TEST(Cancel, AnOuterCancelUnwindsThroughInnerScopesToTheOutermost) {
  everywhere([] {
    std::vector<std::string> log;
    const bool outermost = cancel_scope([&](CancelScope& outer) {
      const bool middle = cancel_scope([&](CancelScope& between) {
        const bool inner = cancel_scope([&](CancelScope& innermost) {
          innermost.cancel();
          between.cancel();
          outer.cancel();
          this_fiber::checkpoint();
        });
        log.push_back(inner ? "inner ran" : "inner empty");
      });
      log.push_back(middle ? "middle ran" : "middle empty");
    });
    log.push_back(outermost ? "outer ran" : "outer empty");
    EXPECT_THAT(log, ElementsAre("outer empty"));
  });
}

TEST(Cancel, AnInnerCancelStopsAtTheInnerScope) {
  everywhere([] {
    std::vector<std::string> log;
    EXPECT_TRUE(cancel_scope([&](CancelScope&) {
      EXPECT_FALSE(cancel_scope([&](CancelScope& inner) {
        inner.cancel();
        EXPECT_TRUE(cancel_scope([](CancelScope&) {})) << "finished without a wait";
        static_cast<void>(cancel_scope([](CancelScope&) { this_fiber::checkpoint(); }));
        log.emplace_back("not reached");
      }));
      this_fiber::checkpoint();
      log.emplace_back("went on");
    }));
    EXPECT_THAT(log, ElementsAre("went on"));
  });
}

TEST(Cancel, ASwallowedCancellationIsRaisedAgain) {
  everywhere([] {
    int raised = 0;
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      for (int i = 0; i < 5; ++i) {
        try {
          switch (i) {
            case 0: this_fiber::yield(); break;
            case 1: this_fiber::checkpoint(); break;
            case 2: sleep_for(1h); break;
            case 3: sleep_for(0s); break;
            default: Event{}.wait();
          }
        } catch (...) {
          ++raised;
        }
      }
      this_fiber::checkpoint();
    }));
    EXPECT_EQ(raised, 5);
  });
}

TEST(Cancel, AWaitThrowsEvenIfItIsReady) {
  everywhere([] {
    Event set;
    set.set();
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      set.wait();
      ADD_FAILURE();
    }));
    set.wait();
  });
}

TEST(Cancel, AScopeIsCancelledByAnotherFiber) {
  everywhere([] {
    for (int round = 0; round < 5; ++round)
      nursery([round](Nursery& n) {
        Event& never = n.make<Event>();
        EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
          Event cancelled;
          n.spawn([&scope, &cancelled, round] {
            for (int i = 0; i < round; ++i) this_fiber::yield();
            scope.cancel();
            cancelled.set();
          });
          try {
            never.wait();
          } catch (const Cancelled&) {
            // The scope must outlive the call of cancel().
            shielded([&] { cancelled.wait(); });
            throw;
          }
        }));
        this_fiber::checkpoint();
      });
  });
}

TEST(Cancel, AScopeIsCancelledByAForeignThread) {
  on_workers([] {
    for (int round = 0; round < 20; ++round) {
      std::optional<std::thread> thread;
      EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
        thread.emplace([&scope] { scope.cancel(); });
        const std::shared_ptr<void> joined{nullptr, [&](void*) { thread->join(); }};
        Event{}.wait();
      }));
    }
  });
}

TEST(Cancel, ACancelReachesTheChildrenOfNurseriesInside) {
  everywhere([] {
    std::atomic<int> unwound{0};
    std::atomic<int> begun{0};
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 5; ++i)
          n.spawn([&] {
            ++begun;
            try {
              Event{}.wait();
            } catch (const Cancelled&) {
              ++unwound;
              throw;
            }
          });
        while (begun < 5) this_fiber::yield();
        scope.cancel();
      });
      ADD_FAILURE() << "the nursery's children were unwound from outside";
    }));
    EXPECT_EQ(unwound, 5);
  });
}

// ── reasons ─────────────────────────────────────────────────────────────────────────────────────

TEST(Cancel, TheReasonTravelsAlong) {
  everywhere([] {
    CancelReason seen = CancelReason::none;
    static_cast<void>(cancel_scope([&](CancelScope& scope) {
      EXPECT_EQ(scope.reason(), CancelReason::none);
      scope.cancel();
      EXPECT_EQ(scope.reason(), CancelReason::requested);
      seen = reason_of_the_end();
    }));
    EXPECT_EQ(seen, CancelReason::requested);

    static_cast<void>(timeout(1us, [&] { seen = reason_of_the_end(); }));
    EXPECT_EQ(seen, CancelReason::timed_out);

    std::stop_source source;
    source.request_stop();
    static_cast<void>(with_stop(source.get_token(), [&] { seen = reason_of_the_end(); }));
    EXPECT_EQ(seen, CancelReason::stop_requested);

    nursery([&](Nursery& n) {
      n.cancel();
      seen = reason_of_the_end();
    });
    EXPECT_EQ(seen, CancelReason::requested);

    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.spawn([] { throw 1; });
                   seen = reason_of_the_end();
                 }),
                 int);
    EXPECT_EQ(seen, CancelReason::sibling_failed);

    static_cast<void>(cancel_scope([&](CancelScope& outer) {
      static_cast<void>(cancel_scope([&](CancelScope& inner) {
        outer.cancel();
        EXPECT_EQ(inner.reason(), CancelReason::parent);
        seen = reason_of_the_end();
      }));
    }));
    EXPECT_EQ(seen, CancelReason::parent);
  });
}

TEST(Cancel, TheFirstReasonStands) {
  everywhere([] {
    static_cast<void>(cancel_scope([](CancelScope& scope) {
      scope.cancel(CancelReason::stop_requested);
      scope.cancel();
      EXPECT_EQ(scope.reason(), CancelReason::stop_requested);
    }));
  });
}

TEST(Cancel, ReasonsHaveNames) {
  EXPECT_EQ(to_string(CancelReason::none), "none");
  EXPECT_EQ(to_string(CancelReason::requested), "requested");
  EXPECT_EQ(to_string(CancelReason::timed_out), "timed out");
  EXPECT_EQ(to_string(CancelReason::sibling_failed), "sibling failed");
  EXPECT_EQ(to_string(CancelReason::stop_requested), "stop requested");
  EXPECT_EQ(to_string(CancelReason::parent), "parent");
}

// ── while an exception unwinds ──────────────────────────────────────────────────────────────────

// Waits in its destructor, as cleanup does.
struct WaitsAtItsEnd {
  int& finished;
  ~WaitsAtItsEnd() {
    sleep_for(1us);
    this_fiber::yield();
    this_fiber::checkpoint();
    ++finished;
  }
};

TEST(Cancel, NothingIsRaisedWhileAnExceptionUnwinds) {
  everywhere([] {
    int finished = 0;
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      const WaitsAtItsEnd first{finished};
      const WaitsAtItsEnd second{finished};
      scope.cancel();
      Event{}.wait();
    }));
    EXPECT_EQ(finished, 2) << "Cancelled itself unwound them";
    EXPECT_THROW(static_cast<void>(cancel_scope([&](CancelScope& scope) {
                   const WaitsAtItsEnd third{finished};
                   scope.cancel();
                   throw 1;
                 })),
                 int);
    EXPECT_EQ(finished, 3);
  });
}

TEST(Cancel, ACancelDuringTheUnwindingIsRaisedAfterIt) {
  everywhere([] {
    int finished = 0;
    bool raised = false;
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      try {
        const WaitsAtItsEnd waits{finished};
        const std::shared_ptr<void> cancels{nullptr, [&](void*) { scope.cancel(); }};
        throw 1;
      } catch (int) {
      }
      try {
        this_fiber::checkpoint();
      } catch (const Cancelled&) {
        raised = true;
        throw;
      }
    }));
    EXPECT_EQ(finished, 1);
    EXPECT_TRUE(raised);
  });
}

TEST(Cancel, InAHandlerItIsRaised) {
  everywhere([] {
    EXPECT_FALSE(cancel_scope([](CancelScope& scope) {
      try {
        throw 1;
      } catch (int) {
        scope.cancel();
        this_fiber::checkpoint();  // nothing unwinds any more
        ADD_FAILURE();
      }
    }));
  });
}

TEST(Cancel, NoThrowFormsWaitInADestructorThatUnwinds) {
  on_seeds([] {
    struct Sleeps {
      ~Sleeps() {
        const Instant start = Clock::now();
        EXPECT_TRUE(sleep_for(3ms, no_throw));
        EXPECT_EQ(Clock::now() - start, 3ms);
      }
    };
    EXPECT_FALSE(cancel_scope([](CancelScope& scope) {
      const Sleeps sleeps;
      scope.cancel();
      this_fiber::checkpoint();
    }));
  });
}

TEST(Cancel, ATimeoutInADestructorThatUnwindsDoesNotThrow) {
  on_seeds([] {
    struct Bounded {
      bool& ran;
      ~Bounded() {
        ran = timeout(1ms, [] { sleep_for(2us); });
      }
    };
    bool ran = false;
    EXPECT_THROW(
        [&] {
          const Bounded bounded{ran};
          throw 1;
        }(),
        int);
    EXPECT_TRUE(ran);
    expect_no_timer_left();
  });
}

// ── shields ─────────────────────────────────────────────────────────────────────────────────────

TEST(Cancel, AShieldHidesWhatIsCancelledAroundIt) {
  everywhere([] {
    bool finished = false;
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      shielded([&] {
        EXPECT_FALSE(this_fiber::cancelled());
        this_fiber::checkpoint();
        this_fiber::yield();
        sleep_for(1us);
        finished = true;
      });
      EXPECT_TRUE(this_fiber::cancelled());
      this_fiber::checkpoint();
      ADD_FAILURE() << "the first wait after the shield";
    }));
    EXPECT_TRUE(finished);
  });
}

TEST(Cancel, ACancelDuringTheShieldIsDeliveredAfterIt) {
  everywhere([] {
    nursery([](Nursery& n) {
      bool finished = false;
      EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
        shielded([&] {
          Event cancelled;
          n.spawn([&scope, &cancelled] {
            scope.cancel();
            cancelled.set();
          });
          cancelled.wait();
          this_fiber::yield();
          finished = true;
        });
        sleep_for(1h);
      }));
      EXPECT_TRUE(finished);
    });
  });
}

TEST(Cancel, AScopeInsideAShieldCanBeCancelled) {
  everywhere([] {
    EXPECT_FALSE(cancel_scope([](CancelScope& outer) {
      outer.cancel();
      shielded([] {
        EXPECT_FALSE(timeout(1us, [] { Event{}.wait(); }));
        EXPECT_FALSE(cancel_scope([](CancelScope& inner) {
          inner.cancel();
          this_fiber::yield();
        }));
        this_fiber::checkpoint();
      });
      this_fiber::checkpoint();
    }));
  });
}

TEST(Cancel, ShieldsOfAFiberDoNotProtectItsSiblings) {
  everywhere([] {
    std::atomic<int> protected_ones{0};
    std::atomic<int> cut_off{0};
    std::atomic<int> begun{0};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        shielded([&] {
          ++begun;
          while (cut_off == 0) this_fiber::yield();
          ++protected_ones;
        });
      });
      n.spawn([&] {
        try {
          ++begun;
          Event{}.wait();
        } catch (const Cancelled&) {
          ++cut_off;
          throw;
        }
      });
      while (begun < 2) this_fiber::yield();
      n.cancel();
    });
    EXPECT_EQ(protected_ones, 1);
    EXPECT_EQ(cut_off, 1);
  });
}

// ── time limits ─────────────────────────────────────────────────────────────────────────────────

TEST(Cancel, ATimeoutFiresExactlyInVirtualTime) {
  on_seeds([] {
    const std::size_t frames = frames_in_use();
    const Instant start = Clock::now();
    EXPECT_FALSE(timeout(10ms, [] { sleep_for(1h); }));
    EXPECT_EQ(Clock::now() - start, 10ms);
    EXPECT_TRUE(timeout(10ms, [] { sleep_for(9ms); }));
    EXPECT_EQ(Clock::now() - start, 19ms);
    EXPECT_FALSE(deadline(start + 25ms, [] { sleep_for(1h); }));
    EXPECT_EQ(Clock::now() - start, 25ms);
    expect_no_timer_left();
    EXPECT_EQ(frames_in_use(), frames);
  });
}

TEST(Cancel, ATimeoutFiresOnRealWorkers) {
  on_workers([] {
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(timeout(100us, [] { sleep_for(1h); }));
    EXPECT_TRUE(timeout(1h, [] { sleep_for(10us); }));
    std::atomic<int> timed_out{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 100; ++i)
        n.spawn([&, i] {
          if (!timeout(std::chrono::microseconds{i * 10}, [] { Event{}.wait(); })) ++timed_out;
        });
    });
    EXPECT_EQ(timed_out, 100);
  });
}

TEST(Cancel, NestedTimeoutsTheTightestWins) {
  on_seeds([] {
    // The inner one is tighter: only it returns empty.
    const Instant start = Clock::now();
    bool inner = true;
    EXPECT_TRUE(timeout(20ms, [&] { inner = timeout(5ms, [] { sleep_for(1h); }); }));
    EXPECT_FALSE(inner);
    EXPECT_EQ(Clock::now() - start, 5ms);

    // The outer one is tighter: the inner one returns not at all.
    inner = true;
    EXPECT_FALSE(timeout(5ms, [&] { inner = timeout(20ms, [] { sleep_for(1h); }); }));
    EXPECT_TRUE(inner);
    EXPECT_EQ(Clock::now() - start, 10ms);

    // Both have passed by the next wait: the outer one decides.
    inner = true;
    EXPECT_FALSE(timeout(5ms, [&] {
      inner = timeout(3ms, [] {
        shielded([] { sleep_for(10ms); });
        this_fiber::checkpoint();
      });
    }));
    EXPECT_TRUE(inner);
    EXPECT_EQ(Clock::now() - start, 20ms);
    expect_no_timer_left();
  });
}

TEST(Cancel, ManyNestedTimeouts) {
  on_seeds([] {
    struct Nest {
      // Level k has k milliseconds; `returned` lists those whose timeout() returned at all.
      static void go(int level, std::vector<int>& returned) {
        if (level == 0) return sleep_for(1h);
        if (!timeout(std::chrono::milliseconds{level}, [&] { go(level - 1, returned); }))
          returned.push_back(-level);
        else
          returned.push_back(level);
      }
    };
    std::vector<int> returned;
    const Instant start = Clock::now();
    Nest::go(10, returned);
    EXPECT_EQ(Clock::now() - start, 1ms);
    EXPECT_THAT(returned, ElementsAre(-1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    expect_no_timer_left();
  });
}

TEST(Cancel, ATimeoutOfNothingLetsTheBodyRunToItsFirstWait) {
  everywhere([] {
    for (const auto limit : {0ms, -5ms}) {
      bool begun = false;
      bool went_on = false;
      EXPECT_FALSE(timeout(limit, [&] {
        begun = true;
        this_fiber::yield();
        went_on = true;
      }));
      EXPECT_TRUE(begun);
      EXPECT_FALSE(went_on);
    }
    EXPECT_FALSE(deadline(Clock::now() - 1h, [] { this_fiber::checkpoint(); }));
    EXPECT_FALSE(deadline(Instant::min(), [] { this_fiber::checkpoint(); }));
  });
}

TEST(Cancel, AnEndlessTimeoutNeverFires) {
  on_seeds([] {
    EXPECT_TRUE(timeout(Duration::max(), [] { sleep_for(24h * 365); }));
    EXPECT_TRUE(timeout(std::chrono::hours::max(), [] { sleep_for(1h); }));
    EXPECT_TRUE(deadline(Instant::max(), [] { sleep_for(1h); }));
    EXPECT_THROW(static_cast<void>(timeout(Duration::max(), [] { Event{}.wait(); })), Deadlock);
  });
  on_workers([] { EXPECT_TRUE(timeout(Duration::max(), [] { this_fiber::yield(); })); });
}

TEST(Cancel, ATimeoutThatDidNotFireLeavesNothing) {
  on_seeds([] {
    const Instant start = Clock::now();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(timeout(1ms, [] {}));
    EXPECT_THROW(static_cast<void>(timeout(1ms, [] { throw 1; })), int);
    EXPECT_FALSE(timeout(5ms, [] { static_cast<void>(timeout(1h, [] { sleep_for(2h); })); }));
    EXPECT_EQ(Clock::now() - start, 5ms);
    expect_no_timer_left();
  });
  on_workers([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 100; ++i)
        n.spawn([] {
          for (int k = 0; k < 10; ++k) EXPECT_TRUE(timeout(1h, [] { this_fiber::yield(); }));
        });
    });
  });
}

TEST(Cancel, ATimerRacesTheEndOfItsScope) {
  on_workers([] {
    std::atomic<int> ended{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 200; ++i)
        n.spawn([&, i] {
          static_cast<void>(timeout(std::chrono::microseconds{i},
                                    [i] { sleep_for(std::chrono::microseconds{200 - i}); }));
          this_fiber::checkpoint();
          ++ended;
        });
    });
    EXPECT_EQ(ended, 200);
  });
}

TEST(Cancel, DeadlinesAreInherited) {
  on_seeds([] {
    const Instant start = Clock::now();
    EXPECT_EQ(my_scope().deadline(), Instant::max());
    static_cast<void>(timeout(10ms, [&] {
      EXPECT_EQ(my_scope().deadline(), start + 10ms);
      static_cast<void>(timeout(
          20ms, [&] { EXPECT_EQ(my_scope().deadline(), start + 10ms) << "the earliest counts"; }));
      static_cast<void>(timeout(5ms, [&] { EXPECT_EQ(my_scope().deadline(), start + 5ms); }));
      nursery([&](Nursery& n) {
        n.spawn([&start] { EXPECT_EQ(my_scope().deadline(), start + 10ms) << "by children, too"; });
      });
      shielded([&] {
        EXPECT_EQ(my_scope().deadline(), Instant::max());
        static_cast<void>(timeout(1h, [&] { EXPECT_EQ(my_scope().deadline(), start + 1h); }));
      });
    }));
    EXPECT_EQ(my_scope().deadline(), Instant::max());
  });
}

TEST(Cancel, SetDeadlineMovesItEitherWayButNotPastTheParents) {
  on_seeds([] {
    const Instant start = Clock::now();
    static_cast<void>(timeout(10ms, [&] {
      static_cast<void>(cancel_scope([&](CancelScope& scope) {
        scope.set_deadline(start + 4ms);
        EXPECT_EQ(scope.deadline(), start + 4ms);
        scope.set_deadline(start + 7ms);
        EXPECT_EQ(scope.deadline(), start + 7ms);
        scope.set_deadline(start + 1h);
        EXPECT_EQ(scope.deadline(), start + 10ms);
      }));
    }));
  });
}

TEST(Cancel, AMovedDeadlineIsTheOneThatCounts) {
  on_seeds([] {
    const Instant start = Clock::now();
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.set_deadline(start + 3ms);
      sleep_for(1h);
    }));
    EXPECT_EQ(Clock::now() - start, 3ms);
    EXPECT_FALSE(timeout(1ms, [&] {
      my_scope().set_deadline(start + 8ms);
      sleep_for(1h);
    })) << "later";
    EXPECT_EQ(Clock::now() - start, 8ms);
    EXPECT_FALSE(timeout(1h, [&] {
      my_scope().set_deadline(start + 9ms);
      sleep_for(1h);
    })) << "earlier";
    EXPECT_EQ(Clock::now() - start, 9ms);
    EXPECT_TRUE(timeout(1ms, [&] {
      my_scope().set_deadline(Instant::max());
      sleep_for(2ms);
    })) << "never";
    EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
      scope.set_deadline(start);
      EXPECT_EQ(scope.reason(), CancelReason::timed_out) << "passed already";
      this_fiber::checkpoint();
    }));
    expect_no_timer_left();
  });
}

// ── std::stop_token ─────────────────────────────────────────────────────────────────────────────

TEST(Cancel, AStopRequestCancels) {
  everywhere([] {
    std::stop_source source;
    bool unwound = false;
    nursery([&](Nursery& n) {
      n.spawn([&] { source.request_stop(); });
      EXPECT_FALSE(with_stop(source.get_token(), [&] {
        const std::shared_ptr<void> mark{nullptr, [&](void*) { unwound = true; }};
        Event{}.wait();
      }));
    });
    EXPECT_TRUE(unwound);
    EXPECT_FALSE(with_stop(source.get_token(), [] { this_fiber::checkpoint(); })) << "at once";
    EXPECT_TRUE(with_stop(source.get_token(), [] {})) << "to its end, if that comes first";
  });
}

TEST(Cancel, AStopRequestFromAForeignThreadCancels) {
  on_workers([] {
    for (int round = 0; round < 20; ++round) {
      std::stop_source source;
      std::thread thread{[&] { source.request_stop(); }};
      EXPECT_FALSE(with_stop(source.get_token(), [] { Event{}.wait(); }));
      thread.join();
    }
  });
}

TEST(Cancel, AStopRequestAfterTheScopeDoesNothing) {
  everywhere([] {
    std::stop_source source;
    EXPECT_EQ(with_stop(source.get_token(), [] { return 1; }), 1);
    source.request_stop();
    this_fiber::checkpoint();
  });
}

TEST(Cancel, AScopesTokenIsStoppedWhenItIsCancelled) {
  everywhere([] {
    int called = 0;
    static_cast<void>(cancel_scope([&](CancelScope& scope) {
      const std::stop_token token = scope.stop_token();
      EXPECT_TRUE(token.stop_possible());
      EXPECT_FALSE(token.stop_requested());
      const std::stop_callback callback{token, [&] { ++called; }};
      scope.cancel();
      EXPECT_EQ(called, 1) << "on the cancelling thread, before cancel() returns";
      EXPECT_TRUE(token.stop_requested());
      scope.cancel();
      EXPECT_EQ(called, 1);
    }));
  });
}

TEST(Cancel, AScopesTokenIsStoppedFromAbove) {
  everywhere([] {
    int called = 0;
    static_cast<void>(cancel_scope([&](CancelScope& outer) {
      static_cast<void>(cancel_scope([&](CancelScope&) {
        static_cast<void>(cancel_scope([&](CancelScope& inner) {
          const std::stop_token token = inner.stop_token();
          const std::stop_callback callback{token, [&] { ++called; }};
          outer.cancel();
          EXPECT_EQ(called, 1);
        }));
      }));
    }));
  });
}

TEST(Cancel, AScopesTokenIsStoppedByItsTimeout) {
  on_seeds([] {
    const Instant start = Clock::now();
    int called = 0;
    static_cast<void>(timeout(5ms, [&] {
      const std::stop_token token = my_scope().stop_token();
      const std::stop_callback callback{token, [&] { ++called; }};
      shielded([] { sleep_for(4ms); });
      EXPECT_EQ(called, 0);
      shielded([] { sleep_for(2ms); });
      EXPECT_EQ(called, 1);
    }));
    EXPECT_EQ(Clock::now() - start, 6ms);
  });
}

TEST(Cancel, AShieldHidesTheTokenInside) {
  everywhere([] {
    static_cast<void>(cancel_scope([](CancelScope& outer) {
      shielded([&] {
        const std::stop_token token = my_scope().stop_token();
        outer.cancel();
        EXPECT_FALSE(token.stop_requested());
      });
    }));
  });
}

TEST(Cancel, ATokenAskedForAfterTheCancelIsStopped) {
  everywhere([] {
    static_cast<void>(cancel_scope([](CancelScope& scope) {
      scope.cancel();
      EXPECT_TRUE(scope.stop_token().stop_requested());
      EXPECT_TRUE(scope.stop_token().stop_requested()) << "again";
      int called = 0;
      const std::stop_callback callback{scope.stop_token(), [&] { ++called; }};
      EXPECT_EQ(called, 1) << "a late registration is called at once";
    }));
    static_cast<void>(cancel_scope([](CancelScope& outer) {
      outer.cancel();
      static_cast<void>(cancel_scope([](CancelScope& inner) {
        EXPECT_TRUE(inner.stop_token().stop_requested()) << "cancelled from above";
      }));
    }));
  });
}

TEST(Cancel, ATokenOutlivesItsScope) {
  everywhere([] {
    std::stop_token stopped;
    std::stop_token left_alone;
    static_cast<void>(cancel_scope([&](CancelScope& scope) {
      stopped = scope.stop_token();
      scope.cancel();
    }));
    static_cast<void>(cancel_scope([&](CancelScope& scope) { left_alone = scope.stop_token(); }));
    EXPECT_TRUE(stopped.stop_requested());
    EXPECT_FALSE(left_alone.stop_requested());
  });
}

TEST(Cancel, CallbacksRunAfterTheFibersWereWoken) {
  on_seeds([] {
    // A callback that waits for a fiber below would wait for ever if that fiber were not woken.
    nursery([](Nursery& n) {
      Event& unwound = n.make<Event>();
      bool waited = false;
      const std::stop_token token = n.stop_token();
      n.spawn([&unwound] {
        const std::shared_ptr<void> mark{nullptr, [&](void*) { unwound.set(); }};
        Event{}.wait();
      });
      settle();
      const std::stop_callback callback{token, [&] {
                                          shielded([&] { unwound.wait(); });
                                          waited = true;
                                        }};
      n.cancel();
      EXPECT_TRUE(waited);
    });
  });
}

TEST(Cancel, BothWaysTogether) {
  everywhere([] {
    std::stop_source source;
    std::stop_token inner;
    EXPECT_FALSE(with_stop(source.get_token(), [&] {
      inner = my_scope().stop_token();
      EXPECT_FALSE(inner.stop_requested());
      source.request_stop();
      EXPECT_TRUE(inner.stop_requested());
      this_fiber::checkpoint();
    }));
  });
}

TEST(Cancel, TokensOfManyScopesUnderOneCancel) {
  on_workers([] {
    std::atomic<int> called{0};
    std::atomic<int> begun{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i)
        n.spawn([&] {
          static_cast<void>(cancel_scope([&](CancelScope& scope) {
            const std::stop_callback callback{scope.stop_token(), [&] { ++called; }};
            ++begun;
            Event{}.wait();
          }));
        });
      while (begun < 50) this_fiber::yield();
      n.cancel();
    });
    // A scope that is left at once may be gone before its callback would have been told.
    EXPECT_LE(called, 50);
  });
}

// ── no_throw ────────────────────────────────────────────────────────────────────────────────────

TEST(Cancel, NoThrowFormsReturnInsteadOfThrowing) {
  everywhere([] {
    Event never;
    Event ready;
    ready.set();
    EXPECT_TRUE(cancel_scope([&](CancelScope& scope) {
      Event::Wait nothing = never.on_set();
      Event::Wait something = ready.on_set();
      EXPECT_TRUE(wait(something, no_throw));
      EXPECT_TRUE(ready.wait(no_throw));
      EXPECT_TRUE(sleep_for(1us, no_throw));
      const std::array<Waitable*, 2> arms{&nothing, &something};
      EXPECT_EQ(wait(arms, no_throw), 1U);
      scope.cancel();
      for (int i = 0; i < 3; ++i) {  // level-triggered: each returns at once
        EXPECT_FALSE(never.wait(no_throw));
        EXPECT_FALSE(wait(nothing, no_throw));
        EXPECT_FALSE(wait(something, no_throw)) << "even if it is ready";
        EXPECT_EQ(wait(arms, no_throw), std::nullopt);
        EXPECT_FALSE(sleep_for(1h, no_throw));
        EXPECT_FALSE(sleep_for(0s, no_throw));
        EXPECT_FALSE(sleep_until(Clock::now(), no_throw));
      }
    })) << "nothing was thrown";
    EXPECT_TRUE(sleep_for(0s, no_throw));
  });
}

TEST(Cancel, NoThrowFormsAreWokenByACancel) {
  on_seeds([] {
    const Instant start = Clock::now();
    EXPECT_TRUE(timeout(5ms, [] {
      Event never;
      Event::Wait nothing = never.on_set();
      EXPECT_FALSE(wait(nothing, no_throw));
      EXPECT_FALSE(sleep_for(1h, no_throw));
    }));
    EXPECT_EQ(Clock::now() - start, 5ms);
    EXPECT_TRUE(timeout(5ms, [] { EXPECT_FALSE(sleep_for(1h, no_throw)); }));
    EXPECT_EQ(Clock::now() - start, 10ms);
    EXPECT_TRUE(sleep_for(5ms, no_throw));
    EXPECT_EQ(Clock::now() - start, 15ms);
    expect_no_timer_left();
  });
  on_workers([] {
    std::atomic<int> returned{0};
    std::atomic<int> begun{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 50; ++i)
        n.spawn([&] {
          ++begun;
          EXPECT_FALSE(sleep_for(1h, no_throw));
          ++returned;
        });
      while (begun < 50) this_fiber::yield();
      n.cancel();
    });
    EXPECT_EQ(returned, 50);
  });
}

TEST(Cancel, AfterANoThrowFormTheThrowingOnesThrow) {
  everywhere([] {
    EXPECT_FALSE(cancel_scope([](CancelScope& scope) {
      scope.cancel();
      EXPECT_FALSE(sleep_for(1h, no_throw));
      this_fiber::yield();
    }));
  });
}

TEST(Cancel, NoThrowFormsHeedTheShield) {
  everywhere([] {
    EXPECT_TRUE(cancel_scope([](CancelScope& scope) {
      scope.cancel();
      EXPECT_TRUE(shielded([] { return sleep_for(1us, no_throw); }));
      EXPECT_FALSE(sleep_for(1us, no_throw));
    }));
  });
}

TEST(Cancel, AfterIsAnArm) {
  on_seeds([] {
    const Instant start = Clock::now();
    Event set_later;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(5ms);
        set_later.set();
      });
      Event::Wait event = set_later.on_set();
      Alarm soon = after(2ms);
      const std::array<Waitable*, 2> first{&event, &soon};
      EXPECT_EQ(wait(first), 1U);
      EXPECT_EQ(Clock::now() - start, 2ms);
      Alarm late = after(1h);
      const std::array<Waitable*, 2> second{&event, &late};
      EXPECT_EQ(wait(second), 0U);
      EXPECT_EQ(Clock::now() - start, 5ms);
    });
    expect_no_timer_left();
  });
}

}  // namespace
}  // namespace weft
