#include "simulation.hpp"

#include "deadlock.hpp"
#include "findings.hpp"
#include "sim_machine.hpp"

#include <weft/core/closure.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/wait.hpp>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

namespace weft::engine {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::string describe_step_limit(const Io& io, const Lineup& runnable, const Fiber& running,
                                std::uint64_t steps, Instant now) {
  std::string text = "step limit: after " + std::to_string(steps) +
                     " steps the program has not ended; a livelock, or a limit too low\n  runs: " +
                     label(running);
  constexpr std::size_t kNamedMost = 16;
  for (std::size_t i = 0; i < runnable.size() && i < kNamedMost; ++i)
    text += (i == 0 ? "\n  can run: " : ", ") + label(runnable.at(i));
  if (runnable.size() > kNamedMost)
    text += " and " + std::to_string(runnable.size() - kNamedMost) + " more";
  for (const std::string& line : describe_waits(io, now, Duration{})) text += "\n  " + line;
  return text;
}

}  // namespace

Simulation::Simulation(Io& io, const SimOptions& options, Plan plan,
                       std::shared_ptr<arch::StackPool> stacks)
    : Host(io, std::move(stacks)),
      choices(std::move(plan)),
      log(options.log_events),
      schedule_(options.schedule),
      strict_(options.strict_replay),
      limit_(options.max_steps),
      preempts_(choices.plan().preempt) {
  if (schedule_ == Schedule::pct)
    priorities_.emplace(choices.plan().seed, options.depth, options.length);
}

Simulation::~Simulation() {
  if (machine_) machine_->leave();
}

const std::shared_ptr<SimMachine>& Simulation::machine() {
  if (!machine_) machine_ = std::make_shared<SimMachine>(*this);
  return machine_;
}

void Simulation::run(Fiber& root_fiber) {
  coarse_now = now;
  root_ended_ = leaked = given_up_ = false;
  deadlock_report.clear();
  preempts_ = choices.plan().preempt;
  steps_max_ = limit_ == 0 ? kNoLimit : choices.steps() + limit_;
  log.begin();
  try {
    const Inside inside{gate_};
    runnable_.push_back(root_fiber);
  } catch (...) {
    discard_fiber(root_fiber);
    count.leave(1);
    throw;
  }
  root_fiber.id = root_id_ = ++ids_;
  if (preempts_) root_fiber.attention.fetch_or(kAttendPreempt, std::memory_order_relaxed);
  while (!count.over()) {
    Fiber& fiber = next();
    if (&fiber != &base()) switch_fibers(*this, base(), fiber, Departure::none);
    else nobody_can_run();
  }
  if (strict_ && !given_up_ && !choices.exhausted())
    throw ScheduleMismatch{"weft: the schedule goes on after the program has ended; it is that of "
                           "another program"};
}

void Simulation::start(Fiber& fiber) {
  {
    const Inside inside{gate_};
    runnable_.push_back(fiber);
  }
  fiber.id = ++ids_;
  log.spawns(choices.steps(), now, *current, fiber);
  if (!preempts_) return;
  fiber.attention.fetch_or(kAttendPreempt, std::memory_order_relaxed);
  preempt();
}

void Simulation::resume(FiberList fibers) noexcept {
  bool latched = false;
  while (Fiber* const fiber = fibers.pop_front()) {
    latched = (fiber->traits & kLatched) != 0;
    log.wakes(choices.steps(), now, *current, *fiber);
    make_runnable(*fiber);
  }
  // A latched fiber is resumed in the middle of a switch.
  if (preempts_ && !latched) preempt();
}

// Whoever has just woken or spawned somebody may be overtaken. Not while it is about to park or to
// end: then it chooses anyway.
void Simulation::preempt() noexcept {
  Fiber& self = *current;
  const bool ended = self.scope == nullptr;
  if (&self == &base() || ended || self.word.state() == FiberState::parking) return;
  self.attention.fetch_and(static_cast<std::uint16_t>(~kAttendPreempt), std::memory_order_relaxed);
  give_way(self);
}

// ── choosing ────────────────────────────────────────────────────────────────────────────────────

Fiber& Simulation::candidate(Fiber* self, Point point, std::size_t place) const noexcept {
  if (point == Point::preempt) return place == 0 ? *self : runnable_.at(place - 1);
  return place < runnable_.size() ? runnable_.at(place) : *self;
}

std::size_t Simulation::pick(Fiber* self, Point point, std::size_t candidates) noexcept {
  switch (schedule_) {
    case Schedule::random: return choices.any(candidates);
    case Schedule::pct:
      return priorities_->best(
          candidates, [&](std::size_t place) -> Fiber& { return candidate(self, point, place); },
          choices.steps());
    case Schedule::round_robin: return point == Point::preempt ? 1 : 0;
    case Schedule::exhaustive: return 0;
  }
  return 0;
}

// The choice is made while others are kept out; a yielding fiber's stack is not quiet yet, so it is
// put in line for good only on the far side.
Fiber* Simulation::choose(Fiber* self, Point point) noexcept {
  const Inside inside{gate_};
  const std::size_t candidates = runnable_.size() + (self ? 1 : 0);
  const std::size_t place = choices.choose(
      candidates, point, [&] { return pick(self, point, candidates); });
  Fiber& chosen = candidate(self, point, place);
  choices.note(chosen.id);
  if (&chosen == self) return nullptr;
  return &runnable_.take(point == Point::preempt ? place - 1 : place);
}

Fiber& Simulation::next() noexcept {
  while (!runnable_.empty()) {
    Fiber* const fiber = choose(nullptr, Point::wait);
    if (log) log.add(choices.steps(), now, fiber, fiber->strand ? "goes on" : "begins");
    if (prepare(*fiber)) return *fiber;
  }
  return base();
}

Fiber& Simulation::successor(Fiber& self, Departure how) noexcept {
  if (how == Departure::finish && self.id == root_id_) root_ended_ = true;
  watch_over_steps();
  if (how == Departure::park && self.word.verdict() != Verdict::none()) return self;
  check_held_locks(self, how);
  if (how == Departure::park) log.waits(choices.steps(), now, self);
  else log.add(choices.steps(), now, &self, "ends");
  return next();
}

// Who comes by its own will has its attention still drawn; see end_turn() in wait.cpp.
bool Simulation::is_forced(const Fiber& self) const noexcept {
  return preempts_ && !(self.attention.load(std::memory_order_relaxed) & kAttendPreempt);
}

Fiber& Simulation::turn(Fiber& self) noexcept {
  watch_over_steps();
  const bool forced = is_forced(self);
  if (forced) {
    self.attention.fetch_or(kAttendPreempt, std::memory_order_relaxed);
    // Whoever wants a std::mutex that it holds would block the only thread. Only checked builds
    // know of it.
    const arch::LockWatch* const locks = arch::LockWatch::here();
    if (locks && !locks->empty()) return self;
  } else {
    check_held_locks(self, Departure::yield);
    if (priorities_) priorities_->fall_behind(self);
  }
  for (;;) {
    Fiber* const fiber = choose(&self, forced ? Point::preempt : Point::yield);
    if (!fiber) return self;
    if (forced) log.is_preempted(choices.steps(), now, self);
    else log.add(choices.steps(), now, &self, "yields");
    if (log) log.add(choices.steps(), now, fiber, fiber->strand ? "goes on" : "begins");
    if (prepare(*fiber)) return *fiber;
  }
}

// ── when it does not go on ──────────────────────────────────────────────────────────────────────

void Simulation::watch_over_steps() noexcept {
  if (strict_ && choices.misfit() && !given_up_) [[unlikely]]
    return give_up(std::make_exception_ptr(ScheduleMismatch{
        "weft: the schedule names a fiber that is not there; it is that of another program"}));
  if (choices.steps() < steps_max_) [[likely]] return;
  std::string report = describe_step_limit(*base().io, runnable_, *current, choices.steps(), now);
  if (given_up_) {
    std::fprintf(stderr, "weft: %s\nweft: and it does not end now that it is cancelled; %s\n",
                 report.c_str(), choices.text().c_str());
    std::abort();
  }
  give_up(std::make_exception_ptr(StepLimit{std::move(report)}));
}

void Simulation::give_up(std::exception_ptr why) noexcept {
  given_up_ = true;
  // So many steps again for everybody to unwind.
  steps_max_ = choices.steps() + (limit_ == 0 ? 1'000'000 : limit_) + 100'000;
  log.end(choices.steps(), now, "gives up");
  preempts_ = false;
  root->child_failed(base(), std::move(why));
  // Who swallows the cancellation comes by here with every operation, and is counted.
  preempts_ = true;
  for_each_frame(
      [](Fiber& fiber, void* ours) {
        if (fiber.io == ours)
          fiber.attention.fetch_or(kAttendPreempt, std::memory_order_relaxed);
      },
      static_cast<Io*>(base().io));
}

// Every fiber is blocked. First who waits for just that, then time, and if there is no more of
// that either, it is a deadlock.
void Simulation::nobody_can_run() noexcept {
  if (Waitable* const settler = settlers.pop_front()) {
    Fiber& fiber = settler->fiber();
    if (settler->claim() == Claim::owned) make_runnable(fiber);
    return;
  }
  if (!timers.empty()) {
    log.time_passes(choices.steps(), timers.soonest(), timers.soonest() - now);
    now = timers.soonest();
    coarse_now = now;
    choices.note(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    Fired fired;
    timers.fire_due(now, fired);
    while (Fiber* const fiber = fired.woken.pop_front()) make_runnable(*fiber);
    CancelScope::tell(fired.hooks);
    return;
  }
  if (deadlock_report.empty()) {  // the first is what it is about
    leaked = root_ended_;
    log.end(choices.steps(), now, "deadlock");
    deadlock_report = describe_deadlock(*base().io, now, Duration{});
  }
  raise_deadlock_in_waits(*base().io);
}

}  // namespace weft::engine
