// `weft tour --options`. The defaults are read from the structures, so that they cannot be out of
// date.
#include "tour.hpp"

#include <weft/arch/fault.hpp>
#include <weft/engine.hpp>
#include <weft/sim.hpp>

#include <cstdio>
#include <string>

namespace weft::tour {
namespace {

void row(const char* name, const std::string& initial, const char* meaning) {
  std::printf("  %-14s %-12s %s\n", name, initial.c_str(), meaning);
}

const char* text(OnDeadlock choice) {
  switch (choice) {
    case OnDeadlock::automatic: return "automatic";
    case OnDeadlock::report: return "report";
    case OnDeadlock::raise: return "raise";
  }
  return "?";
}

void print_fiber_io() {
  const Options initial;
  std::printf("weft::FiberIo io{{.name = value, ...}};    real threads, real time\n");
  row("workers", std::to_string(initial.workers),
      "threads that run fibers; 0: one per core. At present there is one");
  row("stack_bytes", std::to_string(initial.stack_bytes),
      "per fiber, virtual: only touched pages cost memory");
  row("on_deadlock", text(initial.on_deadlock),
      "automatic: raise if this is the process's only thread, else wait;");
  row("", "", "report: one report on stderr, and wait; raise: every wait throws");
}

void print_sim_io() {
  const SimOptions initial;
  std::printf("\nweft::SimIo io{{.name = value, ...}};      one thread, virtual time, seeded\n");
  row("seed", std::to_string(initial.seed), "decides who runs next wherever there is a choice");
  row("replay", '"' + initial.replay + '"', "a schedule() of an earlier run, to run it again");
  row("stack_bytes", std::to_string(initial.stack_bytes), "as above");
}

void print_environment() {
  std::string sites;
  for (const std::string_view site : arch::fault::kSiteNames)
    (sites += sites.empty() ? "" : ", ") += site;
  std::printf(
      "\nenvironment\n"
      "  WEFT_FAULTS    makes system calls fail, for tests: SITE:WHEN:ERRNO,...\n"
      "                 SITE is one of %s;\n"
      "                 WHEN is N (the Nth call), everyN, pCHANCE or pCHANCE@SEED\n"
      "                 example: WEFT_FAULTS=mmap:3:ENOMEM weft tour spawning\n",
      sites.c_str());
}

}  // namespace

void print_options() {
  print_fiber_io();
  print_sim_io();
  print_environment();
}

}  // namespace weft::tour
