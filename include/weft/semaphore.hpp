// Semaphore: so many at a time.
//
// Invariant: somebody is listed only while no permit is free.
// Race:      a waiter is cancelled while a permit is released. The release claims the waiter under
//            the lock; if the cancel was first, the permit goes to the next one, or back.
// Rejected:  a permit put back for whoever comes first (the woken may find it gone, and start
//            again at the end of the line); an atomic count beside the lock (two read-modify-writes
//            where the lock needs two exchanges, and the lines contend more).
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>
#include <weft/core/waitable.hpp>

#include <chrono>
#include <cstddef>
#include <utility>

namespace weft {

// Usable from fibers of any engine and from plain threads. First come, first served: a permit that
// is released goes to whoever has waited longest. May be destroyed as soon as an acquire() has
// returned, even if the release() that ended it has not.
class Semaphore {
 public:
  explicit Semaphore(std::size_t permits) : permits_(permits) {}
  Semaphore(std::size_t permits, Name name) : permits_(permits), name_(std::move(name)) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Takes a permit. Parks until there is one. Cancel point: if it throws, none was taken.
  void acquire();
  // The same; false: our scope was cancelled, and nothing is thrown.
  [[nodiscard]] bool acquire(no_throw_t);
  // False: there is none. Never parks, and does not look at our scope.
  [[nodiscard]] bool try_acquire() noexcept;

  // False: the time was over first. Tries once in any case. Cancel point; with no_throw, false also
  // means that our scope was cancelled.
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(std::chrono::duration<Rep, Period> d) {
    checkpoint(Fiber::current());
    return try_acquire() || try_acquire_until(Clock::in(to_duration(d)));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(std::chrono::duration<Rep, Period> d, no_throw_t) {
    return try_acquire_until(Clock::in(to_duration(d)), no_throw);
  }
  [[nodiscard]] bool try_acquire_until(Instant at);
  [[nodiscard]] bool try_acquire_until(Instant at, no_throw_t);

  // Gives permits, whoever took them, or new ones. Never parks.
  void release(std::size_t permits = 1) noexcept;

  // Permits that nobody has, at this moment.
  [[nodiscard]] std::size_t available() const noexcept;

  // A permit that goes back when this is destroyed. Moves; one that was moved from, or that a
  // cancelled permit(no_throw) returned, holds none.
  class [[nodiscard]] Permit {
   public:
    Permit() = default;
    // Takes over a permit that was acquired, by a select for instance.
    explicit Permit(Semaphore& of) noexcept : semaphore_(&of) {}
    Permit(Permit&& other) noexcept : semaphore_(std::exchange(other.semaphore_, nullptr)) {}
    Permit& operator=(Permit&& other) noexcept {
      if (this != &other) {
        release();
        semaphore_ = std::exchange(other.semaphore_, nullptr);
      }
      return *this;
    }
    ~Permit() { release(); }
    explicit operator bool() const noexcept { return semaphore_ != nullptr; }
    // Gives it back now.
    void release() noexcept {
      if (Semaphore* const of = std::exchange(semaphore_, nullptr)) of->release();
    }

   private:
    Semaphore* semaphore_ = nullptr;
  };
  // acquire(), with the release on every path. Cancel point.
  Permit permit() {
    acquire();
    return Permit{*this};
  }
  Permit permit(no_throw_t) { return acquire(no_throw) ? Permit{*this} : Permit{}; }

  // One acquire as an operation, for select: when it has won, we have a permit.
  class Acquire : public Waitable {
   public:
    explicit Acquire(Semaphore& semaphore) noexcept : semaphore_(semaphore) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    Semaphore& semaphore_;
  };
  [[nodiscard]] Acquire on_acquire() noexcept { return Acquire{*this}; }
  template <std::invocable Handler>
  [[nodiscard]] Handled<Acquire, Handler> on_acquire(Handler handler) {
    return Handled<Acquire, Handler>{std::move(handler), *this};
  }

 private:
  mutable Lock lock_;  // protects the two below
  Var<std::size_t> permits_;
  WaitList waiters_;
  Name name_;
};

}  // namespace weft
