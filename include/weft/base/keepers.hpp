// Keepers: how many hold on to something. The last to let go of it disposes of it.
#pragma once

#include <weft/base/sync.hpp>

#include <cstdint>

namespace weft {

class Keepers {
 public:
  explicit Keepers(std::uint32_t count) noexcept : count_(count) {}

  // By one of them.
  void add() noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  // True: that was the last. acq_rel: it sees what the others did. The only one needs no
  // read-modify-write: nobody else is there to make more.
  [[nodiscard]] bool drop(std::memory_order order = std::memory_order_acq_rel) noexcept {
    const bool relaxed = order == std::memory_order_relaxed;
    if (count_.load(relaxed ? order : std::memory_order_acquire) != 1)
      return count_.fetch_sub(1, order) == 1;
    count_.store(0, std::memory_order_relaxed);
    return true;
  }
  // By the only one left, who knows it.
  void only_one() noexcept { count_.store(1, std::memory_order_relaxed); }

  // A hint.
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  Atomic<std::uint32_t> count_;
};

}  // namespace weft
