// The same program under the real engine and under the simulator, which finds its fault and can
// show it again.
#include <weft/weft.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

namespace {

// A bank with a race: read, think, write. Fine on some schedules.
int withdraw_twice() {
  int balance = 100;
  const auto withdraw = [&] {
    const int seen = balance;
    weft::sleep_for(1ms);
    balance = seen - 10;
  };
  weft::nursery([&](weft::Nursery& n) {
    n.spawn(withdraw);
    n.spawn([&] {
      weft::sleep_for(1ms);
      withdraw();  // at the very moment at which the other one writes
    });
  });
  return balance;
}

// Works the same under both engines, but under one of them the hour is virtual.
template <class Engine>
bool sleeps(Engine&& io, weft::Duration how_long) {
  return io.run([=] {
    const weft::Instant begin = weft::Clock::now();
    weft::nursery([=](weft::Nursery& n) { n.spawn([=] { weft::sleep_for(how_long); }); });
    return weft::Clock::now() - begin >= how_long;
  });
}

}  // namespace

int main() {
  std::printf("1 ms for real: %s\n", sleeps(weft::FiberIo{}, 1ms) ? "passed" : "did not pass");
  std::printf("1 h in simulation: %s\n", sleeps(weft::SimIo{}, 1h) ? "passed" : "did not pass");

  int wrong = 0;
  std::string schedule;  // of the first run that lost money
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    weft::SimIo io{{.seed = seed}};
    if (io.run(withdraw_twice) == 80) continue;
    if (wrong++ == 0) schedule = io.schedule();
  }
  std::printf("%s schedules lose money\n", wrong == 0 ? "no" : wrong == 200 ? "all" : "some");

  weft::SimIo again{{.replay = schedule}};
  std::printf("replayed: %d\n", again.run(withdraw_twice));
}
