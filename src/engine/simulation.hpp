// Simulation: one worker whose every decision is one of Choices, and whose clock jumps.
#pragma once

#include "choices.hpp"
#include "event_log.hpp"
#include "gate.hpp"
#include "host.hpp"
#include "lineup.hpp"
#include "priorities.hpp"
#include "root.hpp"

#include <weft/core/waitable.hpp>
#include <weft/engine/timer_queue.hpp>
#include <weft/sim.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace weft::engine {

class SimMachine;

class Simulation : public Host {
 public:
  // A schedule to replay says itself what the seed is, and whether operations preempt.
  Simulation(Io& io, const SimOptions& options, Plan plan,
             std::shared_ptr<arch::StackPool> stacks);
  ~Simulation();

  void run(Fiber& root_fiber);

  void start(Fiber& fiber);
  void resume(FiberList fibers) noexcept;
  void make_runnable(Fiber& fiber) {
    const Inside inside{gate_};
    runnable_.push_back(fiber);
  }

  // See Engine::inspect(). From any thread: another one is let in when the next choice is made.
  bool inspect(Engine::Look look, void* at, Duration patience);

  // Who runs next when `self` waits or ends; the base, where time passes, if nobody can.
  Fiber& successor(Fiber& self, Departure how) noexcept;
  // The same for a fiber that gives way, by its own will or not: it is itself a candidate.
  Fiber& turn(Fiber& self) noexcept;

  // The world of programs that have one: made when it is asked for.
  const std::shared_ptr<SimMachine>& machine();

  Choices choices;
  EventLog log;
  TimerQueue timers;
  Instant now{};
  List<Waitable> settlers;
  RootCount count;
  Atomic<bool> busy{false};  // a call of run() is under way
  std::optional<Root> root;
  std::string deadlock_report;
  bool leaked = false;       // the deadlock came when the root's function had returned

 private:
  [[nodiscard]] EngineSight sight(bool stands_still);
  Fiber& next() noexcept;
  // Null: the running fiber goes on.
  Fiber* choose(Fiber* self, Point point) noexcept;
  std::size_t pick(Fiber* self, Point point, std::size_t candidates) noexcept;
  Fiber& candidate(Fiber* self, Point point, std::size_t place) const noexcept;
  void preempt() noexcept;
  void watch_over_steps() noexcept;
  // It came here because its attention is drawn, and not by its own will.
  [[nodiscard]] bool is_forced(const Fiber& self) const noexcept;
  void give_up(std::exception_ptr why) noexcept;
  void nobody_can_run() noexcept;

  const Schedule schedule_;
  const bool strict_;
  const std::uint64_t limit_;   // of steps; 0: none
  std::uint64_t steps_max_ = 0;
  bool preempts_;
  bool given_up_ = false;
  std::optional<Priorities> priorities_;
  Gate gate_;        // to runnable_ and the choices
  Lineup runnable_;  // in order of becoming so
  FiberId ids_ = 0;
  FiberId root_id_ = 0;
  bool root_ended_ = false;
  std::shared_ptr<SimMachine> machine_;
};

}  // namespace weft::engine
