// The worker loop: which fiber runs next, and when the thread sleeps.
//
// On a fiber's stack only the `next` slot and the local queues are tried, and the switch goes
// straight to the successor. Searching, timers and sleep happen on the worker's own stack.
#include "worker.hpp"

#include "deadlock.hpp"

#include <weft/core/closure.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/thread.hpp>

#include <sched.h>
#include <sys/single_threaded.h>

#include <cstdio>

namespace weft::engine {

Worker::Worker(Io& io, const Options& options)
    : Host(io, options.stack_bytes), on_deadlock_(options.on_deadlock) {}

Worker::~Worker() {
  // acquire: pairs with send(); a visitor's last touch of us is its own decrement.
  while (visitors_.load(std::memory_order_acquire) != 0) ::sched_yield();
}

void Worker::run(Fiber& root_fiber) {
  try {
    start(root_fiber);
  } catch (...) {
    discard_fiber(root_fiber);
    count.leave(1);
    throw;
  }
  while (!count.over()) {
    if (Fiber* const fiber = pick()) {
      if (prepare(*fiber)) switch_fibers(base(), *fiber, Departure::none);
    } else {
      idle();
    }
  }
}

// The whole policy, in one breath.
Fiber* Worker::pick() noexcept {
  if (++ticks_ % kFairnessInterval == 0) [[unlikely]]
    if (Fiber* const fiber = pick_for_fairness()) return fiber;
  if (Fiber* const fiber = std::exchange(next_, nullptr)) {
    if (++turns_ < kTurnsMax || (fresh_.empty() && !living_wait())) return fiber;
    ready_.push(*fiber);
  }
  turns_ = 0;
  empty_inbox();
  if (Fiber* const fiber = ready_.pop()) return fiber;
  return fresh_.pop_newest();
}

// Now and then: whoever the usual order could starve. Time first, then the oldest unborn.
Fiber* Worker::pick_for_fairness() noexcept {
  if (question_state_.load(std::memory_order_relaxed) == kAsked) answer_question();
  if (!timers.empty()) fire_timers(monotonic_now());
  empty_inbox();
  return fresh_.pop_oldest();
}

// Timers wake from outside: those due together run in their order, and nobody's turn is taken.
std::size_t Worker::fire_timers(Instant now) noexcept {
  Fiber* const kept = std::exchange(next_, nullptr);
  const std::size_t fired = timers.fire_due(now);
  if (Fiber* const last = std::exchange(next_, kept)) ready_.push(*last);
  return fired;
}

bool Worker::living_wait() const noexcept {
  return next_ || !ready_.empty() || !inbox_.empty();
}

void Worker::empty_inbox() noexcept {
  if (inbox_.empty()) [[likely]] return;
  FiberList arrived = inbox_.take_all();
  while (Fiber* const fiber = arrived.pop_front()) {
    if (fiber->id == 0) fiber->id = ++ids_;
    ready_.push(*fiber);
  }
}

Fiber& Worker::successor(Departure how) noexcept {
  while (Fiber* const fiber = pick()) {
    // A finished fiber's stack takes an unborn one as it is; ThreadSanitizer wants a fresh one.
    if (how == Departure::finish && !arch::kTsan) return *fiber;
    if (prepare(*fiber)) return *fiber;
  }
  return base();
}

Fiber& Worker::turn(Fiber& self) noexcept {
  if (next_) [[unlikely]] ready_.push(*std::exchange(next_, nullptr));
  while (Fiber* const fiber = pick())
    if (prepare(*fiber)) return *fiber;
  return self;
}

Fiber* Worker::adopt(CancelScope& home) noexcept {
  Fiber* const newest = fresh_.newest();
  if (arch::kTsan || !newest || newest->scope != &home || !exceptions->empty()) return nullptr;
  if (__builtin_frame_address(0) <= current->strand->ground.in_place_floor) return nullptr;
  if (++ticks_ % kFairnessInterval == 0) [[unlikely]] {
    if (!timers.empty()) fire_timers(monotonic_now());
    if (living_wait()) return nullptr;
  }
  return fresh_.pop_newest();
}

void Worker::send(Fiber& fiber) noexcept {
  visitors_.fetch_add(1, std::memory_order_relaxed);  // the fiber keeps the engine alive till here
  inbox_.push(fiber);
  visitors_.fetch_sub(1, std::memory_order_release);
}

void Worker::dismiss() noexcept {
  visitors_.fetch_add(1, std::memory_order_relaxed);
  if (count.leave(1)) inbox_.nudge();
  visitors_.fetch_sub(1, std::memory_order_release);
}

// One asker at a time. By the asker: kNone -> kWritten (the question is being filled in) -> kAsked;
// by the worker: -> kAnswering -> kDone; by the asker again: -> kNone. A question that nobody has
// begun to answer can be taken back.
bool Worker::answer(Question question) noexcept {
  const Instant give_up = monotonic_now() + std::chrono::seconds{1};
  const auto move = [&](std::uint32_t from, std::uint32_t to) {
    return question_state_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed);
  };
  const std::timespec while_away{0, 1'000'000};
  while (!move(kNone, kWritten)) {
    if (monotonic_now() > give_up) return false;
    Sync::sleep(question_state_, question_state_.load(std::memory_order_relaxed), &while_away);
  }
  question_ = question;
  move(kWritten, kAsked);
  inbox_.nudge();
  for (;;) {
    const std::uint32_t state = question_state_.load(std::memory_order_acquire);
    if (state == kDone) break;
    if (state == kAsked && monotonic_now() > give_up && move(kAsked, kNone)) return false;
    if (count.over() && move(kAsked, kWritten)) {  // it ended: nobody runs, so we may look
      question.look(nullptr, question.at);
      break;
    }
    Sync::sleep(question_state_, state, &while_away);
  }
  question_state_.store(kNone, std::memory_order_release);
  return true;
}

void Worker::answer_question() noexcept {
  std::uint32_t asked = kAsked;
  if (!question_state_.compare_exchange_strong(asked, kAnswering, std::memory_order_acq_rel,
                                               std::memory_order_relaxed))
    return;
  question_.look(current == &base() ? nullptr : current, question_.at);
  question_state_.store(kDone, std::memory_order_release);
  Sync::wake(question_state_, 1);
}

// Nothing can run, and no timer will change that. If nobody outside can either, that is a deadlock.
// True: it was raised, and there are fibers to run again.
bool Worker::raise_if_deadlocked() noexcept {
  const bool alone = __libc_single_threaded;
  if (on_deadlock_ == OnDeadlock::automatic && !alone) return false;
  if (on_deadlock_ == OnDeadlock::report && deadlock_reported_) return false;
  deadlock_report = describe_deadlock(*base().io);
  if (on_deadlock_ != OnDeadlock::report) return raise_deadlock_in_waits(*base().io);
  deadlock_reported_ = true;
  std::fprintf(stderr, "weft: %s\n", deadlock_report.c_str());
  return false;
}

// Nothing to run: time may have something, or somebody outside.
void Worker::idle() noexcept {
  // Again, because pick() may have taken the nudge that told us so out of the inbox.
  if (count.over()) return;
  answer_question();
  if (timers.empty()) {
    if (!inbox_.empty()) return;
    if (raise_if_deadlocked()) return;
    return inbox_.sleep(nullptr);
  }
  const Instant now = monotonic_now();
  if (fire_timers(now) != 0) return;
  const auto left = (timers.soonest() - now).count();
  const std::timespec timeout{static_cast<std::time_t>(left / 1'000'000'000),
                              static_cast<long>(left % 1'000'000'000)};
  inbox_.sleep(&timeout);
}

}  // namespace weft::engine
