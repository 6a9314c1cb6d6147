// ObjectLock: of an object that outlives whoever holds its lock. Costs the worker that takes it
// most no read-modify-write: see BiasedLock.
#pragma once

#include <weft/core/carrier.hpp>

namespace weft {

#if defined(WEFT_MODEL)

using ObjectLock = Sync::KeptLock;  // models of its own explore the real one

// Holds one as a lock of its own: by a carrier, if the caller knows it already.
class ObjectLockHere {
 public:
  explicit ObjectLockHere(ObjectLock& lock) noexcept : lock_(lock) {}
  ObjectLockHere(ObjectLock& lock, Carrier&) noexcept : lock_(lock) {}
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

 private:
  ObjectLock& lock_;
};

#else

class ObjectLock {
 public:
  [[gnu::always_inline]] void lock() noexcept { lock(Carrier::if_any()); }
  [[gnu::always_inline]] void unlock() noexcept { unlock(Carrier::if_any()); }

 private:
  friend class ObjectLockHere;
  [[gnu::always_inline]] void lock(Carrier* here) noexcept {
    if (here) [[likely]] return lock_.lock(here->taker);
    lock_as_stranger();
  }
  [[gnu::always_inline]] void unlock(Carrier* here) noexcept {
    if (here) [[likely]] return lock_.unlock(here->taker);
    unlock_as_stranger();
  }
  // By a thread that is no carrier, and need not become one for this: that could fail.
  [[gnu::cold, gnu::noinline]] void lock_as_stranger() noexcept {
    LockTaker<Sync> nobody;
    lock_.lock(nobody);
  }
  [[gnu::cold, gnu::noinline]] void unlock_as_stranger() noexcept {
    LockTaker<Sync> nobody;
    lock_.unlock(nobody);
  }

  BiasedLock<Sync> lock_;
};
static_assert(sizeof(ObjectLock) == 8);

// The same lock, by a thread that asks but once who it is. Not to be kept over a switch.
class ObjectLockHere {
 public:
  [[gnu::always_inline]] explicit ObjectLockHere(ObjectLock& lock) noexcept
      : lock_(lock), here_(Carrier::if_any()) {}
  [[gnu::always_inline]] ObjectLockHere(ObjectLock& lock, Carrier& here) noexcept
      : lock_(lock), here_(&here) {}
  [[gnu::always_inline]] void lock() noexcept { lock_.lock(here_); }
  [[gnu::always_inline]] void unlock() noexcept { lock_.unlock(here_); }

 private:
  ObjectLock& lock_;
  Carrier* const here_;
};

// Holds such a lock for a scope.
template <>
class [[nodiscard]] Locked<ObjectLock> {
 public:
  [[gnu::always_inline]] explicit Locked(ObjectLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  [[gnu::always_inline]] ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  ObjectLockHere lock_;
};

#endif

}  // namespace weft
