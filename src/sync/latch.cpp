#include <weft/latch.hpp>

#include "timed.hpp"

#include <stdexcept>

namespace weft {

void Latch::count_down(std::size_t n) {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    const std::size_t left = left_.read();
    if (n > left) throw std::invalid_argument{"weft::Latch: counted down below zero"};
    left_.write(left - n);
    if (n == left) waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
}

bool Latch::try_wait() const noexcept {
  const Locked locked{lock_};
  return left_.read() == 0;
}

void Latch::wait() {
  Wait operation{*this};
  weft::wait(operation);
}

bool Latch::wait(no_throw_t) {
  Wait operation{*this};
  return weft::wait(operation, no_throw);
}

bool Latch::wait_until(Instant at) {
  Wait operation{*this};
  return sync::wait_until(operation, at);
}

bool Latch::wait_until(Instant at, no_throw_t) {
  Wait operation{*this};
  return sync::wait_until(operation, at, no_throw);
}

bool Latch::Wait::try_complete() { return latch_.try_wait(); }

bool Latch::Wait::publish() noexcept {
  const Locked locked{latch_.lock_};
  if (latch_.left_.read() == 0) return false;
  latch_.waiters_.link(*this);
  return true;
}

void Latch::Wait::unpublish() noexcept {
  const Locked locked{latch_.lock_};
  latch_.waiters_.unlink(*this);
}

WaitReason Latch::Wait::reason() const noexcept {
  return {.verb = "latch wait", .name = latch_.name_.view(), .object = &latch_};
}

}  // namespace weft
