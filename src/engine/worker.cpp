// The worker loop: which fiber runs next.
//
// On a fiber's stack only the `next` slot and the local queues are tried, and the switch goes
// straight to the successor. Searching, timers and sleep happen on the worker's own stack.
#include "worker.hpp"

#include "scheduler.hpp"

#include <weft/core/closure.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/thread.hpp>

namespace weft::engine {

using namespace policy;

Worker::Worker(Scheduler& scheduler, Io& io, std::shared_ptr<arch::StackPool> stacks,
               unsigned index)
    : Host(io, std::move(stacks)),
      chance(entropy()),
      shared_(scheduler),
      wheel_(index < scheduler.options.workers
                 ? &timers
                 : &scheduler.worker(index % scheduler.options.workers).timers),
      sights_(scheduler.options.max_workers),
      loot_(std::make_unique<std::array<Fiber*, kLootMax>>()) {
  number = static_cast<std::uint16_t>(index);
  taker.set_mark(mark_.value());
  if (!is_temporary()) return;
  state_ = WorkerState::dead;
  static_cast<void>(inbox.close());
}

bool Worker::is_temporary() const noexcept { return number >= shared_.options.workers; }

void Worker::run() noexcept {
  coarse_now = monotonic_now();
  arrive();
  while (!shared_.count.over()) {
    if (may_retire()) [[unlikely]] break;
    if (Fiber* const fiber = pick(Departure::park)) {
      if (called_) [[unlikely]] leave_the_search();
      // Most requests are short: to have another take our place by the sockets for each of them
      // would cost more than they do. If ours is not, it is given away at the next look around, or
      // by the watcher.
      if (!back_soon_) shared_.keep_watch(*this);
      has_run_ = true;
      if (prepare(*fiber)) switch_fibers(*this, base(), *fiber, Departure::none);
    } else {
      idle();
    }
  }
  retire();
}

// The whole policy, in one breath.
inline Fiber* Worker::pick(Departure how) noexcept {
  const bool fair = is_fair_turn();
  const Inside inside{gate_};
  if (fair && std::exchange(unborn_due_, false)) [[unlikely]]
    if (Fiber* const oldest = fresh_.pop_oldest()) return oldest;
  if (Fiber* const fiber = next_) {
    next_ = nullptr;
    if (how != Departure::yield) {
      if (++turns_ < kTurnsMax) return fiber;
      turns_ = 0;
      if (fresh_.empty() && !living_wait()) return fiber;
    }
    ready_.push(*fiber);
  }
  turns_ = 0;
  if (!inbox.empty()) [[unlikely]] empty_inbox();
  if (!pinned_.empty()) [[unlikely]]
    if ((pinned_first_ = !pinned_first_)) return pinned_.pop_front();
  if (Fiber* const fiber = ready_.pop()) return fiber;
  if (Fiber* const fiber = fresh_.pop_newest()) return fiber;
  return pinned_.pop_front();
}

// Now and then: time, and work that the usual order could starve.
void Worker::look_around() noexcept {
  until_fair_ = kFairnessInterval;
  rounds_ = rounds_ + 1;
  if (std::exchange(back_soon_, false)) shared_.keep_watch(*this);
  if (rounds_ % kRoundsAClock == 0) {
    const Instant now = monotonic_now();
    coarse_now = now;
    // Owed until a pick pays it: a join in place may have had the turn.
    if (rounds_ % kRoundsAnUnborn == 0 || now - unborn_due_at_ >= kUnbornAge) {
      unborn_due_ = true;
      unborn_due_at_ = now;
    }
  }
  if (wheel().soonest() != Instant::max()) fire_timers(monotonic_now());
  if (rounds_ % kRoundsAPoll == 0) hear_from_outside();
  else if (Poller* const poller = shared_.poller()) poller->flush(number);
  if (may_retire()) [[unlikely]] give_all_away();
  else take_injected(1);
  if (called_) leave_the_search();
}

// Called to search, but there is something of our own to do: somebody else may.
void Worker::leave_the_search() noexcept {
  called_ = false;
  shared_.idle.end_search();
  if (!shared_.injector.empty()) shared_.call_a_searcher();
}

// Those due together run in their order, and nobody's turn is taken.
bool Worker::fire_timers(Instant now) noexcept {
  coarse_now = now;
  Fired fired;
  const bool any = wheel().fire_due(now, fired) != 0;
  resume_all(std::move(fired.woken));
  CancelScope::tell(fired.hooks);
  return any;
}

void Worker::empty_inbox() noexcept {
  Inbox::Arrivals arrivals = inbox.take_all();
  while (Fiber* const fiber = arrivals.fibers.pop_front()) {
    name_newcomer(*fiber);
    queue(*fiber);
  }
  called_ = called_ || arrivals.called;
  if (ready_.length() > 1) advertise(0);
}

void Worker::take_ids() noexcept {
  next_id_ = shared_.take_ids();
  ids_end_ = next_id_ + Scheduler::kIdsAtOnce;
}

// ── work that comes in ──────────────────────────────────────────────────────────────────────────

// What resume() does in every case.
void Worker::resume_displacing(Fiber& fiber) noexcept {
  if (fiber.is_pinned()) [[unlikely]] return resume_pinned(fiber);
  std::size_t before = 1;
  {
    const Inside inside{gate_};
    Fiber* const displaced = next_;
    next_ = &fiber;
    if (displaced) {
      before = ready_.length();
      ready_.push(*displaced);
    }
  }
  advertise(before);
}

void Worker::resume_all(FiberList fibers) noexcept {
  if (fibers.empty()) return;
  std::size_t before = 0;
  {
    const Inside inside{gate_};
    before = ready_.length();
    while (Fiber* const fiber = fibers.pop_front()) queue(*fiber);
  }
  advertise(before);
}

// What start() does in every case.
void Worker::start_with_care(Fiber& fiber) {
  fiber.id = next_id();
  if (fiber.is_pinned()) [[unlikely]] return start_pinned(fiber);
  std::size_t before = 0;
  {
    const Inside inside{gate_};
    before = fresh_.length();
    fresh_.push(fiber);
  }
  advertise(before);
}

void Worker::start_pinned(Fiber& fiber) noexcept {
  fiber.last_worker = number;
  has_pinned = true;
  pinned_.push_back(fiber);
}

// No gate: what is pinned is not for thieves.
void Worker::resume_pinned(Fiber& fiber) noexcept {
  if (fiber.last_worker == number) pinned_.push_back(fiber);
  else shared_.worker(fiber.last_worker).inbox.push(fiber);
}

void Worker::consider_a_call(std::size_t queued_before) noexcept {
  edges_ += queued_before == 0 ? 1 : kSurplusEdges;
  if (edges_ < shared_.patience.load(std::memory_order_relaxed)) return;
  edges_ = 0;
  shared_.call_a_searcher();
}

void Worker::expect_blocking(bool about_to) noexcept {
  held_at_ = about_to ? ticks() : ~std::uint64_t{0};
  if (Poller* const poller = about_to ? shared_.poller() : nullptr) poller->flush(number);
  if (!about_to || (fresh_.empty() && !living_wait())) return;
  if (shared_.idle.count().asleep() != 0) shared_.call_a_searcher();
  else shared_.sysmon.ring();
}

// ── who runs next ───────────────────────────────────────────────────────────────────────────────

Fiber& Worker::successor_of_parked() noexcept {
  // pick() in its usual cases.
  if (until_fair_ <= 1) [[unlikely]] return any_successor();
  if (next_) {  // coupled fibers take turns
    if (turns_ + 1 >= kTurnsMax || !gate_.enter_if_open()) [[unlikely]] return any_successor();
    Fiber* const fiber = next_;  // unless a thief has taken it
    if (fiber && fiber->strand) [[likely]] {
      until_fair_ = until_fair_ - 1;
      ++turns_;
      next_ = nullptr;
      gate_.leave();
      return *fiber;
    }
    gate_.leave();
  } else if (ready_.empty() && inbox.empty() && pinned_.empty() && gate_.enter_if_open()) {
    Fiber* const newest = fresh_.pop_newest();  // a child begins
    gate_.leave();
    if (newest) {
      until_fair_ = until_fair_ - 1;
      turns_ = 0;
      if (give_stack(*newest)) [[likely]] return *newest;
    }
  }
  return any_successor();
}

Fiber& Worker::any_successor() noexcept {
  Fiber* fiber = pick(Departure::park);
  if (fiber && fiber->strand) [[likely]] return *fiber;
  while (fiber && !prepare(*fiber)) fiber = pick(Departure::park);
  return fiber ? *fiber : base();
}

// A finished fiber's stack takes an unborn one as it is; ThreadSanitizer wants a fresh one.
Fiber& Worker::successor_of_finished() noexcept {
  while (Fiber* const fiber = pick(Departure::finish))
    if (!arch::kTsan || prepare(*fiber)) return *fiber;
  return base();
}

// What waits for anybody counts, too: of a fiber whose turns are long the others would see no end.
Fiber& Worker::turn(Fiber& self) noexcept {
  do
    while (Fiber* const fiber = pick(Departure::yield))
      if (prepare(*fiber)) return *fiber;
  while (!may_retire() && take_injected(kInjectedAtOnce));
  return may_retire() ? base() : self;
}

// Not on a stack that is a quarter used up: the child's frames come on top of ours.
Fiber* Worker::adopt_unborn(CancelScope& home, Departure how) noexcept {
  if (!exceptions->empty()) return nullptr;
  // A child in place may leave with our stack, and we must not.
  if (how == Departure::park && current->is_pinned()) [[unlikely]] return nullptr;
  if (__builtin_frame_address(0) <= current->strand->ground.in_place_floor) return nullptr;
  const bool fair = is_fair_turn();
  const Inside inside{gate_};
  // Fork-join in a loop would take every fair turn, and the oldest unborn never have one. Rarely:
  // each time costs a stack, and a tree should need no more of them than it is deep.
  if (fair && rounds_ % policy::kAdoptionsAside == 0 && fresh_.length() > 1) [[unlikely]] {
    until_fair_ = 1;  // the pick that follows is one for the unborn
    return nullptr;
  }
  // Who joins could do nothing else anyway; who has ended makes room for the living.
  if ((fair || how == Departure::finish) && living_wait()) [[unlikely]] return nullptr;
  return fresh_.pop_newest_of(home);
}

}  // namespace weft::engine
