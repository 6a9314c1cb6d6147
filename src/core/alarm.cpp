#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <stdexcept>

namespace weft {

Alarm::Alarm(Instant at) noexcept : io_(*Fiber::current().io) { when = at; }

// Most are far away, and the clock need not say how far.
bool Alarm::is_over() const noexcept { return when <= io_.now_or_later() && when <= io_.now(); }

bool Alarm::try_complete() { return is_over(); }

bool Alarm::publish() noexcept {
  if (is_over()) return false;
  io_.arm(*this);
  return true;
}

void Alarm::unpublish() noexcept {
  if (!mutant::kAlarmStaysArmed) io_.disarm(*this);
}

WaitReason Alarm::reason() const noexcept { return {.verb = "timer"}; }

// The engine has taken us out of its queue, and our disarm() waits for the end of this.
void Alarm::fire(Fired& fired) noexcept {
  Fiber& sleeper = fiber();
  if (claim() == Claim::owned) fired.woken.push_back(sleeper);
}

bool sleep_until(Instant at, no_throw_t) {
  Alarm alarm{at};
  return wait(alarm, no_throw);
}

Ticker::Ticker(Duration period, Missed missed, int)
    : period_(period), missed_(missed), due_(saturating_add(Clock::now(), period)) {
  if (period <= Duration::zero())
    throw std::invalid_argument{"weft::Ticker: the period must be positive"};
}

Instant Ticker::next() {
  Alarm alarm{due_};
  wait(alarm);
  return tick();
}

std::optional<Instant> Ticker::next(no_throw_t) {
  Alarm alarm{due_};
  if (!wait(alarm, no_throw)) return std::nullopt;
  return tick();
}

Instant Ticker::tick() noexcept {
  const Instant taken = due_;
  const Instant now = Clock::now();
  switch (missed_) {
    case Missed::burst: due_ = saturating_add(due_, period_); break;
    case Missed::delay: due_ = saturating_add(now, period_); break;
    case Missed::skip: {
      const auto passed = now > due_ ? (now - due_) / period_ : 0;
      due_ = saturating_add(due_, period_ * (passed + 1));
      break;
    }
  }
  return taken;
}

void sleep_until(Instant at) {
  if (at <= Clock::now_or_later() && at <= Clock::now()) return this_fiber::yield();
  Alarm alarm{at};
  wait(alarm);
}

}  // namespace weft
