// One program under three engines; and what only two of them can run.
#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

int sum_of_squares() {
  std::atomic<int> sum{0};
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 1; i <= 3; ++i)
      n.spawn([&sum, i] {
        weft::sleep_for(1ms * i);
        sum += i * i;
      });
  });
  return sum;
}

// The child that waits comes before the one that it waits for.
void wrong_order() {
  weft::Event ready{"ready"};
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("reader", [&] { ready.wait(); });
    n.spawn("writer", [&] { ready.set(); });
  });
}

int main() {
  weft::FiberIo fibers;                // workers, real time: the children sleep side by side
  weft::SimIo simulated{{.seed = 7}};  // one thread, virtual time: nobody sleeps at all
  weft::BlockingIo blocking;           // one thread, real time: one child after the other
  std::printf("FiberIo %d, SimIo %d, BlockingIo %d\n", fibers.run(sum_of_squares),
              simulated.run(sum_of_squares), blocking.run(sum_of_squares));

  fibers.run(wrong_order);
  simulated.run(wrong_order);
  try {
    blocking.run(wrong_order);
  } catch (const weft::Deadlock& deadlock) {
    std::printf("BlockingIo: %s\n", deadlock.what());
  }

  // Another thread might set it, but there is none.
  weft::BlockingIo patient{{.on_deadlock = weft::OnDeadlock::automatic}};
  try {
    patient.run([] { weft::Event{}.wait(); });
  } catch (const weft::Deadlock&) {
    std::printf("alone\n");
  }
}
