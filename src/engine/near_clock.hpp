// NearClock: what time it is, or a little later, for less than a look at the clock.
//
// Whoever counts a time limit from "now" may count from a moment later: the limit is not over too
// early then. So the clock is read every 250 us, and what the processor has ticked since is taken
// for some more nanoseconds than it was, one in 512.
//
// Invariant: now_or_later() is not before the clock, and less than kAhead after it, as long as the
//            kernel does not change the speed of its clock by more than that part within 250 us.
// Rejected:  the clock as of the last pick (a fiber that has computed for a while would have its
//            time limits cut short); ticks alone (the kernel slews its clock, machines are moved).
#pragma once

#include <weft/arch/ticks.hpp>
#include <weft/core/time.hpp>

#include <chrono>
#include <cstdint>

namespace weft::engine {

class NearClock {
 public:
  static constexpr Duration kAhead = std::chrono::microseconds{2};

  // By one thread at a time.
  [[nodiscard]] Instant now_or_later() noexcept {
    const std::uint64_t since = arch::ticks() - ticks_;
    if (since >= good_for_) [[unlikely]]
      return look();
    return at_ + Duration{static_cast<Duration::rep>(since * scale_ >> kShift)};
  }
  // Whether it knows the speed of the ticks by now, and has looked at the clock not long ago.
  [[nodiscard]] bool is_near() const noexcept { return arch::ticks() - ticks_ < good_for_; }

 private:
  static constexpr unsigned kShift = 24;

  [[gnu::cold, gnu::noinline]] Instant look() noexcept;
  [[nodiscard]] std::uint64_t in_ticks(Duration d) const noexcept;

  // Now, not at the first look: it opens a file, and a run may have no descriptor left.
  const bool steady_ = arch::ticks_are_steady();
  Instant at_{};                // not before the clock, when
  std::uint64_t ticks_ = 0;     // the ticks were this,
  std::uint64_t good_for_ = 0;  // and for so many from then on
  std::uint64_t scale_ = 0;     // these nanoseconds a tick, shifted, are not too few
  std::uint64_t speed_ = 0;     // as measured last; 0: not yet
};

}  // namespace weft::engine
