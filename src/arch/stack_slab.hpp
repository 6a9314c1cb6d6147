// Slabs: mapped rows of cells, and a directory of them that a signal handler can read.
#pragma once

#include <weft/arch/stack.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::arch {

struct SlabEntry;

// One mapping of `cells` cells. The maker guards them from the front; a guarded cell is a stack.
class Slab {
 public:
  // nullptr if the memory cannot be had, with errno.
  static Slab* map(const StackLayout& layout, std::size_t cells,
                   std::uint64_t first_index) noexcept;
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  [[nodiscard]] std::size_t cells() const noexcept { return cells_; }
  [[nodiscard]] std::size_t guarded() const noexcept { return guarded_; }
  [[nodiscard]] std::size_t unguarded() const noexcept { return cells_ - guarded_; }
  [[nodiscard]] std::byte* next_cell() const noexcept {
    return memory_ + guarded_ * layout_.cell_bytes;
  }
  [[nodiscard]] const Stack& stack(std::size_t cell) const noexcept { return stacks_[cell]; }

  // The next `count` cells now have guards: they become stacks.
  [[nodiscard]] StackChain open(std::size_t count) noexcept;

  Slab* older = nullptr;       // the maker's list
  std::size_t mprotected = 0;  // how many of the guards cost mappings

 private:
  Slab(const StackLayout& layout, std::size_t cells, std::uint64_t first_index) noexcept
      : layout_(layout), cells_(cells), first_index_(first_index) {}

  const StackLayout& layout_;
  const std::size_t cells_;
  const std::uint64_t first_index_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<Stack[]> stacks_;
  std::unique_ptr<unsigned[]> valgrind_ids_;  // under Valgrind only: how to deregister
  SlabEntry* entry_ = nullptr;
  std::size_t guarded_ = 0;
};

// The stack below which `address` lies, if it lies in a guard of any slab in the process.
struct GuardHit {
  bool found = false;
  std::uintptr_t limit = 0;  // of the stack whose guard it is: the guard ends here
  std::uintptr_t end = 0;    // of its cell
  std::size_t cell_bytes = 0;
  std::size_t stack_bytes = 0;  // as the options had it
};

// Async-signal-safe: takes no lock and allocates nothing.
[[nodiscard]] GuardHit find_guard(std::uintptr_t address) noexcept;

}  // namespace weft::arch
