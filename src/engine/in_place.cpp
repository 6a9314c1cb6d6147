#include "in_place.hpp"

#include "deadlock.hpp"
#include "epoll_reactor.hpp"
#include "halt.hpp"
#include "policy.hpp"

#include <weft/base/chaos.hpp>
#include <weft/core/closure.hpp>
#include <weft/core/describe.hpp>
#include <weft/core/error.hpp>
#include <weft/core/thread.hpp>
#include <weft/core/waitable.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weft::engine {

// ── timers ──────────────────────────────────────────────────────────────────────────────────────

void LockedTimers::publish() noexcept {
  soonest_.store(queue_.soonest().time_since_epoch().count(), std::memory_order_relaxed);
}

bool LockedTimers::arm(Timer& timer) noexcept {
  const Locked locked{lock_};
  const bool soonest_now = timer.when < queue_.soonest();
  queue_.arm(timer);
  publish();
  return soonest_now;
}

void LockedTimers::disarm(Timer& timer) noexcept {
  const Locked locked{lock_};
  queue_.disarm(timer);
  publish();
}

bool LockedTimers::fire_due(Instant now, Fired& fired) noexcept {
  if (soonest() > now) return false;
  const Locked locked{lock_};
  const bool any = queue_.fire_due(now, fired) != 0;
  publish();
  return any;
}

std::size_t LockedTimers::size() noexcept {
  const Locked locked{lock_};
  return queue_.size();
}

// ── calls ───────────────────────────────────────────────────────────────────────────────────────

namespace {

constexpr std::size_t kStackReserve = 64 * 1024;  // what a child may count on
// How often a wait looks whether the other threads, which might end it, are still there.
constexpr Duration kLookForThreadsEvery = std::chrono::milliseconds{100};
constexpr unsigned kCallersShown = 16;

const std::byte* with_reserve(const std::byte* limit, std::size_t bytes) noexcept {
  return limit + std::min(bytes / 4, kStackReserve);
}

}  // namespace

InPlace::InPlace(Io& io, const BlockingOptions& options)
    : Host(io, std::make_shared<arch::StackPool>()),
      chance(entropy()),
      on_deadlock_(options.on_deadlock),
      bell_(std::make_shared<Bell>()) {
  chaos::load_environment();
}

const std::byte* InPlace::floor_here() noexcept {
  if (const auto* const outer = static_cast<const Carrier*>(arch::thread_slot())) {
    const Ground& ground = outer->current->strand->ground;
    if (ground.stack) return with_reserve(ground.stack->limit, ground.stack->bytes());
    if (ground.in_place_floor) return ground.in_place_floor;  // one of us
  }
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return nullptr;
  void* limit = nullptr;
  std::size_t bytes = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &limit, &bytes) == 0;
  ::pthread_attr_destroy(&attributes);
  return known ? with_reserve(static_cast<const std::byte*>(limit), bytes) : nullptr;
}

void InPlace::run(Fiber& root_fiber, const std::byte* floor) noexcept {
  base().strand->ground.in_place_floor = floor;
  reported_ = false;
  coarse_now = monotonic_now();
  call(root_fiber);
}

// A child has a frame, a strand and an exception state of its own: the caller may be in the middle
// of a catch block, or of an unwinding.
void InPlace::call(Fiber& child) noexcept {
  Fiber& self = *current;
  if (__builtin_frame_address(0) <= self.strand->ground.in_place_floor) return refuse(child);
  Strand strand{child, self.strand->ground};
  strand.beneath = &self;
  Home& home = static_cast<Home&>(*child.scope);
  const arch::ExceptionState outer = std::exchange(*exceptions, arch::ExceptionState{});
  fire_due();
  {
    const Inside inside{gate_};
    child.id = ++ids_;
    child.strand = &strand;
    current = &child;
  }
  look_up_for_timers(child);
  run_closure(child);
  {
    const Inside inside{gate_};
    current = &self;
    recycle_frame(child, *this);
  }
  *exceptions = outer;
  home.children_ended(1);
  look_up_for_timers(self);
}

// As where stacks run out: the child fails, and never ran.
void InPlace::refuse(Fiber& child) noexcept {
  Home& home = static_cast<Home&>(*child.scope);
  child.id = ++ids_;
  std::exception_ptr error;
  try {
    error = std::make_exception_ptr(OutOfStacks{
        "the stack of the thread that called run() is used up: under BlockingIo every child runs "
        "on it, on top of its spawner"});
  } catch (...) {
    error = std::current_exception();  // no memory to say why: that says it
  }
  home.child_failed(child, std::move(error));
  child.word.mark_ended(FiberState::cancelled, Actor::worker);
  discard_fiber(child);
  home.children_ended(1);
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

bool InPlace::fire_due() noexcept {
  if (timers.empty()) return false;
  const Instant now = monotonic_now();
  coarse_now = now;
  Fired fired;
  if (!timers.fire_due(now, fired)) return false;
  resume_all(std::move(fired.woken));
  CancelScope::tell(fired.hooks);
  return true;
}

// Nobody else is there to watch the clock: while a timer is armed, every checkpoint comes to
// yield(), which does.
void InPlace::look_up_for_timers(Fiber& self) noexcept {
  Sync::fence_here();  // pairs with arm(), by another thread: it sees who runs, or we its timer
  if (!timers.empty()) self.attention.fetch_or(kAttendTurn, std::memory_order_relaxed);
}

void InPlace::arm(Timer& timer) noexcept {
  const bool soonest = timers.arm(timer);
  const bool foreign = !is_here();
  if (foreign) Sync::fence_everywhere();  // pairs with look_up_for_timers()
  Fiber* const running = current;  // frames are never freed: at worst, one looks up for nothing
  running->attention.fetch_or(kAttendTurn, std::memory_order_relaxed);
  if (foreign && soonest) ring(*bell_);
}

void InPlace::yield(Fiber& self) noexcept {
  { const Inside inside{gate_}; }
  // Another thread may be what is waited for; it needs the core now and then. With a timer armed,
  // this may be but a checkpoint.
  constexpr unsigned kYieldsToCore = 64;
  if (!timers.empty()) fire_due();
  else if (++yields_ % kYieldsToCore == 0) ::sched_yield();
  look_up_for_timers(self);
}

// ── waits ───────────────────────────────────────────────────────────────────────────────────────

// The thread commits its own park: its stack is nobody else's to run, so there is no far side.
void InPlace::wait(Fiber& self) noexcept {
  coarse_now = monotonic_now();
  self.link.waiting().since = coarse_now;
  if (!self.word.commit_park(self.attention)) {  // ended already: we are our own resumer
    self.traits |= kLatched;
    self.word.run_thread();
    return look_up_for_timers(self);
  }
  for (;;) {
    // acquire: pairs with resume() and arm(); see the race in the header.
    const std::uint32_t rung = bell_->rung.load(std::memory_order_acquire);
    const std::uint64_t seen = self.word.bits().load(std::memory_order_acquire);
    if (ControlWord::state_of(seen) == FiberState::running) break;
    if (fire_due()) continue;
    if (timers.empty() && nothing_can_come(self)) continue;
    sleep(rung);
  }
  look_up_for_timers(self);
}

void InPlace::sleep(std::uint32_t rung) noexcept {
  const Instant soonest = timers.soonest();
  const bool timed = soonest != Instant::max();
  const Instant last = coarse_now;
  const Duration left = timed ? std::max(soonest - last, Duration{}) : kLookForThreadsEvery;
  const std::timespec timeout{static_cast<std::time_t>(left.count() / 1'000'000'000),
                              static_cast<long>(left.count() % 1'000'000'000)};
  const bool forever = !timed && on_deadlock_ != OnDeadlock::automatic;
  asleep_.store(true, std::memory_order_seq_cst);
  if (bell_->poller) sleep_in_bed(rung, forever ? nullptr : &timeout);
  else Sync::sleep(bell_->rung, rung, forever ? nullptr : &timeout);
  asleep_.store(false, std::memory_order_seq_cst);
  Sync::fence(std::memory_order_seq_cst);  // pairs with inspect(): one of us sees the other
  const Inside inside{gate_};
}

void InPlace::sleep_in_bed(std::uint32_t rung, const std::timespec* timeout) noexcept {
  FiberList woken;
  bell_->in_bed.store(true, std::memory_order_seq_cst);
  if (bell_->rung.load(std::memory_order_seq_cst) == rung) bell_->poller->sleep(0, timeout, woken);
  bell_->in_bed.store(false, std::memory_order_seq_cst);
  resume_all(std::move(woken));
}

std::shared_ptr<Reactor> InPlace::reactor() noexcept {
  if (!bell_->poller) bell_->poller = EpollReactor::make();
  return bell_->poller;
}

void InPlace::resume(Fiber& fiber) noexcept {
  if (is_here()) return fiber.word.run_thread();
  const std::shared_ptr<Bell> bell = bell_;
  fiber.word.run_thread();  // from here on, *this may be gone
  ring(*bell);
}

// ── deadlock ────────────────────────────────────────────────────────────────────────────────────

// No timer is armed. True: the wait has been ended.
bool InPlace::nothing_can_come(Fiber& self) noexcept {
  const Waiting* const waiting = self.waiting();
  if (!waiting || is_from_outside(*waiting)) return false;
  if (on_deadlock_ == OnDeadlock::report && std::exchange(reported_, true)) return false;
  if (on_deadlock_ == OnDeadlock::automatic && !is_alone(1)) return false;
  try {
    deadlock_report = describe(self);
  } catch (...) {
    deadlock_report.clear();  // no memory to say more
  }
  if (on_deadlock_ == OnDeadlock::report) {
    std::fprintf(stderr, "weft: %s\n", deadlock_report.c_str());
    return false;
  }
  return raise_deadlock_in_waits(*base().io);
}

std::string InPlace::describe(const Fiber& self) const {
  std::string text = describe_deadlock(*engine, coarse_now, policy::kClockGrain);
  text += "\n  under BlockingIo children run in place, one after the other: what it waits for can "
          "only come from its caller or a later sibling, which cannot run now";
  unsigned shown = 0;
  for (const Fiber* at = self.strand->beneath; at && at->strand->beneath;
       at = at->strand->beneath) {
    if (++shown > kCallersShown) return text + "\n  and so on";
    text += "\n  called by fiber #" + std::to_string(at->id);
    if (const std::string name = at->copy_name(); !name.empty()) text += " \"" + name + '"';
  }
  return text;
}

// ── inspection ──────────────────────────────────────────────────────────────────────────────────

// Who is beneath the running fiber stands still, whatever that one does: it cannot end without
// passing the gate.
EngineSight InPlace::sight(bool stands_still, bool asleep) {
  const Fiber* const running = current;
  EngineSight sight;
  if (running == &base()) return sight;  // begins, or ends
  sight.now = monotonic_now();
  sight.clock_grain = policy::kClockGrain;
  sight.workers.push_back({.state = asleep ? WorkerState::sleep : WorkerState::active,
                           .running = asleep ? nullptr : running,
                           .stands_still = stands_still,
                           .timers = timers.size()});
  sight.complete = stands_still;
  if (stands_still) return sight;
  for (const Fiber* at = running->strand->beneath; at != &base(); at = at->strand->beneath)
    sight.queued.push_back(at);
  return sight;
}

bool InPlace::inspect(Engine::Look look, void* at, Duration patience) {
  const auto over = [&] { return count.over(); };
  if (over() || is_here()) {
    look(over() ? EngineSight{} : sight(true, false), at);
    return true;
  }
  const Instant give_up = monotonic_now() + patience;
  Halt halt{gate_};
  if (!Sync::has_fence_everywhere() || !halt.ask(give_up)) return false;
  Sync::fence(std::memory_order_seq_cst);  // pairs with sleep(): one of us sees the other
  bool asleep = false;
  halt.await(give_up, over,
             [&] { return asleep = asleep_.load(std::memory_order_seq_cst); });
  if (halt.is_over() || over()) {
    look(EngineSight{}, at);
    return true;
  }
  if (!halt.is_alone()) return false;
  look(sight(halt.stands_still(), asleep), at);
  return true;
}

}  // namespace weft::engine
