#include <weft/core/wait.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <span>
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
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;

// A box for one value with a waitable that counts its verbs and can be made to misbehave.
class Box {
 public:
  // Gives the value to the first waiter, or keeps it for the next.
  void put(int value) {
    FiberList woken;
    {
      const Locked locked{lock_};
      value_ = value;
      while (Waitable* const waiter = waiters_.pop_front()) {
        Fiber& fiber = waiter->fiber();
        const Claim claim = waiter->claim();
        if (claim == Claim::lost) continue;
        static_cast<Take&>(*waiter).got = std::exchange(value_, std::nullopt);
        if (claim == Claim::latched) ++latched;
        if (claim == Claim::owned) woken.push_back(fiber);
        break;
      }
    }
    resume_all(std::move(woken));
  }
  [[nodiscard]] bool full() {
    const Locked locked{lock_};
    return value_.has_value();
  }

  class Take final : public KernelOwned {
   public:
    explicit Take(Box& box) : box_(box) {}
    bool try_complete() override {
      ++tries;
      if (on_try) on_try();
      const Locked locked{box_.lock_};
      if (!box_.value_) return false;
      got = std::exchange(box_.value_, std::nullopt);
      return true;
    }
    bool publish() noexcept override {
      ++publishes;
      if (on_publish) on_publish();
      const Locked locked{box_.lock_};
      if (box_.value_) return false;
      box_.waiters_.push_back(*this);
      return true;
    }
    void unpublish() noexcept override {
      ++unpublishes;
      const Locked locked{box_.lock_};
      box_.waiters_.remove(*this);
    }
    bool settle() noexcept override {
      ++settles;
      return on_settle && on_settle();
    }
    [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "box take"}; }

    std::optional<int> got;
    int tries = 0;
    int publishes = 0;
    int unpublishes = 0;
    int settles = 0;
    std::function<void()> on_try, on_publish;
    std::function<bool()> on_settle;

   private:
    Box& box_;
  };

  int latched = 0;

 private:
  Lock lock_;
  std::optional<int> value_;
  List<Waitable> waiters_;
};

template <class... Arms>
std::size_t wait_any(Arms&... arms) {
  Waitable* const all[] = {&arms...};
  return wait(std::span<Waitable* const>{all});
}

// Each rule holds on every engine; on a plain thread, too, but for those that need a second fiber.
void everywhere(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({4U}, f);
  SCOPED_TRACE("plain thread");
  std::thread{f}.join();
}

TEST(Wait, AReadyArmCompletesWithoutBeingPublished) {
  everywhere([] {
    Box a, b;
    b.put(7);
    Box::Take take_a{a}, take_b{b};
    EXPECT_EQ(wait_any(take_a, take_b), 1U);
    EXPECT_EQ(take_b.got, 7);
    EXPECT_EQ(take_a.publishes + take_b.publishes, 0);
    EXPECT_EQ(take_a.tries, 1);
  });
}

TEST(Wait, ArmsAreTriedInOrderBeginningWithFirst) {
  everywhere([] {
    std::array<Box, 4> boxes;
    for (int i = 0; i < 4; ++i) boxes[std::size_t(i)].put(i);
    for (const std::size_t first : {2U, 3U, 0U, 1U}) {
      std::deque<Box::Take> takes;
      std::vector<Waitable*> arms;
      for (Box& box : boxes) arms.push_back(&takes.emplace_back(box));
      EXPECT_EQ(wait(arms, first), first);
      boxes[first].put(0);
    }
    Box empty_a, empty_b, full;
    full.put(1);
    Box::Take a{empty_a}, b{full}, c{empty_b};
    Waitable* const arms[] = {&a, &b, &c};
    EXPECT_EQ(wait(std::span<Waitable* const>{arms}, 2), 1U) << "2, then 0, then 1";
    EXPECT_EQ(a.tries + c.tries, 2);
  });
}

TEST(Wait, S0_4_2_ParksUntilAnArmIsEndedByItsWaker) {
  on_both_engines([] {
    Box a, b, c;
    std::vector<std::string> order;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        Box::Take take_a{a}, take_b{b}, take_c{c};
        EXPECT_EQ(wait_any(take_a, take_b, take_c), 1U);
        EXPECT_EQ(take_b.got, 42);
        EXPECT_EQ(take_a.got, std::nullopt);
        for (const Box::Take* take : {&take_a, &take_b, &take_c}) {
          EXPECT_FALSE(take->is_linked()) << "nobody can find an arm of a wait that has returned";
          EXPECT_EQ(take->publishes, 1);
          const bool won = take == &take_b;  // its waker has unlinked it, and is done
          EXPECT_EQ(take->unpublishes, won ? 0 : 1);
        }
        order.emplace_back("woken");
      });
      n.spawn([&] {
        let_others_block();
        order.emplace_back("put");
        b.put(42);
      });
    });
    EXPECT_THAT(order, ElementsAre("put", "woken"));
    EXPECT_FALSE(b.full());
  });
}

TEST(Wait, AnArmThatLosesLosesNothing) {
  on_both_engines([] {
    Box a, b;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        Box::Take take_a{a}, take_b{b};
        const std::size_t won = wait_any(take_a, take_b);
        EXPECT_EQ(take_a.got.has_value(), won == 0);
        EXPECT_EQ(take_b.got.has_value(), won == 1);
        EXPECT_EQ(a.full(), won == 1) << "the loser's value is still there";
        EXPECT_EQ(b.full(), won == 0);
      });
      n.spawn([&] {
        let_others_block();
        a.put(1);
        b.put(2);
      });
    });
  });
}

TEST(Wait, F4_TwoWakersOneEnqueue) {
  on_both_engines([] {
    Event first, second;
    int woken = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto a = first.on_set();
        auto b = second.on_set();
        static_cast<void>(wait_any(a, b));
        ++woken;
        this_fiber::yield();  // a second enqueue would run us twice, or trap
        this_fiber::yield();
      });
      n.spawn([&] {
        let_others_block();
        first.set();
        second.set();
      });
    });
    EXPECT_EQ(woken, 1);
  });
}

// publish() of the second arm wakes the first: its waker finds the fiber PARKING.
TEST(Wait, F3_AWakerWhoFindsItParkingLeavesAVerdict) {
  everywhere([] {
    Box a, b;
    Box::Take take_a{a}, take_b{b};
    take_b.on_publish = [&] { a.put(5); };
    EXPECT_EQ(wait_any(take_a, take_b), 0U);
    EXPECT_EQ(a.latched, 1);
    EXPECT_EQ(take_a.got, 5);
    EXPECT_FALSE(take_b.is_linked());
    // A second enqueue would be noticed by the checks here.
    this_fiber::yield();
    Box::Take again{a};
    a.put(6);
    wait(again);
    EXPECT_EQ(again.got, 6);
  });
}

TEST(Wait, AnArmThatTurnsReadyInPublishAbortsThePark) {
  everywhere([] {
    Box a, b, c;
    Box::Take take_a{a}, take_b{b}, take_c{c};
    take_b.on_publish = [&] { b.put(3); };
    EXPECT_EQ(wait_any(take_a, take_b, take_c), 1U);
    EXPECT_EQ(take_b.got, 3);
    EXPECT_EQ(take_b.tries, 2) << "tried again after the abort";
    EXPECT_EQ(take_c.publishes, 0) << "no need to publish the rest";
    EXPECT_EQ(take_a.publishes, 1);
    EXPECT_EQ(take_a.unpublishes, 1);
    EXPECT_FALSE(take_a.is_linked());
  });
}

TEST(Wait, ReadyInPublishEveryTimeStillEnds) {
  everywhere([] {
    Box a, b;
    Box::Take take_a{a}, take_b{b};
    int rounds = 0;
    // Ready while it publishes, gone again when tried: as two selects meet each other.
    take_b.on_publish = [&] { b.put(++rounds); };
    take_b.on_try = [&] {
      if (rounds > 0 && rounds < 9) {
        Box::Take thief{b};
        EXPECT_TRUE(thief.try_complete());
      }
    };
    EXPECT_EQ(wait_any(take_a, take_b), 1U);
    EXPECT_EQ(rounds, 9);
    EXPECT_EQ(take_b.got, 9);
  });
}

struct Refused {};

TEST(Wait, TryCompleteThatThrowsPublishesNothing) {
  everywhere([] {
    Box a, b;
    Box::Take take_a{a}, take_b{b};
    take_b.on_try = [] { throw Refused{}; };
    EXPECT_THROW(wait_any(take_a, take_b), Refused);
    EXPECT_EQ(take_a.publishes + take_b.publishes, 0);
    a.put(1);
    Box::Take after{a};
    wait(after);
    EXPECT_EQ(after.got, 1) << "the fiber waits on as before";
  });
}

TEST(Wait, TryCompleteThatThrowsAfterAnAbortLeavesNothingPublished) {
  everywhere([] {
    Box a, b;
    Box::Take take_a{a}, take_b{b};
    take_b.on_publish = [&] { b.put(1); };
    take_a.on_try = [&] {
      if (take_a.tries == 2) throw std::runtime_error{"second try"};
    };
    EXPECT_THROW(wait_any(take_a, take_b), std::runtime_error);
    EXPECT_EQ(take_a.publishes, 1);
    EXPECT_FALSE(take_a.is_linked());
    EXPECT_FALSE(take_b.is_linked());
    EXPECT_TRUE(b.full()) << "nothing was taken";
  });
}

// Final, so that a container may destroy it: an operation has no virtual destructor.
struct OneWait final : Event::Wait {
  using Event::Wait::Wait;
};

TEST(Wait, ManyArmsUpToTheLimit) {
  on_both_engines([] {
    std::vector<Event> events(Verdict::kArmsMax);
    std::deque<OneWait> operations;
    std::vector<Waitable*> arms;
    for (Event& event : events) arms.push_back(&operations.emplace_back(event));
    nursery([&](Nursery& n) {
      for (const std::size_t winner : {std::size_t{0}, std::size_t{511}, events.size() - 1}) {
        n.spawn([&, winner] {
          let_others_block();
          events[winner].set();
        });
        EXPECT_EQ(wait(arms), winner);
        events[winner].reset();
      }
    });
  });
}

TEST(Wait, NoArmsOrTooManyAreRefused) {
  everywhere([] {
    EXPECT_THROW(wait(std::span<Waitable* const>{}), std::invalid_argument);
    Event event;
    std::deque<OneWait> operations;
    std::vector<Waitable*> arms;
    for (std::size_t i = 0; i <= Verdict::kArmsMax; ++i)
      arms.push_back(&operations.emplace_back(event));
    EXPECT_THROW(wait(arms), std::invalid_argument);
    EXPECT_THROW(wait_shielded(arms), std::invalid_argument);
    event.set();
    arms.pop_back();
    EXPECT_EQ(wait(arms), 0U);
  });
}

TEST(Wait, AStaleNodeCannotEndALaterWait) {
  on_both_engines([] {
    Box a;
    Event later;
    bool ended = false;
    Box::Take stale{a};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        wait(stale);
        later.wait();
        ended = true;
      });
      n.spawn([&] {
        let_others_block();
        a.put(1);
        let_others_block();
        EXPECT_EQ(stale.claim(), Claim::lost) << "its ticket is that of the wait before";
        let_others_block();
        EXPECT_FALSE(ended);
        later.set();
      });
    });
    EXPECT_TRUE(ended);
  });
}

TEST(Wait, ATimerIsAnArmLikeAnyOther) {
  everywhere([] {
    Box never;
    Box::Take take{never};
    Alarm soon{Clock::now() + 1ms};
    EXPECT_EQ(wait_any(take, soon), 1U);
    EXPECT_GE(Clock::now().time_since_epoch(), 1ms);
    Box full;
    full.put(1);
    Box::Take at_once{full};
    Alarm late{Clock::now() + 1h};
    EXPECT_EQ(wait_any(late, at_once), 1U);
    EXPECT_FALSE(take.is_linked());
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST(Wait, CancelledScopeThrowsEvenIfAnArmIsReady) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    scope.cancel();
    Box box;
    box.put(1);
    Box::Take take{box};
    EXPECT_THROW(wait(take), Cancelled);
    EXPECT_TRUE(box.full());
    EXPECT_EQ(take.tries, 0);
  });
}

TEST(Wait, CancelWakesAParkedFiberAndItsArmsAreUnpublished) {
  on_both_engines([] {
    Box a, b;
    CancelScope scope{Fiber::current().scope};
    bool cancelled = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        Box::Take take_a{a}, take_b{b};
        try {
          static_cast<void>(wait_any(take_a, take_b));
        } catch (const Cancelled&) {
          cancelled = true;
          EXPECT_FALSE(take_a.is_linked());
          EXPECT_FALSE(take_b.is_linked());
        }
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        a.put(1);
      });
    });
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(a.full()) << "cancellation won: nothing moved";
  });
}

// Cancelled while it publishes: the verdict is latched, as a waker's would be.
TEST(Wait, CancelBetweenCheckpointAndParkIsNotSleptThrough) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box a;
    Box::Take in_publish{a};
    in_publish.on_publish = [&] { scope.cancel(); };
    EXPECT_THROW(wait(in_publish), Cancelled);
    EXPECT_FALSE(in_publish.is_linked());
  });
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box b;
    Box::Take in_try{b};
    in_try.on_try = [&] { scope.cancel(); };
    EXPECT_THROW(wait(in_try), Cancelled);
    EXPECT_EQ(in_try.publishes, 0) << "the nudge stops the park";
  });
}

TEST(Wait, AShieldedWaitIgnoresCancellationAndTheNextOneDoesNot) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Box box;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        Box::Take take{box};
        wait_shielded(take);
        EXPECT_EQ(take.got, 9);
        Box::Take next{box};
        EXPECT_THROW(wait(next), Cancelled);
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        let_others_block();
        box.put(9);
      });
    });
  });
}

// Its scope finds it all the same: the wait itself says that no cancel ends it.
TEST(Wait, AShieldedWaitOfAnEnrolledFiberIsPassedBy) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Box box;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        {
          const Entered entered{Fiber::current(), scope};
          ASSERT_TRUE(scope.enrol(*Fiber::current().strand));
          for (const int round : {1, 2}) {
            Box::Take take{box};
            wait_shielded(take);
            EXPECT_EQ(take.got, round);
          }
          EXPECT_THROW(this_fiber::checkpoint(), Cancelled);
        }
        EXPECT_EQ(Fiber::current().strand->enrolled, nullptr);
        this_fiber::checkpoint();  // outside, nothing is left of it
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        let_others_block();
        box.put(1);
        let_others_block();
        scope.cancel();
        box.put(2);
      });
    });
  });
}

TEST(Wait, SettleBeatsCancellation) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box other, kernel;
    Box::Take arm{other}, owned{kernel};
    owned.on_publish = [&] { scope.cancel(); };
    owned.on_settle = [] { return true; };  // the kernel had delivered already
    EXPECT_EQ(wait_any(arm, owned), 1U);
    EXPECT_EQ(owned.settles, 1);
    EXPECT_FALSE(owned.is_linked());
    EXPECT_THROW(this_fiber::checkpoint(), Cancelled) << "and the cancellation is not forgotten";
  });
}

// ── the fused form ──────────────────────────────────────────────────────────────────────────────

void wait_after_a_try(Box::Take& only) {
  this_fiber::checkpoint();
  wait_fused(Fiber::current(), only);
}

TEST(FusedWait, ParksUntilItsArmIsEnded) {
  on_both_engines([] {
    Box box;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        Box::Take take{box};
        wait_after_a_try(take);
        EXPECT_EQ(take.got, 7);
        EXPECT_EQ(take.publishes, 1);
        EXPECT_EQ(take.unpublishes, 0) << "its waker has unlinked it";
        EXPECT_FALSE(take.is_linked());
      });
      n.spawn([&] {
        let_others_block();
        box.put(7);
      });
    });
  });
}

TEST(FusedWait, AWakerWhoFindsItParkingLeavesAVerdict) {
  everywhere([] {
    Box box;
    Box::Take take{box};
    bool put = false;
    take.on_publish = [&] {
      if (!std::exchange(put, true)) box.put(5);
    };
    wait_after_a_try(take);
    EXPECT_EQ(take.got, 5);
    EXPECT_FALSE(take.is_linked());
  });
}

TEST(FusedWait, AnArmThatIsReadyInPublishIsTriedAgain) {
  everywhere([] {
    Box box;
    box.put(3);
    Box::Take take{box};
    wait_after_a_try(take);
    EXPECT_EQ(take.got, 3);
    EXPECT_EQ(take.tries, 1);
    EXPECT_EQ(take.publishes, 1);
    EXPECT_FALSE(take.is_linked());
  });
}

TEST(FusedWait, IsCancelledWhileItPublishes) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box box;
    Box::Take take{box};
    take.on_publish = [&] { scope.cancel(); };
    EXPECT_THROW(wait_after_a_try(take), Cancelled);
    EXPECT_FALSE(take.is_linked());
    EXPECT_EQ(take.settles, 1);
  });
}

TEST(FusedWait, IsCancelledThoughReadyInPublish) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box box;
    box.put(4);
    Box::Take take{box};
    take.on_publish = [&] { scope.cancel(); };
    EXPECT_THROW(wait_after_a_try(take), Cancelled);
    EXPECT_TRUE(box.full()) << "nothing was taken";
  });
}

TEST(FusedWait, IsCancelledWhileParked) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Box box;
    bool cancelled = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        Box::Take take{box};
        try {
          wait_after_a_try(take);
        } catch (const Cancelled&) {
          cancelled = true;
        }
        EXPECT_FALSE(take.is_linked());
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        box.put(1);
      });
    });
    EXPECT_TRUE(cancelled);
    EXPECT_TRUE(box.full());
  });
}

TEST(FusedWait, WhatWasDeliveredBeatsCancellationWhichIsNotForgotten) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box kernel;
    Box::Take owned{kernel};
    owned.on_publish = [&] { scope.cancel(); };
    owned.on_settle = [] { return true; };
    EXPECT_NO_THROW(wait_after_a_try(owned));
    EXPECT_FALSE(owned.is_linked());
    Box::Take next{kernel};
    EXPECT_THROW(wait(next), Cancelled);
  });
}

TEST(FusedWait, IsShieldedWhileAnExceptionUnwinds) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Box box;
    bool waited = false;
    struct Cleanup {
      Box& box;
      bool& waited;
      ~Cleanup() {
        Box::Take take{box};
        wait_fused(Fiber::current(), take);  // would terminate the program if it threw
        waited = take.got.has_value();
      }
    };
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        try {
          const Cleanup cleanup{box, waited};
          throw std::runtime_error{"first"};
        } catch (const std::runtime_error&) {
        }
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        let_others_block();
        EXPECT_FALSE(waited);
        box.put(1);
      });
    });
    EXPECT_TRUE(waited);
  });
}

// ────────────────────────────────────────────────────────────────────────────────────────────────

TEST(Wait, SettleThatHadNotCompletedLetsCancellationPass) {
  everywhere([] {
    CancelScope scope{Fiber::current().scope};
    const Entered entered{Fiber::current(), scope};
    Box kernel;
    Box::Take owned{kernel};
    owned.on_publish = [&] { scope.cancel(); };
    EXPECT_THROW(wait(owned), Cancelled);
    EXPECT_EQ(owned.settles, 1);
  });
}

TEST(Wait, SettleMayParkShielded) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Event completion;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        Box kernel;
        Box::Take owned{kernel};
        owned.on_settle = [&] {
          auto last_word = completion.on_set();
          wait_shielded(last_word);
          return true;
        };
        EXPECT_NO_THROW(wait(owned));
        EXPECT_TRUE(completion.is_set());
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        let_others_block();
        completion.set();
      });
    });
  });
}

TEST(Wait, ADeadlockIsThrownAfterUnpublishing) {
  SimIo io;
  EXPECT_THROW(io.run([] {
    Box a, b;
    Box::Take take_a{a}, take_b{b};
    try {
      static_cast<void>(wait_any(take_a, take_b));
    } catch (const Deadlock&) {
      EXPECT_FALSE(take_a.is_linked());
      EXPECT_FALSE(take_b.is_linked());
      a.put(1);
      wait(take_a);
      EXPECT_EQ(take_a.got, 1) << "the fiber goes on as before";
      throw;
    }
  }),
               Deadlock);
}

// ── exceptions and parks ────────────────────────────────────────────────────────────────────────

TEST(Wait, AParkInsideCatchKeepsItsException) {
  on_both_engines([] {
    constexpr int kFibers = 20;
    int right = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kFibers; ++i)
        n.spawn([&right, i] {
          try {
            throw i;
          } catch (int) {
            sleep_for(1us);
            this_fiber::yield();
            try {
              throw;
            } catch (int again) {
              right += again == i;
            }
          }
        });
    });
    EXPECT_EQ(right, kFibers);
  });
}

TEST(Wait, AParkDuringUnwindingIsNotCancelled) {
  on_both_engines([] {
    CancelScope scope{Fiber::current().scope};
    Box box;
    bool waited = false;
    struct Cleanup {
      Box& box;
      bool& waited;
      ~Cleanup() {
        EXPECT_EQ(std::uncaught_exceptions(), 1);
        Box::Take take{box};
        wait(take);  // would terminate the program if it threw
        this_fiber::yield();
        this_fiber::checkpoint();
        EXPECT_EQ(std::uncaught_exceptions(), 1);
        waited = true;
      }
    };
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        try {
          const Cleanup cleanup{box, waited};
          throw std::runtime_error{"first"};
        } catch (const std::runtime_error&) {
          EXPECT_THROW(this_fiber::checkpoint(), Cancelled) << "now it may be raised";
        }
      });
      n.spawn([&] {
        let_others_block();
        scope.cancel();
        let_others_block();
        EXPECT_FALSE(waited);
        box.put(1);
      });
    });
    EXPECT_TRUE(waited);
  });
}

}  // namespace
}  // namespace weft
