#include <weft/arch/sanitizer.hpp>
#include <weft/arch/stack.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arch/stack_support.hpp>

namespace weft::arch {
namespace {

using ::testing::HasSubstr;

// What holds for every kind of guard.
class StackGuards : public ::testing::TestWithParam<Guards> {
 protected:
  void SetUp() override {
    if (GetParam() == Guards::kernel && !kernel_guards_exist())
      GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  }
};

std::string guards_name(const ::testing::TestParamInfo<Guards>& kind) {
  constexpr std::array kNames{"automatic", "kernel", "mprotect"};
  return kNames[static_cast<std::size_t>(kind.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, StackGuards,
                         ::testing::Values(Guards::automatic, Guards::kernel, Guards::mprotect),
                         guards_name);

TEST_P(StackGuards, AStackIsUsableToItsLimitAndNotBeyond) {
  StackPool pool({.stack_bytes = 64 * kKiB, .guards = GetParam()});
  std::vector<Stack*> stacks = take_many(pool, 100);  // more than one slab
  ASSERT_EQ(stacks.size(), 100U) << pool.why();
  for (Stack* stack : stacks) {
    std::memset(stack->limit, 0x5a, stack->bytes());
    EXPECT_TRUE(is_readable(stack->limit));
    EXPECT_TRUE(is_readable(stack->top - 1));
    EXPECT_FALSE(is_readable(stack->limit - 1)) << "the guard ends at the limit";
    EXPECT_FALSE(is_readable(stack->limit - 64 * kKiB)) << "and is 64 KiB at least";
  }
  give_all(pool, stacks);
}

TEST_P(StackGuards, AGuardOutlivesUseAndTrim) {
  StackPool pool({.guards = GetParam()});
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  touch(*stack, stack->bytes());
  pool.give(*stack);
  pool.trim();
  ASSERT_EQ(pool.take(), stack);
  EXPECT_FALSE(is_readable(stack->limit - 1));
  pool.give(*stack);
}

TEST_P(StackGuards, TheKindInUseIsReported) {
  StackPool pool({.guards = GetParam()});
  EXPECT_EQ(pool.statistics().guards, Guards::automatic) << "nothing is decided before it must be";
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  const Guards expected = GetParam() != Guards::automatic ? GetParam()
                          : kernel_guards_exist()         ? Guards::kernel
                                                          : Guards::mprotect;
  EXPECT_EQ(pool.statistics().guards, expected);
  pool.give(*stack);
}

// ── layout ───────────────────────────────────────────────────────────────────────────────────────

TEST(StackLayout, ThePromisedBytesAreUsableWhateverTheColour) {
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 100);
  for (const Stack* stack : stacks) {
    EXPECT_GE(stack->bytes(), 256 * kKiB);
    EXPECT_EQ(number(stack->top) % 16, 0U);
    EXPECT_EQ(number(stack->limit) % kPage, 0U);
  }
  give_all(pool, stacks);
}

TEST(StackLayout, TopsAreSpreadOver20CacheLines) {
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 96);
  std::set<std::uintptr_t> offsets;
  for (const Stack* stack : stacks) {
    const std::uintptr_t below_page = (kPage - number(stack->top) % kPage) % kPage;
    EXPECT_EQ(below_page, stack->index % 20 * 64);
    offsets.insert(below_page);
  }
  EXPECT_EQ(offsets.size(), 20U);
  give_all(pool, stacks);
}

TEST(StackLayout, ACellIsAnOddNumberOfPages) {
  for (const std::size_t bytes : {16 * kKiB, 64 * kKiB, 256 * kKiB, 260 * kKiB, 1024 * kKiB}) {
    const StackPool pool({.stack_bytes = bytes});
    EXPECT_EQ(pool.layout().cell_bytes / kPage % 2, 1U) << bytes;
    EXPECT_EQ(pool.layout().cell_bytes, pool.layout().guard_bytes + pool.layout().stack_bytes);
  }
}

TEST(StackLayout, SizesAreRoundedUpToPages) {
  StackPool pool({.stack_bytes = 100'001, .guard_bytes = 100'001});
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr);
  EXPECT_GE(stack->bytes(), 100'001U);
  EXPECT_EQ(number(stack->limit) % kPage, 0U);
  EXPECT_FALSE(is_readable(stack->limit - 100'001));
  pool.give(*stack);
}

TEST(StackLayout, StacksAreTakenInTheOrderOfTheirAddresses) {
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 64);
  for (std::size_t i = 1; i < stacks.size(); ++i) {
    EXPECT_EQ(stacks[i]->index, i);
    EXPECT_EQ(number(stacks[i]->limit) - number(stacks[i - 1]->limit), pool.layout().cell_bytes);
  }
  give_all(pool, stacks);
}

// ── taking and giving ────────────────────────────────────────────────────────────────────────────

TEST(StackPool, LastGivenIsFirstTaken) {
  StackPool pool;
  Stack* const a = pool.take();
  Stack* const b = pool.take();
  pool.give(*a);
  pool.give(*b);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), a);
  pool.give(*a);
  pool.give(*b);
}

TEST(StackPool, StatisticsAddUp) {
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, 1000);
  StackStatistics now = pool.statistics();
  EXPECT_EQ(now.in_use, 1000U);
  EXPECT_EQ(now.in_use + now.idle, now.guarded);
  EXPECT_LE(now.guarded, now.reserved);
  EXPECT_EQ(now.slabs, 3U) << "64, 256 and 1024 cells";
  EXPECT_EQ(now.reserved, 1344U);

  std::vector<Stack*> half(stacks.begin() + 500, stacks.end());
  stacks.resize(500);
  give_all(pool, half);
  EXPECT_EQ(pool.statistics().in_use, 500U);
  give_all(pool, stacks);
  now = pool.statistics();
  EXPECT_EQ(now.in_use, 0U);
  EXPECT_EQ(now.idle, now.guarded);
}

TEST(StackPool, IdleStacksAreUsedBeforeNewOnesAreMade) {
  StackPool pool;
  for (int round = 0; round < 5; ++round) {
    std::vector<Stack*> stacks = take_many(pool, 1000);
    EXPECT_EQ(std::set<Stack*>(stacks.begin(), stacks.end()).size(), 1000U);
    give_all(pool, stacks);
  }
  EXPECT_LE(pool.statistics().guarded, 1024U);
}

TEST(StackPool, ManyStacksNeedFewMappings) {
  if (kTsan) GTEST_SKIP() << "TSan maps its shadow piece by piece";
  if (!kernel_guards_exist())
    GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  constexpr std::size_t kStacks = 100'000;
  const std::size_t before = count_mappings();
  StackPool pool;
  std::vector<Stack*> stacks = take_many(pool, kStacks);
  ASSERT_EQ(stacks.size(), kStacks) << pool.why();
  EXPECT_LE(count_mappings() - before, 32U);
  for (std::size_t i = 0; i < stacks.size(); i += 997)
    EXPECT_FALSE(is_readable(stacks[i]->limit - 1));
  give_all(pool, stacks);
  EXPECT_EQ(pool.statistics().in_use, 0U);
}

TEST(StackPool, AParkedFiberCostsItsPagesAndLittleMore) {
  if (!kernel_guards_exist())
    GTEST_SKIP() << "this kernel has no guard regions (MADV_GUARD_INSTALL)";
  if (kAsan || kTsan) GTEST_SKIP() << "a sanitizer's shadow counts as resident memory";
  constexpr std::size_t kStacks = 10'000;
  StackPool pool({.on_release = OnRelease::keep});
  std::vector<Stack*> stacks(kStacks);  // its pages are touched before the count
  const std::size_t before = resident_bytes();
  for (Stack*& stack : stacks) {
    stack = pool.take();
    ASSERT_NE(stack, nullptr) << pool.why();
    touch(*stack, 512);
  }
  const std::size_t each = (resident_bytes() - before) / kStacks;
  EXPECT_LE(each, kPage + 100);
  RecordProperty("bytes_each", static_cast<int>(each));
  give_all(pool, stacks);
}

TEST(StackPool, DestructionUnmapsEverything) {
  if (kTsan) GTEST_SKIP() << "ThreadSanitizer maps memory of its own meanwhile";
  constexpr int kRounds = 100;
  const std::size_t before = count_mappings();
  for (int round = 0; round < kRounds; ++round) {
    StackPool pool({.guards = Guards::mprotect});
    std::vector<Stack*> stacks = take_many(pool, 100);
    ASSERT_EQ(stacks.size(), 100U) << pool.why();
    give_all(pool, stacks);
  }
  // One left behind a round would show; the allocator may map a few for itself meanwhile.
  EXPECT_LT(count_mappings(), before + kRounds);
}

TEST(StackPool, VeryLargeStacksGetSmallSlabs) {
  StackPool pool({.stack_bytes = std::size_t{1} << 30U});
  Stack* const stack = pool.take();
  ASSERT_NE(stack, nullptr) << pool.why();
  touch(*stack, 4096);
  stack->limit[0] = std::byte{1};
  EXPECT_LE(pool.statistics().reserved, 4U);
  EXPECT_GE(pool.survey().bytes_max, std::size_t{1} << 30U);
  pool.give(*stack);
}

// ── options ──────────────────────────────────────────────────────────────────────────────────────

std::string refusal_of(const StackOptions& options) {
  try {
    StackPool pool(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(StackOptions, AbsurdOnesAreRefusedByName) {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  EXPECT_THAT(refusal_of({.stack_bytes = 0}),
              HasSubstr("stack_bytes = 0: must be 16384 to 1073741824 bytes"));
  EXPECT_THAT(refusal_of({.stack_bytes = 16 * kKiB - 1}), HasSubstr("stack_bytes = 16383"));
  EXPECT_THAT(refusal_of({.stack_bytes = (std::size_t{1} << 30U) + 1}), HasSubstr("stack_bytes"));
  EXPECT_THAT(refusal_of({.stack_bytes = kHuge}), HasSubstr("stack_bytes = 18446744073709551615"));
  EXPECT_THAT(refusal_of({.guard_bytes = 0}), HasSubstr("guard_bytes = 0"));
  EXPECT_THAT(refusal_of({.guard_bytes = 4096}), HasSubstr("one large frame jumps a smaller"));
  EXPECT_THAT(refusal_of({.guard_bytes = kHuge}), HasSubstr("guard_bytes"));
  EXPECT_THAT(refusal_of({.colours = 0}), HasSubstr("colours = 0: must be 1 to 64"));
  EXPECT_THAT(refusal_of({.colours = 65}), HasSubstr("colours = 65"));
}

TEST(StackOptions, TheExtremesWork) {
  EXPECT_EQ(refusal_of({.stack_bytes = 16 * kKiB, .colours = 64}), "accepted");
  EXPECT_EQ(refusal_of({.keep_bytes = 0}), "accepted");
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  StackPool pool({.stack_bytes = 16 * kKiB, .keep_bytes = kHuge, .colours = 1});
  std::vector<Stack*> stacks = take_many(pool, 500);
  EXPECT_EQ(stacks.size(), 500U);
  for (Stack* stack : stacks) touch(*stack, 16 * kKiB);
  give_all(pool, stacks);
  EXPECT_EQ(pool.statistics().hand_backs, 0U);
}

TEST(StackOptions, StacksMaxIsALimitWithAReason) {
  StackPool pool({.stacks_max = 10});
  EXPECT_EQ(pool.why(), "");
  std::vector<Stack*> stacks = take_many(pool, 20);
  EXPECT_EQ(stacks.size(), 10U);
  EXPECT_THAT(pool.why(), HasSubstr("10 stacks that max_fibers allows"));
  pool.give(*stacks.back());
  EXPECT_EQ(pool.take(), stacks.back());
  EXPECT_EQ(pool.statistics().reserved, 10U);
  give_all(pool, stacks);
}

// ── chains, batches and threads ──────────────────────────────────────────────────────────────────

TEST(StackChain, PushAndPop) {
  std::array<Stack, 5> stacks;
  StackChain chain;
  for (Stack& stack : stacks) chain.push(stack);
  StackChain first = chain.pop(2);
  EXPECT_EQ(first.count, 2U);
  EXPECT_EQ(first.head, &stacks[4]);
  EXPECT_EQ(first.tail, &stacks[3]);
  EXPECT_EQ(chain.count, 3U);
  EXPECT_EQ(chain.pop(0).count, 0U);

  chain.push(first);
  EXPECT_EQ(chain.count, 5U);
  EXPECT_EQ(chain.head, &stacks[4]);
  EXPECT_EQ(chain.tail, &stacks[0]);
  EXPECT_EQ(chain.pop(99).count, 5U);
  EXPECT_EQ(chain.head, nullptr);
  EXPECT_EQ(chain.tail, nullptr);
  chain.push(StackChain{});
  EXPECT_EQ(chain.count, 0U);
}

TEST(StackBatch, GivesAtMostWhatIsWantedAndAtLeastOne) {
  StackPool pool;
  EXPECT_EQ(pool.take_batch(0).count, 0U);
  const StackChain many = pool.take_batch(50);
  EXPECT_EQ(many.count, 50U);
  const StackChain rest = pool.take_batch(50);
  EXPECT_EQ(rest.count, 14U) << "to the end of the first slab";
  EXPECT_EQ(pool.statistics().in_use, 64U);
  pool.give_batch(many);
  EXPECT_EQ(pool.take_batch(100).count, 50U) << "idle ones first";
  pool.give_batch(many);
  pool.give_batch(rest);
  pool.give_batch({});
  EXPECT_EQ(pool.statistics().in_use, 0U);
}

TEST(StackBatch, CachesOfSeveralThreadsNeverShareAStack) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 300;
  StackPool pool({.stack_bytes = 16 * kKiB, .on_release = OnRelease::keep});
  std::mutex lock;
  std::vector<Stack*> passed_on;  // taken by one thread, given back by the next that comes
  const auto body = [&](unsigned seed) {
    StackCache cache(pool);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Stack*> mine;
      const unsigned count = (seed * 7919U + static_cast<unsigned>(round) * 104729U) % 200U;
      for (unsigned i = 0; i < count; ++i) {
        Stack* const stack = cache.take();
        ASSERT_NE(stack, nullptr);
        std::memset(stack->top - 64, static_cast<int>(seed), 64);
        mine.push_back(stack);
      }
      for (Stack* stack : mine)  // a second owner would show here, and to TSan
        ASSERT_TRUE(std::all_of(stack->top - 64, stack->top,
                                [&](std::byte b) { return b == std::byte(seed); }));
      {
        const std::scoped_lock hold(lock);
        passed_on.swap(mine);
      }
      for (Stack* stack : mine) cache.give(*stack);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(body, t + 1);
  for (int i = 0; i < 100; ++i) {  // any thread may look on
    const StackStatistics now = pool.statistics();
    EXPECT_EQ(now.in_use + now.idle, now.guarded);
    static_cast<void>(pool.why());
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(pool.statistics().in_use, passed_on.size());
  give_all(pool, passed_on);
  EXPECT_EQ(pool.statistics().in_use, 0U);
}

TEST(StackBatch, AThreadsEndGivesItsIdleStacksBack) {
  StackPool pool;
  std::thread([&] {
    StackCache cache(pool);
    Stack* const stack = cache.take();
    ASSERT_NE(stack, nullptr);
    cache.give(*stack);
  }).join();
  EXPECT_EQ(pool.statistics().idle, 32U);
  const StackChain all = pool.take_batch(100);
  EXPECT_EQ(all.count, 32U);
  EXPECT_EQ(pool.statistics().in_use, 32U);
  pool.give_batch(all);
}

}  // namespace
}  // namespace weft::arch
