// Latch: a count that goes down to zero once, and those who wait for that.
//
// Invariant: somebody is listed only while the count is not zero.
// Race:      a waiter lists itself while the count goes to zero; the lock orders the two. Whoever
//            brought it to zero may still be inside when a waiter returns and destroys the latch:
//            every wait passes the lock on its way out, and nothing is touched after it.
// Rejected:  an atomic count beside the lock: a wait that saw it at zero could destroy the latch
//            under the hands of who is about to wake the others.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>
#include <cstddef>

namespace weft {

// Usable from fibers of any engine and from plain threads. May be destroyed as soon as a wait() has
// returned, even if the count_down() that ended it has not.
class Latch {
 public:
  explicit Latch(std::size_t count) : left_(count) {}
  Latch(std::size_t count, Name name) : left_(count), name_(std::move(name)) {}
  Latch(const Latch&) = delete;
  Latch& operator=(const Latch&) = delete;

  // Subtracts `n`; at zero everybody who waits is woken. Never parks. More than are left: throws
  // std::invalid_argument, and nothing has changed.
  void count_down(std::size_t n = 1);
  // count_down(n), then wait(). The first part is not taken back if the wait is cancelled.
  void arrive_and_wait(std::size_t n = 1) {
    count_down(n);
    wait();
  }

  // Whether the count is zero. It stays so.
  [[nodiscard]] bool try_wait() const noexcept;
  // Returns once it is. Parks until then. Cancel point.
  void wait();
  // The same; false: our scope was cancelled, and nothing is thrown.
  [[nodiscard]] bool wait(no_throw_t);
  // False: the time was over first. Looks once in any case. Cancel point; with no_throw, false also
  // means that our scope was cancelled.
  template <class Rep, class Period>
  [[nodiscard]] bool wait_for(std::chrono::duration<Rep, Period> d) {
    return wait_until(Clock::in(to_duration(d)));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool wait_for(std::chrono::duration<Rep, Period> d, no_throw_t) {
    return wait_until(Clock::in(to_duration(d)), no_throw);
  }
  [[nodiscard]] bool wait_until(Instant at);
  [[nodiscard]] bool wait_until(Instant at, no_throw_t);

  // One wait as an operation, for select.
  class Wait : public Waitable {
   public:
    explicit Wait(Latch& latch) noexcept : latch_(latch) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    Latch& latch_;
  };
  [[nodiscard]] Wait on_done() noexcept { return Wait{*this}; }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Wait, Handler> on_done(Handler handler) {
    return Handled<Wait, Handler>{std::move(handler), *this};
  }

 private:
  mutable Lock lock_;  // protects the two below
  Var<std::size_t> left_;
  WaitList waiters_;
  Name name_;
};

}  // namespace weft
