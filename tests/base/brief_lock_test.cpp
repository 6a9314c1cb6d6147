#include <weft/base/sync.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using testing::scaled;

TEST(BriefLock, IsOneFutexWord) { EXPECT_EQ(sizeof(Lock), sizeof(std::uint32_t)); }

TEST(BriefLock, TryLockFailsWhileHeldAndOnlyThen) {
  Lock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  std::thread{[&] { EXPECT_FALSE(lock.try_lock()); }}.join();
  lock.unlock();
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(BriefLock, ExcludesManyThreadsFromPlainData) {
  constexpr int kThreads = 4;
  const int rounds = scaled(50'000);
  Lock lock;
  std::int64_t count = 0;  // plain: a thread sanitizer sees every missing order
  int inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        const Locked locked{lock};
        EXPECT_EQ(++inside, 1);
        ++count;
        --inside;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, std::int64_t{kThreads} * rounds);
}

// The holder keeps the lock until all the others have tried it long enough to go to sleep; each
// unlock then has to wake one, or the test never ends.
TEST(BriefLock, WakesEverySleeper) {
  constexpr int kThreads = 6;
  for (int round = 0; round < scaled(200) + 1; ++round) {
    Lock lock;
    std::atomic<int> arrived{0};
    int count = 0;
    lock.lock();
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        arrived.fetch_add(1);
        const Locked locked{lock};
        ++count;
      });
    while (arrived.load() != kThreads) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(count, kThreads);
  }
}

// unlock()'s exchange is the last touch: whoever gets the lock next may free the object.
TEST(BriefLock, ObjectMayDieAsSoonAsTheNextHolderHasIt) {
  struct Guarded {
    Lock lock;
    int owners = 2;
  };
  for (int round = 0; round < scaled(3'000) + 1; ++round) {
    auto* const object = new Guarded;
    const auto leave = [object] {
      object->lock.lock();
      const bool last = --object->owners == 0;
      object->lock.unlock();
      if (last) delete object;
    };
    std::thread other{leave};
    leave();
    other.join();
  }
}

TEST(Sync, SleepReturnsAtOnceWhenTheWordHasChanged) {
  Atomic<std::uint32_t> narrow{5};
  Sync::sleep(narrow, 4);  // a lost comparison would sleep for ever
  Atomic<std::uint64_t> wide{5};
  Sync::sleep(wide, 4);
  EXPECT_EQ(narrow.load(), 5U);
  EXPECT_EQ(wide.load(), 5U);
}

TEST(Sync, SleepEndsWhenItsTimeoutElapses) {
  Atomic<std::uint32_t> word{0};
  const std::timespec moment{0, 1'000'000};
  Sync::sleep(word, 0, &moment);  // nobody wakes it
  EXPECT_EQ(word.load(), 0U);
}

TEST(Sync, WakeReachesASleeper) {
  Atomic<std::uint32_t> word{0};
  std::thread sleeper{[&] {
    while (word.load(std::memory_order_acquire) == 0) Sync::sleep(word, 0);
  }};
  word.store(1, std::memory_order_release);
  Sync::wake(word, ~0U);
  sleeper.join();
  EXPECT_EQ(word.load(), 1U);
}

TEST(Sync, SleepAndWakeLeaveErrnoAlone) {
  Atomic<std::uint32_t> word{1};
  errno = 77;
  Sync::sleep(word, 0);
  Sync::wake(word, 1);
  EXPECT_EQ(errno, 77);
}

}  // namespace
}  // namespace weft
