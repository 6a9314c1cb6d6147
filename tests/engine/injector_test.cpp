#include "engine/injector.hpp"

#include <weft/core/frame_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include <support/frames.hpp>
#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using testing::Frames;
using testing::scaled;

TEST(Injector, IsFirstInFirstOut) {
  Frames frames{3};
  InjectorOf<4> injector;
  EXPECT_TRUE(injector.empty());
  EXPECT_EQ(injector.length(), 0U);
  EXPECT_EQ(injector.pop(), nullptr);
  for (std::size_t lap = 0; lap < 20; ++lap) {
    for (std::size_t i = 0; i < 3; ++i) injector.push(frames[i]);
    EXPECT_FALSE(injector.empty());
    EXPECT_EQ(injector.length(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(injector.pop(), &frames[i]);
    EXPECT_TRUE(injector.empty());
    EXPECT_EQ(injector.pop(), nullptr);
  }
}

TEST(Injector, KeepsItsOrderBeyondTheRing) {
  constexpr std::size_t kFibers = 100;
  Frames frames{kFibers};
  InjectorOf<8> injector;
  for (std::size_t i = 0; i < kFibers; ++i) injector.push(frames[i]);
  EXPECT_EQ(injector.length(), kFibers);
  for (std::size_t i = 0; i < kFibers; ++i) {
    EXPECT_FALSE(injector.empty());
    EXPECT_EQ(injector.length(), kFibers - i);
    ASSERT_EQ(injector.pop(), &frames[i]);
  }
  EXPECT_TRUE(injector.empty());
}

// The ring has room again, but those that did not fit are older.
TEST(Injector, NobodyOvertakesThoseThatDidNotFit) {
  Frames frames{12};
  InjectorOf<4> injector;
  std::size_t pushed = 0;
  std::size_t popped = 0;
  while (pushed < 6) injector.push(frames[pushed++]);
  while (popped < 3) ASSERT_EQ(injector.pop(), &frames[popped++]);
  while (pushed < 12) injector.push(frames[pushed++]);
  while (popped < 12) ASSERT_EQ(injector.pop(), &frames[popped++]);
  EXPECT_EQ(injector.pop(), nullptr);
  injector.push(frames[0]);
  EXPECT_EQ(injector.pop(), &frames[0]) << "the ring is in use again";
}

TEST(Injector, ABurstOfAMillionFromOneThread) {
  const std::size_t burst = scaled<std::size_t>(1'000'000);
  Frames frames{burst};
  Injector injector;
  std::thread pusher{[&] {
    for (std::size_t i = 0; i < burst; ++i) injector.push(frames[i]);
  }};
  for (std::size_t next = 0; next < burst;)
    if (const Fiber* const fiber = injector.pop()) ASSERT_EQ(fiber->id, next++);
    else std::this_thread::yield();
  pusher.join();
  EXPECT_TRUE(injector.empty());
  EXPECT_EQ(injector.length(), 0U);
}

TEST(Injector, ABurstOfAMillionBeforeAnybodyLooks) {
  const std::size_t burst = scaled<std::size_t>(1'000'000);
  Frames frames{burst};
  Injector injector;
  std::thread{[&] {
    for (std::size_t i = 0; i < burst; ++i) injector.push(frames[i]);
  }}.join();
  EXPECT_EQ(injector.length(), burst);
  for (std::size_t i = 0; i < burst; ++i) ASSERT_EQ(injector.pop(), &frames[i]);
  EXPECT_EQ(injector.pop(), nullptr);
}

// Small ring, large ring: both of its parts are under way at the same time in the first.
template <std::size_t kSlots>
void expect_nothing_lost() {
  constexpr std::size_t kPushers = 3;
  constexpr std::size_t kPoppers = 3;
  const std::size_t each = scaled<std::size_t>(60'000);
  Frames frames{kPushers * each};
  InjectorOf<kSlots> injector;
  std::vector<std::atomic<int>> seen(kPushers * each);
  std::atomic<std::size_t> left{kPushers * each};
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < kPushers; ++p)
    threads.emplace_back([&, p] {
      for (std::size_t i = 0; i < each; ++i) injector.push(frames[p * each + i]);
    });
  for (std::size_t p = 0; p < kPoppers; ++p)
    threads.emplace_back([&] {
      while (left.load() != 0) {
        if (const Fiber* const fiber = injector.pop()) {
          seen[fiber->id].fetch_add(1);
          left.fetch_sub(1);
        } else {
          std::this_thread::yield();
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i].load(), 1) << i;
  EXPECT_TRUE(injector.empty());
  EXPECT_EQ(injector.pop(), nullptr);
}

TEST(Injector, SeveralPushersAndPoppersLoseNothing) { expect_nothing_lost<4096>(); }
TEST(Injector, SeveralPushersAndPoppersLoseNothingInASmallRing) { expect_nothing_lost<4>(); }

// One popper sees each pusher's fibers in that pusher's order, as long as the ring is not exceeded.
TEST(Injector, EachPusherKeepsItsOrder) {
  constexpr std::size_t kPushers = 3;
  const std::size_t each = scaled<std::size_t>(30'000);
  Frames frames{kPushers * each};
  Injector injector;
  std::atomic<std::size_t> popped{0};
  std::vector<std::thread> pushers;
  for (std::size_t p = 0; p < kPushers; ++p)
    pushers.emplace_back([&, p] {
      for (std::size_t i = 0; i < each; ++i) {
        while (injector.length() > 2'000) std::this_thread::yield();
        injector.push(frames[p * each + i]);
      }
    });
  std::vector<std::size_t> next(kPushers, 0);
  while (popped.load() < kPushers * each) {
    if (const Fiber* const fiber = injector.pop()) {
      ASSERT_EQ(fiber->id % each, next[fiber->id / each]++);
      popped.fetch_add(1);
    } else {
      std::this_thread::yield();
    }
  }
  for (std::thread& pusher : pushers) pusher.join();
}

// empty() is the last look before a worker sleeps: it must not be fooled by somebody who pops.
TEST(Injector, IsNotEmptyWhileSomethingStaysInIt) {
  const std::size_t rounds = scaled<std::size_t>(200'000);
  Frames frames{3};
  InjectorOf<8> injector;
  injector.push(frames[0]);
  std::atomic<bool> stop{false};
  std::thread turner{[&] {  // there are always one or two in it
    for (std::size_t i = 0; i < rounds; ++i) {
      injector.push(frames[(i + 1) % 3]);
      EXPECT_NE(injector.pop(), nullptr);
    }
    stop.store(true);
  }};
  std::size_t found_empty = 0;
  while (!stop.load()) found_empty += injector.empty();
  turner.join();
  EXPECT_EQ(found_empty, 0U);
}

}  // namespace
}  // namespace weft::engine
