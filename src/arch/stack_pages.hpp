// The pages under a stack: how many were touched, giving them back, wiping them.
#pragma once

#include <weft/arch/stack.hpp>

#include <cstddef>

namespace weft::arch {

// From the stack's top down to the lowest page in memory. A page swapped out is not seen.
[[nodiscard]] std::size_t touched_bytes(const Stack& stack, std::size_t page_bytes) noexcept;

// The pages more than `kept_bytes` below the top of each stack go back to the kernel.
void release_pages(const StackChain& stacks, std::size_t kept_bytes,
                   std::size_t page_bytes) noexcept;

// Fills every page in memory. Pages that were never touched stay untouched.
void fill_touched(const Stack& stack, std::byte value, std::size_t page_bytes) noexcept;

// Forgets what AddressSanitizer and Memcheck know about the frames that were here. A fiber's last
// frame is left by a switch, never by a return, so nobody else lifts their marks.
void forget_frames(const Stack& stack) noexcept;

}  // namespace weft::arch
