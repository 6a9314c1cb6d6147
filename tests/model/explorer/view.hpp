// Views: what a thread may still read, and what happened before it.
//
// A view holds, for each Atomic, the oldest store that may still be read, and a vector clock for
// plain data. Release attaches the thread's view to a store; acquire joins that view back in.
// Weak memory is nothing but views that lag behind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "explorer/limits.hpp"

namespace weft::model {

// Raises each of kLength numbers to the other one, if that is larger. Views are joined at nearly
// every step, and -O2 does not vectorise this by itself: eight lanes at a time are spelled out.
template <std::size_t kLength>
inline void raise_each(std::int16_t* target, const std::int16_t* other) noexcept {
  using Lanes [[gnu::vector_size(16)]] = std::int16_t;
  constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(std::int16_t);
  static_assert(kLength % kLanes == 0);
  for (std::size_t i = 0; i < kLength; i += kLanes) {
    Lanes mine, theirs;
    std::memcpy(&mine, target + i, sizeof mine);
    std::memcpy(&theirs, other + i, sizeof theirs);
    mine = mine > theirs ? mine : theirs;
    std::memcpy(target + i, &mine, sizeof mine);
  }
}

// One epoch per thread. A happens before B if B's clock has reached A's epoch of A's thread.
struct VectorClock {
  std::array<Epoch, kMaxThreads> at{};

  void join(const VectorClock& other) noexcept {
    raise_each<kMaxThreads>(at.data(), other.at.data());
  }
  [[nodiscard]] bool reaches(ThreadId thread, Epoch epoch) const noexcept {
    return at[thread] >= epoch;
  }
};

class View {
 public:
  VectorClock clock;

  View() = default;
  View(const View& other) noexcept { *this = other; }
  // Only the slots in use are copied: views are copied at every store.
  View& operator=(const View& other) noexcept {
    clock = other.clock;
    used_ = other.used_;
    std::copy_n(other.floor_.begin(), used_, floor_.begin());
    return *this;
  }

  void clear() noexcept {
    clock = {};
    used_ = 0;
  }

  // The oldest store of `slot` that may still be read.
  [[nodiscard]] Stamp floor(Slot slot) const noexcept {
    return slot < used_ ? floor_[slot] : Stamp{0};
  }

  void raise(Slot slot, Stamp stamp) noexcept {
    grow(slot + 1U);
    floor_[slot] = std::max(floor_[slot], stamp);
  }

  // The locations only, not the clock.
  void join_floors(const View& other) noexcept {
    grow(other.used_);
    for (unsigned i = 0; i < other.used_; i += kBlock)
      raise_each<kBlock>(&floor_[i], &other.floor_[i]);
  }

  void join(const View& other) noexcept {
    clock.join(other.clock);
    join_floors(other);
  }

 private:
  static constexpr unsigned kBlock = 8;
  static_assert(kMaxAtomics % kBlock == 0);

  void grow(unsigned slots) noexcept {
    for (; used_ < slots; used_ += kBlock) std::fill_n(&floor_[used_], kBlock, Stamp{0});
  }

  unsigned used_ = 0;  // a multiple of kBlock; [0, used_) of floor_ is meaningful
  std::array<Stamp, kMaxAtomics> floor_;
};

}  // namespace weft::model
