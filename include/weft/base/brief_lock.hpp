// BriefLock: one word, held for tens of nanoseconds, never across a park.
//
// Invariant: `kFree` means nobody holds it; `kHeld` one holder, no sleeper to wake; `kContended`
//            one holder, and somebody may sleep.
// Race:      a sleeper announces itself (exchange to kContended) while the holder releases; the
//            kernel's compare inside sleep() settles it: the word is no longer kContended.
// Rejected:  ticket locks (14 to 30 times slower here once workers outnumber cores); spinning
//            without end (a preempted holder stalls every core for a time slice).
#pragma once

#include <weft/base/mutant.hpp>

#include <atomic>
#include <cstdint>

namespace weft {

template <class Sync>
class BriefLock {
 public:
  BriefLock() = default;
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

  void lock() noexcept {
    // acquire: pairs with the release in unlock(); we see what the last holder wrote.
    std::uint32_t free = kFree;
    if (!word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                       std::memory_order_relaxed)) [[unlikely]]
      lock_contended();
  }

  [[nodiscard]] bool try_lock() noexcept {
    std::uint32_t free = kFree;
    return word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  void unlock() noexcept {
    // The exchange is the holder's last touch of the protected object. A sleeper's wake needs only
    // the address, so the object may already be gone when the kernel is told.
    const auto order =
        mutant::kUnlockRelaxed ? std::memory_order_relaxed : std::memory_order_release;
    if (word_.exchange(kFree, order) == kContended) [[unlikely]]
      if (!mutant::kUnlockForgetsSleeper) Sync::wake(word_, 1);
  }

 private:
  enum : std::uint32_t { kFree = 0, kHeld = 1, kContended = 2 };
  static constexpr unsigned kSpinRounds = 6;  // 4, 8, … 128 pauses: a few hundred nanoseconds

  [[gnu::noinline]] void lock_contended() noexcept {
    for (unsigned round = 0; round < kSpinRounds; ++round) {
      for (unsigned i = 0; i < (4U << round); ++i) Sync::spin();
      if (word_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
    }
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree)
      Sync::sleep(word_, kContended);
  }

  typename Sync::template Atomic<std::uint32_t> word_{kFree};
};

}  // namespace weft
