// CondVar: waiting, with a mutex let go, until somebody says that something has changed.
//
// Invariant: whoever has let go of its mutex to wait is listed, or its wait has ended.
// Race:      a notification comes while a waiter is between its mutex and its park. It lists itself
//            first and unlocks after, so that whoever locks the mutex later finds it listed.
//            A waiter is cancelled, or its time is over, while it is notified. The claim decides:
//            a waiter that was notified returns as notified, and one that had ended already is
//            passed by, so that the notification reaches the next.
// Rejected:  a count of notifications beside the list: each wait would take two locks.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>
#include <weft/mutex.hpp>

#include <chrono>
#include <concepts>
#include <utility>

namespace weft {

// std::unique_lock<Mutex>, or whatever has these two.
template <class L>
concept MutexLock = requires(L& lock) {
  { lock.mutex() } -> std::same_as<Mutex*>;
  { lock.owns_lock() } -> std::convertible_to<bool>;
};

// Usable from fibers of any engine and from plain threads. Every wait is called with the mutex
// held, gives it up while it waits, and holds it again when it returns or throws. A wait may return
// without a notification: wait for a condition, or use the forms that take one. May be destroyed as
// soon as its last wait has returned, even if the notify that ended it has not.
class CondVar {
 public:
  CondVar() = default;
  explicit CondVar(Name name) : name_(std::move(name)) {}
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Ends the wait of whoever has waited longest, or of everybody. Never parks. With or without the
  // mutex held.
  void notify_one() noexcept;
  void notify_all() noexcept;

  // Parks until notified. Cancel point: in a cancelled scope it throws at once, with the mutex
  // never given up, and a cancel that comes later ends the wait.
  template <MutexLock L>
  void wait(L& lock) {
    wait_on(*lock.mutex());
  }
  template <MutexLock L, std::predicate Condition>
  void wait(L& lock, Condition condition) {
    while (!condition()) wait(lock);
  }
  // The same; false: our scope was cancelled, and nothing is thrown. The second form returns what
  // the condition says at the end.
  template <MutexLock L>
  [[nodiscard]] bool wait(L& lock, no_throw_t) {
    return wait_on(*lock.mutex(), no_throw);
  }
  template <MutexLock L, std::predicate Condition>
  [[nodiscard]] bool wait(L& lock, Condition condition, no_throw_t) {
    while (!condition())
      if (!wait(lock, no_throw)) return condition();
    return true;
  }

  // False: the time was over first; with a condition, what the condition says at the end. Cancel
  // point; with no_throw, false also means that our scope was cancelled.
  template <MutexLock L>
  bool wait_until(L& lock, Instant at) {
    return wait_on(*lock.mutex(), at);
  }
  template <MutexLock L>
  bool wait_until(L& lock, Instant at, no_throw_t) {
    return wait_on(*lock.mutex(), at, no_throw);
  }
  template <MutexLock L, std::predicate Condition>
  [[nodiscard]] bool wait_until(L& lock, Instant at, Condition condition) {
    while (!condition())
      if (!wait_until(lock, at)) return condition();
    return true;
  }
  template <MutexLock L, std::predicate Condition>
  [[nodiscard]] bool wait_until(L& lock, Instant at, Condition condition, no_throw_t) {
    while (!condition())
      if (!wait_until(lock, at, no_throw)) return condition();
    return true;
  }
  // The same, from now on. What follows the duration is as above.
  template <MutexLock L, class Rep, class Period, class... More>
  bool wait_for(L& lock, std::chrono::duration<Rep, Period> d, More&&... more) {
    return wait_until(lock, Clock::in(to_duration(d)), std::forward<More>(more)...);
  }

 private:
  class Wait;

  void wait_on(Mutex& mutex);
  bool wait_on(Mutex& mutex, no_throw_t);
  bool wait_on(Mutex& mutex, Instant at);
  bool wait_on(Mutex& mutex, Instant at, no_throw_t);

  Lock lock_;  // protects the list
  WaitList waiters_;
  Name name_;
};

}  // namespace weft
