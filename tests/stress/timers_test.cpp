// Many timers on several workers, armed here and disarmed there: none fires early, none is lost,
// none fires after it was disarmed.
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::scaled;

class TimersStress : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Of, TimersStress, ::testing::Values(1U, 2U, 4U, 16U),
                         ::testing::PrintToStringParamName());

struct Tally {
  std::atomic<int> fired{0};
  std::atomic<int> early{0};
};

class Counted final : public Timer {
 public:
  explicit Counted(Tally& tally) : tally_(tally) {}
  ~Counted() = default;
  int times = 0;  // plain: whoever disarms comes after whoever fired

 private:
  void fire(Fired&) noexcept override {
    ++times;
    ++tally_.fired;
    tally_.early += Clock::now() < when;
  }
  Tally& tally_;
};

// Each fiber arms some, waits a while, and disarms its neighbour's, which may fire meanwhile.
TEST_P(TimersStress, ArmedHereDisarmedThere) {
  FiberIo{{.workers = GetParam()}}.run([] {
    constexpr std::size_t kFibers = 32;
    const int each = scaled(2'000);
    Tally tally;
    std::vector<std::deque<Counted>> timers(kFibers);
    std::deque<Event> armed(kFibers);
    std::atomic<int> disarmed{0}, twice{0};
    nursery([&](Nursery& n) {
      for (std::size_t f = 0; f < kFibers; ++f) {
        n.spawn([&, f] {
          std::mt19937_64 random{f};
          for (int i = 0; i < each; ++i) {
            Counted& timer = timers[f].emplace_back(tally);
            // Up to 4 ms, and some far away: on every wheel that matters.
            const Duration delay{random() >> (42 + random() % 20)};
            timer.when = Clock::now() + (i % 5 == 0 ? delay * 1000 : delay);
            io().arm(timer);
          }
          armed[f].set();
          const std::size_t neighbour = (f + 1) % kFibers;
          armed[neighbour].wait();
          sleep_for(Duration{random() % 2'000'000});
          for (Counted& timer : timers[neighbour]) {
            io().disarm(timer);
            disarmed += timer.times == 0;
            twice += timer.times > 1;
          }
        });
      }
    });
    EXPECT_EQ(tally.early, 0);
    EXPECT_EQ(twice, 0);
    EXPECT_EQ(tally.fired + disarmed, static_cast<int>(kFibers) * each);
  });
}

// Disarmed by threads that are no workers, while the workers fire.
TEST_P(TimersStress, DisarmedByThreads) {
  FiberIo{{.workers = GetParam()}}.run([] {
    const int count = scaled(20'000);
    Tally tally;
    std::deque<Counted> timers;
    std::mt19937_64 random{7};
    Io& engine = io();
    for (int i = 0; i < count; ++i) {
      Counted& timer = timers.emplace_back(tally);
      timer.when = Clock::now() + Duration{random() % 3'000'000};
      engine.arm(timer);
    }
    std::atomic<int> disarmed{0};
    Event done;
    std::thread thread{[&] {
      for (Counted& timer : timers) {
        engine.disarm(timer);
        disarmed += timer.times == 0;
      }
      done.set();
    }};
    done.wait();
    thread.join();
    EXPECT_EQ(tally.early, 0);
    EXPECT_EQ(tally.fired + disarmed, count);
  });
}

// Sleepers and timeouts that race each other by design: whichever comes first, all end.
TEST_P(TimersStress, SleepersUnderTimeouts) {
  FiberIo{{.workers = GetParam()}}.run([] {
    const int count = scaled(5'000);
    std::atomic<int> slept{0}, timed_out{0}, early{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < count; ++i) {
        n.spawn([&, i] {
          std::mt19937_64 random{static_cast<std::uint64_t>(i)};
          const Duration limit{random() % 2'000'000};
          const Duration span{random() % 2'000'000};
          const Instant begin = Clock::now();
          const bool ended = timeout(limit, [&] { sleep_for(span); });
          const Duration took = Clock::now() - begin;
          early += took < (ended ? span : std::min(limit, span));
          ++(ended ? slept : timed_out);
        });
      }
    });
    EXPECT_EQ(early, 0);
    EXPECT_EQ(slept + timed_out, count);
  });
}

}  // namespace
}  // namespace weft
