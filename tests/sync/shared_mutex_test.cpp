#include <weft/shared_mutex.hpp>

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
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
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

TEST(SharedMutex, ManyReadersOrOneWriter) {
  SharedMutex mutex;
  mutex.lock_shared();
  EXPECT_TRUE(mutex.try_lock_shared());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock_shared();
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock_shared();
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock_shared());
  mutex.unlock();
  mutex.lock();
  mutex.unlock();
}

TEST(SharedMutex, WorksWithTheStandardLocks) {
  on_both_engines([] {
    SharedMutex mutex;
    {
      const std::shared_lock one{mutex};
      const std::shared_lock two{mutex, 0s};
      EXPECT_TRUE(two.owns_lock());
      const std::unique_lock writer{mutex, std::try_to_lock};
      EXPECT_FALSE(writer.owns_lock());
    }
    const std::unique_lock writer{mutex, 1s};
    EXPECT_TRUE(writer.owns_lock());
    std::shared_lock reader{mutex, std::defer_lock};
    EXPECT_FALSE(reader.try_lock());
  });
}

TEST(SharedMutex, ReadersSeeWholeWrites) {
  const auto body = [] {
    SharedMutex mutex;
    int a = 0;
    int b = 0;
    std::atomic<int> inside{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          for (int k = 0; k < 20; ++k) {
            const std::unique_lock lock{mutex};
            EXPECT_EQ(inside.load(), 0);
            ++a;
            this_fiber::yield();
            ++b;
          }
        });
      for (int i = 0; i < 5; ++i)
        n.spawn([&] {
          for (int k = 0; k < 30; ++k) {
            const std::shared_lock lock{mutex};
            ++inside;
            EXPECT_EQ(a, b);
            this_fiber::yield();
            EXPECT_EQ(a, b);
            --inside;
          }
        });
    });
    EXPECT_EQ(a, 60);
    EXPECT_EQ(b, 60);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(SharedMutex, AWriterIsNotStarvedByReaders) {
  on_both_engines([] {
    SharedMutex mutex;
    bool written = false;
    int rounds = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([&] {  // there is always a reader inside
          while (!written && rounds < 10'000) {
            const std::shared_lock lock{mutex};
            ++rounds;
            this_fiber::yield();
          }
        });
      n.spawn([&] {
        for (int i = 0; i < 5; ++i) this_fiber::yield();
        const std::unique_lock lock{mutex};
        written = true;
      });
    });
    EXPECT_TRUE(written);
    EXPECT_LT(rounds, 1'000);
  });
}

TEST(SharedMutex, InOrderOfArrivalReadersTogether) {
  on_workers({1U}, [] {
    SharedMutex mutex;
    std::vector<std::string> order;
    Event go;
    mutex.lock();
    nursery([&](Nursery& n) {
      const auto reader = [&](const char* name) {
        n.spawn([&, name] {
          const std::shared_lock lock{mutex};
          order.emplace_back(name);
          go.wait();
        });
        let_others_block();
      };
      reader("r1");
      reader("r2");
      n.spawn([&] {
        const std::unique_lock lock{mutex};
        order.emplace_back("w");
      });
      let_others_block();
      reader("r3");
      mutex.unlock();
      let_others_block();
      EXPECT_THAT(order, ElementsAre("r1", "r2")) << "r3 came after the writer";
      EXPECT_FALSE(mutex.try_lock_shared()) << "and so do we";
      go.set();
    });
    EXPECT_THAT(order, ElementsAre("r1", "r2", "w", "r3"));
  });
}

TEST(SharedMutex, LockIsNoCancelPointTimedFormsAre) {
  on_both_engines([] {
    SharedMutex mutex;
    CancelScope scope{Fiber::current().scope};
    int locked = 0;
    int refused = 0;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        const std::unique_lock lock{mutex};
        ++locked;
      });
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        const std::shared_lock lock{mutex};
        ++locked;
      });
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(static_cast<void>(mutex.try_lock_for(1h)), Cancelled);
        EXPECT_THROW(static_cast<void>(mutex.try_lock_shared_for(1h)), Cancelled);
        EXPECT_FALSE(mutex.try_lock_for(1h, no_throw));
        EXPECT_FALSE(mutex.try_lock_shared_for(1h, no_throw));
        ++refused;
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      EXPECT_EQ(locked, 0);
      EXPECT_EQ(refused, 1);
      mutex.unlock();
    });
    EXPECT_EQ(locked, 2);
  });
}

TEST(SharedMutex, TimedFormsTryOnceAndWaitAsLongAsTold) {
  on_seeds([] {
    SharedMutex mutex;
    EXPECT_TRUE(mutex.try_lock_for(-1s));
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const Instant before = Clock::now();
        EXPECT_FALSE(mutex.try_lock_shared_for(0s));
        EXPECT_FALSE(mutex.try_lock_shared_for(3ms));
        EXPECT_FALSE(mutex.try_lock_until(before + 5ms));
        EXPECT_FALSE(mutex.try_lock_until(before + 6ms, no_throw));
        EXPECT_EQ(Clock::now() - before, 6ms);
        EXPECT_TRUE(mutex.try_lock_shared_until(before + 1h, no_throw));
        EXPECT_EQ(Clock::now() - before, 10ms);
        mutex.unlock_shared();
      });
      settle();
      sleep_for(10ms);
      mutex.unlock();
    });
    testing::expect_no_timer_left();
  }, 30);
}

TEST(SharedMutex, AWriterThatGivesUpLetsTheReadersBehindItGo) {
  on_seeds([] {
    SharedMutex mutex;
    const std::shared_lock first{mutex};
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_FALSE(mutex.try_lock_for(5ms)); });
      settle();
      n.spawn([&] {
        const Instant before = Clock::now();
        const std::shared_lock lock{mutex};
        EXPECT_EQ(Clock::now() - before, 5ms);
      });
    });
  }, 30);
}

TEST(SharedMutex, AsArms) {
  on_both_engines([] {
    SharedMutex mutex;
    Event event;
    int handled = 0;
    mutex.lock();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto write = mutex.on_lock([&] { handled += 10; });
        auto read = mutex.on_lock_shared([&] { ++handled; });
        auto set = event.on_set();
        Waitable* const arms[] = {&write, &read, &set};
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}), 2U);
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}.first(2)), 0U);
        run_handler(write);
        mutex.unlock();
        auto plain = mutex.on_lock_shared();
        wait(plain);
        EXPECT_TRUE(mutex.try_lock_shared());
        mutex.unlock_shared();
        mutex.unlock_shared();
        EXPECT_EQ(wait(std::span<Waitable* const>{arms}.subspan(1, 1)), 0U);
        run_handler(read);
        mutex.unlock_shared();
        auto writer = mutex.on_lock();
        wait(writer);
        mutex.unlock();
      });
      let_others_block();
      event.set();
      let_others_block();
      mutex.unlock();
    });
    EXPECT_EQ(handled, 11);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
}

TEST(SharedMutex, CancelsStrandNobody) {
  everywhere([] {
    SharedMutex mutex;
    std::atomic<int> done{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i)
        n.spawn([&, i] {
          for (int k = 0; k < 15; ++k) {
            const auto brief = std::chrono::microseconds{k % 4};
            if (i % 2 ? mutex.try_lock_for(brief) : mutex.try_lock_shared_for(brief)) {
              this_fiber::yield();
              i % 2 ? mutex.unlock() : mutex.unlock_shared();
            }
            const std::shared_lock lock{mutex};
            this_fiber::yield();
          }
          ++done;
        });
    });
    EXPECT_EQ(done.load(), 6);
  });
}

TEST(SharedMutex, RelockingByTheWriterIsReported) {
  on_both_engines([] {
    SharedMutex mutex;
    const std::unique_lock lock{mutex};
    EXPECT_THROW(mutex.lock(), std::system_error);
    EXPECT_THROW(mutex.lock_shared(), std::system_error);
    EXPECT_THROW(static_cast<void>(mutex.try_lock_shared_for(1s)), std::system_error);
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_shared());
  });
}

TEST(SharedMutexDeathTest, UnlockByAStrangerStopsACheckedBuild) {
  if (!spec::kSpecAssert) GTEST_SKIP() << "a build without checks";
  SharedMutex mutex;
  EXPECT_DEATH(mutex.unlock(), "no shared mutex edge without a writer -> free by unlock");
  EXPECT_DEATH(mutex.unlock_shared(), "without a reader");
}

TEST(SharedMutex, IsNamedInReportsWithItsWriter) {
  const std::string text = testing::text_of<Deadlock>([] {
    SharedMutex mutex{"table"};
    SimIo{}.run([&] {
      Event never;
      nursery([&](Nursery& n) {
        n.spawn("writer", [&] {
          const std::unique_lock lock{mutex};
          never.wait();
        });
        settle();
        n.spawn("reader", [&] { const std::shared_lock lock{mutex}; });
        n.spawn("other", [&] { const std::unique_lock lock{mutex}; });
      });
    });
  });
  EXPECT_THAT(text, HasSubstr("on shared mutex read (held by #2 \"writer\") \"table\""));
  EXPECT_THAT(text, HasSubstr("on shared mutex lock (held by #2 \"writer\") \"table\""));
}

TEST(SharedMutex, AmongThreadsAndFibers) {
  SharedMutex mutex;
  long sum = 0;
  const auto use = [&] {
    for (int k = 0; k < 200; ++k) {
      if (k % 2) {
        const std::unique_lock lock{mutex};
        ++sum;
      } else {
        const std::shared_lock lock{mutex};
        EXPECT_GE(sum, 0);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(use);
  FiberIo{{.workers = 2}}.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i) n.spawn(use);
    });
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 700);
}

TEST(SharedMutex, MayDieWhileTheUnlockBeforeIsStillReturning) {
  on_workers({1U, 2U, 4U}, [] {
    for (int round = 0; round < 100; ++round) {
      auto mutex = std::make_unique<SharedMutex>();
      SharedMutex* const at = mutex.get();
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

}  // namespace
}  // namespace weft
