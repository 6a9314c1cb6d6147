// Backtrace: the return addresses on a stack, and what they are called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::arch {

struct Backtrace {
  static constexpr std::size_t kFramesMax = 32;

  std::array<void*, kFramesMax> frames{};  // innermost first; each is where a call returns to,
  std::size_t count = 0;
  bool exact_first = false;  // but the first of an interrupted thread: that is where it stands

  // The caller's own, from the frame that returns to `first` on; null: all of it. Allocates nothing
  // after prepare_backtraces(), and may be called in a signal handler. A fiber's ends at the
  // fiber's first frame.
  [[gnu::noinline]] void take(const void* first) noexcept;
};

// The unwinder is loaded when it is first needed, which allocates; so not in a signal handler, and
// not inside a lock.
void prepare_backtraces() noexcept;

// "function+0x1c (program+0x11c4)": the function as far as a file that was not stripped tells, and
// what addr2line wants to know.
std::string name_of_address(const void* address, bool is_return_address);

// One line for each frame, `indent` before it.
std::string to_string(const Backtrace& trace, const char* indent);

}  // namespace weft::arch
