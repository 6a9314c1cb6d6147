#include "engine/timer_wheel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace weft::engine {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr Duration kTick = TimerWheel::kTick;

class Probe final : public Timer {
 public:
  Probe(std::vector<int>& fired, int which) : number(which), fired_(&fired) {}
  ~Probe() = default;
  const int number;

 private:
  void fire(Fired&) noexcept override { fired_->push_back(number); }
  std::vector<int>* fired_;
};

void arm(TimerWheel& wheel, Timer& timer, Instant when) {
  timer.when = when;
  wheel.arm(timer);
}

std::size_t fire_due(TimerWheel& wheel, Instant now) {
  Fired fired;  // these timers wake nobody
  return wheel.fire_due(now, fired);
}

TEST(TimerWheel, NeverEarlyAndLessThanATickLate) {
  std::vector<int> fired;
  Probe timer{fired, 1};
  TimerWheel wheel;
  for (const Duration delay : {1ns, 4'095ns, 4'096ns, 4'097ns, 262'143ns, 262'144ns, 1'000'000ns}) {
    fired.clear();
    arm(wheel, timer, Instant{1s + delay});
    EXPECT_EQ(fire_due(wheel, Instant{1s + delay - 1ns}), 0U) << delay.count();
    EXPECT_GE(wheel.soonest(), timer.when);
    EXPECT_LT(wheel.soonest(), timer.when + kTick);
    EXPECT_EQ(fire_due(wheel, wheel.soonest()), 1U) << delay.count();
    EXPECT_EQ(wheel.size(), 0U);
    wheel = TimerWheel{};  // time does not go back
  }
}

TEST(TimerWheel, OneTickFiresInOrderOfArming) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerWheel wheel;
  for (int i = 0; i < 4; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h});
  fire_due(wheel, Instant{59min});  // some wheels down by now
  for (int i = 4; i < 6; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h});
  EXPECT_EQ(fire_due(wheel, Instant{2h}), 6U);
  EXPECT_THAT(fired, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TimerWheel, DisarmIsIdempotentOnEveryWheel) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerWheel wheel;
  std::vector<Duration> delays;
  for (Duration delay = kTick; delay < Duration::max() / 128; delay *= 64) delays.push_back(delay);
  ASSERT_GE(delays.size(), 8U) << "a timer for each wheel";
  for (const Duration delay : delays)
    for (int i = 0; i < 3; ++i)
      arm(wheel, timers.emplace_back(fired, static_cast<int>(timers.size())), Instant{delay});
  for (std::size_t i = 0; i < timers.size(); ++i) {
    if (i % 3 == 1) continue;
    wheel.disarm(timers[i]);
    wheel.disarm(timers[i]);
  }
  EXPECT_EQ(wheel.size(), delays.size());
  EXPECT_EQ(fire_due(wheel, Instant::max()), delays.size());
  for (std::size_t i = 0; i < fired.size(); ++i)
    EXPECT_EQ(fired[i], static_cast<int>(3 * i + 1)) << "in order of time";
  EXPECT_EQ(wheel.soonest(), Instant::max());
}

TEST(TimerWheel, TheEndsOfTime) {
  std::vector<int> fired;
  Probe first{fired, 1}, last{fired, 2}, past{fired, 3};
  TimerWheel wheel;
  arm(wheel, last, Instant::max());
  arm(wheel, first, Instant::min());
  EXPECT_EQ(wheel.soonest(), Instant{});
  EXPECT_EQ(fire_due(wheel, Instant{}), 1U);
  EXPECT_EQ(wheel.soonest(), Instant::max());
  fire_due(wheel, Instant{1h});
  arm(wheel, past, Instant{1s});  // what is past is due at once
  EXPECT_LE(wheel.soonest(), Instant{1h});
  EXPECT_EQ(fire_due(wheel, Instant{1h}), 1U);
  EXPECT_EQ(fire_due(wheel, Instant::max() - 1ns), 0U);
  wheel.disarm(last);
  EXPECT_THAT(fired, ElementsAre(1, 3));
}

// A few timers far away are not woken for before they are due; many may have to be spread first.
TEST(TimerWheel, SoonestIsExactForFewAndNeverLate) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerWheel wheel;
  for (int i = 0; i < 5; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h + i * kTick});
  EXPECT_EQ(wheel.soonest(), TimerWheel::fires_at(timers[0]));
  for (int i = 5; i < 500; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h + i * kTick});
  int looks = 0;
  while (wheel.size() != 0) {
    const std::size_t before = wheel.size();
    const Instant next = wheel.soonest();
    ASSERT_LE(next, TimerWheel::fires_at(timers[timers.size() - before]));
    fire_due(wheel, next);
    ++looks;
  }
  EXPECT_EQ(fired.size(), 500U);
  EXPECT_LE(looks, 500 + 20) << "a look for each tick, and some to spread";
}

// Against a sorted map, with delays of every length and jumps of every length.
TEST(TimerWheel, AgreesWithASortedMapOverRandomOperations) {
  using Key = std::pair<Instant, std::uint64_t>;  // of firing, then of arming
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random{seed};
    const auto some_time = [&] { return Duration{random() >> (1 + 14 + random() % 49)}; };
    std::vector<int> fired;
    std::deque<Probe> timers;
    for (int i = 0; i < 300; ++i) timers.emplace_back(fired, i);
    TimerWheel wheel;
    std::map<Key, int> expected;
    std::map<int, Key> armed;
    std::uint64_t order = 0;
    Instant now{Duration{random() >> 16}};
    fire_due(wheel, now);
    for (int step = 0; step < 5'000; ++step) {
      Probe& timer = timers[random() % timers.size()];
      const auto at = armed.find(timer.number);
      if (random() % 50 == 0) {
        now = random() % 2 && !expected.empty() ? std::max(now, expected.begin()->first.first)
                                                : saturating_add(now, some_time());
        std::vector<int> due;
        while (!expected.empty() && expected.begin()->first.first <= now) {
          due.push_back(expected.begin()->second);
          armed.erase(expected.begin()->second);
          expected.erase(expected.begin());
        }
        fired.clear();
        ASSERT_EQ(fire_due(wheel, now), due.size()) << "seed " << seed << ", step " << step;
        ASSERT_EQ(fired, due) << "seed " << seed << ", step " << step;
      } else if (at == armed.end()) {
        arm(wheel, timer, saturating_add(now, some_time()));
        const Key key{std::max(TimerWheel::fires_at(timer), Instant{now.time_since_epoch() / kTick *
                                                                     kTick}),
                      order++};
        armed.emplace(timer.number, key);
        expected.emplace(key, timer.number);
      } else {
        wheel.disarm(timer);
        expected.erase(at->second);
        armed.erase(at);
      }
      ASSERT_EQ(wheel.size(), expected.size());
      if (expected.empty()) ASSERT_EQ(wheel.soonest(), Instant::max());
      else ASSERT_LE(wheel.soonest(), expected.begin()->first.first);
    }
    for (Probe& timer : timers) wheel.disarm(timer);
    ASSERT_EQ(wheel.size(), 0U);
    ASSERT_EQ(wheel.soonest(), Instant::max());
  }
}

TEST(TimerWheel, FiresSomeAtATime) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerWheel wheel;
  for (int i = 0; i < 100; ++i)
    arm(wheel, timers.emplace_back(fired, i), Instant{1s + i / 30 * 1ms});
  std::size_t left = 100;
  while (left > 0) {
    Fired outcome;
    const std::size_t some = wheel.fire_due(Instant{2s}, outcome, 7);
    ASSERT_EQ(some, std::min<std::size_t>(left, 7));
    left -= some;
    ASSERT_EQ(wheel.size(), left);
    ASSERT_EQ(wheel.soonest() <= Instant{2s}, left > 0) << "whether there is more to fire";
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fired[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(fire_due(wheel, Instant{3s}), 0U);
}

// Timeouts that never fire: arming and disarming leaves nothing to be woken for.
TEST(TimerWheel, WhatWasDisarmedIsForgotten) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerWheel wheel;
  for (int i = 0; i < 100'000; ++i)
    arm(wheel, timers.emplace_back(fired, i), Instant{30s + i * 17us});
  for (Probe& timer : timers) wheel.disarm(timer);
  EXPECT_EQ(wheel.soonest(), Instant::max());
  EXPECT_EQ(fire_due(wheel, Instant{1h}), 0U);
}

}  // namespace
}  // namespace weft::engine
