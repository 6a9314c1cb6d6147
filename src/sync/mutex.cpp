#include <weft/mutex.hpp>

#include "holder.hpp"
#include "timed.hpp"

#include <weft/base/chaos.hpp>
#include <weft/core/cancel_scope.hpp>

#include <system_error>

namespace weft {
namespace {

[[noreturn]] void refuse_relock() {
  throw std::system_error{std::make_error_code(std::errc::resource_deadlock_would_occur),
                          "weft::Mutex: locked again by its holder"};
}

}  // namespace

// A wait that ends without our name in the word was woken to try.
void Mutex::lock_contended(Fiber& self) {
  if (is_held_by(self)) refuse_relock();
  Acquire operation{*this, Standing::newcomer};
  while (is_held() || !take(self)) {
    const bool woken = park(self, operation);
    if (is_held_by(self)) return;
    if (woken) operation.standing_.write(Standing::loser);
  }
}

// One wait. False: it did not come to that, and somebody may have unlocked.
bool Mutex::park(Fiber& self, Acquire& operation) {
  lock_.lock();
  if (announce()) return park_on<Nudges::pass>(self, operation, lock_, operation.list());
  lock_.unlock();
  return false;
}

// The same. Here a wait may throw before it tries, so we try first: the wake was meant for one who
// does, and there may be no other.
template <class... NoThrow>
bool Mutex::lock_until(Instant at, NoThrow... how) {
  Fiber& self = Fiber::current();
  Acquire operation{*this, Standing::newcomer};
  while (sync::wait_until(operation, at, how...)) {
    if (is_held_by(self)) return true;
    if (!mutant::kWokenLockGivesUp && take(self)) return true;
    operation.standing_.write(Standing::loser);
  }
  return false;
}
template bool Mutex::lock_until(Instant at);
template bool Mutex::lock_until(Instant at, no_throw_t);

// Waiters that gave up may leave us alone with the bit. Then nobody passes lock_ after us, so the
// word is freed after it, and not touched again.
void Mutex::unlock_contended() noexcept {
  FiberList woken;
  for (;;) {
    chaos::step();
    std::uintptr_t self = 0;
    {
      const Locked locked{lock_};
      if (pass_on(woken)) break;
      // relaxed: nobody is listed, and who lists itself next comes by lock_.
      self = word_.fetch_and(~kWaiters, std::memory_order_relaxed) & ~kWaiters;
      if (mutant::kMutexFreedUnderLock) {
        word_.store(0, std::memory_order_release);
        return;
      }
    }
    chaos::step();
    // release: pairs with take().
    if (word_.compare_exchange_strong(self, 0, std::memory_order_release,
                                      std::memory_order_relaxed))
      return;
  }
  resume_all(std::move(woken));
}

// Under lock_: makes the holder come here when it unlocks. False: there is none.
bool Mutex::announce() noexcept {
  std::uintptr_t seen = word_.load(std::memory_order_relaxed);
  do {
    if ((seen & ~kWaiters) == 0) return false;
    if (seen & kWaiters) return true;  // and so it stays, with this holder, while we have the lock
    if (mutant::kWaiterUnannounced) return true;
    // relaxed: it makes the holder come to lock_, which orders the rest.
  } while (!word_.compare_exchange_weak(seen, seen | kWaiters, std::memory_order_relaxed,
                                        std::memory_order_relaxed));
  return true;
}

// Under lock_: chooses a waiter, and either names it or frees the word. False: there is none.
bool Mutex::pass_on(FiberList& woken) noexcept {
  const bool anybody = mutant::kMutexGivenToNobody && !(losers_.empty() && waiters_.empty());
  Fiber* to_resume = nullptr;
  Waitable* chosen = losers_.claim_first(to_resume);
  if (!chosen) chosen = waiters_.claim_first(to_resume);
  if (!chosen) return anybody;
  if (to_resume) woken.push_back(*to_resume);
  const auto& next = static_cast<const Acquire&>(*chosen);
  const bool inherits = next.standing_.read() != Standing::newcomer;
  const bool empty = losers_.empty() && waiters_.empty();
  const std::uintptr_t rest = empty || mutant::kMutexDropsTheRest ? 0 : kWaiters;
  // A plain store: with a holder and kWaiters in it, nobody else writes the word but under lock_.
  // release: pairs with take().
  word_.store(inherits ? name_of(next.fiber()) | rest : rest, std::memory_order_release);
  return true;
}

void Mutex::check_holder(std::uintptr_t seen) noexcept {
  if ((seen & ~kWaiters) != name_of(Fiber::current()))
    spec::violated("mutex", (seen & ~kWaiters) == 0 ? "free" : "held by another", "free", "unlock",
                   spec::Where::here());
}

bool Mutex::Acquire::try_complete() {
  Fiber& self = Fiber::current();
  // A look first: it is held, most likely, and a compare-exchange that fails costs as much as one
  // that does not.
  if (mutex_.is_held() || !mutex_.take(self)) {
    if (mutex_.is_held_by(self)) refuse_relock();
    return false;
  }
  return true;
}

bool Mutex::Acquire::publish() noexcept {
  const Locked locked{mutex_.lock_};
  if (!mutex_.announce()) return false;
  list().link(*this);
  return true;
}

// Also after we were chosen, unless we were found parked: who chose us holds the lock until it is
// done with us and the mutex.
void Mutex::Acquire::unpublish() noexcept {
  const Locked locked{mutex_.lock_};
  if (!is_linked()) return;
  list().unlink(*this);
  if (mutex_.losers_.empty() && mutex_.waiters_.empty())
    mutex_.word_.fetch_and(~kWaiters, std::memory_order_relaxed);
}

WaitReason Mutex::Acquire::reason() const noexcept {
  WaitReason reason{.verb = "mutex lock", .name = mutex_.name_.view(), .object = &mutex_};
  const Locked locked{mutex_.lock_};
  const std::uintptr_t seen = mutex_.word_.load(std::memory_order_acquire) & ~kWaiters;
  if (is_linked() && seen != 0)
    reason.verb = sync::held_by(reason.verb, *reinterpret_cast<const Fiber*>(seen), fiber(), text_);
  return reason;
}

}  // namespace weft
