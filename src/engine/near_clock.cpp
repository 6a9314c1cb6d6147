#include "near_clock.hpp"

#include <weft/core/thread.hpp>

#include <algorithm>
#include <utility>

namespace weft::engine {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// The speed of the ticks is learned from two looks so far apart: then the time that a look takes
// is a smaller part of it than the margin, and the machine has hardly slept in between.
constexpr Duration kShortest = microseconds{240};
constexpr Duration kLongest = milliseconds{20};
constexpr Duration kLookTakes = nanoseconds{150};  // or else somebody took our core
constexpr std::uint64_t kMargin = 512;             // one part in so many
constexpr Duration kGoodFor = microseconds{250};

}  // namespace

Instant NearClock::look() noexcept {
  if (!steady_) return monotonic_now();
  const std::uint64_t before = arch::ticks();
  const Instant now = monotonic_now();
  const std::uint64_t took = arch::ticks() - before;

  const Duration passed = now - at_;
  if (good_for_ == 0 && passed < kShortest) return now;  // still learning
  good_for_ = 0;
  // One that took long is nothing to count from. Only the very first is not known to have been
  // quick: but for the speed from there to the next, nothing is learned from it.
  if (speed_ != 0 && took > in_ticks(kLookTakes)) {
    if (passed > kLongest) speed_ = 0;  // it need not be true any more
    return now;
  }
  if (passed >= kShortest && passed <= kLongest) {
    const std::uint64_t speed =
        (static_cast<std::uint64_t>(passed.count()) << kShift) / ((before - ticks_) | 1);
    const std::uint64_t differs = speed > speed_ ? speed - speed_ : speed_ - speed;
    const std::uint64_t before_that = std::exchange(speed_, std::max<std::uint64_t>(speed, 1));
    // Only if it is what it was: a machine that was moved or stopped has another for once.
    if (differs <= before_that / kMargin) {
      scale_ = speed + speed / kMargin + 1;
      good_for_ = in_ticks(kGoodFor);
    }
  }
  ticks_ = before;
  at_ = now + Duration{1};  // what rounding takes away
  return now;
}

std::uint64_t NearClock::in_ticks(Duration d) const noexcept {
  return (static_cast<std::uint64_t>(d.count()) << kShift) / speed_;
}

}  // namespace weft::engine
