#include "arch/stack_pages.hpp"

#include <weft/arch/sanitizer.hpp>
#include "arch/stack_guard.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#if defined(WEFT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace weft::arch {
namespace {

std::byte* round_down(std::byte* address, std::size_t page_bytes) noexcept {
  return address - reinterpret_cast<std::uintptr_t>(address) % page_bytes;
}

std::byte* end_of_pages(const Stack& stack, std::size_t page_bytes) noexcept {
  return round_down(stack.top + page_bytes - 1, page_bytes);
}

// Calls visit(page) for each page in memory, from the limit upwards, until it returns false.
template <class Visit>
void each_page_in_memory(const Stack& stack, std::size_t page_bytes, Visit visit) noexcept {
  std::array<unsigned char, 512> in_memory;
  std::byte* const end = end_of_pages(stack, page_bytes);
  for (std::byte* at = stack.limit; at < end;) {
    const std::size_t pages =
        std::min(in_memory.size(), static_cast<std::size_t>(end - at) / page_bytes);
    if (::mincore(at, pages * page_bytes, in_memory.data()) != 0) return;
    for (std::size_t i = 0; i < pages; ++i, at += page_bytes)
      if ((in_memory[i] & 1U) != 0 && !visit(at)) return;
  }
}

}  // namespace

std::size_t touched_bytes(const Stack& stack, std::size_t page_bytes) noexcept {
  std::size_t bytes = 0;
  each_page_in_memory(stack, page_bytes, [&](std::byte* page) {
    bytes = static_cast<std::size_t>(stack.top - page);
    return false;
  });
  return bytes;
}

void release_pages(const StackChain& stacks, std::size_t kept_bytes,
                   std::size_t page_bytes) noexcept {
  std::array<iovec, 64> ranges;
  std::size_t count = 0;
  const Stack* stack = stacks.head;
  for (std::size_t i = 0; i < stacks.count; ++i, stack = stack->next) {
    std::byte* const end = kept_bytes == 0 ? end_of_pages(*stack, page_bytes)
                           : kept_bytes >= stack->bytes()
                               ? stack->limit
                               : round_down(stack->top - kept_bytes, page_bytes);
    if (end > stack->limit)
      ranges[count++] = {stack->limit, static_cast<std::size_t>(end - stack->limit)};
    if (count == ranges.size() || i + 1 == stacks.count) {
      // A failure costs memory, nothing else.
      advise_ranges(std::span(ranges).first(count), MADV_DONTNEED);
      count = 0;
    }
  }
}

void fill_touched(const Stack& stack, std::byte value, std::size_t page_bytes) noexcept {
  each_page_in_memory(stack, page_bytes, [&](std::byte* page) {
    const auto below_top = static_cast<std::size_t>(stack.top - page);
    std::memset(page, std::to_integer<int>(value), std::min(page_bytes, below_top));
    return true;
  });
}

void forget_frames([[maybe_unused]] const Stack& stack) noexcept {
#if defined(WEFT_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(stack.limit, stack.bytes());
#endif
#if __has_include(<valgrind/memcheck.h>)
  VALGRIND_MAKE_MEM_UNDEFINED(stack.limit, stack.bytes());
#endif
}

}  // namespace weft::arch
