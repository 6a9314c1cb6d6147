// TimerQueue: armed timers by instant, equal ones in the order of arming. Allocates nothing.
//
// A pairing heap through the timers themselves: arming is O(1), taking the soonest O(log n)
// amortised, disarming any of them likewise. Owned by one thread.
#pragma once

#include <weft/core/timer.hpp>

#include <cstddef>
#include <cstdint>

namespace weft {

class TimerQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return root_ == nullptr; }
  [[nodiscard]] Instant soonest() const noexcept { return root_ ? root_->when : Instant::max(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void arm(Timer& timer) noexcept;
  void disarm(Timer& timer) noexcept;  // idempotent
  // Fires every timer that is due at `now`, soonest first; the number fired.
  std::size_t fire_due(Instant now, Fired& fired) noexcept;

 private:
  static bool before(const Timer& a, const Timer& b) noexcept {
    return a.when != b.when ? a.when < b.when : a.order_ < b.order_;
  }
  static Timer* meld(Timer* a, Timer* b) noexcept;
  static Timer* meld_siblings(Timer* first) noexcept;
  void remove(Timer& timer) noexcept;

  Timer* root_ = nullptr;
  std::uint64_t armed_so_far_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weft
