#include <weft/cond_var.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

void on_many_schedules(const std::function<void()>& f) {
  on_seeds(f);
  on_workers({1U, 2U, 4U, 16U}, f);
  testing::on_blocking(f);
}

TEST(CondVar, WaitsForACondition) {
  on_many_schedules([] {
    Mutex mutex;
    CondVar changed;
    int value = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::unique_lock lock{mutex};
        changed.wait(lock, [&] { return value == 3; });
        EXPECT_TRUE(lock.owns_lock());
        value = 4;
      });
      for (int i = 1; i <= 3; ++i) {
        {
          const std::scoped_lock lock{mutex};
          value = i;
        }
        changed.notify_one();
        this_fiber::yield();
      }
    });
    EXPECT_EQ(value, 4);
  });
}

TEST(CondVar, AConditionThatHoldsNeedsNoNotification) {
  on_both_engines([] {
    Mutex mutex;
    CondVar changed;
    std::unique_lock lock{mutex};
    changed.wait(lock, [] { return true; });
    EXPECT_TRUE(changed.wait(lock, [] { return true; }, no_throw));
    EXPECT_TRUE(changed.wait_for(lock, 0s, [] { return true; }));
    EXPECT_FALSE(changed.wait_for(lock, 0s, [] { return false; }));
    EXPECT_FALSE(changed.wait_for(lock, -1s, [] { return false; }, no_throw));
    EXPECT_TRUE(lock.owns_lock());
  });
}

TEST(CondVar, NotifyOneWakesTheFirstAndNotifyAllTheRest) {
  on_workers({1U}, [] {
    Mutex mutex;
    CondVar changed;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i) {
        n.spawn([&, i] {
          std::unique_lock lock{mutex};
          changed.wait(lock);
          order.push_back(i);
        });
        this_fiber::yield();
      }
      changed.notify_one();
      let_others_block();
      EXPECT_THAT(order, ElementsAre(0));
      changed.notify_all();
      let_others_block();
      EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
      changed.notify_one();
      changed.notify_all();
    });
  });
}

TEST(CondVar, ABoundedBufferLosesNothing) {
  on_many_schedules([] {
    constexpr int kItems = 60;
    Mutex mutex;
    CondVar not_full, not_empty;
    std::deque<int> buffer;
    long sum = 0;
    nursery([&](Nursery& n) {
      for (int k = 0; k < 3; ++k) {
        n.spawn([&] {
          for (int i = 1; i <= kItems; ++i) {
            std::unique_lock lock{mutex};
            not_full.wait(lock, [&] { return buffer.size() < 2; });
            buffer.push_back(i);
            not_empty.notify_one();
          }
        });
        n.spawn([&] {
          for (int i = 1; i <= kItems; ++i) {
            std::unique_lock lock{mutex};
            not_empty.wait(lock, [&] { return !buffer.empty(); });
            sum += buffer.front();
            buffer.pop_front();
            lock.unlock();
            not_full.notify_one();
          }
        });
      }
    });
    EXPECT_EQ(sum, 3L * kItems * (kItems + 1) / 2);
  });
}

TEST(CondVar, ACancelledWaitHoldsTheMutexAgain) {
  on_both_engines([] {
    Mutex mutex;
    CondVar changed;
    CancelScope scope{Fiber::current().scope};
    int ended = 0;
    nursery([&](Nursery& n) {
      const auto in_scope = [&](auto f) {
        n.spawn([&, f] {
          const Entered entered{Fiber::current(), scope};
          std::unique_lock lock{mutex};
          f(lock);
          EXPECT_TRUE(lock.owns_lock());
          EXPECT_FALSE(mutex.try_lock()) << "it is really held";
          ++ended;
        });
      };
      const auto never = [] { return false; };
      in_scope([&](auto& lock) { EXPECT_THROW(changed.wait(lock), Cancelled); });
      in_scope([&](auto& lock) { EXPECT_THROW(changed.wait(lock, never), Cancelled); });
      in_scope([&](auto& lock) { EXPECT_FALSE(changed.wait(lock, no_throw)); });
      in_scope([&](auto& lock) { EXPECT_FALSE(changed.wait(lock, never, no_throw)); });
      in_scope([&](auto& lock) {
        EXPECT_THROW(static_cast<void>(changed.wait_for(lock, 1h)), Cancelled);
      });
      in_scope([&](auto& lock) { EXPECT_FALSE(changed.wait_for(lock, 1h, no_throw)); });
      in_scope([&](auto& lock) { EXPECT_FALSE(changed.wait_for(lock, 1h, never, no_throw)); });
      let_others_block();
      EXPECT_EQ(ended, 0);
      EXPECT_TRUE(mutex.try_lock()) << "they have given it up";
      scope.cancel();
      let_others_block();
      EXPECT_EQ(ended, 0) << "each needs the mutex";
      mutex.unlock();
    });
    EXPECT_EQ(ended, 7);
  });
}

TEST(CondVar, InACancelledScopeTheMutexIsNotGivenUp) {
  on_both_engines([] {
    Mutex mutex;
    CondVar changed;
    bool intruder = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        static_cast<void>(cancel_scope([&](CancelScope& scope) {
          std::unique_lock lock{mutex};
          n.spawn([&] {
            const std::scoped_lock other{mutex};
            intruder = true;
          });
          scope.cancel();
          EXPECT_FALSE(changed.wait(lock, no_throw));
          EXPECT_THROW(changed.wait(lock), Cancelled);
          EXPECT_FALSE(intruder);
        }));
      });
    });
    EXPECT_TRUE(intruder);
  });
}

TEST(CondVar, TimedWaitsEndInTime) {
  on_seeds([] {
    Mutex mutex;
    CondVar changed;
    bool value = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::unique_lock lock{mutex};
        const Instant before = Clock::now();
        EXPECT_FALSE(changed.wait_for(lock, 5ms));
        EXPECT_EQ(Clock::now() - before, 5ms);
        EXPECT_FALSE(changed.wait_until(lock, before + 7ms, [&] { return value; }));
        EXPECT_EQ(Clock::now() - before, 7ms);
        EXPECT_TRUE(changed.wait_until(lock, before + 1h, [&] { return value; }, no_throw));
        EXPECT_EQ(Clock::now() - before, 10ms);
        EXPECT_FALSE(changed.wait_until(lock, before, no_throw));
      });
      settle();
      sleep_for(10ms);
      const std::scoped_lock lock{mutex};
      value = true;
      changed.notify_all();
    });
    testing::expect_no_timer_left();
  }, 30);
}

// Notifications are tokens here: each must reach a waiter that makes use of it.
TEST(CondVar, CancelsAndTimeoutsLoseNoNotification) {
  on_many_schedules([] {
    constexpr int kTokens = 40;
    Mutex mutex;
    CondVar came;
    int here = 0;
    int taken = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i)
        n.spawn([&, i] {
          for (;;) {
            std::unique_lock lock{mutex};
            const auto wakes = [&] { return here > 0 || taken == kTokens; };
            bool woken = false;
            if (i % 3 == 0) {
              came.wait(lock, wakes);
              woken = true;
            } else if (i % 3 == 1) {
              woken = came.wait_for(lock, 1us, wakes);
            } else {
              static_cast<void>(timeout(1us, [&] {
                came.wait(lock, wakes);
                woken = true;
              }));
            }
            if (taken == kTokens) break;
            if (!woken) {
              lock.unlock();
              sleep_for(1us);
              continue;
            }
            --here;
            if (++taken == kTokens) came.notify_all();
          }
        });
      for (int k = 0; k < kTokens; ++k) {
        {
          const std::scoped_lock lock{mutex};
          ++here;
        }
        came.notify_one();
        if (k % 4 == 0) sleep_for(1us);
      }
    });
    EXPECT_EQ(taken, kTokens);
    EXPECT_EQ(here, 0);
  });
}

TEST(CondVar, BetweenThreadsAndFibers) {
  Mutex mutex;
  CondVar changed;
  int turn = 0;
  const auto play = [&](int mine) {
    for (int i = 0; i < 300; ++i) {
      std::unique_lock lock{mutex};
      changed.wait(lock, [&] { return turn % 2 == mine; });
      ++turn;
      changed.notify_one();
    }
  };
  std::thread thread{[&] { play(1); }};
  FiberIo{{.workers = 2}}.run([&] { play(0); });
  thread.join();
  EXPECT_EQ(turn, 600);
  std::unique_lock lock{mutex};
  EXPECT_FALSE(changed.wait_for(lock, 1us)) << "on a plain thread, too";
}

TEST(CondVar, MayDieWhileTheNotifyIsStillReturning) {
  on_workers({1U, 2U, 4U}, [] {
    for (int round = 0; round < 100; ++round) {
      Mutex mutex;
      auto changed = std::make_unique<CondVar>();
      bool value = false;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          {
            std::unique_lock lock{mutex};
            changed->wait(lock, [&] { return value; });
          }
          changed.reset();
        });
        n.spawn([&, at = changed.get()] {
          const std::scoped_lock lock{mutex};
          value = true;
          at->notify_all();
        });
      });
    }
  });
}

TEST(CondVar, IsNamedInReports) {
  CondVar changed{"queue not empty"};
  Mutex mutex;
  EXPECT_THAT(
      [&] {
        SimIo{}.run([&] {
          std::unique_lock lock{mutex};
          changed.wait(lock);
        });
      },
      ::testing::ThrowsMessage<Deadlock>(
          ::testing::HasSubstr("on condition \"queue not empty\"")));
}

// Found in review: the wait left without the mutex, and its guard unlocked another fiber's.
TEST(CondVar, ADeadlockWhileLockingAgainLeavesWithTheMutex) {
  on_seeds([] {
    Mutex mutex;
    CondVar condition;
    Event never;
    bool ready = false;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.spawn([&] {
                     std::unique_lock lock{mutex};
                     while (!ready) condition.wait(lock);
                     EXPECT_TRUE(lock.owns_lock());
                     never.wait();
                   });
                   n.spawn([&] {
                     const std::scoped_lock lock{mutex};
                     ready = true;
                     condition.notify_one();
                     never.wait();
                   });
                 }),
                 Deadlock);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

}  // namespace
}  // namespace weft
