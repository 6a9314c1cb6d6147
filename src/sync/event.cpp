#include <weft/event.hpp>

#include "timed.hpp"

namespace weft {

// The lock is released before anybody runs, and not touched after: a waiter that returns may
// destroy the event. Even a wait that completes at once takes the lock, for the same reason.
//
// Many are woken a few hundred at a time: nobody waits long for the lock, and the first are running
// while the last are still being woken. One of them is held back, so that the event stays.
void Event::set() noexcept {
  preemption_point();
  FiberList woken;
  Fiber* held_back = nullptr;
  bool more = false;
  {
    const Locked locked{lock_};
    if (!mutant::kDataAfterWake) set_.write(true);
    held_back = waiters_.hold_back_last();
    if (held_back) more = wake_some(woken, *held_back);
    else waiters_.wake_all(woken);
  }
  if (mutant::kNobodyHeldBack && held_back) woken.push_back(*held_back);
  resume_all(std::move(woken));
  while (more) {
    FiberList others;
    {
      const Locked locked{lock_};
      more = wake_some(others, *held_back);
    }
    resume_all(std::move(others));
  }
  if (mutant::kDataAfterWake) set_.write(true);
}

// The next few, and with the last of them who was held back, in its turn. True: there are more.
bool Event::wake_some(FiberList& woken, Fiber& held_back) noexcept {
  if (set_.read()) waiters_.wake_some(woken);  // reset meanwhile: who waits now came after us
  if (set_.read() && !waiters_.empty()) return true;
  if (!mutant::kNobodyHeldBack) woken.push_back(held_back);
  return false;
}

// While the flag is set, whoever still waits is about to be woken by set().
void Event::reset() noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    if (set_.read()) waiters_.wake_all(woken);
    set_.write(false);
  }
  resume_all(std::move(woken));
}

bool Event::is_set() const noexcept {
  const Locked locked{lock_};
  return set_.read();
}

void Event::wait() {
  Fiber& self = Fiber::current();
  for (;;) {
    glance(self);
    lock_.lock();
    if (set_.read()) return lock_.unlock();
    Wait operation{*this};
    if (park_on(self, operation, lock_, waiters_)) return;
  }
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
