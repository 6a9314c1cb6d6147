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
EngineCase sim_io(std::uint64_t seed) {
  return {.name = "SimIo" + std::to_string(seed),
          .raising = [seed] { return make<SimIo>(SimOptions{.seed = seed}); },
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

INSTANTIATE_TEST_SUITE_P(All, EngineConformance,
                         ::testing::Values(fiber_io(1), fiber_io(2), fiber_io(4), sim_io(0),
                                           sim_io(1), sim_io(2), blocking_io(), lifo_io()),
                         name_of);

}  // namespace
}  // namespace weft::conformance
