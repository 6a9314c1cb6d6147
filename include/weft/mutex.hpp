// Mutex: one holder at a time, among fibers and threads.
//
// Invariant: the word names the holder, or nobody. Somebody is listed as waiting only while
//            kWaiters is set in it, and that bit changes under lock_ alone. If nobody holds it and
//            somebody is listed, a waiter that was woken is on its way to try.
// Race:      a waiter lists itself while the holder lets go. It sets kWaiters first, by
//            compare-exchange against a word that has a holder: that holder's unlock then fails its
//            own compare-exchange and comes to lock_, behind the waiter.
//            A waiter gives up while it is chosen. The claim decides: chosen, it is the holder or
//            must try once more; else the next one is chosen.
//            The next holder destroys the mutex while unlock is still inside. Whoever was chosen
//            passes lock_ before its wait returns; if nobody was chosen, the word is freed by the
//            last step of all.
// Rejected:  handing over at every contended unlock (a convoy: each lock is then a park and a
//            switch, four times slower with two workers); never handing over (ten times slower
//            under a holder that parks, and unfair without bound); spinning (the holder may be a
//            fiber of the same core).
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/spec.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>
#include <cstdint>

namespace weft {

// For std::scoped_lock, std::unique_lock and the like. Usable from fibers of any engine and from
// plain threads; may be held over a wait. Not recursive: a holder that locks again gets
// std::system_error (resource_deadlock_would_occur) from every form but try_lock(), in every build.
// May be destroyed as soon as nobody holds it or waits for it, even if the unlock() that made the
// last holder's lock() return has not returned itself.
//
// Fairness: unlock() lets go and wakes the first waiter, which competes with whoever comes by. A
// waiter that lost that once is next: the following unlock() hands the mutex over to it.
class Mutex {
 public:
  Mutex() = default;
  explicit Mutex(Name name) : name_(std::move(name)) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Returns when we hold it. Parks while somebody else does. Not a cancel point: destructors may
  // lock.
  void lock() {
    Fiber& self = Fiber::current();
    preemption_point(self);
    if (!take(self)) [[unlikely]] lock_contended(self);
  }
  // False: somebody holds it. Never parks, and does not look at our scope.
  [[nodiscard]] bool try_lock() noexcept {
    Fiber& self = Fiber::current();
    preemption_point(self);
    return take(self);
  }
  // By the holder. Never parks. Checked builds stop the program if somebody else calls it.
  void unlock() noexcept {
    // relaxed: we wrote our name ourselves, or our wait ended after it was written.
    std::uintptr_t seen = word_.load(std::memory_order_relaxed);
    if constexpr (spec::kSpecAssert) check_holder(seen);
    // release: pairs with take(); the next holder sees what we did.
    const bool alone = (seen & kWaiters) == 0 &&
                       word_.compare_exchange_strong(seen, 0, unlock_order(),
                                                     std::memory_order_relaxed);
    if (!alone) [[unlikely]] unlock_contended();
  }

  // False: the time was over first. Tries once in any case. Parks while somebody else holds it.
  // Cancel point; with no_throw, false also means that our scope was cancelled.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> d) {
    Fiber& self = Fiber::current();
    checkpoint(self);
    return take(self) || lock_until(Clock::in(to_duration(d)));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> d, no_throw_t) {
    return lock_until(Clock::in(to_duration(d)), no_throw);
  }
  [[nodiscard]] bool try_lock_until(Instant at) { return lock_until(at); }
  [[nodiscard]] bool try_lock_until(Instant at, no_throw_t) { return lock_until(at, no_throw); }

  // One lock as an operation, for select: when it has won, we hold the mutex.
  class Acquire : public Waitable {
   public:
    explicit Acquire(Mutex& mutex) noexcept : Acquire(mutex, Standing::arm) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    friend class Mutex;
    // What becomes of a waiter that is chosen.
    enum class Standing : std::uint8_t {
      newcomer,  // it is woken, and tries
      arm,       // it gets the mutex: a select that has chosen cannot try again
      loser,     // it gets the mutex, and before the others: it has tried in vain
    };
    Acquire(Mutex& mutex, Standing standing) noexcept : mutex_(mutex), standing_(standing) {}
    [[nodiscard]] WaitList& list() const noexcept {
      return standing_.read() == Standing::loser ? mutex_.losers_ : mutex_.waiters_;
    }

    Mutex& mutex_;
    Var<Standing> standing_;
    mutable char text_[80];  // of reason(): who asks for it stops the engine, one at a time
  };
  [[nodiscard]] Acquire on_lock() noexcept { return Acquire{*this}; }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Acquire, Handler> on_lock(Handler handler) {
    return Handled<Acquire, Handler>{std::move(handler), *this};
  }

  [[nodiscard]] const Name& name() const noexcept { return name_; }

 private:
  using Standing = Acquire::Standing;
  static constexpr std::uintptr_t kWaiters = 1;  // frames are aligned: an address leaves it free

  static std::uintptr_t name_of(const Fiber& fiber) noexcept {
    return reinterpret_cast<std::uintptr_t>(&fiber);
  }
  static std::memory_order unlock_order() noexcept {
    return mutant::kMutexReleasesRelaxed ? std::memory_order_relaxed : std::memory_order_release;
  }

  // Held by `self` from now on, if nobody else holds it.
  bool take(Fiber& self) noexcept {
    std::uintptr_t seen = 0;
    do {
      // acquire: pairs with unlock() and pass_on(); we see what the last holder did.
      if (word_.compare_exchange_weak(seen, seen | name_of(self), std::memory_order_acquire,
                                      std::memory_order_relaxed))
        return true;
    } while ((seen & ~kWaiters) == 0);
    return false;
  }
  [[nodiscard]] bool is_held() const noexcept {
    return (word_.load(std::memory_order_relaxed) & ~kWaiters) != 0;
  }
  [[nodiscard]] bool is_held_by(const Fiber& fiber) const noexcept {
    return (word_.load(std::memory_order_relaxed) & ~kWaiters) == name_of(fiber);
  }

  [[gnu::noinline]] void lock_contended(Fiber& self);
  [[gnu::always_inline]] inline bool park(Fiber& self, Acquire& operation);
  template <class... NoThrow>
  bool lock_until(Instant at, NoThrow... how);
  [[gnu::noinline]] void unlock_contended() noexcept;
  bool pass_on(FiberList& woken) noexcept;
  bool announce() noexcept;
  static void check_holder(std::uintptr_t seen) noexcept;

  Atomic<std::uintptr_t> word_{0};  // the holder's frame, and kWaiters
  mutable Lock lock_;               // protects the two below, and kWaiters
  WaitList losers_;
  WaitList waiters_;
  Name name_;
};

}  // namespace weft
