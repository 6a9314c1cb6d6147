// Where tests take hold of real reactors.
//
// What they make their system calls with: the machine's own kernel, unless a test has put another
// in between, to make faults.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/kernel.hpp>

namespace weft::engine {

// Set before the engine's first I/O, and kept alive for as long as its descriptors.
inline Atomic<Kernel*> kernel_in_between{nullptr};

inline Kernel& kernel_for_reactors() noexcept {
  Kernel* const kernel = kernel_in_between.load(std::memory_order_acquire);
  return kernel ? *kernel : system_kernel();
}

// Every call that can be left to the kernel is, be there others to go along with or not.
inline Atomic<bool> all_calls_are_gathered{false};

}  // namespace weft::engine
