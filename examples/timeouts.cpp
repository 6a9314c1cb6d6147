// A time limit unwinds what did not make it; a cancelled nursery takes all below with it.
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

using namespace std::chrono_literals;

namespace {

std::string fetch(std::chrono::milliseconds latency) {
  weft::sleep_for(latency);
  return "body";
}

long long elapsed_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             weft::Clock::now().time_since_epoch())
      .count();
}

}  // namespace

int main() {
  weft::SimIo io{{.seed = 1}};  // virtual clock: runs in microseconds
  io.run([] {
    auto fast = weft::timeout(100ms, [] { return fetch(20ms); });
    auto slow = weft::timeout(100ms, [] {
      struct Log {
        ~Log() { std::puts("unwound, destructors ran"); }
      } log;
      return fetch(10s);
    });
    std::printf("fast=%s slow=%s\n", fast ? fast->c_str() : "-",
                slow ? slow->c_str() : "timed out");

    weft::nursery([](weft::Nursery& n) {  // explicit cancel, nested
      n.spawn([] {
        weft::nursery([](weft::Nursery& inner) { inner.spawn([] { weft::sleep_for(1h); }); });
      });
      weft::sleep_for(1s);
      n.cancel();
    });
    std::printf("elapsed %lld ms of virtual time\n", elapsed_ms());
  });
}
