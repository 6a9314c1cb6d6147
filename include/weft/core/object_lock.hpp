// ObjectLock: of an object that outlives whoever holds its lock. Costs the worker that takes it
// most no read-modify-write: see BiasedLock.
#pragma once

#include <weft/core/carrier.hpp>

namespace weft {

#if defined(WEFT_MODEL)

using ObjectLock = Sync::KeptLock;  // models of its own explore the real one

#else

class ObjectLock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    if (Carrier* const here = Carrier::if_any()) [[likely]] return lock_.lock(here->taker);
    lock_as_stranger();
  }
  [[gnu::always_inline]] void unlock() noexcept {
    if (Carrier* const here = Carrier::if_any()) [[likely]] return lock_.unlock(here->taker);
    unlock_as_stranger();
  }

 private:
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

#endif

}  // namespace weft
