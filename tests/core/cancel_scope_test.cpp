#include <weft/core/cancel_scope.hpp>

#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::let_others_block;
using testing::on_both_engines;

// ── the tree as data ────────────────────────────────────────────────────────────────────────────

TEST(CancelScope, CancelReachesDescendantsAndNobodyElse) {
  CancelScope root{nullptr}, left{&root}, right{&root}, leaf{&left};
  EXPECT_FALSE(leaf.cancelled());
  left.cancel();
  EXPECT_TRUE(left.cancelled());
  EXPECT_TRUE(leaf.cancelled());
  EXPECT_FALSE(right.cancelled());
  EXPECT_FALSE(root.cancelled());
  root.cancel();
  EXPECT_TRUE(right.cancelled());
  EXPECT_EQ(leaf.parent(), &left);
}

TEST(CancelScope, CancelIsIdempotent) {
  CancelScope scope{nullptr};
  scope.cancel();
  scope.cancel();
  EXPECT_TRUE(scope.cancelled());
}

TEST(CancelScope, AShieldHidesAncestorsButNotItself) {
  CancelScope root{nullptr}, shield{&root, Shield::present}, leaf{&shield};
  root.cancel();
  EXPECT_FALSE(shield.cancelled());
  EXPECT_FALSE(leaf.cancelled());
  EXPECT_EQ(shield.shield(), Shield::present);
  EXPECT_EQ(leaf.shield(), Shield::absent);
  shield.cancel();
  EXPECT_TRUE(shield.cancelled());
  EXPECT_TRUE(leaf.cancelled());
}

TEST(CancelScope, AScopeMadeBelowACancelledOneIsCancelled) {
  CancelScope root{nullptr};
  root.cancel();
  CancelScope child{&root};
  EXPECT_TRUE(child.cancelled());
  EXPECT_TRUE(child.cancelled_by_now());
}

TEST(CancelScope, TheAnswerForFirstRunsIsRememberedUntilSomebodyCancels) {
  CancelScope root{nullptr}, child{&root}, stranger{nullptr};
  EXPECT_FALSE(child.cancelled_by_now());
  EXPECT_FALSE(child.cancelled_by_now());
  stranger.cancel();
  EXPECT_FALSE(child.cancelled_by_now());
  root.cancel();
  EXPECT_TRUE(child.cancelled_by_now());
  EXPECT_TRUE(child.cancelled_by_now());
}

TEST(CancelScope, TheTightestDeadlineWins) {
  const Instant early{1s}, middle{2s}, late{3s};
  CancelScope root{nullptr};
  EXPECT_EQ(root.deadline(), Instant::max());
  root.set_deadline(middle);
  CancelScope inherits{&root}, tighter{&root}, looser{&root};
  tighter.set_deadline(early);
  looser.set_deadline(late);
  EXPECT_EQ(inherits.deadline(), middle);
  EXPECT_EQ(tighter.deadline(), early);
  EXPECT_EQ(looser.deadline(), middle) << "a child cannot outlast its parent";
}

TEST(CancelScope, AShieldDoesNotInheritADeadline) {
  CancelScope root{nullptr};
  root.set_deadline(Instant{1s});
  CancelScope shield{&root, Shield::present};
  EXPECT_EQ(shield.deadline(), Instant::max());
  shield.set_deadline(Instant{5s});
  EXPECT_EQ(shield.deadline(), Instant{5s});
  CancelScope inside{&shield};
  EXPECT_EQ(inside.deadline(), Instant{5s});
}

// ── enrolment ───────────────────────────────────────────────────────────────────────────────────

TEST(CancelScope, EnrolMakesAStrandFindableUntilItWithdraws) {
  on_both_engines([] {
    Fiber& self = Fiber::current();
    CancelScope outer{self.scope}, inner{&outer};
    ASSERT_TRUE(inner.enrol(*self.strand));
    EXPECT_EQ(self.strand->enrolled, &inner);
    ASSERT_TRUE(inner.enrol(*self.strand)) << "again, to no effect";
    outer.cancel();
    EXPECT_TRUE(self.attention.load() & kAttendScope) << "found by way of the parent";
    CancelScope::withdraw(*self.strand);
    CancelScope::withdraw(*self.strand);
    EXPECT_EQ(self.strand->enrolled, nullptr);
    self.attention.fetch_and(static_cast<std::uint16_t>(~kAttendScope));
    inner.cancel();
    EXPECT_FALSE(self.attention.load() & kAttendScope) << "no canceller knows us any more";
    this_fiber::checkpoint();
  });
}

TEST(CancelScope, EnrolInACancelledScopeIsRefused) {
  on_both_engines([] {
    Fiber& self = Fiber::current();
    CancelScope outer{self.scope}, inner{&outer};
    outer.cancel();
    EXPECT_FALSE(inner.enrol(*self.strand));
    EXPECT_EQ(self.strand->enrolled, nullptr);
    EXPECT_FALSE(self.strand->is_linked());
  });
}

TEST(CancelScope, EnrolMovesAStrandFromScopeToScope) {
  on_both_engines([] {
    Fiber& self = Fiber::current();
    CancelScope a{self.scope}, b{self.scope};
    ASSERT_TRUE(a.enrol(*self.strand));
    ASSERT_TRUE(b.enrol(*self.strand));
    EXPECT_EQ(self.strand->enrolled, &b);
    a.cancel();
    EXPECT_FALSE(self.attention.load() & kAttendScope);
    CancelScope::withdraw(*self.strand);
  });
}

TEST(CancelScope, AScopeThatDiesHasLeftTheTree) {
  on_both_engines([] {
    CancelScope outer{Fiber::current().scope};
    {
      CancelScope inner{&outer};
      ASSERT_TRUE(inner.enrol(*Fiber::current().strand));
      CancelScope::withdraw(*Fiber::current().strand);
    }
    outer.cancel();  // would walk into the dead one
    EXPECT_TRUE(outer.cancelled());
  });
}

// ── delivery ────────────────────────────────────────────────────────────────────────────────────

// A fiber runs `waiting` inside `scope`; `during` runs beside it.
void with_waiting_fiber(CancelScope& scope, const std::function<void()>& waiting,
                        const std::function<void()>& during) {
  nursery([&](Nursery& n) {
    n.spawn([&] {
      const Entered entered{Fiber::current(), scope};
      waiting();
    });
    n.spawn([&] { during(); });
  });
}

TEST(CancelScope, LevelTriggeredASwallowedCancelledIsRaisedAgain) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    int raised = 0;
    with_waiting_fiber(
        scope,
        [&] {
          Event never;
          for (int i = 0; i < 5; ++i) {
            try {
              if (i % 2 == 0) never.wait();
              else this_fiber::yield();
            } catch (...) {  // swallows it, as iostreams do
              ++raised;
            }
          }
          EXPECT_TRUE(this_fiber::cancelled());
        },
        [&] {
          let_others_block();
          scope.cancel();
        });
    EXPECT_EQ(raised, 5);
  });
}

TEST(CancelScope, CancelledPassesHandlersForProgramErrors) {
  static_assert(!std::is_base_of_v<std::exception, Cancelled>);
  static_assert(!std::is_default_constructible_v<Cancelled>, "only weft raises it");
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    std::string caught = "nothing";
    with_waiting_fiber(
        scope,
        [&] {
          try {
            try {
              Event{}.wait();
            } catch (const std::exception&) {
              caught = "std::exception";
            }
          } catch (const Cancelled&) {
            caught = "Cancelled";
          }
        },
        [&] {
          let_others_block();
          scope.cancel();
        });
    EXPECT_EQ(caught, "Cancelled");
  });
}

TEST(CancelScope, ItEndsWithItsScope) {
  on_both_engines([] {
    CancelScope outer{Fiber::current().scope};
    with_waiting_fiber(
        outer,
        [&] {
          CancelScope inner{&outer};
          try {
            const Entered entered{Fiber::current(), inner};
            inner.cancel();
            Event{}.wait();
          } catch (const Cancelled&) {
            EXPECT_EQ(Fiber::current().scope, &outer);
          }
          EXPECT_FALSE(this_fiber::cancelled());
          for (int i = 0; i < 5; ++i) this_fiber::yield();  // the outer scope is not cancelled
          sleep_for(1us);
        },
        [] {});
  });
}

TEST(CancelScope, AShieldedScopeBelowACancelledOneGoesOnWaiting) {
  on_both_engines([] {
    CancelScope outer{Fiber::current().scope};
    Event done;
    bool finished = false;
    with_waiting_fiber(
        outer,
        [&] {
          {
            CancelScope shield{&outer, Shield::present};
            const Entered entered{Fiber::current(), shield};
            done.wait();
            this_fiber::checkpoint();
            EXPECT_FALSE(this_fiber::cancelled());
            finished = true;
          }
          EXPECT_THROW(Event{}.wait(), Cancelled) << "outside the shield it is raised";
        },
        [&] {
          let_others_block();
          outer.cancel();
          let_others_block();
          EXPECT_FALSE(finished);
          done.set();
        });
    EXPECT_TRUE(finished);
  });
}

TEST(CancelScope, AShieldItselfCanBeCancelled) {
  on_both_engines([] {
    CancelScope outer{Fiber::current().scope}, shield{&outer, Shield::present};
    bool cancelled = false;
    with_waiting_fiber(
        shield,
        [&] {
          EXPECT_THROW(Event{}.wait(), Cancelled);
          cancelled = true;
        },
        [&] {
          let_others_block();
          shield.cancel();
        });
    EXPECT_TRUE(cancelled);
  });
}

TEST(CancelScope, EveryParkedFiberBelowIsWokenInOrderOfEnrolment) {
  FiberIo{{.workers = 1}}.run([] {
    CancelScope scope{Fiber::current().scope};
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          const Entered entered{Fiber::current(), scope};
          EXPECT_THROW(Event{}.wait(), Cancelled);
          order.push_back(i);
        });
        this_fiber::yield();  // it parks before the next is spawned
      }
      scope.cancel();
    });
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
  });
}

// More than are woken at a time.
constexpr int kCrowd = 1'000;

TEST(CancelScope, ACrowdIsWokenInOrderOfEnrolment) {
  FiberIo{{.workers = 1}}.run([] {
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kCrowd; ++i) {
        n.spawn([&, i] {
          EXPECT_FALSE(Event{}.wait(no_throw));
          order.push_back(i);
        });
        this_fiber::yield();
      }
      n.cancel();
    });
    EXPECT_EQ(order.size(), std::size_t{kCrowd});
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  });
}

// The first have ended, and others enter and leave the scope, while the last are being woken.
TEST(CancelScope, ACrowdOnManyWorkersIsCancelledWhileItEnds) {
  FiberIo{{.workers = 4}}.run([] {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> up{0}, unwound{0};
      Event all_up;
      const auto crowd = [&](Nursery& n) {
        for (int i = 0; i < kCrowd; ++i)
          n.spawn([&] {
            if (++up == kCrowd) all_up.set();
            while (Event{}.wait_for(1us, no_throw) || !this_fiber::cancelled()) {}
            EXPECT_FALSE(Event{}.wait(no_throw)) << "from now on every wait finds it";
            ++unwound;
          });
        n.spawn([&] {
          all_up.wait();
          throw std::runtime_error{"enough"};
        });
      };
      EXPECT_THROW(nursery(crowd), std::runtime_error);
      EXPECT_EQ(unwound, kCrowd);
    }
  });
}

TEST(CancelScope, YieldIsACancelPointOfAFiberThatNeverParked) {
  on_both_engines([] {
    constexpr int kPatience = 100'000;
    CancelScope scope{Fiber::current().scope};
    Event started;
    int turns = 0;
    with_waiting_fiber(
        scope,
        [&] {
          started.set();
          EXPECT_THROW(
              {
                for (; turns < kPatience; ++turns) this_fiber::yield();
              },
              Cancelled);
        },
        [&] {
          started.wait();
          scope.cancel();
        });
    EXPECT_LT(turns, kPatience);
  });
}

TEST(CancelScope, S3_10_3_AChildThatOnlyYieldsIsCancelledWithItsNursery) {
  on_both_engines([] {
    constexpr int kPatience = 100'000;
    Event started;
    int turns = 0;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.spawn([&] {
                     started.set();
                     for (; turns < kPatience; ++turns) this_fiber::yield();
                   });
                   started.wait();
                   throw std::runtime_error{"stop"};
                 }),
                 std::runtime_error);
    EXPECT_LT(turns, kPatience);
  });
}

TEST(CancelScope, CheckpointIsACancelPointOfABodyThatNeverParked) {
  on_both_engines([] {
    EXPECT_THROW(nursery([&](Nursery& n) -> int {
                   n.spawn([] { throw std::runtime_error{"child"}; });
                   for (int turns = 0; turns < 100'000; ++turns) {
                     this_fiber::checkpoint();
                     if (!this_fiber::cancelled()) this_fiber::yield();
                   }
                   ADD_FAILURE() << "the body was never told";
                   return 0;
                 }),
                 std::runtime_error);
  });
}

TEST(CancelScope, CheckpointSeesTheOuterScopeAfterAnInnerOneWasLeft) {
  on_both_engines([] {
    CancelScope outer{Fiber::current().scope};
    Event left;
    bool raised = false;
    with_waiting_fiber(
        outer,
        [&] {
          {
            CancelScope inner{&outer};
            const Entered entered{Fiber::current(), inner};
            sleep_for(1us);  // enrols in the inner one
          }
          left.set();
          try {
            for (int turns = 0; turns < 100'000; ++turns) this_fiber::yield();
          } catch (const Cancelled&) {
            raised = true;
          }
        },
        [&] {
          left.wait();
          outer.cancel();
        });
    EXPECT_TRUE(raised);
  });
}

TEST(CancelScope, AFiberCanCancelItsOwnScope) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    sleep_for(1us);
    scope.cancel();
    EXPECT_THROW(this_fiber::checkpoint(), Cancelled);
    EXPECT_THROW(this_fiber::yield(), Cancelled);
    EXPECT_THROW(sleep_for(1h), Cancelled);
    EXPECT_TRUE(this_fiber::cancelled());
  });
}

TEST(CancelScope, CancelFromAForeignThreadWakesAParkedFiber) {
  const auto cancelled_by_a_thread = [] {
    CancelScope scope{Fiber::current().scope};
    Event parked_soon;
    std::thread canceller;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        canceller = std::thread{[&] { scope.cancel(); }};
        EXPECT_THROW(Event{}.wait(), Cancelled);
      });
    });
    canceller.join();
  };
  for (const unsigned workers : {1U, 2U, 4U, 16U})
    for (int round = 0; round < 20; ++round)
      FiberIo{{.workers = workers}}.run(cancelled_by_a_thread);
}

// ── unborn children ─────────────────────────────────────────────────────────────────────────────

TEST(CancelScope, AChildCancelledBeforeItsStartNeverRunsAndItsCapturesAreDestroyed) {
  on_both_engines([] {
    const auto captured = std::make_shared<int>(0);
    int ran = 0;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   for (int i = 0; i < 100; ++i)
                     n.spawn([&ran, captured] { ++ran; });
                   EXPECT_EQ(captured.use_count(), 101);
                   throw std::runtime_error{"before any could start"};
                 }),
                 std::runtime_error);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(captured.use_count(), 1);
  });
}

TEST(CancelScope, ParkedAndUnbornAndRunningChildrenAllEnd) {
  on_both_engines([] {
    int live = 0;
    int unwound = 0;
    int late = 0;
    struct Life {
      int& live;
      int& unwound;
      Life(int& live_in, int& unwound_in) : live(live_in), unwound(unwound_in) { ++live; }
      ~Life() {
        --live;
        ++unwound;
      }
    };
    EXPECT_THROW(nursery([&](Nursery& n) {
                   for (int i = 0; i < 10; ++i)
                     n.spawn([&] {
                       const Life life{live, unwound};
                       Event{}.wait();
                     });
                   for (int i = 0; i < 10; ++i)
                     n.spawn([&] {
                       const Life life{live, unwound};
                       for (;;) this_fiber::yield();
                     });
                   while (live < 20) this_fiber::yield();
                   for (int i = 0; i < 10; ++i) n.spawn([&] { ++late; });
                   throw 1;
                 }),
                 int);
    EXPECT_EQ(live, 0);
    EXPECT_EQ(unwound, 20);
    EXPECT_EQ(late, 0);
  });
}

// ── depth ───────────────────────────────────────────────────────────────────────────────────────

void nest(int levels, Event& bottom, int& unwound) {
  if (levels == 0) {
    bottom.set();
    try {
      Event{}.wait();
    } catch (const Cancelled&) {
      ++unwound;
      throw;
    }
  }
  nursery([&bottom, &unwound, levels](Nursery& n) {
    n.spawn([&bottom, &unwound, levels] { nest(levels - 1, bottom, unwound); });
    Event{}.wait();
  });
}

TEST(CancelScope, CancelReachesTheBottomOfADeepTree) {
  on_both_engines([] {
    constexpr int kLevels = 1'000;
    int unwound = 0;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   Event bottom;
                   n.spawn([&bottom, &unwound] { nest(kLevels, bottom, unwound); });
                   bottom.wait();
                   throw 1;
                 }),
                 int);
    EXPECT_EQ(unwound, 1);
  });
}

}  // namespace
}  // namespace weft
