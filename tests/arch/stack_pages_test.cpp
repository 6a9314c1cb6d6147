#include <weft/arch/sanitizer.hpp>
#include <weft/arch/stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <arch/stack_support.hpp>

namespace weft::arch {
namespace {

constexpr StackOptions kKeep{.on_release = OnRelease::keep};

TEST(StackPages, OnlyTouchedPagesAreInMemory) {
  StackPool pool(kKeep);
  Stack* const stack = pool.take();
  EXPECT_EQ(pages_in_memory(*stack), 0U);
  touch(*stack, 64);
  EXPECT_EQ(pages_in_memory(*stack), 1U);
  touch(*stack, 5 * kPage);
  EXPECT_EQ(pages_in_memory(*stack), 5U);
  pool.give(*stack);
}

TEST(StackPages, SurveyFindsTheDeepestUse) {
  StackPool pool(kKeep);
  std::vector<Stack*> stacks = take_many(pool, 10);
  touch(*stacks[3], 100 * kKiB);
  touch(*stacks[4], 3 * kKiB);
  const HighWater found = pool.survey();
  EXPECT_GE(found.bytes_max, 100 * kKiB);
  EXPECT_LT(found.bytes_max, 100 * kKiB + kPage);
  EXPECT_EQ(found.samples, pool.statistics().guarded);
  EXPECT_EQ(found.histogram[5], 1U) << "64 KiB to 128 KiB";
  give_all(pool, stacks);
}

TEST(StackPages, AFrameThatSkipsPagesIsSeen) {
  StackPool pool(kKeep);
  Stack* const stack = pool.take();
  stack->top[-200 * 1024] = std::byte{1};
  EXPECT_GE(pool.survey().bytes_max, 200 * kKiB);
  pool.give(*stack);
}

TEST(StackPages, HighWaterIsAHistogramByPowersOfTwo) {
  HighWater high_water;
  for (const std::size_t bytes : {std::size_t{0}, 4 * kKiB, 4 * kKiB + 1, 8 * kKiB, 9 * kKiB,
                                  16 * kKiB, std::size_t{1} << 40U})
    high_water.add(bytes);
  EXPECT_EQ(high_water.samples, 7U);
  EXPECT_EQ(high_water.bytes_max, std::size_t{1} << 40U);
  EXPECT_EQ(high_water.histogram[0], 2U);
  EXPECT_EQ(high_water.histogram[1], 2U);
  EXPECT_EQ(high_water.histogram[2], 2U);
  EXPECT_EQ(high_water.histogram[19], 1U);
}

TEST(StackPages, AHotStackKeepsItsPages) {
  StackPool pool(kKeep);
  Stack* const stack = pool.take();
  touch(*stack, 200 * kKiB);
  const std::size_t pages = pages_in_memory(*stack);
  for (int i = 0; i < 50; ++i) {
    pool.give(*stack);
    ASSERT_EQ(pool.take(), stack);
  }
  if (!kAsan) {  // there every give is inspected
    EXPECT_EQ(pages_in_memory(*stack), pages);
  }
  pool.give(*stack);
}

TEST(StackPages, ASampledDeepStackHandsItsDeepPagesBack) {
  StackPool pool(kKeep);
  Stack* const stack = pool.take();
  for (int i = 0; i < 5000; ++i) {
    touch(*stack, 200 * kKiB);
    pool.give(*stack);
    ASSERT_EQ(pool.take(), stack);
  }
  const StackStatistics now = pool.statistics();
  EXPECT_GE(now.high_water.samples, 2U);
  EXPECT_LE(now.high_water.samples, kAsan ? 200U : 3U) << "a look costs more than many gives";
  EXPECT_GE(now.high_water.bytes_max, 200 * kKiB);
  EXPECT_GE(now.hand_backs, 1U);
  pool.give(*stack);
}

TEST(StackPages, DeepPagesOfIdleStacksGoBack) {
  StackPool pool(kKeep);
  std::vector<Stack*> stacks = take_many(pool, 1000);
  for (Stack* stack : stacks) touch(*stack, 128 * kKiB);
  const std::vector<Stack*> looked_at = stacks;
  give_all(pool, stacks);

  const auto deep = std::count_if(looked_at.begin(), looked_at.end(), [](const Stack* stack) {
    return pages_in_memory(*stack) * kPage > 40 * kKiB;
  });
  EXPECT_LT(deep, 128 + 256) << "only what the cache keeps hot, and what is too few for a look";
  EXPECT_GE(pages_in_memory(*looked_at[0]) * kPage, 28 * kKiB) << "the upper part stays warm";
}

TEST(StackPages, ShallowIdleStacksAreLeftAlone) {
  StackPool pool(kKeep);
  std::vector<Stack*> stacks = take_many(pool, 1000);
  for (Stack* stack : stacks) touch(*stack, 8 * kKiB);
  const std::vector<Stack*> looked_at = stacks;
  give_all(pool, stacks);
  EXPECT_EQ(pool.statistics().hand_backs, 0U);
  for (const Stack* stack : looked_at) EXPECT_GE(pages_in_memory(*stack), 2U);
}

TEST(StackPages, TrimHandsBackEverythingIdle) {
  StackPool pool(kKeep);
  std::vector<Stack*> stacks = take_many(pool, 300);
  for (Stack* stack : stacks) touch(*stack, 20 * kKiB);
  Stack* const in_use = stacks.back();
  stacks.pop_back();
  const std::vector<Stack*> looked_at = stacks;
  give_all(pool, stacks);
  const std::size_t before = resident_bytes();
  pool.trim();
  for (const Stack* stack : looked_at) EXPECT_EQ(pages_in_memory(*stack), 0U);
  EXPECT_GE(pages_in_memory(*in_use), 5U);
  if (!kAsan && !kTsan) {
    EXPECT_LE(resident_bytes() + looked_at.size() * 16 * kKiB, before);
  }
  pool.give(*in_use);
  EXPECT_EQ(pool.statistics().in_use, 0U);
}

TEST(StackPages, ZeroLeavesNothingBehind) {
  StackPool pool({.on_release = OnRelease::zero});
  Stack* const stack = pool.take();
  std::memset(stack->top - 50 * kKiB, 0x77, 50 * kKiB);
  pool.give(*stack);
  EXPECT_EQ(pages_in_memory(*stack), 0U);
  ASSERT_EQ(pool.take(), stack);
  EXPECT_TRUE(std::all_of(stack->top - 50 * kKiB, stack->top,
                          [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_GE(pool.statistics().high_water.bytes_max, 50 * kKiB) << "recorded before it went";
  pool.give(*stack);
}

TEST(StackPages, PoisonFillsWhatWasUsed) {
  StackPool pool({.on_release = OnRelease::poison});
  Stack* const stack = pool.take();
  std::memset(stack->top - 20 * kKiB, 0x77, 20 * kKiB);
  const std::size_t pages = pages_in_memory(*stack);
  pool.give(*stack);
  EXPECT_TRUE(std::all_of(stack->top - 20 * kKiB, stack->top,
                          [](std::byte b) { return b == kStackPoison; }));
  EXPECT_EQ(pages_in_memory(*stack), pages) << "what was untouched stays so";
}

TEST(StackPages, ABatchIsCleanedToo) {
  StackPool pool({.on_release = OnRelease::zero});
  const StackChain batch = pool.take_batch(8);
  for (Stack* stack = batch.head; stack != batch.tail; stack = stack->next) touch(*stack, 8 * kKiB);
  pool.give_batch(batch);
  Stack* stack = batch.head;
  for (std::size_t i = 0; i < batch.count; ++i, stack = stack->next)
    EXPECT_EQ(pages_in_memory(*stack), 0U);
}

}  // namespace
}  // namespace weft::arch
