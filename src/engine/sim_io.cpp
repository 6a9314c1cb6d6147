#include <weft/sim.hpp>

#include "sim_machine.hpp"
#include "simulation.hpp"
#include "tripwire.hpp"

#include <weft/core/wait.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

// A wait that only the simulation can end, when nobody else can run.
class Settle final : public Waitable {
 public:
  explicit Settle(engine::Simulation& simulation) noexcept : simulation_(simulation) {}
  bool try_complete() override { return false; }
  bool publish() noexcept override {
    simulation_.settlers.push_back(*this);
    return true;
  }
  void unpublish() noexcept override { simulation_.settlers.remove(*this); }
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "settle"}; }

 private:
  engine::Simulation& simulation_;
};

engine::Plan plan_of(const SimOptions& options) {
  if (options.depth == 0)
    throw std::invalid_argument{"weft::SimIo: a depth of at least 1, for Schedule::pct"};
  if (!options.replay.empty()) return engine::Choices::parse(options.replay);
  return {.seed = options.seed, .preempt = options.preempt};
}

// Another thread would make the run depend on real time: there is nothing to be saved.
void require_here(const engine::Simulation& simulation) noexcept {
  if (simulation.is_here()) return;
  std::fputs("weft: a thread outside the simulation, or an engine inside one of its fibers, "
             "spawned or woke a fiber of it; a simulated program must share no waitable objects "
             "with others\n",
             stderr);
  std::abort();
}

}  // namespace

SimIo::SimIo(const SimOptions& options)
    : SimIo(options, plan_of(options),
            std::make_shared<arch::StackPool>(
                arch::StackOptions{.stack_bytes = options.stack_bytes})) {}

SimIo::SimIo(const SimOptions& options, engine::Plan plan, std::shared_ptr<arch::StackPool> stacks)
    : simulation_(std::make_unique<engine::Simulation>(*this, options, std::move(plan),
                                                       std::move(stacks))) {
  enlist();
}

SimIo::~SimIo() { delist(); }

void SimIo::run_root(Body body) {
  engine::Simulation& sim = *simulation_;
  const engine::Exclusive exclusive{sim.busy, "weft::SimIo::run()"};
  engine::Root& root = sim.root.emplace(sim.count);
  const engine::Mounted mounted{sim};
  const engine::Tripwire tripwire{sim};
  Fiber& fiber = make_fiber(*this, root, std::move(body), Site{});
  fiber.set_name("main");
  sim.count.open();
  sim.run(fiber);
  root.rethrow_if_failed();
}

std::string SimIo::schedule() const { return simulation_->choices.text(); }
std::uint64_t SimIo::trace_hash() const noexcept { return simulation_->choices.hash(); }
std::uint64_t SimIo::steps() const noexcept { return simulation_->choices.steps(); }
std::string SimIo::log() const { return simulation_->log.text(); }

void SimIo::start(Fiber& fiber) {
  require_here(*simulation_);
  simulation_->start(fiber);
}

Fiber& SimIo::successor(Fiber& self, Departure how) noexcept {
  if (how == Departure::yield) return simulation_->turn(self);
  return simulation_->successor(self, how);
}

void SimIo::departed(Fiber& fiber, Departure how) noexcept {
  if (how == Departure::yield) {
    fiber.word.mark_runnable(Actor::worker);
    simulation_->make_runnable(fiber);
  } else {
    simulation_->release(fiber);
  }
}

void SimIo::resume(FiberList fibers) noexcept {
  require_here(*simulation_);
  simulation_->resume(std::move(fibers));
}

Instant SimIo::now() const noexcept { return simulation_->now; }
void SimIo::arm(Timer& timer) noexcept { simulation_->timers.arm(timer); }
void SimIo::disarm(Timer& timer) noexcept { simulation_->timers.disarm(timer); }
std::uint64_t SimIo::random() noexcept { return simulation_->choices.random(); }
std::shared_ptr<Reactor> SimIo::reactor() noexcept { return simulation_->machine(); }
SimWorld& SimIo::world() { return simulation_->machine()->world; }
void SimIo::raise_deadlock() const { throw Deadlock{simulation_->deadlock_report}; }

bool SimIo::inspect(Look look, void* at, Duration patience) {
  return simulation_->inspect(look, at, patience);
}

void settle() {
  auto* const sim = dynamic_cast<SimIo*>(&io());
  if (!sim) throw std::logic_error{"weft::settle(): the running engine is not a SimIo"};
  Settle operation{*sim->simulation_};
  wait(operation);
}

}  // namespace weft
