// Functions that look at something of the thread's, switch away, and look again.
#pragma once

#include "bare_fiber.hpp"

namespace weft::testing {

struct TwoLooks {
  const void* before = nullptr;
  const void* after = nullptr;
};

// Leave `self`, which runs, for `to`; whoever comes back may do so on another thread.
TwoLooks look_at_slot(BareFiber& self, BareFiber& to) noexcept;
TwoLooks look_at_carrier(BareFiber& self, BareFiber& to) noexcept;
TwoLooks look_at_fiber(BareFiber& self, BareFiber& to) noexcept;

// For comparison: the address of a variable that is merely thread_local.
TwoLooks look_at_thread_local(BareFiber& self, BareFiber& to) noexcept;
const void* thread_local_here() noexcept;

}  // namespace weft::testing
