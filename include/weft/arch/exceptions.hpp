// The C++ runtime's exception state, which belongs to a fiber and not to a thread.
//
// A fiber that parks inside a `catch` block, or in a destructor while an exception unwinds, leaves
// its caught exceptions and its uncaught count in per-thread variables. If they were not carried
// along, the next fiber's `throw;` would rethrow a stranger's exception.
#pragma once

#include <cxxabi.h>

namespace weft::arch {

// The layout of the Itanium C++ ABI's __cxa_eh_globals.
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;

  [[nodiscard]] bool empty() const noexcept { return caught == nullptr && uncaught == 0; }
};

// The calling thread's state. The address is stable for the thread's life, so carriers keep it.
inline ExceptionState& thread_exception_state() noexcept {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

}  // namespace weft::arch
