// The engines that come with weft, and the one of the example, against the suite.
#include <weft/blocking_io.hpp>
#include <weft/sim.hpp>

#include <conformance/engine_suite.hpp>

#include "lifo_io.hpp"

namespace weft::conformance {
namespace {

EngineCase fiber_io(unsigned workers) {
  const auto with = [workers](OnDeadlock on_deadlock) {
    return [workers, on_deadlock] {
      return make<FiberIo>(Options{.workers = workers, .on_deadlock = on_deadlock});
    };
  };
  return {.name = "FiberIo" + std::to_string(workers),
          .raising = with(OnDeadlock::raise),
          .patient = with(OnDeadlock::automatic),
          .promises = {.foreign_spawns = true, .offloads = true}};
}

// Time jumps, and another thread would make the run depend on more than its seed.
EngineCase sim_io(const std::string& how, const SimOptions& options) {
  return {.name = "SimIo" + how,
          .raising = [options] { return make<SimIo>(options); },
          .promises = {.real_time = false, .foreign_wakes = false, .watches_loops = false}};
}

EngineCase blocking_io() {
  const auto with = [](OnDeadlock on_deadlock) {
    return [on_deadlock] { return make<BlockingIo>(BlockingOptions{.on_deadlock = on_deadlock}); };
  };
  return {.name = "BlockingIo",
          .raising = with(OnDeadlock::raise),
          .patient = with(OnDeadlock::automatic),
          .promises = {.takes_turns = false}};
}

EngineCase lifo_io() {
  return {.name = "LifoIo",
          .raising = [] { return make<LifoIo>(OnDeadlock::raise); },
          .patient = [] { return make<LifoIo>(OnDeadlock::automatic); },
          .promises = {.watches_loops = false}};
}

std::vector<EngineCase> all() {
  return {fiber_io(1),
          fiber_io(2),
          fiber_io(4),
          sim_io("Seed0", {.seed = 0}),
          sim_io("Seed1", {.seed = 1}),
          sim_io("Preempting", {.seed = 2, .preempt = true}),
          sim_io("Pct", {.seed = 3, .schedule = Schedule::pct}),
          sim_io("RoundRobin", {.schedule = Schedule::round_robin}),
          blocking_io(),
          lifo_io()};
}

INSTANTIATE_TEST_SUITE_P(All, EngineConformance, ::testing::ValuesIn(all()), name_of);

}  // namespace
}  // namespace weft::conformance
