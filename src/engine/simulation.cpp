#include "simulation.hpp"

#include "deadlock.hpp"

#include <weft/core/closure.hpp>
#include <weft/core/switch.hpp>

namespace weft::engine {

void Simulation::run(Fiber& root_fiber) {
  coarse_now = now;
  try {
    start(root_fiber);
  } catch (...) {
    discard_fiber(root_fiber);
    count.leave(1);
    throw;
  }
  while (!count.over()) {
    Fiber& fiber = successor();
    if (&fiber != &base()) switch_fibers(base(), fiber, Departure::none);
    else nobody_can_run();
  }
}

Fiber& Simulation::take(std::size_t at) noexcept {
  Fiber& fiber = queued(*runnable_[at]);
  runnable_.erase(runnable_.begin() + static_cast<std::ptrdiff_t>(at));
  schedule.note(fiber.id);
  return fiber;
}

Fiber& Simulation::successor() noexcept {
  for (;;) {
    Fiber* fiber = nullptr;
    {
      const Inside inside{gate_};
      if (!runnable_.empty()) fiber = &take(schedule.choose(runnable_.size()));
    }
    if (!fiber) return base();
    if (prepare(*fiber)) return *fiber;
  }
}

// The yielding fiber stands at the end of the line while the choice is made; its stack is not quiet
// yet, so it is put there for good only on the far side.
Fiber& Simulation::turn(Fiber& self) noexcept {
  for (;;) {
    Fiber* fiber = &self;
    {
      const Inside inside{gate_};
      const std::size_t at = schedule.choose(runnable_.size() + 1);
      if (at == runnable_.size()) schedule.note(self.id);
      else fiber = &take(at);
    }
    if (fiber == &self || prepare(*fiber)) return *fiber;
  }
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
    now = timers.soonest();
    coarse_now = now;
    schedule.note(static_cast<std::uint64_t>(now.time_since_epoch().count()));
    Fired fired;
    timers.fire_due(now, fired);
    while (Fiber* const fiber = fired.woken.pop_front()) make_runnable(*fiber);
    CancelScope::tell(fired.hooks);
    return;
  }
  deadlock_report = describe_deadlock(*base().io, now, Duration{});
  raise_deadlock_in_waits(*base().io);
}

}  // namespace weft::engine
