// Guards: two ways to make the memory below a stack trap.
#pragma once

#include <cstddef>
#include <span>

#include <sys/uio.h>

namespace weft::arch {

// The guard of each of `count` cells in a row, `cell_bytes` apart.
struct GuardRow {
  std::byte* first;
  std::size_t guard_bytes;
  std::size_t cell_bytes;
  std::size_t count;
};

struct GuardsMade {
  std::size_t count;  // from the front of the row
  int error;          // why not all; 0 if all
};

// Whether guard regions of the kernel trap here: tried once per process, by behaviour.
[[nodiscard]] bool kernel_guards_work() noexcept;

GuardsMade make_kernel_guards(const GuardRow& row) noexcept;
GuardsMade make_mprotect_guards(const GuardRow& row) noexcept;

// Mappings are one count for the whole process, and half of them are not ours. Each mprotect guard
// splits two off. The limit is read from vm.max_map_count when it is first asked for.
inline constexpr std::size_t kMappingsPerGuard = 2;
[[nodiscard]] std::size_t mappings_limit() noexcept;                   // vm.max_map_count
[[nodiscard]] std::size_t take_mappings(std::size_t wanted) noexcept;  // how many were granted
void give_mappings(std::size_t count) noexcept;

// madvise for many ranges, in one system call where the kernel can do that. Returns how many ranges
// were advised, from the front; errno says why not more.
std::size_t advise_ranges(std::span<iovec> ranges, int advice) noexcept;

}  // namespace weft::arch
