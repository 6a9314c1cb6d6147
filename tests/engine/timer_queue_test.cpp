#include <weft/engine/timer_queue.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Probe final : public Timer {
 public:
  Probe(std::vector<int>& fired, int number_in) : fired_(&fired), number(number_in) {}
  ~Probe() = default;
  std::function<void()> on_fire;

 private:
  void fire(Fired&) noexcept override {
    fired_->push_back(number);
    if (on_fire) on_fire();
  }
  std::vector<int>* fired_;

 public:
  const int number;
};

void arm(TimerQueue& queue, Probe& timer, Instant when) {
  timer.when = when;
  queue.arm(timer);
}

std::size_t fire_due(TimerQueue& queue, Instant now) {
  Fired fired;  // these timers wake nobody
  return queue.fire_due(now, fired);
}

TEST(TimerQueue, FiresTheSoonestFirst) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.soonest(), Instant::max());
  for (const int i : {5, 1, 4, 2, 3}) arm(queue, timers.emplace_back(fired, i), Instant{i * 1s});
  EXPECT_EQ(queue.size(), 5U);
  EXPECT_EQ(queue.soonest(), Instant{1s});
  EXPECT_EQ(fire_due(queue, Instant{0s}), 0U);
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_EQ(fire_due(queue, Instant{3s}), 3U) << "due at `now` itself, too";
  EXPECT_THAT(fired, ElementsAre(1, 2, 3));
  EXPECT_EQ(queue.soonest(), Instant{4s});
  EXPECT_EQ(fire_due(queue, Instant::max()), 2U);
  EXPECT_THAT(fired, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, EqualInstantsFireInOrderOfArming) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerQueue queue;
  for (int i = 0; i < 100; ++i) arm(queue, timers.emplace_back(fired, i), Instant{1s});
  fire_due(queue, Instant{1s});
  ASSERT_EQ(fired.size(), 100U);
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

TEST(TimerQueue, ArmingAgainGoesToTheEndOfTheTie) {
  std::vector<int> fired;
  Probe a{fired, 1}, b{fired, 2};
  TimerQueue queue;
  arm(queue, a, Instant{1s});
  arm(queue, b, Instant{1s});
  queue.disarm(a);
  arm(queue, a, Instant{1s});
  fire_due(queue, Instant{1s});
  EXPECT_THAT(fired, ElementsAre(2, 1));
}

TEST(TimerQueue, DisarmIsIdempotentAndRemovesAnyTimer) {
  std::vector<int> fired;
  std::deque<Probe> timers;
  TimerQueue queue;
  for (int i = 0; i < 7; ++i) arm(queue, timers.emplace_back(fired, i), Instant{i * 1s});
  Probe stranger{fired, 99};
  queue.disarm(stranger);
  for (const std::size_t i : {0U, 3U, 6U}) {
    queue.disarm(timers[i]);
    queue.disarm(timers[i]);
  }
  EXPECT_EQ(queue.size(), 4U);
  fire_due(queue, Instant::max());
  EXPECT_THAT(fired, ElementsAre(1, 2, 4, 5));
  queue.disarm(timers[1]);  // fired already
  EXPECT_EQ(queue.size(), 0U);
}

TEST(TimerQueue, ATimerMayArmAndDisarmOthersWhileItFires) {
  std::vector<int> fired;
  Probe a{fired, 1}, b{fired, 2}, c{fired, 3}, d{fired, 4};
  TimerQueue queue;
  arm(queue, a, Instant{1s});
  arm(queue, b, Instant{2s});
  a.on_fire = [&] {
    queue.disarm(b);
    arm(queue, c, Instant{1s});   // due as well
    arm(queue, d, Instant{10s});  // not yet
  };
  EXPECT_EQ(fire_due(queue, Instant{5s}), 2U);
  EXPECT_THAT(fired, ElementsAre(1, 3));
  EXPECT_EQ(queue.soonest(), Instant{10s});
  queue.disarm(d);
}

TEST(TimerQueue, ATimerMayArmItselfAgain) {
  std::vector<int> fired;
  Probe a{fired, 1};
  TimerQueue queue;
  int left = 5;
  a.on_fire = [&] {
    if (--left > 0) arm(queue, a, a.when + 1s);
  };
  arm(queue, a, Instant{1s});
  EXPECT_EQ(fire_due(queue, Instant{3s}), 3U);
  EXPECT_EQ(fire_due(queue, Instant{9s}), 2U);
  EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, TheEndsOfTime) {
  std::vector<int> fired;
  Probe first{fired, 1}, last{fired, 2};
  TimerQueue queue;
  arm(queue, last, Instant::max());
  arm(queue, first, Instant::min());
  EXPECT_EQ(queue.soonest(), Instant::min());
  EXPECT_EQ(fire_due(queue, Instant{}), 1U);
  EXPECT_EQ(queue.soonest(), Instant::max());
  EXPECT_EQ(fire_due(queue, Instant::max() - 1ns), 0U);
  queue.disarm(last);
  EXPECT_THAT(fired, ElementsAre(1));
}

TEST(TimerQueue, AgreesWithASortedMapOverRandomOperations) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random{seed};
    std::vector<int> fired;
    std::deque<Probe> timers;
    for (int i = 0; i < 300; ++i) timers.emplace_back(fired, i);
    TimerQueue queue;
    std::map<std::pair<Instant, std::uint64_t>, int> expected;
    std::map<int, std::pair<Instant, std::uint64_t>> armed;
    std::uint64_t order = 0;
    Instant now{};
    for (int step = 0; step < 5'000; ++step) {
      Probe& timer = timers[random() % timers.size()];
      const auto at = armed.find(timer.number);
      if (random() % 50 == 0) {
        now += Duration{random() % 200};
        std::vector<int> due;
        while (!expected.empty() && expected.begin()->first.first <= now) {
          due.push_back(expected.begin()->second);
          armed.erase(expected.begin()->second);
          expected.erase(expected.begin());
        }
        fired.clear();
        ASSERT_EQ(fire_due(queue, now), due.size());
        ASSERT_EQ(fired, due) << "seed " << seed << ", step " << step;
      } else if (at == armed.end()) {
        const std::pair key{now + Duration{random() % 1'000}, order++};
        arm(queue, timer, key.first);
        armed.emplace(timer.number, key);
        expected.emplace(key, timer.number);
      } else {
        queue.disarm(timer);
        expected.erase(at->second);
        armed.erase(at);
      }
      ASSERT_EQ(queue.size(), expected.size());
      ASSERT_EQ(queue.soonest(),
                expected.empty() ? Instant::max() : expected.begin()->first.first);
    }
    fire_due(queue, Instant::max());
  }
}

TEST(TimerQueue, ManyInDescendingAndAscendingOrder) {
  constexpr int kTimers = 200'000;
  std::vector<int> fired;
  std::deque<Probe> timers;
  for (int i = 0; i < kTimers; ++i) timers.emplace_back(fired, i);
  TimerQueue queue;
  for (int i = 0; i < kTimers; ++i) arm(queue, timers[std::size_t(i)], Instant{Duration{-i}});
  EXPECT_EQ(fire_due(queue, Instant::max()), std::size_t{kTimers});
  EXPECT_TRUE(std::is_sorted(fired.rbegin(), fired.rend()));
  fired.clear();
  for (int i = 0; i < kTimers; ++i) arm(queue, timers[std::size_t(i)], Instant{Duration{i}});
  EXPECT_EQ(fire_due(queue, Instant::max()), std::size_t{kTimers});
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

}  // namespace
}  // namespace weft
