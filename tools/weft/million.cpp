#include "capacity.hpp"
#include "tour.hpp"

#include <weft/core/frame_pool.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
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
    seen.resident = 1024 * number_after("/proc/self/status", "VmRSS:");
    seen.page_tables = 1024 * number_after("/proc/self/status", "VmPTE:");
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);) ++seen.mappings;
    seen.frames = static_cast<long>(frames_made());
    return seen;
  }
};

void show(Page& page, long count, const Memory& before, const Memory& during) {
  const auto each = [&](double bytes) { return bytes / static_cast<double>(count); };
  // Frames that an earlier chapter made are used again; they count all the same.
  const long reused = std::max(count - (during.frames - before.frames), 0L);
  const double frames = static_cast<double>(reused) * static_cast<double>(kFrameBytes[0]);
  page.figure("fibers parked, all guarded", grouped(count));
  page.figure("resident memory, stack and frame", each(during.resident - before.resident + frames),
              "bytes each");
  page.figure("page tables beside it", each(during.page_tables - before.page_tables), "bytes each");
  page.figure("mappings, all together", grouped(during.mappings - before.mappings));
}

struct Crowd {
  std::atomic<long> up{0};
  std::atomic<long> ended{0};
  Event reached{"reached"};  // `up` has come to where the last group ends
  Event go{"go"};
};

// In groups, so that the bar can move.
void gather(Nursery& n, Crowd& crowd, long count, Progress& bar) {
  const long group = std::max(count / 50, 1L);
  for (long spawned = 0; spawned < count;) {
    const long target = std::min(spawned + group, count);
    for (; spawned < target; ++spawned)
      n.spawn([&crowd, target] {
        if (++crowd.up == target) crowd.reached.set();
        crowd.go.wait();
        ++crowd.ended;
      });
    crowd.reached.wait();
    crowd.reached.reset();
    bar.show(target, count);
  }
}

}  // namespace

void million(Page& page) {
  const bool kernel = has_kernel_guards();
  page.say(kernel ? "Guards here are the kernel's own guard regions, which cost no mapping:"
                  : "Guards here are made by mprotect, which costs mappings and so limits them:");
  const long wanted = kernel ? at_most(1'000'000, 20'000, 2'000) : at_most(10'000, 10'000, 1'000);
  const long count = affordable(wanted);
  Crowd crowd;
  FiberIo io;
  double create = 0;
  double end = 0;
  io.run([&] {
    const Memory before = Memory::now();
    end = seconds([&] {
      nursery([&](Nursery& n) {
        Progress bar{page, "parking " + grouped(count) + " fibers"};
        create = seconds([&] { gather(n, crowd, count, bar); });
        bar.clear();
        show(page, count, before, Memory::now());
        crowd.go.set();
      });
    });
  });
  expect(crowd.ended == count, "a parked fiber was lost");
  page.figure("to start and park one", create * 1e9 / static_cast<double>(count), "ns");
  page.figure("to wake and end one", (end - create) * 1e9 / static_cast<double>(count), "ns");
  if (count < wanted)
    page.say("Fewer than " + grouped(wanted) + ": half of the memory to be had is the limit.");
}

}  // namespace weft::tour
