// StackMaker: where new stacks come from. Slabs, the ladder of guards, and refusals with a reason.
#pragma once

#include <weft/arch/stack.hpp>
#include <weft/base/sync.hpp>
#include "arch/stack_slab.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace weft::arch {

class StackMaker {
 public:
  StackMaker(const StackOptions& options, const StackLayout& layout) noexcept
      : options_(options), layout_(layout) {}
  ~StackMaker();
  StackMaker(const StackMaker&) = delete;
  StackMaker& operator=(const StackMaker&) = delete;

  // 1 to `wanted` stacks; none if none can be made, and why() says why.
  [[nodiscard]] StackChain make(std::size_t wanted) noexcept;

  [[nodiscard]] std::string why() const;
  void add_to(StackStatistics& statistics) const noexcept;
  void survey(HighWater& high_water) const noexcept;

 private:
  bool choose_guards() noexcept;
  bool reserve_slab() noexcept;
  std::size_t guard(Slab& slab, std::size_t wanted) noexcept;
  std::size_t guard_by_kernel(Slab& slab, std::size_t wanted) noexcept;
  std::size_t guard_by_mprotect(Slab& slab, std::size_t wanted) noexcept;

  void explain_no_memory(std::size_t cells, int error) noexcept;
  void explain_no_mappings(int error) noexcept;

  const StackOptions& options_;
  const StackLayout& layout_;

  // Guarded by lock_, which is held over system calls: thousands of nanoseconds, but rarely.
  mutable Lock lock_;
  Slab* newest_ = nullptr;  // only this one has cells without a guard
  std::size_t slabs_ = 0;
  std::size_t reserved_ = 0;
  std::size_t guarded_ = 0;
  std::size_t mprotected_ = 0;
  Guards guards_ = Guards::automatic;  // until the first stack is made
  std::array<char, 640> why_{};
};

}  // namespace weft::arch
