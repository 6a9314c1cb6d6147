// Looking at an engine from outside: every worker is stopped at its gate meanwhile, or kept out.
#include "halt.hpp"
#include "scheduler.hpp"
#include "simulation.hpp"

#include <weft/core/thread.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

namespace weft::engine {
namespace {

// One inspection at a time.
class [[nodiscard]] Turn {
 public:
  explicit Turn(Atomic<bool>& taken) noexcept : taken_(taken) {}
  ~Turn() {
    if (ours_) taken_.store(false, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool take() noexcept { return ours_ = !taken_.exchange(true, std::memory_order_acquire); }

 private:
  Atomic<bool>& taken_;
  bool ours_ = false;
};

}  // namespace

// The workers of one engine, held from construction to destruction.
class Inspection {
 public:
  Inspection(Scheduler& scheduler, Worker* mine, Instant give_up) noexcept
      : scheduler_(scheduler), mine_(mine), give_up_(give_up) {}

  // Meanwhile a worker whose fiber asks may itself be asked to stop.
  static void come_to(Worker& worker) noexcept { const Inside inside{worker.gate_}; }

  // False: somebody else keeps one of the gates.
  [[nodiscard]] bool stop() {
    for (const auto& worker : scheduler_.workers()) {
      if (worker.get() == mine_) continue;
      Held& held = held_.emplace_back(*worker);
      if (!held.halt.ask(give_up_)) return false;
      worker->inbox.nudge();
    }
    for (Held& held : held_) {
      // One that is not there, or goes just now, may be hired again: then it comes to its gate.
      held.halt.await(
          give_up_, [&] { return scheduler_.count.over(); },
          [&] { return held.worker.state() == WorkerState::dead; });
      // Without that fence nothing is sure of one that did not come.
      if (!held.halt.stands_still() && !Sync::has_fence_everywhere()) return false;
    }
    return true;
  }

  // What there is to see. Without workers: the engine does not run any more.
  [[nodiscard]] EngineSight sight() const {
    EngineSight sight;
    sight.now = monotonic_now();
    for (const Held& held : held_)
      if (held.halt.is_over()) return sight;
    if (scheduler_.count.over()) return sight;
    if (mine_) sight.workers.push_back(seen(*mine_, mine_->state_, true, true));
    for (const Held& held : held_) {
      if (held.worker.state() == WorkerState::dead) continue;
      sight.workers.push_back(
          seen(held.worker, held.state, held.halt.stands_still(), held.halt.is_alone()));
      sight.complete = sight.complete && held.halt.stands_still();
    }
    std::sort(sight.workers.begin(), sight.workers.end(),
              [](const WorkerSight& a, const WorkerSight& b) { return a.index < b.index; });
    sight.injected = scheduler_.injector.length();
    sight.blocking_threads = scheduler_.offload.threads();
    sight.blocking_calls = scheduler_.offload.in_flight();
    sight.blocking_queued = scheduler_.offload.queued();
    if (!sight.complete) add_queued(sight);
    return sight;
  }

 private:
  struct Held {
    explicit Held(Worker& of) noexcept : worker(of), state(of.state_), halt(of.gate_) {}
    Worker& worker;
    const WorkerState state;  // before we disturbed it
    Halt halt;
  };

  // Who does not stand still may be anywhere but inside: only what others may look at is looked at.
  static WorkerSight seen(Worker& worker, WorkerState state, bool still, bool alone) {
    const Fiber* const running = worker.current;
    return {.index = worker.index(),
            .state = state,
            .running = running == &worker.base() ? nullptr : running,
            .stands_still = still,
            .queues_known = alone,
            .next = worker.next_ != nullptr,
            .fresh = worker.fresh_.length(),
            .ready = alone ? worker.ready_.length_of_all() : worker.ready_.length(),
            .inbox = worker.inbox.length(),
            .pinned = still ? worker.pinned_.length() : 0,
            .timers = worker.timers.size()};
  }

  void add_queued(EngineSight& sight) const {
    const auto add = [&](const Fiber& fiber) { sight.queued.push_back(&fiber); };
    const auto add_all = [&](const Worker& worker) {
      if (const Fiber* const next = worker.next_) add(*next);
      worker.fresh_.for_each(add);
      worker.ready_.for_each(add);
    };
    if (mine_) add_all(*mine_);
    for (const Held& held : held_)
      if (held.halt.is_alone()) add_all(held.worker);
  }

  Scheduler& scheduler_;
  Worker* const mine_;
  const Instant give_up_;
  std::deque<Held> held_;
};

bool Scheduler::inspect(Engine::Look look, void* at, Duration longest) {
  Carrier& here = Carrier::here();
  Worker* const mine = here.engine == &io_ ? static_cast<Worker*>(&here) : nullptr;
  // Who is there already may have as much patience, and then takes its time to look.
  const Instant give_up = monotonic_now() + 4 * longest + std::chrono::seconds{1};
  Turn turn{inspected_};
  while (!turn.take()) {
    if (mine) Inspection::come_to(*mine);
    if (!Halt::patient(give_up)) return false;
  }
  if (count.over()) {
    look(EngineSight{}, at);
    return true;
  }
  Inspection inspection{*this, mine, monotonic_now() + longest};
  if (!inspection.stop()) return false;
  look(inspection.sight(), at);
  return true;
}

// ── simulation ──────────────────────────────────────────────────────────────────────────────────

EngineSight Simulation::sight(bool stands_still) {
  const Fiber* const running = current;
  EngineSight sight;
  sight.workers.push_back({.running = running == &base() ? nullptr : running,
                           .stands_still = stands_still,
                           .ready = runnable_.size(),
                           .timers = stands_still ? timers.size() : 0});
  sight.complete = stands_still;
  if (!stands_still) sight.queued.assign(runnable_.all().begin(), runnable_.all().end());
  sight.now = coarse_now;
  sight.clock_grain = Duration::zero();
  return sight;
}

bool Simulation::inspect(Engine::Look look, void* at, Duration patience) {
  const auto over = [&] { return count.over(); };
  if (over() || is_here()) {
    look(over() ? EngineSight{} : sight(true), at);
    return true;
  }
  const Instant give_up = monotonic_now() + patience;
  Halt halt{gate_};
  if (!Sync::has_fence_everywhere() || !halt.ask(give_up)) return false;
  halt.await(give_up, over, [] { return false; });
  if (halt.is_over() || over()) {
    look(EngineSight{}, at);
    return true;
  }
  if (!halt.is_alone()) return false;
  look(sight(halt.stands_still()), at);
  return true;
}

}  // namespace weft::engine
