// SharedMutex: one writer, or many readers.
//
// Invariant: whoever is first in the queue cannot be let in, given who holds the mutex now.
// Race:      a writer at the head of the queue gives up (its time is over, it was cancelled,
//            another arm won). The readers behind it may then go: whoever leaves the queue looks at
//            the new head, under the same lock.
// Rejected:  letting readers pass a writer that waits (starves it under a steady stream of
//            readers); letting writers pass readers (the other way round). In order of arrival,
//            with readers that stand together going together, nobody starves.
#pragma once

#include <weft/base/intrusive_list.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft {

// For std::unique_lock and std::shared_lock. Usable from fibers of any engine and from plain
// threads; may be held over a wait. In order of arrival: a reader that finds a writer waiting waits
// behind it, so a holder must not lock again, not even shared. A writer that does gets
// std::system_error (resource_deadlock_would_occur) from every form but try_lock() and
// try_lock_shared(). May be destroyed as soon as nobody holds it or waits for it, even if the
// unlock that let the last one in has not returned.
class SharedMutex {
 public:
  SharedMutex() = default;
  explicit SharedMutex(Name name) : name_(std::move(name)) {}
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  // ── writers ─────────────────────────────────────────────────────────────────────────────────

  // Returns when we are the only holder. Parks until then. Not a cancel point.
  void lock() { lock(Kind::exclusive); }
  // False: somebody holds it. Never parks, and does not look at our scope.
  [[nodiscard]] bool try_lock() noexcept {
    preemption_point();
    return enter(Kind::exclusive);
  }
  // By the holder. Never parks. Checked builds stop the program if somebody else calls it.
  void unlock() noexcept;
  // False: the time was over first. Tries once in any case. Cancel point; with no_throw, false also
  // means that our scope was cancelled.
  template <class Rep, class Period, class... NoThrow>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> d, NoThrow... how) {
    return try_lock_until(Clock::in(to_duration(d)), how...);
  }
  [[nodiscard]] bool try_lock_until(Instant at) { return lock_until(Kind::exclusive, at); }
  [[nodiscard]] bool try_lock_until(Instant at, no_throw_t) {
    return lock_until(Kind::exclusive, at, no_throw);
  }

  // ── readers: the same, beside each other ────────────────────────────────────────────────────

  void lock_shared() { lock(Kind::shared); }
  // False: a writer holds it, or somebody waits.
  [[nodiscard]] bool try_lock_shared() noexcept {
    preemption_point();
    return enter(Kind::shared);
  }
  void unlock_shared() noexcept;
  template <class Rep, class Period, class... NoThrow>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> d, NoThrow... how) {
    return try_lock_shared_until(Clock::in(to_duration(d)), how...);
  }
  [[nodiscard]] bool try_lock_shared_until(Instant at) { return lock_until(Kind::shared, at); }
  [[nodiscard]] bool try_lock_shared_until(Instant at, no_throw_t) {
    return lock_until(Kind::shared, at, no_throw);
  }

  // ── arms ────────────────────────────────────────────────────────────────────────────────────

 private:
  enum class Kind : std::uint8_t { exclusive, shared };

 public:
  // One lock as an operation, for select: when it has won, we hold the mutex.
  class Acquire : public Waitable {
   public:
    Acquire(SharedMutex& mutex, Kind kind) noexcept : mutex_(mutex), kind_(kind) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    friend class SharedMutex;
    SharedMutex& mutex_;
    const Kind kind_;
    mutable char text_[96];  // of reason(): who asks for it stops the engine, one at a time
  };
  [[nodiscard]] Acquire on_lock() noexcept { return {*this, Kind::exclusive}; }
  [[nodiscard]] Acquire on_lock_shared() noexcept { return {*this, Kind::shared}; }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Acquire, Handler> on_lock(Handler handler) {
    return Handled<Acquire, Handler>{std::move(handler), *this, Kind::exclusive};
  }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Acquire, Handler> on_lock_shared(Handler handler) {
    return Handled<Acquire, Handler>{std::move(handler), *this, Kind::shared};
  }

 private:
  void lock(Kind kind);
  bool enter(Kind kind) noexcept;
  template <class... NoThrow>
  bool lock_until(Kind kind, Instant at, NoThrow... how);
  [[nodiscard]] bool is_open_to(Kind kind) const noexcept;
  void let_in(Kind kind, Fiber& fiber) noexcept;
  void serve(FiberList& woken) noexcept;

  mutable Lock lock_;  // protects the three below
  Var<Fiber*> writer_{nullptr};
  Var<std::size_t> readers_{0};
  List<Waitable> queue_;
  Name name_;
};

}  // namespace weft
