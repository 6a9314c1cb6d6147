#include <weft/core/time.hpp>

#include <weft/sim.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(Time, RealAndVirtualTimeDoNotMix) {
  using Steady = std::chrono::steady_clock::time_point;
  static_assert(!std::is_convertible_v<Steady, Instant> && !std::is_convertible_v<Instant, Steady>);
  static_assert(Clock::is_steady);
  EXPECT_EQ(Instant{} + 5ms - Instant{}, 5ms);
}

TEST(Time, SaturatingAddStopsAtTheEndOfTime) {
  EXPECT_EQ(saturating_add(Instant{}, 5ns), Instant{5ns});
  EXPECT_EQ(saturating_add(Instant{7ns}, -5ns), Instant{7ns});
  EXPECT_EQ(saturating_add(Instant{7ns}, Duration::min()), Instant{7ns});
  EXPECT_EQ(saturating_add(Instant{7ns}, Duration::max()), Instant::max());
  EXPECT_EQ(saturating_add(Instant::max(), 1ns), Instant::max());
  EXPECT_EQ(saturating_add(Instant::max() - 1ns, 1ns), Instant::max());
  EXPECT_EQ(saturating_add(Instant{-5s}, 1s), Instant{-4s});
}

TEST(Time, ToDurationRoundsUp) {
  using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
  EXPECT_EQ(to_duration(Picoseconds{1}), 1ns);
  EXPECT_EQ(to_duration(Picoseconds{1'000}), 1ns);
  EXPECT_EQ(to_duration(Picoseconds{1'001}), 2ns);
  EXPECT_EQ(to_duration(std::chrono::duration<double>{0.1e-9}), 1ns);
  EXPECT_EQ(to_duration(3ms), 3'000'000ns);
}

TEST(Time, ToDurationSaturates) {
  using Seconds = std::chrono::duration<double>;
  using Years = std::chrono::duration<std::int64_t, std::ratio<31'556'952>>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(to_duration(Seconds{kInfinity}), Duration::max());
  EXPECT_EQ(to_duration(Seconds{1e30}), Duration::max());
  EXPECT_EQ(to_duration(std::chrono::hours::max()), Duration::max());
  EXPECT_EQ(to_duration(Years{1'000}), Duration::max());
  EXPECT_EQ(to_duration(Duration::max()), Duration::max());
  EXPECT_EQ(to_duration(Seconds{-kInfinity}), Duration::zero());
  EXPECT_EQ(to_duration(-1ns), Duration::zero());
  EXPECT_EQ(to_duration(std::chrono::hours::min()), Duration::zero());
  EXPECT_EQ(to_duration(Duration::min()), Duration::zero());
  EXPECT_EQ(to_duration(Seconds{std::numeric_limits<double>::quiet_NaN()}), Duration::zero());
}

TEST(Time, SleepTakesAnyChronoDuration) {
  SimIo io;
  io.run([] {
    sleep_for(1s);
    sleep_for(std::chrono::duration<float, std::milli>{0.5F});
    sleep_for(std::chrono::duration<std::int64_t, std::pico>{1});
    EXPECT_EQ(Clock::now(), Instant{1'000'500'001ns});
    sleep_until(Instant{2s});
    EXPECT_EQ(Clock::now(), Instant{2s});
    sleep_until(Instant{1s});
    EXPECT_EQ(Clock::now(), Instant{2s}) << "time does not run backwards";
  });
}

}  // namespace
}  // namespace weft
