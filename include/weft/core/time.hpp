// Time as the running fiber's engine sees it.
//
// Clock is an own type: its time_point does not convert from std::chrono::steady_clock's, so real
// and virtual time cannot be mixed by accident.
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

using Duration = std::chrono::nanoseconds;

struct Clock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock, duration>;
  static constexpr bool is_steady = true;

  // The engine's time: monotonic, or virtual under simulation. Never a cancel point.
  static time_point now() noexcept;
  // now(), or up to some microseconds later, for less: time limits may be counted from it.
  static time_point now_or_later() noexcept;
  // From when on `d` has passed, counted from this call: now_or_later() + d. If `d` is not
  // positive, now().
  static time_point in(duration d) noexcept;
};

using Instant = Clock::time_point;

// `from + delay`, stopping at the ends of time instead of wrapping. A negative delay is none.
constexpr Instant saturating_add(Instant from, Duration delay) noexcept {
  if (delay <= Duration::zero()) return from;
  const bool beyond = from > Instant{} && delay > Instant::max() - from;
  return beyond ? Instant::max() : from + delay;
}

// Any chrono duration as nanoseconds, rounded up (a timer never fires early) and saturating.
template <class Rep, class Period>
constexpr Duration to_duration(std::chrono::duration<Rep, Period> d) noexcept {
  using Wide = std::chrono::duration<long double, Duration::period>;
  const Wide wide = d;
  if (!(wide > Wide::zero())) return Duration::zero();  // not a number, too
  if (wide >= Wide{Duration::max()}) return Duration::max();
  return std::chrono::ceil<Duration>(d);
}

}  // namespace weft
