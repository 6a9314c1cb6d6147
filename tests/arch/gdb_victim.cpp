// Stops for a debugger at places of interest, each deep inside a fiber. gdb_test.py breaks on
// weft_stop_here, and knows the names of the places and the functions on the way to them.
#include <weft/weft.hpp>

#include <cstdio>

extern "C" {

[[gnu::noinline]] void weft_stop_here(const char* place) {
  asm volatile("" : : "r"(place) : "memory");
}
}

namespace {

// At the end of a function: keeps its last call from becoming a jump.
[[gnu::always_inline]] inline void return_here() { asm volatile("" : : : "memory"); }

[[gnu::noinline]] void descend(int depth, const char* place) {
  if (depth == 0)
    weft_stop_here(place);
  else
    descend(depth - 1, place);
  return_here();
}

[[gnu::noinline]] void run_child(weft::Event& wake) {
  descend(9, "fresh");
  wake.wait();
  descend(9, "resumed");
  weft::this_fiber::yield();
  descend(9, "yielded");
  return_here();
}

[[gnu::noinline]] void run_child_in_place() {
  descend(9, weft::Fiber::current().strand->beneath ? "in place" : "not in place");
  weft::this_fiber::yield();
  descend(9, "in place, yielded");
  return_here();
}

[[gnu::noinline]] void run_root() {
  descend(9, "root");
  weft::Event wake;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] { run_child(wake); });
    weft::this_fiber::yield();  // it runs, on a stack of its own, and parks
    n.spawn([&] {
      weft::this_fiber::yield();
      wake.set();
    });
  });
  weft::nursery([](weft::Nursery& n) { n.spawn(&run_child_in_place); });
  try {
    throw 1;
  } catch (int) {
    descend(9, "in a handler");
  }
}

}  // namespace

int main() {
  weft::FiberIo{{.workers = 1}}.run(&run_root);
  weft::SimIo{}.run([] { descend(9, "simulated"); });
  std::puts("ended");
}
