// Event: a flag that fibers and threads wait for. The reference waitable: the smallest one.
#pragma once

#include <weft/core/arm.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>

namespace weft {

// Usable from fibers of any engine and from plain threads. Must outlive its waits; may be destroyed
// as soon as a wait() has returned, even if the set() that ended it has not.
class Event {
 public:
  Event() = default;
  explicit Event(Name name) : name_(std::move(name)) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Sets the flag and wakes everybody who waits. Never parks. Idempotent.
  void set() noexcept;
  // Clears it. Waits that have ended stay ended. Never parks.
  void reset() noexcept;
  [[nodiscard]] bool is_set() const noexcept;

  // Returns once the flag is set. Parks until then. Cancel point.
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
    explicit Wait(Event& event) noexcept : event_(event) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    Event& event_;
  };
  [[nodiscard]] Wait on_set() noexcept { return Wait{*this}; }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Wait, Handler> on_set(Handler handler) {
    return Handled<Wait, Handler>{std::move(handler), *this};
  }

 private:
  bool wake_some(FiberList& woken, Fiber& held_back) noexcept;

  mutable Lock lock_;  // protects the two below
  Var<bool> set_{false};
  WaitList waiters_;
  Name name_;
};

}  // namespace weft
