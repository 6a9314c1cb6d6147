#include "engine/shared_timers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::scaled;

class Probe final : public Timer {
 public:
  Probe(std::vector<int>& fired, int number) : fired_(&fired), number_(number) {}
  ~Probe() = default;

 private:
  void fire(Fired&) noexcept override { fired_->push_back(number_); }
  std::vector<int>* fired_;
  int number_;
};

// The first tick that is not before `when`.
Instant tick_after(Duration when) {
  constexpr Duration kTick = TimerWheel::kTick;
  return Instant{(when + kTick - 1ns) / kTick * kTick};
}

void arm(SharedTimers& timers, Timer& timer, Instant when) {
  timer.when = when;
  timers.arm(timer);
}

std::size_t fire_due(SharedTimers& timers, Instant now) {
  Fired fired;  // these timers wake nobody
  return timers.fire_due(now, fired);
}

TEST(SharedTimers, FireInOrderAndTellTheSoonest) {
  std::vector<int> fired;
  std::deque<Probe> probes;
  SharedTimers timers;
  EXPECT_EQ(timers.soonest(), Instant::max());
  for (const int i : {3, 1, 2}) arm(timers, probes.emplace_back(fired, i), Instant{i * 1s});
  EXPECT_EQ(timers.soonest(), tick_after(1s));
  EXPECT_EQ(fire_due(timers, Instant{500ms}), 0U);
  EXPECT_EQ(fire_due(timers, tick_after(2s)), 2U);
  EXPECT_THAT(fired, ElementsAre(1, 2));
  EXPECT_EQ(timers.soonest(), tick_after(3s));
  EXPECT_EQ(fire_due(timers, Instant::max()), 1U);
  EXPECT_THAT(fired, ElementsAre(1, 2, 3));
  EXPECT_EQ(timers.soonest(), Instant::max());
}

TEST(SharedTimers, DisarmFindsTheTimerWhereverItWasArmed) {
  std::vector<int> fired;
  Probe probe{fired, 1};
  SharedTimers here, there;
  SharedTimers::disarm(probe);  // never armed
  arm(here, probe, Instant{1s});
  SharedTimers::disarm(probe);
  SharedTimers::disarm(probe);
  EXPECT_EQ(here.soonest(), Instant::max());
  arm(there, probe, Instant{2s});
  EXPECT_EQ(there.soonest(), tick_after(2s));
  SharedTimers::disarm(probe);
  EXPECT_EQ(there.soonest(), Instant::max());
  EXPECT_EQ(fire_due(here, Instant{9s}) + fire_due(there, Instant{9s}), 0U);
  EXPECT_THAT(fired, IsEmpty());
}

TEST(SharedTimers, DisarmAfterItFiredDoesNothing) {
  std::vector<int> fired;
  Probe probe{fired, 1};
  SharedTimers timers;
  arm(timers, probe, Instant{1s});
  EXPECT_EQ(fire_due(timers, tick_after(1s)), 1U);
  SharedTimers::disarm(probe);
  EXPECT_THAT(fired, ElementsAre(1));
}

// What is published may be the start of a slot with many timers, before the first of them.
TEST(SharedTimers, NothingIsSoonWhenAllAreDisarmed) {
  std::vector<int> fired;
  std::deque<Probe> probes;
  SharedTimers timers;
  for (int i = 0; i < 100; ++i) arm(timers, probes.emplace_back(fired, i), Instant{1h + i * 1s});
  arm(timers, probes.emplace_back(fired, 100), Instant{1s});
  EXPECT_EQ(fire_due(timers, tick_after(1s)), 1U);  // looks ahead to the others
  EXPECT_LE(timers.soonest(), tick_after(1h));
  for (Probe& probe : probes) SharedTimers::disarm(probe);
  EXPECT_EQ(timers.soonest(), Instant::max());
}

// Dies with its test's stack frame: whoever touches it after disarm() is caught by the sanitizers.
class Brief final : public Timer {
 public:
  explicit Brief(std::atomic<int>& fired) : fired_(fired) {}
  ~Brief() = default;
  std::int64_t touched = 0;  // plain: disarm() orders us after whoever fired

 private:
  void fire(Fired&) noexcept override {
    ++touched;
    fired_.fetch_add(1);
  }
  std::atomic<int>& fired_;
};

TEST(SharedTimers, AfterDisarmNobodyTouchesTheTimer) {
  SharedTimers timers;
  std::atomic<bool> stop{false};
  std::atomic<int> fired{0};
  std::vector<std::thread> firing;
  for (int t = 0; t < 2; ++t)
    firing.emplace_back([&] {
      while (!stop.load()) fire_due(timers, tick_after(1s));
    });
  int touched = 0;
  for (int i = 0; i < scaled(5'000); ++i) {
    Brief timer{fired};
    arm(timers, timer, Instant{i % 3 == 0 ? 5s : 1s});  // some are never due
    if (i % 2 == 0) std::this_thread::yield();
    SharedTimers::disarm(timer);
    ASSERT_LE(timer.touched, 1);
    touched += static_cast<int>(timer.touched);
  }
  stop.store(true);
  for (std::thread& thread : firing) thread.join();
  EXPECT_EQ(touched, fired.load());
  EXPECT_EQ(timers.soonest(), Instant::max());
}

TEST(SharedTimers, EachFiresOnceThoughManyFire) {
  constexpr int kTimers = 200;
  for (int round = 0; round < scaled(20); ++round) {
    SharedTimers timers;
    std::atomic<int> fired{0};
    std::deque<Brief> all;
    for (int i = 0; i < kTimers; ++i) arm(timers, all.emplace_back(fired), Instant{i * 1ms});
    std::atomic<std::size_t> counted{0};
    std::vector<std::thread> firing;
    for (int t = 0; t < 3; ++t)
      firing.emplace_back([&] {
        for (int i = 0; i < kTimers; ++i) counted.fetch_add(fire_due(timers, tick_after(i * 1ms)));
      });
    for (std::thread& thread : firing) thread.join();
    EXPECT_EQ(fired.load(), kTimers);
    EXPECT_EQ(counted.load(), static_cast<std::size_t>(kTimers));
  }
}

}  // namespace
}  // namespace weft::engine
