// Chaos: in checked builds, WEFT_CHAOS=seed makes threads hesitate at protocol steps, at random.
//
// Schedules that a quiet machine shows once a year then show within seconds. The seed decides what
// happens at the n-th step of the process; the kernel still decides how threads interleave, so a
// seed makes a fault likely, not certain. Builds without spec checks have none of this.
#pragma once

#include <weft/base/inspected.hpp>

#include <cstdint>

namespace weft::chaos {

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_MODEL)

inline constexpr bool kBuilt = true;

namespace detail {
// Turned on once, or never, for the program and its shared libraries.
[[gnu::visibility("default")]] inline constinit Inspected<bool> on = false;
void hesitate() noexcept;
bool decide(std::uint32_t one_in) noexcept;
}  // namespace detail

// A protocol step: nothing, a few pauses, a yield, or a short sleep.
inline void step() noexcept {
  if (detail::on) [[unlikely]] detail::hesitate();
}
// True once in about `one_in` times, and never without chaos.
inline bool strikes(std::uint32_t one_in) noexcept {
  return detail::on && detail::decide(one_in);
}

#else

inline constexpr bool kBuilt = false;
inline void step() noexcept {}
inline bool strikes(std::uint32_t) noexcept { return false; }

#endif

// Reads WEFT_CHAOS, once per process; every engine asks for it. Throws std::invalid_argument if it
// is set and not a whole number. Builds without chaos ignore it.
void load_environment();

// How many steps and decisions were taken with chaos on, in this process: 0 without chaos. What
// runs under chaos looks here whether it does.
std::uint64_t steps_taken() noexcept;

}  // namespace weft::chaos
