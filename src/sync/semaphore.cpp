#include <weft/semaphore.hpp>

#include "timed.hpp"

namespace weft {

void Semaphore::acquire() {
  Fiber& self = Fiber::current();
  for (;;) {
    glance(self);
    lock_.lock();
    if (const std::size_t free = permits_.read(); free > 0) {
      permits_.write(free - 1);
      return lock_.unlock();
    }
    Acquire operation{*this};
    if (park_on(self, operation, lock_, waiters_)) return;
  }
}

bool Semaphore::acquire(no_throw_t) {
  Acquire operation{*this};
  return wait(operation, no_throw);
}

bool Semaphore::try_acquire() noexcept {
  preemption_point();
  const Locked locked{lock_};
  const std::size_t free = permits_.read();
  if (free == 0) return false;
  permits_.write(free - 1);
  return true;
}

bool Semaphore::try_acquire_until(Instant at) {
  Acquire operation{*this};
  return sync::wait_until(operation, at);
}

bool Semaphore::try_acquire_until(Instant at, no_throw_t) {
  Acquire operation{*this};
  return sync::wait_until(operation, at, no_throw);
}

// As in Event::set(), the lock is released before anybody runs, and nothing is touched after.
void Semaphore::release(std::size_t permits) noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    const bool anybody = mutant::kPermitToNobody && !waiters_.empty();
    if (mutant::kPermitTwice) permits_.write(permits_.read() + permits);
    while (permits > 0 && (waiters_.wake_one(woken) || anybody)) --permits;
    if (!mutant::kPermitTwice) permits_.write(permits_.read() + permits);
  }
  resume_all(std::move(woken));
}

std::size_t Semaphore::available() const noexcept {
  const Locked locked{lock_};
  return permits_.read();
}

bool Semaphore::Acquire::try_complete() { return semaphore_.try_acquire(); }

bool Semaphore::Acquire::publish() noexcept {
  const Locked locked{semaphore_.lock_};
  if (semaphore_.permits_.read() > 0 && !mutant::kPermitOverlooked) return false;
  semaphore_.waiters_.link(*this);
  return true;
}

void Semaphore::Acquire::unpublish() noexcept {
  const Locked locked{semaphore_.lock_};
  semaphore_.waiters_.unlink(*this);
}

WaitReason Semaphore::Acquire::reason() const noexcept {
  return {.verb = "semaphore acquire", .name = semaphore_.name_.view(), .object = &semaphore_};
}

}  // namespace weft
