// Site: the source line an operation was written on, so that a trace reads like the program.
#pragma once

#include <cstdint>

namespace weft::model {

struct Site {
  const char* file = nullptr;
  std::uint32_t line = 0;

  // As a default argument this names the caller's line. It stands in for std::source_location,
  // which clang 14 does not offer.
  static constexpr Site here(const char* file = __builtin_FILE(),
                             std::uint32_t line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

}  // namespace weft::model
