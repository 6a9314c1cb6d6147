#include "engine/near_clock.hpp"

#include <weft/arch/ticks.hpp>
#include <weft/core/thread.hpp>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include <support/watchdog.hpp>

namespace weft::engine {
namespace {

using namespace std::chrono_literals;
using testing::scaled;

// Learned from looks some time apart. False: never, as where others keep taking our core.
bool learns(NearClock& clock) {
  const Instant give_up = monotonic_now() + 5s;
  while (!clock.is_near() && monotonic_now() < give_up) static_cast<void>(clock.now_or_later());
  return clock.is_near();
}

// Where a look at the clock takes long, it cannot be told from one that was interrupted, and
// nothing is learned.
bool is_clock_quick() {
  constexpr int kLooks = 1000;
  Duration least = Duration::max();
  for (int round = 0; round < 10; ++round) {
    const Instant began = monotonic_now();
    for (int i = 0; i < kLooks; ++i) static_cast<void>(monotonic_now());
    least = std::min(least, (monotonic_now() - began) / kLooks);
  }
  return least < 50ns;
}

// Asked in the midst of a run whether the kernel trusts the ticks, it took a descriptor when
// somebody else had need of the last one, or found none and remained a slow clock for ever.
TEST(NearClock, AsksTheKernelWhenItIsMadeAndNotLater) {
  NearClock clock;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool learned = learns(clock);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  std::string source;
  std::ifstream{"/sys/devices/system/clocksource/clocksource0/current_clocksource"} >> source;
  EXPECT_TRUE(learned || source != "tsc" || !is_clock_quick());
}

TEST(NearClock, IsNeverBeforeTheClock) {
  NearClock clock;
  for (int i = 0; i < scaled(2'000'000); ++i) {
    const Instant before = monotonic_now();
    ASSERT_GE(clock.now_or_later(), before) << "at look " << i;
  }
}

TEST(NearClock, IsHardlyAfterIt) {
  if (!arch::ticks_are_steady()) GTEST_SKIP() << "the kernel does not trust the ticks here";
  NearClock clock;
  if (!learns(clock)) {
    EXPECT_FALSE(is_clock_quick());
    GTEST_SKIP() << "a look at the clock takes too long here";
  }
  int near = 0;
  for (int i = 0; i < scaled(200'000); ++i) {
    const Instant seen = clock.now_or_later();
    if (seen < monotonic_now() + NearClock::kAhead) ++near;
  }
  // All but those at which somebody took our core while the clock was read.
  EXPECT_GT(near, scaled(200'000) / 100 * 99);
}

// The speed is known still, but not what time it is.
TEST(NearClock, LooksAgainAfterAPause) {
  NearClock clock;
  static_cast<void>(learns(clock));
  std::this_thread::sleep_for(30ms);
  EXPECT_FALSE(clock.is_near());
  const Instant before = monotonic_now();
  const Instant seen = clock.now_or_later();
  EXPECT_GE(seen, before);
  EXPECT_LE(seen, monotonic_now());
}

TEST(NearClock, IsTheClockWhereNothingIsPositive) {
  FiberIo{{.workers = 1}}.run([] {
    const Instant before = Clock::now();
    const Instant at = Clock::in(0ns);
    EXPECT_GE(at, before);
    EXPECT_LE(at, Clock::now()) << "sleep_for(0) must not arm a timer";
    const Instant past = Clock::in(-1h);
    EXPECT_LE(past, Clock::now());
    EXPECT_EQ(Clock::in(Duration::max()), Instant::max());
  });
}

TEST(NearClock, VirtualTimeIsExact) {
  SimIo{{.seed = 1}}.run([] {
    EXPECT_EQ(Clock::now_or_later(), Clock::now());
    EXPECT_EQ(Clock::in(1h), Clock::now() + 1h);
  });
}

}  // namespace
}  // namespace weft::engine
