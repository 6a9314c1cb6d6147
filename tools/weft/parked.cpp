#include "tour.hpp"

#include <weft/arch/stack.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/weft.hpp>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace weft::tour {
namespace {

struct Memory {
  double resident = 0;     // bytes
  double page_tables = 0;  // bytes
  long mappings = 0;
  long frames = 0;

  static Memory now() {
    Memory seen;
    std::ifstream status{"/proc/self/status"};
    for (std::string word; status >> word;) {
      if (word == "VmRSS:") status >> seen.resident;
      if (word == "VmPTE:") status >> seen.page_tables;
    }
    seen.resident *= 1024;
    seen.page_tables *= 1024;
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) ++seen.mappings;
    seen.frames = static_cast<long>(frames_made());
    return seen;
  }
};

// What this system guards stacks with; an engine chooses the same way.
arch::Guards guards_here() {
  arch::StackPool pool;
  arch::Stack* const stack = pool.take();
  if (!stack) throw Surprise{pool.why()};
  pool.give(*stack);
  return pool.statistics().guards;
}

// Half of the memory that is free must do; two pages each are more than they take.
long affordable(long wanted) {
  const long pages = ::sysconf(_SC_AVPHYS_PAGES);
  return std::clamp(pages / 4, 100L, wanted);
}

void show(Page& page, long count, const Memory& before, const Memory& during) {
  const auto each = [&](double bytes) { return bytes / static_cast<double>(count); };
  // Frames that an earlier chapter made are used again; they count all the same.
  const long reused = std::max(count - (during.frames - before.frames), 0L);
  const double frames = static_cast<double>(reused) * static_cast<double>(kFrameBytes[0]);
  page.figure("fibers parked", grouped(count));
  page.figure("resident memory, stack and frame", each(during.resident - before.resident + frames),
              "bytes each");
  page.figure("page tables", each(during.page_tables - before.page_tables), "bytes each");
  page.figure("mappings, all together", grouped(during.mappings - before.mappings));
}

}  // namespace

void parked(Page& page) {
  const bool kernel = guards_here() == arch::Guards::kernel;
  page.say(kernel ? "Guards here are the kernel's own guard regions, which cost no mapping:"
                  : "Guards here are made by mprotect, which costs mappings and so limits them:");
  const long count =
      affordable(kernel ? at_most(100'000, 20'000, 2'000) : at_most(10'000, 10'000, 1'000));
  long up = 0;
  long ended = 0;
  Event go{"go"};
  FiberIo io;
  double create = 0;
  const double all = seconds([&] {
    io.run([&] {
      nursery([&](Nursery& n) {
        const Memory before = Memory::now();
        create = seconds([&] {
          for (long i = 0; i < count; ++i)
            n.spawn([&] {
              ++up;
              go.wait();
              ++ended;
            });
          while (up < count) this_fiber::yield();
        });
        show(page, count, before, Memory::now());
        go.set();
      });
    });
  });
  expect(ended == count, "a parked fiber was lost");
  page.figure("to start and park them", create * 1e3, "ms");
  page.figure("to wake and end them, and all the rest", (all - create) * 1e3, "ms");
}

}  // namespace weft::tour
