#include <weft/shared_mutex.hpp>

#include "holder.hpp"
#include "timed.hpp"

#include <weft/core/spec.hpp>

#include <system_error>

namespace weft {

void SharedMutex::lock(Kind kind) {
  preemption_point();
  if (enter(kind)) return;
  Acquire operation{*this, kind};
  wait_shielded(operation);
}

template <class... NoThrow>
bool SharedMutex::lock_until(Kind kind, Instant at, NoThrow... how) {
  Acquire operation{*this, kind};
  return sync::wait_until(operation, at, how...);
}
template bool SharedMutex::lock_until(Kind kind, Instant at);
template bool SharedMutex::lock_until(Kind kind, Instant at, no_throw_t);

// To the head of the queue.
bool SharedMutex::is_open_to(Kind kind) const noexcept {
  return writer_.read() == nullptr && (kind == Kind::shared || readers_.read() == 0);
}

void SharedMutex::let_in(Kind kind, Fiber& fiber) noexcept {
  if (kind == Kind::exclusive) writer_.write(&fiber);
  else readers_.write(readers_.read() + 1);
}

// Whoever comes by, and so behind the queue.
bool SharedMutex::enter(Kind kind) noexcept {
  Fiber& self = Fiber::current();
  const Locked locked{lock_};
  if (!queue_.empty() || !is_open_to(kind)) return false;
  let_in(kind, self);
  return true;
}

// From the head of the queue, all who can go in together.
void SharedMutex::serve(FiberList& woken) noexcept {
  while (auto* const next = static_cast<Acquire*>(queue_.front())) {
    if (!is_open_to(next->kind_)) return;
    queue_.remove(*next);
    Fiber& fiber = next->fiber();
    const Claim claim = next->claim();
    if (claim == Claim::lost) continue;
    let_in(next->kind_, fiber);
    if (claim == Claim::owned) woken.push_back(fiber);
  }
}

void SharedMutex::unlock() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (spec::kSpecAssert && writer_.read() != &Fiber::current())
      spec::violated("shared mutex", writer_.read() ? "held by another" : "without a writer",
                     "free", "unlock", spec::Where::here());
    writer_.write(nullptr);
    serve(woken);
  }
  resume_all(std::move(woken));
}

void SharedMutex::unlock_shared() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    if (spec::kSpecAssert && readers_.read() == 0)
      spec::violated("shared mutex", "without a reader", "free", "unlock_shared",
                     spec::Where::here());
    readers_.write(readers_.read() - 1);
    serve(woken);
  }
  resume_all(std::move(woken));
}

bool SharedMutex::Acquire::try_complete() {
  if (mutex_.enter(kind_)) return true;
  const Locked locked{mutex_.lock_};
  if (mutex_.writer_.read() == &Fiber::current())
    throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur),
                            "weft::SharedMutex: locked again by its writer"};
  return false;
}

bool SharedMutex::Acquire::publish() noexcept {
  const Locked locked{mutex_.lock_};
  if (mutex_.queue_.empty() && mutex_.is_open_to(kind_)) return false;
  mutex_.queue_.push_back(*this);
  return true;
}

void SharedMutex::Acquire::unpublish() noexcept {
  FiberList woken;
  {
    const Locked locked{mutex_.lock_};
    if (!is_linked()) return;
    mutex_.queue_.remove(*this);
    if (!mutant::kQueueHeadUnserved) mutex_.serve(woken);
  }
  resume_all(std::move(woken));
}

WaitReason SharedMutex::Acquire::reason() const noexcept {
  const char* const verb = kind_ == Kind::exclusive ? "shared mutex lock" : "shared mutex read";
  WaitReason reason{.verb = verb, .name = mutex_.name_.view(), .object = &mutex_};
  const Locked locked{mutex_.lock_};
  const Fiber* const writer = mutex_.writer_.read();
  if (is_linked() && writer) reason.verb = sync::held_by(reason.verb, *writer, fiber(), text_);
  return reason;
}

}  // namespace weft
