// What the functions here must not do: allocate, wait, or call themselves. They may be called
// before any constructor has run, inside an allocator, and by a thread that is ending.
#include "arch/held_locks.hpp"

#include <weft/base/sync.hpp>

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace weft::arch {
namespace {

// In the thread's first block: touching it allocates nothing.
[[gnu::tls_model("initial-exec")]] thread_local constinit LockWatch* watch_here = nullptr;

}  // namespace

// A fiber may ask on one thread and again on another, so the compiler must not see into this.
[[gnu::noinline]] LockWatch* LockWatch::here() noexcept {
  asm volatile("");
  return watch_here;
}

void LockWatch::begin() noexcept {
  if (!kWatchesLocks) return;
  prepare_backtraces();
  outer_ = watch_here;
  count_ = 0;
  watch_here = this;
}

void LockWatch::end() noexcept {
  if (kWatchesLocks) watch_here = outer_;
}

void LockWatch::note(const void* lock, const void* caller) noexcept {
  LockWatch* const watch = watch_here;
  if (!watch || watch->inside_ || watch->count_ == kLocksMax) return;
  watch->inside_ = true;
  HeldLock& held = watch->locks_[watch->count_++];
  held.lock = lock;
  held.taken_at.take(caller);
  watch->inside_ = false;
}

// The latest, if it was locked several times. Not found: locked where nobody watched, or in another
// life of the thread; that is nobody's business.
void LockWatch::drop(const void* lock) noexcept {
  for (LockWatch* watch = watch_here; watch; watch = watch->outer_)
    for (std::size_t i = watch->count_; i-- != 0;) {
      if (watch->locks_[i].lock != lock) continue;
      std::copy(watch->locks_ + i + 1, watch->locks_ + watch->count_, watch->locks_ + i);
      --watch->count_;
      return;
    }
}

}  // namespace weft::arch

// ── in the place of the C library's ─────────────────────────────────────────────────────────────

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_ASAN) && !defined(WEFT_TSAN)

namespace {

using weft::Atomic;
using weft::arch::LockWatch;

// The next definition after ours: the C library's, or that of a library loaded before it.
struct Real {
  const char* name;
  Atomic<void*> cache{nullptr};

  template <class... Arguments>
  int operator()(Arguments... arguments) noexcept {
    // relaxed: whoever comes first, all find the same.
    void* found = cache.load(std::memory_order_relaxed);
    if (!found) {
      found = ::dlsym(RTLD_NEXT, name);
      cache.store(found, std::memory_order_relaxed);
    }
    if (!found) return ENOSYS;
    return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
  }
};

template <class AnyLock, class... Arguments>
int noted(Real& real, const void* caller, AnyLock* lock, Arguments... arguments) noexcept {
  const int error = real(lock, arguments...);
  if (error == 0 || error == EOWNERDEAD) LockWatch::note(lock, caller);
  return error;
}

}  // namespace

extern "C" {

[[gnu::weak]] int pthread_mutex_lock(pthread_mutex_t* lock) noexcept {
  static constinit Real real{"pthread_mutex_lock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_mutex_trylock(pthread_mutex_t* lock) noexcept {
  static constinit Real real{"pthread_mutex_trylock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_mutex_timedlock(pthread_mutex_t* lock, const timespec* until) noexcept {
  static constinit Real real{"pthread_mutex_timedlock"};
  return noted(real, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_mutex_clocklock(pthread_mutex_t* lock, clockid_t clock,
                                          const timespec* until) noexcept {
  static constinit Real real{"pthread_mutex_clocklock"};
  return noted(real, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real real{"pthread_rwlock_rdlock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real real{"pthread_rwlock_wrlock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real real{"pthread_rwlock_tryrdlock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real real{"pthread_rwlock_trywrlock"};
  return noted(real, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                             const timespec* until) noexcept {
  static constinit Real real{"pthread_rwlock_timedrdlock"};
  return noted(real, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                             const timespec* until) noexcept {
  static constinit Real real{"pthread_rwlock_timedwrlock"};
  return noted(real, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                             const timespec* until) noexcept {
  static constinit Real real{"pthread_rwlock_clockrdlock"};
  return noted(real, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                             const timespec* until) noexcept {
  static constinit Real real{"pthread_rwlock_clockwrlock"};
  return noted(real, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_mutex_unlock(pthread_mutex_t* lock) noexcept {
  static constinit Real real{"pthread_mutex_unlock"};
  LockWatch::drop(lock);
  return real(lock);
}
[[gnu::weak]] int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real real{"pthread_rwlock_unlock"};
  LockWatch::drop(lock);
  return real(lock);
}

}  // extern "C"

#endif
