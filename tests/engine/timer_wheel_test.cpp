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
constexpr std::int64_t kSlots = 256;  // of each wheel
constexpr int kWheels = 7;
constexpr std::int64_t kTicks = Duration::max() / kTick;  // there are

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

Instant at(std::int64_t tick) { return Instant{tick * kTick}; }

// The length of a slot of a wheel, in ticks.
std::int64_t slot_of_wheel(int wheel) { return std::int64_t{1} << (8 * wheel); }

std::size_t fire_due(TimerWheel& wheel, Instant now) {
  Fired fired;  // these timers wake nobody
  return wheel.fire_due(now, fired);
}

TEST(TimerWheel, NeverEarlyAndLessThanATickLate) {
  std::vector<int> fired;
  Probe timer{fired, 1};
  TimerWheel wheel;
  for (const Duration delay : {1ns, kTick - 1ns, kTick, kTick + 1ns, kTick * kSlots - 1ns,
                               kTick * kSlots, 1'000'000ns, 5'000'000ns}) {
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
  std::vector<Duration> delays;  // one for each wheel
  for (int i = 0; i < kWheels; ++i) delays.push_back(kTick * slot_of_wheel(i));
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
  for (int i = 0; i < 8; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h + i * kTick});
  EXPECT_EQ(wheel.soonest(), TimerWheel::fires_at(timers[0]));
  for (int i = 8; i < 500; ++i) arm(wheel, timers.emplace_back(fired, i), Instant{1h + i * kTick});
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

// Alone or in a crowd too large to be looked through, by every way to its tick: in one leap, to the
// tick before, and by what is soonest.
void expect_fires_at(std::int64_t now, std::int64_t due, int crowd, int moves_each) {
  const auto where = [=] {
    return ::testing::Message() << "at " << now << ", due at " << due << ", " << crowd << " timers";
  };
  std::vector<int> fired;
  std::deque<Probe> timers;
  for (int i = 0; i < crowd; ++i) timers.emplace_back(fired, i);
  const auto all = static_cast<std::size_t>(crowd);
  for (int way = 0; way < 3; ++way) {
    TimerWheel wheel;
    fire_due(wheel, at(now));
    for (Probe& timer : timers) arm(wheel, timer, at(due));
    ASSERT_LE(wheel.soonest(), at(due)) << where();
    if (way == 1) {
      ASSERT_EQ(fire_due(wheel, at(due) - 1ns), 0U) << where();
    }
    for (int looks = 0; way == 2 && wheel.soonest() < at(due); ++looks) {
      ASSERT_LT(looks, kWheels) << where();
      ASSERT_EQ(fire_due(wheel, wheel.soonest()), 0U) << where();
    }
    if (way != 0) {
      ASSERT_EQ(wheel.soonest(), at(due)) << where();
    }
    ASSERT_EQ(fire_due(wheel, at(due)), all) << where();
    ASSERT_LE(wheel.moves(), all * static_cast<std::size_t>(moves_each)) << where();
    ASSERT_EQ(wheel.soonest(), Instant::max()) << where();
  }
}

// Wherever on the wheel they lie: its bits are kept in words, and the first follows the last.
TEST(TimerWheel, OneIsWokenLateOnlyWhereTimersLieDense) {
  constexpr std::int64_t kRally = TimerWheel::kRallyTicks;
  constexpr int kDense = TimerWheel::kDenseTicks;
  for (std::int64_t first = 1000; first < 1000 + 2 * kSlots; ++first) {
    std::vector<int> fired;
    std::deque<Probe> timers;
    TimerWheel wheel;
    EXPECT_EQ(fire_due(wheel, at(first - 2)), 0U);
    const auto arm_at = [&](std::int64_t tick) {
      arm(wheel, timers.emplace_back(fired, static_cast<int>(timers.size())), at(tick));
    };
    EXPECT_EQ(wheel.soonest_rally(), Instant::max());
    arm_at(first);
    arm_at(first);
    arm_at(first + kRally);  // beyond
    for (int i = 1; i < kDense; ++i) {
      ASSERT_EQ(wheel.soonest_rally(), at(first)) << first;
      arm_at(first + kRally - i);
    }
    ASSERT_EQ(wheel.soonest(), at(first)) << first;
    ASSERT_EQ(wheel.soonest_rally(), at(first + kRally - 1)) << first;
    EXPECT_EQ(fire_due(wheel, at(first)), 2U);
    ASSERT_EQ(wheel.soonest_rally(), at(first + 2 * kRally - kDense)) << first;
    for (Probe& timer : timers) wheel.disarm(timer);
  }
}

// Where a wheel ends and the next one begins, and where a digit carries.
TEST(TimerWheel, BoundariesOfEveryWheel) {
  for (int wheel = 0; wheel < kWheels - 1; ++wheel) {
    const std::int64_t slot = slot_of_wheel(wheel);
    const std::int64_t round = slot * kSlots;
    for (const std::int64_t now : {std::int64_t{0}, slot - 1, slot, 77 * slot + slot / 3,
                                   round - slot, round - 1, round, round + slot - 1, 3 * round - 1})
      for (const std::int64_t ahead : {1, 63, 64, 254, 255, 256, 257, 511, 512, 513})
        for (const std::int64_t due : {(now / slot + ahead) * slot - 1, (now / slot + ahead) * slot,
                                       (now / slot + ahead + 1) * slot - 1, now + ahead * slot}) {
          if (due <= now || due >= kTicks) continue;
          const int highest = due / slot - now / slot < kSlots ? wheel : wheel + 1;
          expect_fires_at(now, due, 1, highest);
          expect_fires_at(now, due, 9, highest);
          if (HasFatalFailure()) return;
        }
  }
}

// The same tick is put on ever lower wheels as it comes near, and several wheels may have a slot
// that starts with it.
TEST(TimerWheel, OneTickFiresInOrderOfArmingFromEveryWheel) {
  for (int wheel = 1; wheel < 6; ++wheel)
    for (const std::int64_t beyond : {0, 1, 5, 255, 256, 300, 65'535, 65'536, 70'000}) {
      const std::int64_t due = 3 * slot_of_wheel(wheel) + beyond;
      std::vector<int> fired;
      std::deque<Probe> timers;
      TimerWheel wheels;
      std::vector<int> all;
      for (int nearer = wheel; nearer >= 0; --nearer)
        for (const std::int64_t far : {300, 256, 255, 3, 2, 1}) {
          const std::int64_t now = due - far * slot_of_wheel(nearer);
          if (now < 0) continue;
          ASSERT_EQ(fire_due(wheels, at(now)), 0U);
          for (int i = 0; i < 2; ++i) {
            all.push_back(static_cast<int>(timers.size()));
            arm(wheels, timers.emplace_back(fired, all.back()), at(due));
          }
        }
      ASSERT_EQ(fire_due(wheels, at(due)), all.size());
      ASSERT_EQ(fired, all) << "wheel " << wheel << ", " << beyond << " beyond its slot";
    }
}

// Sleepers of up to a second never lie in a slot of more than 4.2 ms: wherever the boundaries of
// wheel 2 are, 1.07 s apart, each moves once, and nobody waits for more than such a slot to move.
TEST(TimerWheel, SleepersOfASecondAreSpreadALittleAtATime) {
  const std::int64_t boundary = 5 * slot_of_wheel(2);
  for (const std::int64_t now : {boundary - 1, boundary - 30'000, boundary - 61'000, boundary}) {
    std::vector<int> fired;
    std::deque<Probe> timers;
    TimerWheel wheel;
    fire_due(wheel, at(now));
    std::map<std::int64_t, std::uint64_t> in_slot;
    for (int i = 0; i < 10'000; ++i) {
      arm(wheel, timers.emplace_back(fired, i), at(now) + 1ms + i * 99'900ns);
      ++in_slot[(TimerWheel::fires_at(timers.back()) - at(0)) / (kTick * kSlots)];
    }
    std::uint64_t fullest = 0;
    for (const auto& [slot, count] : in_slot) fullest = std::max(fullest, count);
    ASSERT_LT(fullest, 50U);
    while (wheel.size() != 0) {
      const std::uint64_t before = wheel.moves();
      fire_due(wheel, wheel.soonest());
      ASSERT_LE(wheel.moves() - before, fullest);
    }
    EXPECT_LE(wheel.moves(), timers.size());
    EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
    EXPECT_EQ(fired.size(), timers.size());
  }
}

// Against a sorted map, with delays of every length and jumps of every length, some over many
// revolutions. Half of the instants are starts of slots, so that many share a tick that were armed
// far from each other.
TEST(TimerWheel, AgreesWithASortedMapOverRandomOperations) {
  using Key = std::pair<Instant, std::uint64_t>;  // of firing, then of arming
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random{seed};
    const auto some_time = [&](unsigned longest) {  // in bits: each length is as likely
      return Duration{static_cast<Duration::rep>(random() >> (64 - longest + random() % longest))};
    };
    const unsigned longest_jump = seed % 2 ? 49 : 34;
    const auto some_instant = [&](Instant now) {
      const Instant when = saturating_add(now, some_time(seed % 4 ? longest_jump + 2 : 63));
      if (random() % 2) return when;
      const std::int64_t grain = slot_of_wheel(static_cast<int>(random() % 4));
      return at((when - at(0)) / kTick / grain * grain);
    };
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
      const auto known = armed.find(timer.number);
      if (random() % 50 == 0) {
        now = random() % 2 && !expected.empty() ? std::max(now, expected.begin()->first.first)
                                                : saturating_add(now, some_time(longest_jump));
        std::vector<int> due;
        while (!expected.empty() && expected.begin()->first.first <= now) {
          due.push_back(expected.begin()->second);
          armed.erase(expected.begin()->second);
          expected.erase(expected.begin());
        }
        fired.clear();
        const std::size_t most = random() % 2 ? SIZE_MAX : 1 + random() % 8;
        Fired outcome;
        while (wheel.fire_due(now, outcome, most) == most) {
        }
        ASSERT_EQ(fired, due) << "seed " << seed << ", step " << step;
      } else if (known == armed.end()) {
        arm(wheel, timer, some_instant(now));
        const Instant present{now.time_since_epoch() / kTick * kTick};
        const Key key{std::max(TimerWheel::fires_at(timer), present), order++};
        armed.emplace(timer.number, key);
        expected.emplace(key, timer.number);
      } else {
        wheel.disarm(timer);
        expected.erase(known->second);
        armed.erase(known);
      }
      ASSERT_EQ(wheel.size(), expected.size());
      const Instant soonest = expected.empty() ? Instant::max() : expected.begin()->first.first;
      ASSERT_LE(wheel.soonest(), soonest);
      if (expected.size() <= 8) {
        ASSERT_EQ(wheel.soonest(), soonest);
      }
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
