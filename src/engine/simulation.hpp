// Simulation: one worker whose every choice comes from a Schedule, and whose clock jumps.
#pragma once

#include "gate.hpp"
#include "host.hpp"
#include "local_queue.hpp"
#include "root.hpp"
#include "schedule.hpp"

#include <weft/core/waitable.hpp>
#include <weft/engine/timer_queue.hpp>
#include <weft/sim.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::engine {

class Simulation : public Host {
 public:
  Simulation(Io& io, const SimOptions& options)
      : Host(io, std::make_shared<arch::StackPool>(
                     arch::StackOptions{.stack_bytes = options.stack_bytes})),
        schedule(options.seed, options.replay) {}

  void run(Fiber& root_fiber);

  void start(Fiber& fiber) {
    make_runnable(fiber);
    fiber.id = ++ids_;
  }
  void make_runnable(Fiber& fiber) {
    const Inside inside{gate_};
    runnable_.push_back(&queued(fiber));
  }

  // See Engine::inspect(). From any thread: another one is let in when the next choice is made.
  bool inspect(Engine::Look look, void* at, Duration patience);

  // Who runs next; the base, where time passes, if nobody can.
  Fiber& successor() noexcept;
  // The same for a fiber that yields: it is itself one of the candidates.
  Fiber& turn(Fiber& self) noexcept;

  Schedule schedule;
  TimerQueue timers;
  Instant now{};
  List<Waitable> settlers;
  RootCount count;
  Atomic<bool> busy{false};  // a call of run() is under way
  std::optional<Root> root;
  std::string deadlock_report;

 private:
  [[nodiscard]] EngineSight sight(bool stands_still);
  Fiber& take(std::size_t at) noexcept;
  void nobody_can_run() noexcept;

  Gate gate_;                     // to runnable_ and the schedule
  std::vector<Fiber*> runnable_;  // in order of becoming so
  FiberId ids_ = 0;
};

}  // namespace weft::engine
