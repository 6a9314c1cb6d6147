// KeptLock: a BriefLock with a cheaper release, for objects that outlive their holders.
//
// Invariant: `held_` is 1 while somebody holds it. Who sleeps has set `sleepers_` before, and
//            whoever releases the lock after that sees it.
// Race:      a holder stores "free" and then looks for sleepers, while a sleeper says that it is
//            one and then looks for "free". One of them must see the other, so there is a fence
//            between the two steps of each: a costly one in the sleeper makes the holder's free.
// Rejected:  an exchange that releases, as in BriefLock: a channel's send is little else than a
//            lock and its release. The price is the look after the release: the next holder must
//            not destroy the lock.
#pragma once

#include <weft/base/mutant.hpp>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace weft {

template <class Sync>
class KeptLock {
 public:
  KeptLock() = default;
  KeptLock(const KeptLock&) = delete;
  KeptLock& operator=(const KeptLock&) = delete;

  void lock() noexcept {
    // acquire: pairs with the release in unlock(); we see what the last holder wrote.
    if (held_.exchange(1, std::memory_order_acquire) != 0) [[unlikely]] lock_contended();
  }

  [[nodiscard]] bool try_lock() noexcept {
    return held_.exchange(1, std::memory_order_acquire) == 0;
  }

  void unlock() noexcept {
    held_.store(0, std::memory_order_release);
    Sync::fence_here();  // pairs with the sleeper's
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]] wake_one();
  }

 private:
  static constexpr unsigned kSpinRounds = 6;  // 4, 8, … 128 pauses: a few hundred nanoseconds

  [[gnu::noinline]] void lock_contended() noexcept {
    for (unsigned round = 0; round < kSpinRounds; ++round) {
      for (unsigned i = 0; i < (4U << round); ++i) Sync::spin();
      if (held_.load(std::memory_order_relaxed) == 0 &&
          held_.exchange(1, std::memory_order_acquire) == 0)
        return;
    }
    // A kernel without that fence: a sleeper looks for itself now and then.
    constexpr std::timespec kNowAndThen{.tv_sec = 0, .tv_nsec = 1'000'000};
    const std::timespec* const timeout = Sync::has_fence_everywhere() ? nullptr : &kNowAndThen;
    for (;;) {
      // Also by who gets it then: others may sleep, and our release wakes the next.
      sleepers_.store(1, std::memory_order_relaxed);
      if (!mutant::kKeptSleeperUnfenced) Sync::fence_everywhere();
      if (held_.exchange(1, std::memory_order_acquire) == 0) return;
      Sync::sleep(sleepers_, 1, timeout);
    }
  }

  [[gnu::cold, gnu::noinline]] void wake_one() noexcept {
    if (sleepers_.exchange(0, std::memory_order_relaxed) == 0) return;
    if (!mutant::kKeptUnlockForgetsSleeper) Sync::wake(sleepers_, 1);
  }

  typename Sync::template Atomic<std::uint32_t> sleepers_{0};
  typename Sync::template Atomic<std::uint8_t> held_{0};  // last: a BiasedLock goes on behind it
};

}  // namespace weft
