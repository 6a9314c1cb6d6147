#include <weft/event.hpp>

#include "timed.hpp"

namespace weft {

// The lock is released before anybody runs, and not touched after: a waiter that returns may
// destroy the event. Even a wait that completes at once takes the lock, for the same reason.
void Event::set() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (!mutant::kDataAfterWake) set_.write(true);
    waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
  if (mutant::kDataAfterWake) set_.write(true);
}

void Event::reset() noexcept {
  const Locked locked{lock_};
  set_.write(false);
}

bool Event::is_set() const noexcept {
  const Locked locked{lock_};
  return set_.read();
}

void Event::wait() {
  Wait operation{*this};
  weft::wait(operation);
}

bool Event::wait(no_throw_t) {
  Wait operation{*this};
  return weft::wait(operation, no_throw);
}

bool Event::wait_until(Instant at) {
  Wait operation{*this};
  return sync::wait_until(operation, at);
}

bool Event::wait_until(Instant at, no_throw_t) {
  Wait operation{*this};
  return sync::wait_until(operation, at, no_throw);
}

bool Event::Wait::try_complete() { return event_.is_set(); }

bool Event::Wait::publish() noexcept {
  const Locked locked{event_.lock_};
  if (event_.set_.read()) return false;
  event_.waiters_.link(*this);
  return true;
}

void Event::Wait::unpublish() noexcept {
  const Locked locked{event_.lock_};
  event_.waiters_.unlink(*this);
}

WaitReason Event::Wait::reason() const noexcept {
  return {.verb = "event wait", .name = event_.name_.view(), .object = &event_};
}

}  // namespace weft
