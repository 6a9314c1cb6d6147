#include "tour.hpp"

#include <weft/inspect.hpp>
#include <weft/weft.hpp>

#include <sstream>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

std::string snapshot_of_a_small_server(SimIo& io) {
  std::ostringstream text;
  io.run([&] {
    Event stop{"stop"};
    nursery({.name = "server"}, [&](Nursery& server) {
      server.spawn("accept", [&] { stop.wait(); });
      server.spawn("session", [&] {
        nursery({.name = "request"}, [&](Nursery& request) {
          request.spawn("reader", [&] { stop.wait(); });
          request.spawn("timeout", [] { sleep_for(30s); });
        });
      });
      settle();  // until everybody waits
      server.spawn("late", [] {});
      weft::dump(io, text);
      stop.set();
    });
  });
  return text.str();
}

}  // namespace

void dump(Page& page) {
  SimIo io;
  const std::string text = snapshot_of_a_small_server(io);
  for (const char* name : {"server", "accept", "request", "reader", "timeout", "late"})
    expect(text.find(name) != std::string::npos, "the dump leaves somebody out");
  page.say("weft::dump(io, stream), called by the fiber \"main\" inside a small server:");
  page.quote(text);
}

}  // namespace weft::tour
