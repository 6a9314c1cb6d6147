// A wait that a cancel does not end.
#pragma once

#include <weft/core/cancel_scope.hpp>
#include <weft/core/wait.hpp>

namespace weft::sync {

// wait_shielded(), but cheaper for a fiber that is not cancelled: a shielded wait takes it off the
// roll of its scope, and its next cancel point puts it there again. So it waits as it is, and is
// shielded only from the moment a cancel comes; which also puts it at the end of the line.
inline void wait_uncancelled(Waitable& operation, Fiber& self) {
  if ((self.attention.load(std::memory_order_relaxed) & kAttendScope) == 0) {
    try {
      return wait(operation);
    } catch (const Cancelled&) {  // raised again at the next cancel point
    }
  }
  wait_shielded(operation);
}

}  // namespace weft::sync
