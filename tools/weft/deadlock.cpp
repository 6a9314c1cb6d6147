#include "tour.hpp"

#include <weft/weft.hpp>

#include <string>

namespace weft::tour {
namespace {

// Each waits for the other to begin.
void after_you() {
  Event warp_ready{"warp ready"};
  Event weft_ready{"weft ready"};
  nursery({.name = "loom"}, [&](Nursery& n) {
    n.spawn("warp", [&] {
      weft_ready.wait();
      warp_ready.set();
    });
    n.spawn("weft", [&] {
      warp_ready.wait();
      weft_ready.set();
    });
  });
}

template <class Engine>
std::string report_of(Engine&& io) {
  try {
    io.run(after_you);
  } catch (const Deadlock& deadlock) {
    return deadlock.what();
  }
  throw Surprise{"a deadlock went unnoticed"};
}

}  // namespace

void deadlock(Page& page) {
  page.say("Two fibers wait for each other. In simulation, run() throws weft::Deadlock:");
  const std::string simulated = report_of(SimIo{});
  expect(simulated.find("\"warp\"") != std::string::npos, "the report does not name the fiber");
  page.quote(simulated);
  const std::string real = report_of(FiberIo{{.on_deadlock = OnDeadlock::raise}});
  expect(real.find("\"weft ready\"") != std::string::npos, "the report does not name the event");
  page.say("The real engine says the same, when told that no thread outside could still help.");
}

}  // namespace weft::tour
