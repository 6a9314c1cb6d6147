#include <weft/mutex.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/inspect.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;
using testing::simulated;
using testing::text_of;

TEST(Mutex, IsLockableFromAPlainThread) {
  Mutex mutex;
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock()) << "not recursive";
  std::thread{[&] { EXPECT_FALSE(mutex.try_lock()); }}.join();
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_for(0ms));
  mutex.unlock();
}

TEST(Mutex, WorksWithTheStandardLocks) {
  on_both_engines([] {
    Mutex a, b;
    {
      const std::lock_guard lock{a};
      EXPECT_FALSE(a.try_lock());
    }
    {
      const std::scoped_lock lock{a, b};
      EXPECT_FALSE(a.try_lock());
      EXPECT_FALSE(b.try_lock());
    }
    std::unique_lock lock{a, std::defer_lock};
    EXPECT_TRUE(lock.try_lock_for(1ms));
    lock.unlock();
    EXPECT_TRUE(lock.try_lock_until(Clock::now()));
    lock.unlock();
    const std::unique_lock adopted{b, std::try_to_lock};
    EXPECT_TRUE(adopted.owns_lock());
  });
}

// ── one at a time ───────────────────────────────────────────────────────────────────────────────

// Plain data: sanitizers and the sum notice two holders.
void count_together(int fibers, int rounds, bool park_inside) {
  Mutex mutex;
  long sum = 0;
  bool inside = false;
  nursery([&](Nursery& n) {
    for (int i = 0; i < fibers; ++i)
      n.spawn([&, park_inside] {
        for (int k = 0; k < rounds; ++k) {
          const std::scoped_lock lock{mutex};
          EXPECT_FALSE(inside);
          inside = true;
          if (park_inside && k % 4 == 0) this_fiber::yield();
          ++sum;
          inside = false;
        }
      });
  });
  EXPECT_EQ(sum, long{fibers} * rounds);
}

TEST(Mutex, OneAtATimeOnRealWorkers) {
  on_workers({1U, 2U, 4U, 16U}, [] {
    count_together(8, 500, false);
    count_together(8, 200, true);
  });
}

TEST(Mutex, OneAtATimeOnOneThread) {
  on_seeds([] { count_together(6, 12, true); });
  testing::on_blocking([] { count_together(6, 12, true); });
}

TEST(Mutex, OneAtATimeAmongThreadsAndFibers) {
  Mutex mutex;
  long sum = 0;
  const auto add = [&] {
    for (int k = 0; k < 300; ++k) {
      const std::scoped_lock lock{mutex};
      ++sum;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(add);
  FiberIo{{.workers = 2}}.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) n.spawn(add);
    });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 8 * 300);
}

TEST(Mutex, AThreadWaitsForAFiber) {
  Mutex mutex;
  std::atomic<bool> held{false};
  int data = 0;
  std::thread thread;
  FiberIo{{.workers = 1}}.run([&] {
    const std::scoped_lock lock{mutex};
    thread = std::thread{[&] {
      held.wait(false);
      const std::scoped_lock late{mutex};
      EXPECT_EQ(data, 1);
    }};
    held = true;
    held.notify_one();
    for (int i = 0; i < 1'000; ++i) this_fiber::yield();
    data = 1;
  });
  thread.join();
}

TEST(Mutex, IsHeldOverAWait) {
  on_seeds([] {
    Mutex mutex;
    std::vector<int> order;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const std::scoped_lock lock{mutex};
        settle();
        sleep_for(1h);
        order.push_back(1);
      });
      n.spawn([&] {
        settle();
        const std::scoped_lock lock{mutex};
        order.push_back(2);
        EXPECT_GE(Clock::now(), Instant{} + 1h);
      });
    });
    EXPECT_THAT(order, ElementsAre(1, 2));
  }, 30);
}

// ── fairness ────────────────────────────────────────────────────────────────────────────────────

TEST(Mutex, AHolderThatLocksAgainAtOnceStarvesNobody) {
  on_both_engines([] {
    Mutex mutex;
    bool served = false;
    int rounds = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!served && rounds < 10'000) {
          const std::scoped_lock lock{mutex};
          ++rounds;
          this_fiber::yield();
        }
      });
      n.spawn([&] {
        this_fiber::yield();
        const std::scoped_lock lock{mutex};
        served = true;
      });
    });
    EXPECT_TRUE(served);
    EXPECT_LT(rounds, 1'000);
  });
}

TEST(Mutex, WhoLostOnceIsNext) {
  FiberIo{{.workers = 1}}.run([] {
    Mutex mutex;
    std::vector<char> order;
    mutex.lock();
    nursery([&](Nursery& n) {
      const auto wants = [&](char name) {
        n.spawn([&, name] {
          const std::scoped_lock lock{mutex};
          order.push_back(name);
        });
        let_others_block();  // it waits
      };
      wants('a');
      wants('b');
      mutex.unlock();  // wakes a
      EXPECT_TRUE(mutex.try_lock()) << "a has to compete";
      wants('c');  // a runs, too, and finds it taken
      EXPECT_TRUE(order.empty());
      mutex.unlock();  // hands it over to a
      EXPECT_FALSE(mutex.try_lock()) << "it is a's";
    });
    EXPECT_THAT(order, ElementsAre('a', 'b', 'c'));
  });
}

TEST(Mutex, ManyHoldersOverAYieldShareAlike) {
  constexpr int kFibers = 16;
  FiberIo{{.workers = 1}}.run([] {
    Mutex mutex;
    std::vector<int> turns(kFibers);
    int total = 0;
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < turns.size(); ++i)
        n.spawn([&, i] {
          while (total < 4'000) {
            const std::scoped_lock lock{mutex};
            ++total;
            ++turns[i];
            this_fiber::yield();
          }
        });
    });
    for (const int count : turns) EXPECT_GT(count, 4'000 / kFibers / 4);
  });
}

TEST(Mutex, TwoMutexesTakenInOppositeOrders) {
  everywhere([] {
    Mutex a, b;
    int sum = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 50; ++k) {
            std::unique_lock first{i % 2 ? a : b, std::defer_lock};
            std::unique_lock second{i % 2 ? b : a, std::defer_lock};
            std::lock(first, second);
            ++sum;
            if (k % 3 == 0) this_fiber::yield();
          }
        });
      n.spawn([&] {
        for (int k = 0; k < 50; ++k) {
          const std::scoped_lock both{a, b};
          ++sum;
          this_fiber::yield();
        }
      });
    });
    EXPECT_EQ(sum, 5 * 50);
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST(Mutex, LockIsNoCancelPoint) {
  on_both_engines([] {
    Mutex mutex;
    bool locked = false;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const bool finished = cancel_scope([&](CancelScope& scope) {
          scope.cancel();
          mutex.lock();
          locked = true;
          mutex.unlock();
          EXPECT_TRUE(mutex.try_lock());
          mutex.unlock();
          this_fiber::checkpoint();
        });
        EXPECT_FALSE(finished) << "the cancel is still there";
      });
      let_others_block();
      EXPECT_FALSE(locked);
      mutex.unlock();
    });
    EXPECT_TRUE(locked);
  });
}

TEST(Mutex, ACancelThatComesWhileItWaitsIsPutOff) {
  on_both_engines([] {
    Mutex mutex;
    CancelScope scope{Fiber::current().scope};
    bool locked = false;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        this_fiber::yield();
        mutex.lock();
        locked = true;
        mutex.unlock();
        EXPECT_THROW(this_fiber::yield(), Cancelled);
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      EXPECT_FALSE(locked);
      mutex.unlock();
    });
    EXPECT_TRUE(locked);
  });
}

TEST(Mutex, TimedFormsAreCancelPoints) {
  on_both_engines([] {
    Mutex mutex;
    CancelScope scope{Fiber::current().scope};
    int ended = 0;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(static_cast<void>(mutex.try_lock_for(1h)), Cancelled);
        ++ended;
      });
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_FALSE(mutex.try_lock_for(1h, no_throw));
        ++ended;
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      EXPECT_EQ(ended, 2);
      mutex.unlock();
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(static_cast<void>(mutex.try_lock_for(1h)), Cancelled) << "though it is free";
        EXPECT_THROW(static_cast<void>(mutex.try_lock_until(Instant::max())), Cancelled);
        EXPECT_FALSE(mutex.try_lock_until(Instant::max(), no_throw));
        EXPECT_TRUE(mutex.try_lock()) << "which does not look";
        mutex.unlock();
      });
    });
    EXPECT_TRUE(mutex.try_lock()) << "nobody has kept it";
    mutex.unlock();
  });
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

TEST(Mutex, TimedFormsTryOnceEvenWhenTimeIsOver) {
  on_both_engines([] {
    Mutex mutex;
    EXPECT_TRUE(mutex.try_lock_for(-1s));
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_FALSE(mutex.try_lock_for(0s));
        EXPECT_FALSE(mutex.try_lock_for(-1s, no_throw));
        EXPECT_FALSE(mutex.try_lock_until(Instant::min()));
      });
    });
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock_until(Instant::min()));
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock_for(0s, no_throw));
    mutex.unlock();
  });
}

TEST(Mutex, ATimedLockWaitsAsLongAsItWasTold) {
  on_seeds([] {
    Mutex mutex;
    nursery([&](Nursery& n) {
      mutex.lock();
      n.spawn([&] {
        const Instant before = Clock::now();
        EXPECT_FALSE(mutex.try_lock_for(20ms));
        EXPECT_EQ(Clock::now() - before, 20ms);
        EXPECT_TRUE(mutex.try_lock_for(1h, no_throw));
        EXPECT_EQ(Clock::now() - before, 50ms) << "no longer than need be";
        mutex.unlock();
      });
      settle();
      sleep_for(50ms);
      mutex.unlock();
    });
    testing::expect_no_timer_left();
  }, 30);
}

// A waiter that gives up must not take a wake with it.
TEST(Mutex, TimedLocksThatGiveUpStrandNobody) {
  everywhere([] {
    Mutex mutex;
    std::atomic<int> locked{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 20; ++k) {
            if (i % 2) mutex.lock();
            else if (!mutex.try_lock_for(std::chrono::microseconds{k % 4})) continue;
            ++locked;
            this_fiber::yield();
            if (simulated() && k % 5 == 0) sleep_for(2us);
            mutex.unlock();
          }
        });
    });
    EXPECT_GE(locked.load(), 4 * 20);
  });
}

// ── as an arm ───────────────────────────────────────────────────────────────────────────────────

TEST(Mutex, AnArmThatWonHoldsIt) {
  on_both_engines([] {
    Mutex mutex;
    Event never;
    int handled = 0;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto set = never.on_set();
        auto lock = mutex.on_lock([&] { ++handled; });
        static_assert(Arm<decltype(lock)>);
        Waitable* const arms[] = {&set, &lock};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 1U);
        run_handler(lock);
        EXPECT_FALSE(mutex.try_lock());
        mutex.unlock();
      });
      let_others_block();
      mutex.unlock();
      EXPECT_FALSE(mutex.try_lock()) << "handed over: the select has chosen";
    });
    EXPECT_EQ(handled, 1);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

TEST(Mutex, AnArmThatLostLosesNothing) {
  on_both_engines([] {
    Mutex mutex;
    Event event;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto lock = mutex.on_lock();
        auto again = mutex.on_lock();
        auto set = event.on_set();
        Waitable* const arms[] = {&lock, &again, &set};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 2U);
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}.first(2)), 0U) << "it may wait again";
        mutex.unlock();
      });
      let_others_block();
      event.set();
      let_others_block();
      mutex.unlock();
    });
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

TEST(Mutex, ArmsAndCancelsStrandNobody) {
  everywhere([] {
    Mutex mutex;
    std::atomic<int> done{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 20; ++k) {
            static_cast<void>(timeout(std::chrono::microseconds{i + k % 3}, [&] {
              auto lock = mutex.on_lock();
              wait(lock);
              mutex.unlock();
            }));
            const std::scoped_lock lock{mutex};
            this_fiber::yield();
          }
          ++done;
        });
    });
    EXPECT_EQ(done.load(), 6);
  });
}

// ── mistakes and reports ────────────────────────────────────────────────────────────────────────

TEST(Mutex, RelockingByTheHolderIsReported) {
  on_both_engines([] {
    Mutex mutex;
    mutex.lock();
    const auto code_of = [](auto f) {
      try {
        f();
      } catch (const std::system_error& error) {
        return error.code();
      }
      return std::error_code{};
    };
    const auto expected = std::make_error_code(std::errc::resource_deadlock_would_occur);
    EXPECT_EQ(code_of([&] { mutex.lock(); }), expected);
    EXPECT_EQ(code_of([&] { static_cast<void>(mutex.try_lock_for(1s)); }), expected);
    EXPECT_EQ(code_of([&] { static_cast<void>(mutex.try_lock_for(1s, no_throw)); }), expected);
    EXPECT_EQ(code_of([&] {
                auto lock = mutex.on_lock();
                wait(lock);
              }),
              expected);
    EXPECT_FALSE(mutex.try_lock());
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock()) << "none the worse";
    mutex.unlock();
  });
}

TEST(MutexDeathTest, UnlockByAStrangerStopsACheckedBuild) {
  if (!spec::kSpecAssert) GTEST_SKIP() << "a build without checks";
  Mutex mutex;
  EXPECT_DEATH(mutex.unlock(), "no mutex edge free -> free by unlock");
}

TEST(Mutex, ReasonNamesTheMutexAndItsHolder) {
  SimIo io;
  const std::string text = io.run([&] {
    Mutex mutex{"accounts"};
    EXPECT_EQ(mutex.name().view(), "accounts");
    EXPECT_EQ(mutex.on_lock().reason().verb, "mutex lock");
    EXPECT_EQ(mutex.on_lock().reason().name, "accounts");
    EXPECT_EQ(mutex.on_lock().reason().object, &mutex);
    return nursery([&](Nursery& n) {
      n.spawn("holder", [&] {
        const std::scoped_lock lock{mutex};
        settle();
        sleep_for(1s);
      });
      settle();
      n.spawn("waiter", [&] { const std::scoped_lock lock{mutex}; });
      settle();
      std::ostringstream out;
      dump(io, out);
      return out.str();
    });
  });
  EXPECT_THAT(text, HasSubstr("#2 \"holder\" parked on timer"));
  EXPECT_THAT(text, HasSubstr(
      "#3 \"waiter\" parked on mutex lock (held by #2 \"holder\") \"accounts\""));
}

TEST(Mutex, ADeadlockReportNamesTheHolders) {
  const std::string text = text_of<Deadlock>([] {
    SimIo{}.run([] {
      Mutex left{"left"}, right{"right"};
      nursery([&](Nursery& n) {
        n.spawn("one", [&] {
          const std::scoped_lock first{left};
          settle();
          const std::scoped_lock second{right};
        });
        n.spawn("two", [&] {
          const std::scoped_lock first{right};
          settle();
          const std::scoped_lock second{left};
        });
      });
    });
  });
  EXPECT_THAT(text, HasSubstr("\"one\" on mutex lock (held by #3 \"two\") \"right\""));
  EXPECT_THAT(text, HasSubstr("\"two\" on mutex lock (held by #2 \"one\") \"left\""));
}

TEST(Mutex, AThreadThatHoldsItIsReportedAsSuch) {
  Mutex mutex;
  mutex.lock();
  FiberIo io{{.workers = 1}};
  std::atomic<bool> waits{false};
  std::thread other{[&] {
    io.run([&] {
      nursery([&](Nursery& n) {
        n.spawn("waiter", [&] { const std::scoped_lock lock{mutex}; });
        for (int i = 0; i < 100; ++i) this_fiber::yield();
        waits = true;
        waits.notify_one();
      });
    });
  }};
  waits.wait(false);
  for (std::string text; text.find("\"waiter\" parked on mutex lock (held by a thread)") ==
                         std::string::npos;) {
    std::ostringstream out;  // again, if the worker was kept from answering
    dump(io, out);
    text = out.str();
  }
  mutex.unlock();
  other.join();
}

// ── lifetime ────────────────────────────────────────────────────────────────────────────────────

TEST(Mutex, MayDieWhileTheUnlockBeforeIsStillReturning) {
  on_workers({1U, 2U, 4U, 16U}, [] {
    for (int round = 0; round < 200; ++round) {
      auto mutex = std::make_unique<Mutex>();
      Mutex* const at = mutex.get();
      std::atomic<int> left{2};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 2; ++i)
          n.spawn([&, at] {
            at->lock();
            const bool last = --left == 0;
            at->unlock();
            if (last) mutex.reset();
          });
      });
      EXPECT_EQ(mutex, nullptr);
    }
  });
}

TEST(Mutex, MayDieAmongThreads) {
  for (int round = 0; round < 200; ++round) {
    auto mutex = std::make_unique<Mutex>();
    const auto use = [at = mutex.get(), &mutex, left = std::make_shared<int>(2)] {
      at->lock();
      const bool last = --*left == 0;
      at->unlock();
      if (last) mutex.reset();
    };
    std::thread other{use};
    use();
    other.join();
    EXPECT_EQ(mutex, nullptr);
  }
}

}  // namespace
}  // namespace weft
