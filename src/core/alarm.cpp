#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

namespace weft {

Alarm::Alarm(Instant at) noexcept : io_(*Fiber::current().io) { when = at; }

bool Alarm::try_complete() { return when <= io_.now(); }

bool Alarm::publish() noexcept {
  if (when <= io_.now()) return false;
  io_.arm(*this);
  return true;
}

void Alarm::unpublish() noexcept { io_.disarm(*this); }

WaitReason Alarm::reason() const noexcept { return {.verb = "timer"}; }

// The engine has taken us out of its queue, and our disarm() waits for the end of this.
void Alarm::fire(FiberList& woken) noexcept {
  Fiber& sleeper = fiber();
  if (claim() == Claim::owned) woken.push_back(sleeper);
}

void sleep_until(Instant at) {
  if (at <= Clock::now()) return this_fiber::yield();
  Alarm alarm{at};
  wait(alarm);
}

}  // namespace weft
