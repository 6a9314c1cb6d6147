// LockMark: a worker's mark, by which object locks know that they favour it.
#pragma once

#include <weft/base/biased_lock.hpp>
#include <weft/base/sync.hpp>

#include <cstdint>

namespace weft::engine {

// Nobody else's while it is there. With more workers than marks, some have none, and object locks
// cost them what they cost plain threads; likewise all of them where a favour could not be ended.
class LockMark {
 public:
  LockMark() noexcept {
    if (!Sync::has_fence_everywhere()) return;
    for (std::uint16_t mark = kUnmarked + 1; mark < kLockMarks && value_ == kUnmarked; ++mark)
      if (take(lock_seats<Sync>[mark])) value_ = mark;
  }
  ~LockMark() {
    // release: whoever takes it next sees all that we did under it.
    if (value_ != kUnmarked) lock_seats<Sync>[value_].taken.store(false, std::memory_order_release);
  }
  LockMark(const LockMark&) = delete;
  LockMark& operator=(const LockMark&) = delete;

  [[nodiscard]] std::uint16_t value() const noexcept { return value_; }

 private:
  static constexpr std::uint16_t kUnmarked = LockTaker<Sync>::kUnmarked;

  static bool take(LockSeat<Sync>& seat) noexcept {
    return !seat.taken.load(std::memory_order_relaxed) &&
           !seat.taken.exchange(true, std::memory_order_acquire);
  }

  std::uint16_t value_ = kUnmarked;
};

}  // namespace weft::engine
