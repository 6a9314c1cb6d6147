#include <weft/sync/feed_core.hpp>

#include "timed.hpp"

#include <weft/watch.hpp>

#include <stdexcept>

namespace weft {
namespace detail {

FeedCore::FeedCore(Kind kind, std::size_t capacity, Name name)
    : kind_(kind),
      capacity_(capacity > 0 ? capacity
                             : throw std::invalid_argument{"weft::Broadcast: without a capacity"}),
      slots_(std::make_unique<Var<Note*>[]>(capacity)),
      name_(std::move(name)) {}

FeedCore::~FeedCore() {
  for (Note* note = empty_ring(); note;) {
    Note* const next = note->next_.read();
    note->drop();
    note = next;
  }
}

// ── who sends ───────────────────────────────────────────────────────────────────────────────────

// Linearized by the write of sent_. What is overwritten is destroyed here, after the lock was
// released, or by the last who still copies it.
bool FeedCore::publish(Note& note) noexcept {
  preemption_point();
  Note* dropped = &note;
  FiberList woken;
  {
    const Locked locked{lock_};
    if (closed_.read()) return false;
    const std::uint64_t number = sent_.read();
    // A broadcast that nobody listens to keeps nothing: who subscribes later does not see it.
    if (kind_ == Kind::watch || subscribers_.read() != 0) {
      dropped = slot(number).read();
      slot(number).write(&note);
    }
    sent_.write(number + 1);
    if (!mutant::kNewsUntold) waiters_.wake_all(woken);
  }
  resume_all(std::move(woken));
  if (dropped) dropped->drop();
  return true;
}

// Linearized by the write of closed_. Who waits has seen all that was sent.
bool FeedCore::close(std::exception_ptr error) noexcept {
  preemption_point();
  FiberList woken;
  {
    const Locked locked{lock_};
    if (closed_.read()) return false;
    closed_.write(true);
    error_ = std::move(error);
    while (!mutant::kFeedEndUntold) {
      Fiber* fiber = nullptr;
      Waitable* const waiter = waiters_.claim_first(fiber);
      if (!waiter) break;
      static_cast<FeedOp*>(waiter)->ended_.write(true);
      if (fiber) woken.push_back(*fiber);
    }
  }
  resume_all(std::move(woken));
  return true;
}

void FeedCore::last_sender_gone() noexcept {
  close(nullptr);
  release();
}

void FeedCore::release() noexcept {
  // acq_rel: who destroys sees what the others did.
  if (keepers_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

// ── who subscribes ──────────────────────────────────────────────────────────────────────────────

// Counted and placed in one step: from that number on, nothing that is sent is thrown away.
void FeedCore::subscribe(Cursor& at) noexcept {
  keepers_.fetch_add(1, std::memory_order_relaxed);
  lock_.lock();
  at.next.write(sent_.read());
  if (mutant::kSubscriberCountedLate) {
    lock_.unlock();
    lock_.lock();
  }
  subscribers_.write(subscribers_.read() + 1);
  lock_.unlock();
}

void FeedCore::subscribe(Cursor& at, const Cursor& other) noexcept {
  keepers_.fetch_add(1, std::memory_order_relaxed);
  const Locked locked{lock_};
  at.next.write(other.next.read());
  subscribers_.write(subscribers_.read() + 1);
}

void FeedCore::unsubscribe() noexcept {
  Note* dropped = nullptr;
  bool last = false;
  {
    const Locked locked{lock_};
    subscribers_.write(subscribers_.read() - 1);
    last = subscribers_.read() == 0 && kind_ == Kind::broadcast;
    if (last && !mutant::kRingEmptiedLate) dropped = empty_ring();
  }
  if (last && mutant::kRingEmptiedLate) dropped = empty_ring();
  while (dropped) {
    Note* const next = dropped->next_.read();
    dropped->drop();
    dropped = next;
  }
  release();
}

Taken FeedCore::take(Cursor& at) noexcept {
  Note* note = nullptr;
  {
    const Locked locked{lock_};
    skip(at);
    const std::uint64_t number = at.next.read();
    if (number == sent_.read()) return {.note = {}, .ended = closed_.read()};
    at.next.write(number + 1);
    note = &kept(number);
    if (!mutant::kNoteHeldLate) note->hold();
  }
  if (mutant::kNoteHeldLate) note->hold();
  return {.note = NotePtr{note}};
}

Taken FeedCore::recv(Cursor& at) {
  glance(Fiber::current());
  for (;;) {
    Taken taken = take(at);
    if (taken.note || taken.ended) return taken;
    static_cast<void>(wait_news(at));
  }
}

NotePtr FeedCore::latest() const noexcept {
  preemption_point();
  const Locked locked{lock_};
  Note& note = kept(sent_.read() - 1);
  note.hold();
  return NotePtr{&note};
}

NotePtr FeedCore::latest(Cursor& at) noexcept {
  preemption_point();
  const Locked locked{lock_};
  const std::uint64_t sent = sent_.read();
  at.next.write(sent);
  Note& note = kept(sent - 1);
  note.hold();
  return NotePtr{&note};
}

void FeedCore::mark_seen(Cursor& at) noexcept {
  const Locked locked{lock_};
  at.next.write(sent_.read());
}

std::uint64_t FeedCore::lagged(Cursor& at) noexcept {
  const Locked locked{lock_};
  skip(at);
  const std::uint64_t lost = at.lost.read();
  at.lost.write(0);
  return lost;
}

News FeedCore::look(const Cursor& at) const noexcept {
  const Locked locked{lock_};
  return look_locked(at);
}

Waited FeedCore::wait_news(const Cursor& at) {
  Fiber& self = Fiber::current();
  for (;;) {
    glance(self);
    lock_.lock();
    const News found = look_locked(at);
    if (found != News::none) {
      lock_.unlock();
      return found == News::some ? Waited::news : Waited::ended;
    }
    FeedOp operation{this, at};
    if (park_on(self, operation, lock_, waiters_)) return outcome(operation);
  }
}

Waited FeedCore::wait_news(const Cursor& at, no_throw_t) {
  FeedOp operation{this, at};
  return wait(operation, no_throw) ? outcome(operation) : Waited::cancelled;
}

Waited FeedCore::wait_news_until(const Cursor& at, Instant until) {
  FeedOp operation{this, at};
  return sync::wait_until(operation, until) ? outcome(operation) : Waited::timed_out;
}

Waited FeedCore::outcome(const FeedOp& operation) const noexcept {
  return operation.ended() ? Waited::ended : Waited::news;
}

// ── either ──────────────────────────────────────────────────────────────────────────────────────

std::size_t FeedCore::subscribers() const noexcept {
  const Locked locked{lock_};
  return subscribers_.read();
}

bool FeedCore::closed() const noexcept {
  const Locked locked{lock_};
  return closed_.read();
}

std::exception_ptr FeedCore::error() const noexcept {
  const Locked locked{lock_};
  return error_;
}

void FeedCore::throw_error() const {
  if (const std::exception_ptr why = error()) std::rethrow_exception(why);
}

// ── under the lock ──────────────────────────────────────────────────────────────────────────────

std::uint64_t FeedCore::oldest() const noexcept {
  const std::uint64_t sent = sent_.read();
  return sent > capacity_ ? sent - capacity_ : 0;
}

// One of those that somebody who subscribes has not come to.
Note& FeedCore::kept(std::uint64_t number) const noexcept {
  Note* const note = slot(number).read();
#if defined(WEFT_MODEL)
  model::check(note != nullptr, "a value was not kept");
#endif
  return *note;
}

// What is new comes before the end.
News FeedCore::look_locked(const Cursor& at) const noexcept {
  if (at.next.read() != sent_.read()) return News::some;
  return closed_.read() ? News::ended : News::none;
}

// What was overwritten before we came to it is lost, and counted.
void FeedCore::skip(Cursor& at) const noexcept {
  const std::uint64_t next = at.next.read();
  const std::uint64_t first = oldest();
  if (next >= first || mutant::kLagUnnoticed) return;
  at.lost.write(at.lost.read() + (first - next));
  at.next.write(first);
}

// All notes, one behind the other; for the caller to drop.
Note* FeedCore::empty_ring() noexcept {
  Note* all = nullptr;
  for (std::uint64_t number = oldest(); number != sent_.read(); ++number) {
    Note* const note = slot(number).read();
    if (!note) continue;
    slot(number).write(nullptr);
    note->next_.write(all);
    all = note;
  }
  return all;
}

// ── the wait ────────────────────────────────────────────────────────────────────────────────────

bool FeedOp::try_complete() {
  if (!core_) return false;
  const Locked locked{core_->lock_};
  const News found = core_->look_locked(at_);
  ended_.write(found == News::ended);
  return found != News::none;
}

bool FeedOp::publish() noexcept {
  if (!core_) return true;
  const Locked locked{core_->lock_};
  const News found = core_->look_locked(at_);
  const bool overlooked = (mutant::kNewsOverlooked && found == News::some) ||
                          (mutant::kFeedEndOverlooked && found == News::ended);
  if (found != News::none && !overlooked) return false;
  core_->waiters_.link(*this);
  return true;
}

void FeedOp::unpublish() noexcept {
  if (!core_) return;
  const Locked locked{core_->lock_};
  core_->waiters_.unlink(*this);
}

WaitReason FeedOp::reason() const noexcept {
  if (!core_) return {.verb = "disabled arm"};
  return {.verb = core_->kind_ == FeedCore::Kind::watch ? "watch change" : "broadcast recv",
          .name = core_->name_.view(),
          .object = core_};
}

}  // namespace detail

std::string_view to_string(ChangeStatus status) noexcept {
  constexpr std::string_view kNames[] = {"changed", "unchanged", "timed out", "closed",
                                         "cancelled"};
  return kNames[static_cast<std::size_t>(status)];
}

}  // namespace weft
