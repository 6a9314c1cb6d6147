#include <weft/base/biased_lock.hpp>
#include <weft/base/sync.hpp>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using testing::scaled;
using Taker = LockTaker<Sync>;
using TheLock = BiasedLock<Sync>;

// Far from those that engines in this process have.
constexpr std::uint16_t kMark = kLockMarks - 1;

bool is_inside(std::uint16_t mark, const TheLock& lock) {
  return lock_seats<Sync>[mark].inside.load() == &lock;
}

void take_often(TheLock& lock, Taker& me, unsigned times) {
  for (unsigned i = 0; i < times; ++i) {
    lock.lock(me);
    lock.unlock(me);
  }
}

bool is_favoured(TheLock& lock, Taker& me) {
  lock.lock(me);
  const bool inside = is_inside(me.mark(), lock);
  lock.unlock(me);
  EXPECT_FALSE(is_inside(me.mark(), lock));
  return inside;
}

TEST(BiasedLock, FavoursWhoTakesItAgainAndAgain) {
  TheLock lock;
  Taker me{kMark};
  EXPECT_FALSE(is_favoured(lock, me));
  take_often(lock, me, Taker::kLookMost);
  EXPECT_FALSE(is_favoured(lock, me)) << "met once";
  take_often(lock, me, Taker::kLookMost);
  EXPECT_TRUE(is_favoured(lock, me));
}

TEST(BiasedLock, FavoursNobodyWithoutAMark) {
  TheLock lock;
  Taker me;
  take_often(lock, me, 10 * Taker::kLookMost);
  EXPECT_FALSE(is_favoured(lock, me));
}

TEST(BiasedLock, FavoursNobodyWhileTwoCome) {
  TheLock lock;
  Taker me{kMark};
  Taker other;
  for (unsigned i = 0; i < 10 * Taker::kLookMost; ++i) {
    take_often(lock, me, 1);
    take_often(lock, other, 1);
  }
  EXPECT_FALSE(is_favoured(lock, me));
}

TEST(BiasedLock, EndsItsFavourWhenAnotherComes) {
  TheLock lock;
  Taker me{kMark};
  take_often(lock, me, 3 * Taker::kLookMost);
  ASSERT_TRUE(is_favoured(lock, me));
  Taker other;
  take_often(lock, other, 1);
  EXPECT_FALSE(is_favoured(lock, me));
}

// Where all is calm, it forgets what it regretted.
TEST(BiasedLock, LooksMoreOftenAgainWhenNothingIsRegretted) {
  Taker me{kMark};
  Taker other;
  const auto taken_until_favoured = [&](TheLock& lock) {
    unsigned taken = 0;
    while (!is_favoured(lock, me)) ++taken;
    return taken;
  };
  TheLock first;
  taken_until_favoured(first);
  take_often(first, other, 1);  // a regret
  TheLock second;
  const unsigned after_one = taken_until_favoured(second);
  EXPECT_GT(after_one, 3 * Taker::kLookMost);
  for (unsigned i = 0; i < 4 * 5'000 * Taker::kLookMost; ++i) {
    TheLock anew;  // none is met twice, none favours
    take_often(anew, me, 1);
  }
  TheLock third;
  EXPECT_LT(taken_until_favoured(third), after_one);
}

// Each time that a favour was ended, the next one comes later.
TEST(BiasedLock, RegretsAFavourThatWasEnded) {
  TheLock lock;
  Taker me{kMark};
  Taker other;
  unsigned last = 0;
  for (int round = 0; round < 4; ++round) {
    unsigned taken = 0;
    while (!is_favoured(lock, me)) ++taken;
    EXPECT_GT(taken, last);
    last = taken;
    take_often(lock, other, 1);
  }
  EXPECT_GT(last, 4 * Taker::kLookMost);
}

TEST(BiasedLock, InsideOneAnotherIsTakenAsByAnybody) {
  TheLock outer, inner;
  Taker me{kMark};
  take_often(outer, me, 3 * Taker::kLookMost);
  take_often(inner, me, 3 * Taker::kLookMost);
  ASSERT_TRUE(is_favoured(outer, me));
  ASSERT_TRUE(is_favoured(inner, me));
  outer.lock(me);
  inner.lock(me);
  EXPECT_TRUE(is_inside(kMark, outer));
  inner.unlock(me);
  EXPECT_TRUE(is_inside(kMark, outer));
  outer.unlock(me);
  EXPECT_FALSE(is_favoured(inner, me)) << "it was somebody's without a favour";
  EXPECT_TRUE(is_favoured(outer, me));
  take_often(inner, me, 2 * Taker::kLookMost);
  EXPECT_TRUE(is_favoured(inner, me)) << "nothing to regret: nobody else came";
}

// Who comes waits until the favoured one is out.
TEST(BiasedLock, WaitsForWhoIsInside) {
  TheLock lock;
  Taker me{kMark};
  take_often(lock, me, 3 * Taker::kLookMost);
  lock.lock(me);
  ASSERT_TRUE(is_inside(kMark, lock));
  std::atomic<bool> in{false};
  std::atomic<bool> about{false};
  std::thread other{[&] {
    Taker stranger;
    about.store(true);
    lock.lock(stranger);
    in.store(true);
    lock.unlock(stranger);
  }};
  while (!about.load()) std::this_thread::yield();
  for (int i = 0; i < 2'000; ++i) {
    std::this_thread::yield();
    ASSERT_FALSE(in.load());
  }
  lock.unlock(me);
  other.join();
  EXPECT_TRUE(in.load());
}

// One comes all the time and is favoured again and again; the others end that now and then.
TEST(BiasedLock, ExcludesManyThreadsFromPlainData) {
  constexpr unsigned kThreads = 4;
  const int rounds = scaled(200'000);
  TheLock lock;
  std::int64_t count = 0;  // plain: a thread sanitizer sees every missing order
  int inside = 0;
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> taken{0};
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      Taker me{static_cast<std::uint16_t>(kMark - i), 1 + i};
      const int mine = i == 0 ? rounds : rounds / 1000 + 1;
      for (int round = 0; round < mine; ++round) {
        lock.lock(me);
        EXPECT_EQ(++inside, 1);
        ++count;
        --inside;
        lock.unlock(me);
        if (i != 0) std::this_thread::yield();
      }
      taken.fetch_add(mine);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, taken.load());
}

// A channel that one worker has to itself, and then a thread outside takes part.
TEST(BiasedLock, AChannelOfAWorkerAndAThread) {
  const int items = scaled(100'000);
  Channel<int> in{16};
  Channel<int> out{16};
  std::int64_t sum = 0;
  std::thread outside{[&, rx = std::move(out.rx)] {
    for (const int v : rx) sum += v;
  }};
  FiberIo{{.workers = 2}}.run([&] {
    nursery([&](Nursery& n) {
      n.spawn([&, tx = std::move(in.tx)] {
        for (int i = 1; i <= items; ++i)
          if (!tx.send(int{i})) return;
      });
      n.spawn([&, rx = std::move(in.rx), tx = std::move(out.tx)] {
        for (int i = 0; const int v : rx)  // most of it stays here
          if (++i % 64 == 0 ? !tx.send(int{v}) : false) return;
      });
    });
  });
  outside.join();
  std::int64_t expected = 0;
  for (std::int64_t i = 64; i <= items; i += 64) expected += i;
  EXPECT_EQ(sum, expected);
}

}  // namespace
}  // namespace weft
