// A wait for one operation until an instant.
#pragma once

#include <weft/time.hpp>

namespace weft::sync {

// False: the clock has reached `at`, and `operation` has not completed; with no_throw, also that
// our scope was cancelled. Tries once in any case.
template <class... NoThrow>
[[nodiscard]] bool wait_until(Waitable& operation, Instant at, NoThrow... how) {
  Alarm alarm{at};
  Waitable* const arms[] = {&operation, &alarm};
  return wait(std::span<Waitable* const>{arms}, how...) == 0U;
}

}  // namespace weft::sync
