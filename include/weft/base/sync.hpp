// Sync: the one place where weft touches shared memory.
//
// Protocol code never names std::atomic, a mutex or a futex; it names `Sync`, which is StdSync in
// every product build. Model builds (WEFT_MODEL) swap in the explorer's Sync, and the very same
// source is then run through every interleaving and every value the memory model allows.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <utility>

#if defined(WEFT_MODEL)
#include "model_sync.hpp"  // tests/model: the explorer's twin of StdSync, member for member
#else
#include <weft/base/brief_lock.hpp>
#include <weft/base/inspected.hpp>
#include <weft/base/kept_lock.hpp>
#endif

namespace weft {

#if !defined(WEFT_MODEL)

// Visible: what is made of it is one thing in the program and its shared libraries.
struct [[gnu::visibility("default")]] StdSync {
  template <class T>
  using Atomic = std::atomic<T>;

  // Plain data that a protocol hands from one thread to another. The explorer checks that every
  // pair of accesses is ordered by happens-before; here it is the bare value.
  template <class T>
  class Var {
   public:
    Var() = default;
    explicit Var(T value) noexcept : value_(std::move(value)) {}
    [[nodiscard]] const T& read() const noexcept { return value_; }
    void write(T value) noexcept { value_ = std::move(value); }

   private:
    T value_{};
  };

  // The same, for data under a lock at which hunch() may look without it.
  template <class T>
  class Glimpsed {
   public:
    explicit Glimpsed(T value) noexcept : value_(value) {}
    [[nodiscard]] T read() const noexcept { return value_; }
    void write(T value) noexcept { value_ = value; }

   private:
    Inspected<T> value_;
  };
  // What one sees without the lock may be old, or half changed: the explorer tries both answers.
  template <class Look>
  static bool hunch(Look look) noexcept {
    return look();
  }

  // A short critical section that is never held across a park.
  using Lock = BriefLock<StdSync>;
  // Its object outlives its holders; releasing it costs no read-modify-write.
  using KeptLock = weft::KeptLock<StdSync>;

  static void fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

  // A sequentially consistent fence, cut in two unequal parts: `here`, on the side that runs often,
  // costs nothing, and only together with `everywhere` on the other side, which costs microseconds,
  // is it one. Two `here` do not order anything between them.
  static void fence_here() noexcept { asm volatile("" ::: "memory"); }
  static void fence_everywhere() noexcept;
  // False, always with the same answer: the kernel has no such barrier for us.
  static bool has_fence_everywhere() noexcept;

  // One step of a busy wait. The explorer prunes executions here that make no progress.
  static void spin() noexcept {
#if defined(__x86_64__)
    asm volatile("pause" ::: "memory");
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
  }

  // Kernel sleep: returns at once if `word` does not hold `seen`, else sleeps until wake() or,
  // when `timeout` is given, until it has elapsed. May return spuriously. Only the low 32 bits of a
  // 64-bit word are compared by the kernel, so the caller loops.
  static void sleep(const Atomic<std::uint32_t>& word, std::uint32_t seen,
                    const std::timespec* timeout = nullptr) noexcept {
    futex_sleep(&word, seen, timeout);
  }
  static void sleep(const Atomic<std::uint64_t>& word, std::uint64_t seen,
                    const std::timespec* timeout = nullptr) noexcept {
    futex_sleep(&word, static_cast<std::uint32_t>(seen), timeout);
  }
  template <class T>
  static void wake(const Atomic<T>& word, unsigned sleepers) noexcept {
    futex_wake(&word, sleepers);
  }

 private:
  static void futex_sleep(const void* low_half, std::uint32_t seen,
                          const std::timespec* timeout) noexcept;
  static void futex_wake(const void* low_half, unsigned sleepers) noexcept;
};

using Sync = StdSync;

static_assert(sizeof(StdSync::Atomic<std::uint64_t>) == sizeof(std::uint64_t));
static_assert(sizeof(StdSync::Var<void*>) == sizeof(void*));
static_assert(sizeof(StdSync::Lock) == sizeof(std::uint32_t));

#else

using Sync = model::ModelSync;

#endif

// The names protocol code uses.
template <class T>
using Atomic = Sync::Atomic<T>;
template <class T>
using Var = Sync::Var<T>;
template <class T>
using Glimpsed = Sync::Glimpsed<T>;
using Lock = Sync::Lock;

// Holds a lock for a scope; std::lock_guard without <mutex>.
template <class AnyLock>
class [[nodiscard]] Locked {
 public:
  explicit Locked(AnyLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  AnyLock& lock_;
};

}  // namespace weft
