#include "engine/pace.hpp"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

constexpr Pace::Ticks kMoment = 100;

// Calls that follow each other by `between`; when the last one came.
Pace::Ticks calls(Pace& pace, Pace::Ticks now, unsigned count, Pace::Ticks between) {
  pace.go_on(now);
  for (unsigned i = 0; i < count; ++i) pace.call(now += between);
  return now;
}

TEST(Pace, IsQuickAfterManyQuickCalls) {
  Pace pace{kMoment};
  Pace::Ticks now = calls(pace, 1'000, Pace::kCalls - 1, kMoment - 1);
  EXPECT_FALSE(pace.is_quick(now)) << "one is missing";
  pace.call(++now);
  EXPECT_TRUE(pace.is_quick(now));
}

TEST(Pace, OneLongTurnBeginsItAnew) {
  Pace pace{kMoment};
  const Pace::Ticks now = calls(pace, 1'000, 2 * Pace::kCalls, 1);
  pace.call(now + kMoment);
  EXPECT_FALSE(pace.is_quick(now + kMoment));
  const Pace::Ticks later = calls(pace, now + kMoment, Pace::kCalls, 1);
  EXPECT_TRUE(pace.is_quick(later));
}

TEST(Pace, WhoRunsForLongIsNotQuickEither) {
  Pace pace{kMoment};
  const Pace::Ticks now = calls(pace, 1'000, Pace::kCalls, 1);
  EXPECT_TRUE(pace.is_quick(now + kMoment - 1));
  EXPECT_FALSE(pace.is_late(now + kMoment - 1));
  EXPECT_FALSE(pace.is_quick(now + kMoment));
  EXPECT_TRUE(pace.is_late(now + kMoment));
}

TEST(Pace, TimeInTheKernelIsNotTheirs) {
  Pace pace{kMoment};
  Pace::Ticks now = calls(pace, 1'000, Pace::kCalls, 1);
  pace.tell(now);
  pace.go_on(now += 50 * kMoment);
  EXPECT_TRUE(pace.is_quick(now));
  pace.call(++now);
  EXPECT_TRUE(pace.is_quick(now));
}

TEST(Pace, ALongTurnIsNotForgottenWhenTheKernelIsTold) {
  Pace pace{kMoment};
  Pace::Ticks now = calls(pace, 1'000, Pace::kCalls, 1);
  pace.tell(now += kMoment);
  pace.go_on(++now);
  EXPECT_FALSE(pace.is_quick(now));
}

TEST(Pace, AClockThatIsBehindAnotherIsNotLate) {
  Pace pace{kMoment};
  const Pace::Ticks now = calls(pace, 1'000, Pace::kCalls, 1);
  EXPECT_TRUE(pace.is_quick(now - 1));
  EXPECT_FALSE(pace.is_late(now - 1));
}

TEST(Pace, SleepIsNoWork) {
  Pace pace{kMoment};
  const Pace::Ticks now = calls(pace, 1'000, Pace::kCalls, 1);
  pace.go_on(now + 50 * kMoment);
  pace.call(now + 50 * kMoment + 1);
  EXPECT_TRUE(pace.is_quick(now + 50 * kMoment + 1));
}

}  // namespace
}  // namespace weft::engine
