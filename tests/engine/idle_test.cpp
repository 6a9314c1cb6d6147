#include "engine/idle.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using testing::scaled;

TEST(Idle, CountsSearchersUpToTheirMost) {
  Idle idle{8, 2};
  EXPECT_EQ(idle.count().searching(), 0U);
  EXPECT_TRUE(idle.begin_search());
  EXPECT_TRUE(idle.begin_search());
  EXPECT_FALSE(idle.begin_search()) << "enough others do";
  EXPECT_EQ(idle.count().searching(), 2U);
  idle.end_search();
  EXPECT_TRUE(idle.begin_search());
  idle.end_search();
  idle.end_search();
  EXPECT_EQ(idle.count().searching(), 0U);
}

TEST(Idle, CountsSleepers) {
  Idle idle{3, 1};
  for (unsigned i = 1; i <= 3; ++i) {
    idle.begin_sleep();
    EXPECT_EQ(idle.count().asleep(), i);
  }
  idle.end_sleep();
  EXPECT_EQ(idle.count().asleep(), 2U);
  EXPECT_EQ(idle.count().searching(), 0U) << "fields of their own";
}

TEST(Idle, ASearchIsWantedWhenSomebodySleepsAndNobodySearches) {
  Idle idle{4, 2};
  EXPECT_FALSE(idle.count().wants_a_search()) << "nobody sleeps";
  EXPECT_FALSE(idle.must_be_told());
  EXPECT_FALSE(idle.begin_search_for_another());
  idle.begin_sleep();
  EXPECT_TRUE(idle.count().wants_a_search());
  EXPECT_TRUE(idle.must_be_told());
  EXPECT_TRUE(idle.begin_search_for_another());
  EXPECT_EQ(idle.count().searching(), 1U) << "on behalf of the sleeper";
  EXPECT_FALSE(idle.must_be_told()) << "one searches";
  EXPECT_FALSE(idle.begin_search_for_another());
  idle.end_search();
  idle.end_sleep();
  EXPECT_FALSE(idle.must_be_told());
}

TEST(Idle, TheWatchSleepsForGoodOnlyWhenEverybodySleeps) {
  Idle idle{3, 1};
  idle.begin_sleep();
  EXPECT_FALSE(idle.deepen());
  idle.begin_sleep();
  EXPECT_FALSE(idle.deepen());
  EXPECT_FALSE(idle.count().deep());
  idle.begin_sleep();
  EXPECT_TRUE(idle.deepen());
  EXPECT_TRUE(idle.count().deep());
  EXPECT_TRUE(idle.deepen()) << "idempotent";
  EXPECT_EQ(idle.count().asleep(), 3U);
}

TEST(Idle, OneRousesTheWatch) {
  Idle idle{1, 1};
  EXPECT_FALSE(idle.surface()) << "it was not deep";
  idle.begin_sleep();
  ASSERT_TRUE(idle.deepen());
  EXPECT_TRUE(idle.surface());
  EXPECT_FALSE(idle.surface()) << "somebody else did";
  EXPECT_FALSE(idle.count().deep());
  EXPECT_EQ(idle.count().asleep(), 1U);
}

TEST(Idle, OfManyOneRousesTheWatch) {
  Idle idle{1, 1};
  idle.begin_sleep();
  for (int round = 0; round < scaled(500); ++round) {
    ASSERT_TRUE(idle.deepen());
    std::atomic<int> rousers{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back([&] { rousers.fetch_add(idle.surface()); });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(rousers.load(), 1);
  }
}

// Race (1) of the file's head: work from outside against the last worker that lies down.
TEST(Idle, WorkFromOutsideAndTheSleeperDoNotMissEachOther) {
  for (int round = 0; round < scaled(1'000); ++round) {
    Idle idle{1, 1};
    std::atomic<bool> work{false};
    std::atomic<int> ready{0};
    bool told = false;
    bool seen = false;
    const auto together = [&] {
      ready.fetch_add(1);
      while (ready.load() < 2) std::this_thread::yield();
    };
    std::thread outside{[&] {
      together();
      work.store(true, std::memory_order_relaxed);
      told = idle.must_be_told();
    }};
    together();
    idle.begin_sleep();
    seen = work.load(std::memory_order_relaxed);
    outside.join();
    ASSERT_TRUE(told || seen) << "the work waits beside a sleeper";
  }
}

TEST(Idle, CountsAreRightAfterManyComingsAndGoings) {
  Idle idle{4, 2};
  std::atomic<int> searching{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < scaled(5'000); ++i) {
        if (idle.begin_search()) {
          EXPECT_LE(searching.fetch_add(1), 2) << "two, and one on behalf of a sleeper";
          searching.fetch_sub(1);
          idle.end_search();
        }
        idle.begin_sleep();
        if ((i + t) % 3 == 0 && idle.deepen()) idle.surface();
        if ((i + t) % 5 == 0 && idle.begin_search_for_another()) idle.end_search();
        idle.end_sleep();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(idle.count().searching(), 0U);
  EXPECT_EQ(idle.count().asleep(), 0U);
}

}  // namespace
}  // namespace weft::engine
