// Locks of the C library (std::mutex is one) that the code of a fiber has taken and not released.
//
// A fiber that waits with such a lock held keeps it while others run on its thread. One of them
// that wants it blocks the whole worker, for ever if the first can only go on there; and one that
// goes on elsewhere releases it on another thread than it was locked on, which POSIX forbids.
//
// Checked builds notice: this file's functions take the place of the C library's, remember for
// threads that carry fibers where each lock was taken, and call the real ones. They are weak
// symbols: a program that has its own does not notice ours, and is not watched. With a sanitizer,
// which brings its own, nothing is watched either.
#pragma once

#include "arch/backtrace.hpp"

#include <weft/arch/sanitizer.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::arch {

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_ASAN) && !defined(WEFT_TSAN) && \
    !defined(WEFT_MODEL)
inline constexpr bool kWatchesLocks = true;
#else
inline constexpr bool kWatchesLocks = false;
#endif

struct HeldLock {
  const void* lock = nullptr;
  Backtrace taken_at;
  std::uint64_t holder = 0;  // 0: who runs; else a fiber that gave way with it
  char holder_name[32] = {};
};

// What the thread has locked since begin(), and not released. One for each thread that carries
// fibers. An engine inside an engine has one of its own: what was locked before, by the caller of
// run() or by the outer fiber, is none of its fibers' business.
class LockWatch {
 public:
  // At once; what is locked beyond is not seen.
  static constexpr std::size_t kLocksMax = kWatchesLocks ? 8 : 1;

  LockWatch() = default;
  LockWatch(const LockWatch&) = delete;
  LockWatch& operator=(const LockWatch&) = delete;

  // Both on the thread that is to be watched; in a build that does not watch, they do nothing.
  void begin() noexcept;
  void end() noexcept;

  // The calling thread's innermost; null: it is not watched.
  static LockWatch* here() noexcept;

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  // Oldest first; good until the thread locks or unlocks something.
  [[nodiscard]] std::span<const HeldLock> held() const noexcept { return {locks_, count_}; }
  void forget() noexcept { count_ = 0; }
  // The same, where fibers stay on their thread: they are remembered as those of a fiber that has
  // given way, for find(). Of too many, the oldest are forgotten.
  void leave_to(std::uint64_t fiber, std::string_view name) noexcept;

  // Who on this thread holds the lock, in whichever engine; null: nobody that we know of.
  static const HeldLock* find(const void* lock) noexcept;

  // A lock was taken by a call that returns to `caller`; a lock is released.
  static void note(const void* lock, const void* caller) noexcept;
  static void drop(const void* lock) noexcept;

 private:
  LockWatch* outer_ = nullptr;
  bool inside_ = false;  // the unwinder may lock something of its own
  std::size_t count_ = 0, left_count_ = 0;
  HeldLock locks_[kLocksMax];
  HeldLock left_[kLocksMax];  // by fibers that gave way
};

}  // namespace weft::arch
