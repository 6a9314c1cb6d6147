#include "engine/local_queue.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/core/frame_pool.hpp>

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <vector>

#include <support/frames.hpp>

namespace weft::engine {
namespace {

using testing::Frames;

TEST(FreshQueue, TheNewestFromOneEndAndTheOldestFromTheOther) {
  Frames frames{5};
  FreshQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop_newest(), nullptr);
  EXPECT_EQ(queue.pop_oldest(), nullptr);
  for (std::size_t i = 0; i < 5; ++i) queue.push(frames[i]);
  EXPECT_EQ(queue.pop_newest(), &frames[4]);
  EXPECT_EQ(queue.pop_oldest(), &frames[0]);
  EXPECT_EQ(queue.pop_newest(), &frames[3]);
  EXPECT_EQ(queue.pop_oldest(), &frames[1]);
  EXPECT_EQ(queue.pop_oldest(), &frames[2]);
  EXPECT_TRUE(queue.empty());
}

TEST(FreshQueue, GrowsAsFarAsNeeded) {
  constexpr std::size_t kFibers = 50'000;
  Frames frames{kFibers};
  FreshQueue queue;
  for (std::size_t i = 0; i < kFibers; ++i) queue.push(frames[i]);
  for (std::size_t i = 0; i < kFibers / 2; ++i) {
    ASSERT_EQ(queue.pop_oldest(), &frames[i]);
    ASSERT_EQ(queue.pop_newest(), &frames[kFibers - 1 - i]);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(FreshQueue, AgreesWithADequeWhileItWrapsAndGrows) {
  Frames frames{2'000};
  FreshQueue queue;
  std::deque<Fiber*> expected;
  std::deque<Fiber*> idle;
  for (std::size_t i = 0; i < 2'000; ++i) idle.push_back(&frames[i]);
  std::mt19937 random{11};
  for (int step = 0; step < 100'000; ++step) {
    const bool grow = step / 10'000 % 2 == 0;  // waves
    if (!idle.empty() && random() % 10 < (grow ? 6U : 4U)) {
      queue.push(*idle.front());
      expected.push_back(idle.front());
      idle.pop_front();
    } else if (!expected.empty() && random() % 3 == 0) {
      ASSERT_EQ(queue.pop_oldest(), expected.front());
      idle.push_back(expected.front());
      expected.pop_front();
    } else if (!expected.empty()) {
      ASSERT_EQ(queue.pop_newest(), expected.back());
      idle.push_back(expected.back());
      expected.pop_back();
    }
    ASSERT_EQ(queue.empty(), expected.empty());
  }
}

// Thieves look at these from outside.
TEST(FreshQueue, LengthAndFirstFollowBothEnds) {
  Frames frames{4};
  FreshQueue queue;
  EXPECT_EQ(queue.length(), 0U);
  const std::uint64_t first = queue.first();
  for (std::size_t i = 0; i < 4; ++i) queue.push(frames[i]);
  EXPECT_EQ(queue.length(), 4U);
  EXPECT_EQ(queue.first(), first);
  static_cast<void>(queue.pop_newest());
  EXPECT_EQ(queue.length(), 3U);
  EXPECT_EQ(queue.first(), first) << "the oldest is still the same";
  static_cast<void>(queue.pop_oldest());
  EXPECT_EQ(queue.length(), 2U);
  EXPECT_NE(queue.first(), first);
}

TEST(FreshQueue, AFillingIsAStepFromEmptyToNotEmpty) {
  Frames frames{3};
  FreshQueue queue;
  const std::uint64_t before = queue.fillings();
  queue.push(frames[0]);
  EXPECT_EQ(queue.fillings(), before + 1);
  queue.push(frames[1]);
  static_cast<void>(queue.pop_newest());
  queue.push(frames[2]);
  EXPECT_EQ(queue.fillings(), before + 1) << "the oldest has been there all the time";
  static_cast<void>(queue.pop_newest());
  static_cast<void>(queue.pop_newest());
  EXPECT_EQ(queue.fillings(), before + 1);
  queue.push(frames[0]);
  EXPECT_EQ(queue.fillings(), before + 2) << "same position, another fiber";
}

TEST(FreshQueue, TheNewestOfAHome) {
  Frames frames{3};
  CancelScope home{nullptr}, stranger{nullptr};
  frames[0].scope = &home;
  frames[1].scope = &stranger;
  frames[2].scope = &home;
  FreshQueue queue;
  EXPECT_EQ(queue.pop_newest_of(home), nullptr) << "empty";
  for (std::size_t i = 0; i < 3; ++i) queue.push(frames[i]);
  EXPECT_EQ(queue.pop_newest_of(stranger), nullptr);
  EXPECT_EQ(queue.pop_newest_of(home), &frames[2]);
  EXPECT_EQ(queue.pop_newest_of(home), nullptr) << "there is one, but it is not the newest";
  EXPECT_EQ(queue.length(), 2U) << "and nothing was changed";
  EXPECT_EQ(queue.pop_newest_of(stranger), &frames[1]);
  EXPECT_EQ(queue.pop_newest_of(home), &frames[0]);
  EXPECT_TRUE(queue.empty());
  for (std::size_t i = 0; i < 3; ++i) frames[i].scope = nullptr;
}

TEST(ReadyQueue, PositionsCountUpForEver) {
  constexpr std::uint64_t kRing = 2'048;
  Frames frames{2};
  ReadyQueue queue;
  for (std::uint64_t i = 0; i < 3 * kRing; ++i) {
    ASSERT_EQ(queue.first(), i);
    ASSERT_EQ(queue.last(), i);
    queue.push(frames[i % 2]);
    ASSERT_EQ(queue.length(), 1U);
    ASSERT_EQ(queue.last(), i + 1);
    ASSERT_EQ(queue.pop(), &frames[i % 2]);
  }
}

TEST(ReadyQueue, IsFirstInFirstOut) {
  Frames frames{3};
  ReadyQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
  for (std::size_t i = 0; i < 3; ++i) queue.push(frames[i]);
  EXPECT_EQ(queue.pop(), &frames[0]);
  queue.push(frames[0]);
  EXPECT_EQ(queue.pop(), &frames[1]);
  EXPECT_EQ(queue.pop(), &frames[2]);
  EXPECT_EQ(queue.pop(), &frames[0]);
  EXPECT_TRUE(queue.empty());
}

TEST(ReadyQueue, KeepsItsOrderBeyondTheRing) {
  constexpr std::size_t kFibers = 10'000;  // the ring has 2,048 places
  Frames frames{kFibers};
  ReadyQueue queue;
  for (std::size_t i = 0; i < kFibers; ++i) queue.push(frames[i]);
  for (std::size_t turn = 0; turn < 3 * kFibers; ++turn) {
    Fiber* const fiber = queue.pop();
    ASSERT_EQ(fiber, &frames[turn % kFibers]);
    queue.push(*fiber);  // as a yielding fiber does
  }
  for (std::size_t i = 0; i < kFibers; ++i) ASSERT_EQ(queue.pop(), &frames[i]);
  EXPECT_TRUE(queue.empty());
}

TEST(ReadyQueue, AgreesWithADequeAroundTheEdgeOfTheRing) {
  Frames frames{4'096};
  ReadyQueue queue;
  std::deque<Fiber*> expected;
  std::deque<Fiber*> idle;
  for (std::size_t i = 0; i < 4'096; ++i) idle.push_back(&frames[i]);
  std::mt19937 random{13};
  for (int step = 0; step < 200'000; ++step) {
    const bool grow = step / 5'000 % 2 == 0;
    if (!idle.empty() && random() % 10 < (grow ? 9U : 2U)) {
      queue.push(*idle.front());
      expected.push_back(idle.front());
      idle.pop_front();
    } else if (!expected.empty()) {
      ASSERT_EQ(queue.pop(), expected.front());
      idle.push_back(expected.front());
      expected.pop_front();
    }
    ASSERT_EQ(queue.empty(), expected.empty());
  }
}

// ── F2: only a runnable fiber is in a run queue, checked at each end ────────────────────────────

TEST(LocalQueueDeathTest, F2_PushOfAFiberThatIsNotRunnableTraps) {
  if constexpr (!spec::kSpecAssert) GTEST_SKIP() << "rules are checked in checked builds only";
  EXPECT_DEATH(
      {
        Frames frames{1};
        frames[0].word.mark_running();
        FreshQueue queue;
        queue.push(frames[0]);
      },
      "spec violated: F2 only_runnable_is_queued");
  EXPECT_DEATH(
      {
        Frames frames{1};
        frames[0].word.mark_running();
        ReadyQueue queue;
        queue.push(frames[0]);
      },
      "spec violated: F2 only_runnable_is_queued");
}

TEST(LocalQueueDeathTest, F2_PopOfAFiberThatIsNotRunnableTraps) {
  if constexpr (!spec::kSpecAssert) GTEST_SKIP() << "rules are checked in checked builds only";
  EXPECT_DEATH(
      {
        Frames frames{1};
        FreshQueue queue;
        queue.push(frames[0]);
        frames[0].word.mark_running();
        static_cast<void>(queue.pop_newest());
      },
      "spec violated: F2 only_runnable_is_queued");
  EXPECT_DEATH(
      {
        Frames frames{1};
        FreshQueue queue;
        queue.push(frames[0]);
        frames[0].word.mark_running();
        static_cast<void>(queue.pop_oldest());
      },
      "spec violated: F2 only_runnable_is_queued");
  EXPECT_DEATH(
      {
        Frames frames{1};
        ReadyQueue queue;
        queue.push(frames[0]);
        frames[0].word.mark_running();
        static_cast<void>(queue.pop());
      },
      "spec violated: F2 only_runnable_is_queued");
}

}  // namespace
}  // namespace weft::engine
