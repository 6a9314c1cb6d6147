// A whole program that needs nothing of weft but src/arch/context.cpp, src/arch/thread_slot.cpp and
// slot_victim.cpp, so that it can be built in ways that the rest of weft is not: with link-time
// optimisation, or for CPUs that check where a branch may land.
//
// Moves a fiber from one thread to another. Exit code 0: it saw each thread's own slot.
// With the argument "no-landing" it jumps to where no branch may land, as a check of the checker.
#include "slot_victim.hpp"

#include <weft/arch/thread_slot.hpp>
#include <weft/core/carrier.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

// No thread here ever asks for a carrier.
weft::Carrier& weft::Carrier::enlist_thread() noexcept { std::abort(); }

namespace {

using weft::testing::BareFiber;

struct World {
  BareFiber* fiber = nullptr;
  BareFiber* home = nullptr;
  weft::testing::TwoLooks seen;
};

void wander(void* who, std::uintptr_t how) {
  World& world = *reinterpret_cast<World*>(how);
  weft::testing::begin_bare(*world.fiber, who);
  for (;;) world.seen = weft::testing::look_at_slot(*world.fiber, *world.home);
}

void resume(World& world, void* slot) {
  weft::arch::set_thread_slot(slot);
  BareFiber here;
  world.home = &here;
  switch_bare(here, *world.fiber, reinterpret_cast<std::uintptr_t>(&world));
}

void jump_where_nothing_may_land() {
#if defined(__aarch64__)
  asm volatile("adr x9, 1f\n\tbr x9\n1:\n\tnop" ::: "x9");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "no-landing") == 0) jump_where_nothing_may_land();
  World world;
  BareFiber fiber{&wander};
  world.fiber = &fiber;
  int marks[3] = {};
  resume(world, &marks[0]);
  std::thread{[&] { resume(world, &marks[1]); }}.join();
  const bool first = world.seen.before == &marks[0] && world.seen.after == &marks[1];
  std::thread{[&] { resume(world, &marks[2]); }}.join();
  const bool second = world.seen.before == &marks[1] && world.seen.after == &marks[2];
  std::printf("%s %s\n", first ? "right" : "wrong", second ? "right" : "wrong");
  return first && second ? 0 : 1;
}
