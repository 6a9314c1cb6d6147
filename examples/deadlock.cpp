// A program that nobody can wake is an error, not a hang; and the error says who waits for what.
#include <weft/weft.hpp>

#include <cstdio>

namespace {

// Each waits for the other to begin.
void after_you() {
  weft::Event warp_ready{"warp ready"};
  weft::Event weft_ready{"weft ready"};
  weft::nursery({.name = "loom"}, [&](weft::Nursery& n) {
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

}  // namespace

int main() {
  try {
    weft::SimIo io;
    io.run(after_you);
  } catch (const weft::Deadlock& deadlock) {
    std::puts(deadlock.what());
  }

  // The real engine cannot know whether a thread outside would still have set one of the events.
  // Here none would, and it is told so.
  try {
    weft::FiberIo io{{.on_deadlock = weft::OnDeadlock::raise}};
    io.run(after_you);
  } catch (const weft::Deadlock&) {
    std::puts("the same under FiberIo");
  }
}
