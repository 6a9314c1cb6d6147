#include "engine/gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using testing::scaled;

TEST(Gate, TheOwnerComesAndGoes) {
  Gate gate;
  EXPECT_TRUE(gate.is_outside());
  {
    const Inside inside{gate};
    EXPECT_FALSE(gate.is_outside());
  }
  EXPECT_TRUE(gate.is_outside());
}

TEST(Gate, OneVisitorAtATime) {
  Gate gate;
  EXPECT_TRUE(gate.bar());
  EXPECT_FALSE(gate.bar());
  gate.open();
  EXPECT_TRUE(gate.bar());
  gate.open();
}

TEST(Gate, AnOwnerThatDoesNotComeIsFoundOutside) {
  Gate gate;
  EXPECT_TRUE(gate.bar());
  EXPECT_FALSE(gate.has_yielded());
  gate.insist();
  EXPECT_TRUE(gate.is_outside());
  gate.open();
  gate.enter();  // nobody bars the way any more
  gate.leave();
}

TEST(Gate, AnOwnerThatIsInsideIsSeenThere) {
  Gate gate;
  gate.enter();
  EXPECT_TRUE(gate.bar());
  gate.insist();
  EXPECT_FALSE(gate.is_outside());
  EXPECT_FALSE(gate.has_yielded());
  gate.leave();
  EXPECT_TRUE(gate.is_outside());
  gate.open();
}

TEST(Gate, TheOwnerStandsAsideUntilItIsOpen) {
  Gate gate;
  std::atomic<bool> entered{false};
  ASSERT_TRUE(gate.bar());
  std::thread owner{[&] {
    const Inside inside{gate};
    entered.store(true);
  }};
  while (!gate.has_yielded()) std::this_thread::yield();
  EXPECT_FALSE(entered.load());
  EXPECT_TRUE(gate.is_outside());
  std::this_thread::yield();
  EXPECT_FALSE(entered.load());
  gate.open();
  owner.join();
  EXPECT_TRUE(entered.load());
}

// The owner lies down after some spinning; the next visitor may come before it has got up.
TEST(Gate, TheOwnerSleepsThroughSeveralVisits) {
  Gate gate;
  for (int round = 0; round < scaled(50); ++round) {
    std::atomic<bool> entered{false};
    ASSERT_TRUE(gate.bar());
    std::thread owner{[&] {
      const Inside inside{gate};
      entered.store(true);
    }};
    while (!gate.has_yielded()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds{round % 4 * 100});
    gate.open();
    if (gate.bar()) {
      while (!gate.has_yielded() && !entered.load()) std::this_thread::yield();
      gate.open();
    }
    owner.join();
    EXPECT_TRUE(entered.load());
  }
}

// What the gate is for: plain data, one owner, several visitors, nobody ever there with another.
TEST(Gate, WhoIsInsideIsAlone) {
  Gate gate;
  std::int64_t plain = 0;
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> visits{0};
  std::atomic<int> visitors{3};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      // At least one visit, however long the owner is kept from its core.
      for (int i = 0; i < scaled(3'000) || visits.load() == 0; ++i) {
        if (!gate.bar()) {
          std::this_thread::yield();
          continue;
        }
        bool alone = gate.has_yielded();
        if (!alone && (i + t) % 2 == 0) {
          gate.insist();
          alone = gate.is_outside();
        }
        if (alone) {
          ++plain;
          visits.fetch_add(1);
        }
        gate.open();
        if (!alone) std::this_thread::yield();
      }
      if (visitors.fetch_sub(1) == 1) stop.store(true);
    });
  std::int64_t entries = 0;
  for (; !stop.load(std::memory_order_relaxed); ++entries) {
    const Inside inside{gate};
    ++plain;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(plain, entries + visits.load());
  EXPECT_GT(visits.load(), 0);
}

}  // namespace
}  // namespace weft::engine
