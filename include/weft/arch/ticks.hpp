// A clock for spans of microseconds, read in a few nanoseconds. Not to be compared across machines,
// and never shown to anybody.
#pragma once

#include <cstdint>

namespace weft::arch {

inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  std::uint64_t now = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#endif
}

// Some 10 to 50 us.
inline std::uint64_t ticks_of_a_moment() noexcept {
#if defined(__x86_64__)
  return 50'000;  // at 1 to 5 GHz
#else
  std::uint64_t frequency = 0;
  asm("mrs %0, cntfrq_el0" : "=r"(frequency));
  return frequency / 50'000;
#endif
}

// Whether they come at one speed and are the same on all cores: whether the kernel keeps its own
// time by them. Always the same answer.
bool ticks_are_steady() noexcept;

}  // namespace weft::arch
