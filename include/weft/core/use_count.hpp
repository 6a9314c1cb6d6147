// UseCount: how many calls on an object are under way, and whether it is being closed.
//
// Invariant: after close() nobody gets in; when is_quiet(), nobody who got in before is left.
// Race:      a call begins while another fiber closes. Both are one read-modify-write of the same
//            word: either the call is counted, and the closer waits for it, or it sees the mark.
#pragma once

#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>

#include <cstdint>

namespace weft {

class UseCount {
 public:
  // False: it is closed. Else leave() must follow.
  [[nodiscard]] bool enter() noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    do {
      // Not counted even for a moment: the closer would wait for us, and we would not tell it.
      if ((word & kClosed) && !mutant::kCountedThoughClosed) return false;
    } while (!word_.compare_exchange_weak(word, word + kOne, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    if (!mutant::kCountedThoughClosed || !(word & kClosed)) return true;
    static_cast<void>(leave());
    return false;
  }
  // True: it is closed, and we were the last who used it; the closer must be told.
  [[nodiscard]] bool leave() noexcept {
    // release: pairs with is_quiet(); the closer sees that we are done.
    return word_.fetch_sub(kOne, std::memory_order_acq_rel) == (kOne | kClosed) &&
           !mutant::kLastUserTellsNobody;
  }
  // False: somebody else has closed it.
  bool close() noexcept { return !(word_.fetch_or(kClosed, std::memory_order_acq_rel) & kClosed); }
  [[nodiscard]] bool is_closed() const noexcept {
    return (word_.load(std::memory_order_acquire) & kClosed) != 0;
  }
  [[nodiscard]] bool is_quiet() const noexcept {
    return word_.load(std::memory_order_acquire) == kClosed;
  }
  // By who has it alone: it may be used again.
  void reopen() noexcept { word_.fetch_and(~kClosed, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kClosed = 1;
  static constexpr std::uint32_t kOne = 2;

  Atomic<std::uint32_t> word_{0};
};

}  // namespace weft
