// LockMark: a worker's mark, by which object locks know that they favour it.
#pragma once

#include <weft/base/biased_lock.hpp>
#include <weft/base/sync.hpp>

#include <bitset>
#include <cstdint>

namespace weft::engine {

// Nobody else's while it is there. With more workers than marks, some have none, and object locks
// cost them what they cost plain threads; likewise all of them where a favour could not be ended.
class LockMark {
 public:
  LockMark() noexcept {
    if (!Sync::has_fence_everywhere()) return;
    const Locked locked{lock_};
    for (std::uint16_t mark = LockTaker<Sync>::kUnmarked + 1; mark < kLockMarks && !value_; ++mark)
      if (!taken_[mark]) value_ = mark;
    taken_[value_] = true;
  }
  ~LockMark() {
    const Locked locked{lock_};  // whoever takes it next sees all that we did under it
    taken_[value_] = false;
  }
  LockMark(const LockMark&) = delete;
  LockMark& operator=(const LockMark&) = delete;

  [[nodiscard]] std::uint16_t value() const noexcept { return value_; }

 private:
  static inline constinit Lock lock_;  // protects taken_
  static inline constinit std::bitset<kLockMarks> taken_;

  std::uint16_t value_ = LockTaker<Sync>::kUnmarked;
};

}  // namespace weft::engine
