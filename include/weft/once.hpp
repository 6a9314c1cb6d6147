// Once: something done by the first who comes, while the others wait.
//
// Invariant: at most one caller runs its function; somebody is listed only while one does.
// Race:      the function throws while others wait. Its caller hands the turn to the first of them
//            whose wait it ends, under the lock; one that was cancelled is passed by.
// Rejected:  waking all to compete for the next turn (a herd for each failure).
#pragma once

#include <weft/base/intrusive_list.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace weft {

// Usable from fibers of any engine and from plain threads. Must outlive its calls.
class Once {
 public:
  Once() = default;
  explicit Once(Name name) : name_(std::move(name)) {}
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  // Runs `f(args…)`, unless a call has done so before; then, or if one does so now, returns when it
  // is done. If `f` throws, the exception leaves its own call, and the next caller tries. Parks
  // while another call runs; a cancel point then and before `f`, but not once it is done. A call
  // from inside `f` throws std::system_error (resource_deadlock_would_occur).
  template <class F, class... Args>
    requires std::invocable<F, Args...>
  void call(F&& f, Args&&... args) {
    if (!done() && begin()) run(std::forward<F>(f), std::forward<Args>(args)...);
  }
  // The same; false: our scope was cancelled while another call ran, or before `f`.
  template <class F, class... Args>
    requires std::invocable<F, Args...>
  [[nodiscard]] bool call(no_throw_t, F&& f, Args&&... args) {
    if (done()) return true;
    switch (begin(no_throw)) {
      case Turn::ours: run(std::forward<F>(f), std::forward<Args>(args)...); return true;
      case Turn::done: return true;
      default: return false;
    }
  }

  // Whether a call has returned normally. acquire: pairs with end(); we see what it did.
  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }

 private:
  class Wait;
  enum class Turn : std::uint8_t { none, ours, done };

  template <class F, class... Args>
  void run(F&& f, Args&&... args) {
    try {
      std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
    } catch (...) {
      failed();
      throw;
    }
    succeeded();
  }
  bool begin();
  Turn begin(no_throw_t);
  Turn take_turn() noexcept;
  void succeeded() noexcept;
  void failed() noexcept;

  Atomic<bool> done_{false};  // written under the lock
  Lock lock_;                 // protects the two below
  Var<Fiber*> runner_{nullptr};
  List<Waitable> waiters_;
  Name name_;
};

}  // namespace weft
