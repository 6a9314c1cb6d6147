// A call that blocks its thread beside fibers that go on, and a stop request from outside.
#include <weft/weft.hpp>

#include <cstdio>
#include <fstream>
#include <stop_token>
#include <string>

using namespace std::chrono_literals;

// Ordinary blocking code, off the workers.
std::size_t count_lines(const std::string& path) {
  return weft::blocking([&] {
    std::ifstream in{path};
    std::string line;
    std::size_t n = 0;
    while (std::getline(in, line)) ++n;
    return n;
  });
}

int main() {
  weft::FiberIo io;
  std::stop_source stop;  // interop with the rest of a C++20 program
  io.run([&] {
    const auto [lines, ticks] = weft::all(
        [] { return count_lines("/proc/self/status"); },
        [] {
          int t = 0;
          for (; t < 3; ++t) weft::sleep_for(1ms);
          return t;
        });
    std::printf("%s lines, %d ticks meanwhile\n", lines > 0 ? "some" : "no", ticks);

    stop.request_stop();
    if (!weft::with_stop(stop.get_token(), [] { weft::sleep_for(1h); }))
      std::puts("stopped from outside");
  });
}
