// What the functions here must not do: allocate, wait, or call themselves. They may be called
// before any constructor has run, inside an allocator, and by a thread that is ending.
#include "arch/held_locks.hpp"

#include "arch/c_library.hpp"
#include "arch/tripwire.hpp"

#include <pthread.h>
#include <sys/single_threaded.h>
#include <unistd.h>

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
  count_ = left_count_ = 0;
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

namespace {

// The latest, if it was locked several times; null: none.
HeldLock* last_of(const void* lock, HeldLock* first, std::size_t count) noexcept {
  for (std::size_t i = count; i-- != 0;)
    if (first[i].lock == lock) return first + i;
  return nullptr;
}

void take_out(HeldLock* entry, HeldLock* first, std::size_t& count) noexcept {
  std::copy(entry + 1, first + count, entry);
  --count;
}

}  // namespace

// Not found: locked where nobody watched, or in another life of the thread; that is nobody's
// business.
void LockWatch::drop(const void* lock) noexcept {
  for (LockWatch* watch = watch_here; watch; watch = watch->outer_) {
    if (HeldLock* const held = last_of(lock, watch->locks_, watch->count_))
      return take_out(held, watch->locks_, watch->count_);
    if (HeldLock* const left = last_of(lock, watch->left_, watch->left_count_))
      return take_out(left, watch->left_, watch->left_count_);
  }
}

void LockWatch::leave_to(std::uint64_t fiber, std::string_view name) noexcept {
  for (const HeldLock& held : this->held()) {
    if (left_count_ == kLocksMax) take_out(left_, left_, left_count_);
    HeldLock& left = left_[left_count_++] = held;
    left.holder = fiber;
    left.holder_name[name.copy(left.holder_name, sizeof left.holder_name - 1)] = '\0';
  }
  forget();
}

const HeldLock* LockWatch::find(const void* lock) noexcept {
  for (LockWatch* watch = watch_here; watch; watch = watch->outer_) {
    if (const HeldLock* held = last_of(lock, watch->locks_, watch->count_)) return held;
    if (const HeldLock* left = last_of(lock, watch->left_, watch->left_count_)) return left;
  }
  return nullptr;
}

}  // namespace weft::arch

// ── in the place of the C library's ─────────────────────────────────────────────────────────────

#if defined(WEFT_SPEC_ASSERT) && WEFT_SPEC_ASSERT && !defined(WEFT_ASAN) && !defined(WEFT_TSAN)

namespace {

using weft::arch::LockWatch;
using weft::arch::Real;
using weft::arch::Trip;
using weft::arch::Tripwire;

template <class AnyLock, class... Arguments>
int noted(Real<>& real, const void* caller, AnyLock* lock, Arguments... arguments) noexcept {
  const int error = real(lock, arguments...);
  if (error == 0 || error == EOWNERDEAD) LockWatch::note(lock, caller);
  return error;
}

// Whether this thread has it already, by what the C library itself remembers. Of readers it
// remembers only how many there are.
bool is_ours(const pthread_mutex_t& lock) noexcept { return lock.__data.__owner == ::gettid(); }
bool is_written_here(const pthread_rwlock_t& lock) noexcept {
  return lock.__data.__cur_writer == ::gettid();
}
bool is_ours(const pthread_rwlock_t& lock) noexcept {
  return is_written_here(lock) || LockWatch::find(&lock) != nullptr;
}

// Whether it refuses such a thread instead of keeping it.
bool refuses_us(const pthread_mutex_t& lock) noexcept {
  return is_ours(lock) && (lock.__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK;
}
bool refuses_us(const pthread_rwlock_t& lock) noexcept { return is_written_here(lock); }

// Like noted(), for a function that may block. Where a simulation runs, first without blocking.
template <class AnyLock, class... Arguments>
int awaited(Real<>& real, Real<>& attempt, const void* caller, AnyLock* lock,
            Arguments... arguments) noexcept {
  if (Tripwire::here()) [[unlikely]] {
    const int error = noted(attempt, caller, lock);
    if (error != EBUSY) return error;
    const bool ours = is_ours(*lock);
    const bool can_end = sizeof...(arguments) != 0 || refuses_us(*lock);
    Tripwire::touch({.what = Trip::lock,
                     .function = real.name,
                     .caller = caller,
                     .lock = lock,
                     .is_ours = ours,
                     .for_ever = !can_end && (ours || __libc_single_threaded != 0)});
  }
  return noted(real, caller, lock, arguments...);
}

constinit Real<> try_mutex{"pthread_mutex_trylock"};
constinit Real<> try_read{"pthread_rwlock_tryrdlock"};
constinit Real<> try_write{"pthread_rwlock_trywrlock"};

}  // namespace

extern "C" {

[[gnu::weak]] int pthread_mutex_lock(pthread_mutex_t* lock) noexcept {
  static constinit Real<> real{"pthread_mutex_lock"};
  return awaited(real, try_mutex, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_mutex_trylock(pthread_mutex_t* lock) noexcept {
  return noted(try_mutex, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_mutex_timedlock(pthread_mutex_t* lock, const timespec* until) noexcept {
  static constinit Real<> real{"pthread_mutex_timedlock"};
  return awaited(real, try_mutex, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_mutex_clocklock(pthread_mutex_t* lock, clockid_t clock,
                                          const timespec* until) noexcept {
  static constinit Real<> real{"pthread_mutex_clocklock"};
  return awaited(real, try_mutex, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real<> real{"pthread_rwlock_rdlock"};
  return awaited(real, try_read, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real<> real{"pthread_rwlock_wrlock"};
  return awaited(real, try_write, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
  return noted(try_read, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
  return noted(try_write, __builtin_return_address(0), lock);
}
[[gnu::weak]] int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock,
                                             const timespec* until) noexcept {
  static constinit Real<> real{"pthread_rwlock_timedrdlock"};
  return awaited(real, try_read, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock,
                                             const timespec* until) noexcept {
  static constinit Real<> real{"pthread_rwlock_timedwrlock"};
  return awaited(real, try_write, __builtin_return_address(0), lock, until);
}
[[gnu::weak]] int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                             const timespec* until) noexcept {
  static constinit Real<> real{"pthread_rwlock_clockrdlock"};
  return awaited(real, try_read, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                             const timespec* until) noexcept {
  static constinit Real<> real{"pthread_rwlock_clockwrlock"};
  return awaited(real, try_write, __builtin_return_address(0), lock, clock, until);
}
[[gnu::weak]] int pthread_mutex_unlock(pthread_mutex_t* lock) noexcept {
  static constinit Real<> real{"pthread_mutex_unlock"};
  LockWatch::drop(lock);
  return real(lock);
}
[[gnu::weak]] int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  static constinit Real<> real{"pthread_rwlock_unlock"};
  LockWatch::drop(lock);
  return real(lock);
}

}  // extern "C"

#endif
