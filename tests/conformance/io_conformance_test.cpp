// The engines that come with weft, against the suite of I/O.
#include "engine/reactor_hook.hpp"

#include <weft/blocking_io.hpp>
#include <weft/sim.hpp>

#include <conformance/io_suite.hpp>

#include <stdexcept>

namespace weft::conformance {
namespace {

// Empty: there is such a reactor here. Else why not.
std::string missing(ReactorKind reactor) {
  try {
    FiberIo{{.workers = 1, .reactor = reactor}};
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

IoCase fiber_io(const std::string& how, unsigned workers, ReactorKind reactor,
                bool gathers = false) {
  const Options options{.workers = workers, .reactor = reactor};
  return {.name = "FiberIo" + how + std::to_string(workers),
          .make =
              [options, gathers] {
                engine::all_calls_are_gathered.store(gathers, std::memory_order_relaxed);
                return make<FiberIo>(options);
              },
          .missing = [reactor] { return missing(reactor); }};
}

IoCase sim_io(const std::string& how, const SimOptions& options) {
  return {.name = "SimIo" + how,
          .make = [options] { return make<SimIo>(options); },
          .promises = {.real_files = false}};
}

IoCase blocking_io() {
  return {.name = "BlockingIo",
          .make = [] { return make<BlockingIo>(); },
          .promises = {.takes_turns = false}};
}

std::vector<IoCase> all() {
  return {fiber_io("Epoll", 1, ReactorKind::epoll),
          fiber_io("Epoll", 2, ReactorKind::epoll),
          fiber_io("Epoll", 4, ReactorKind::epoll),
          fiber_io("Uring", 1, ReactorKind::uring),
          fiber_io("Uring", 2, ReactorKind::uring),
          fiber_io("Uring", 4, ReactorKind::uring),
          fiber_io("UringGathers", 1, ReactorKind::uring, true),
          fiber_io("UringGathers", 4, ReactorKind::uring, true),
          sim_io("Seed0", {.seed = 0}),
          sim_io("Seed1", {.seed = 1}),
          sim_io("Preempting", {.seed = 2, .preempt = true}),
          blocking_io()};
}

INSTANTIATE_TEST_SUITE_P(All, IoConformance, ::testing::ValuesIn(all()), io_name_of);

}  // namespace
}  // namespace weft::conformance
