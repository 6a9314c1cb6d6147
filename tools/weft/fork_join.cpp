#include "tour.hpp"

#include <weft/weft.hpp>

#include <string>

namespace weft::tour {
namespace {

// A fiber for every call but the smallest. No sane program would; it shows what spawning costs.
long fib(long n) {
  if (n < 2) return n;
  long a = 0;
  long b = 0;
  nursery([&](Nursery& both) {
    both.spawn([&a, n] { a = fib(n - 1); });
    b = fib(n - 2);
  });
  return a + b;
}

long fib_by_hand(long n) {
  long before = 0;
  long result = 1;
  for (long i = 1; i < n; ++i) {
    const long next = result + before;
    before = result;
    result = next;
  }
  return result;
}

constexpr long kParts = 20;

// The nanoseconds of one spawn, in the best of the parts.
double per_spawn(Page& page, unsigned workers, long n) {
  Progress bar{page, "fib(" + std::to_string(n) + "), " + std::to_string(workers) +
                         (workers == 1 ? " worker" : " workers")};
  FiberIo io{{.workers = workers}};
  double best = 0;
  io.run([&] {
    for (long part = 0; part < kParts; ++part) {
      long result = 0;
      const double taken = seconds([&] { result = fib(n); });
      expect(result == fib_by_hand(n), "fib lost its way");
      if (part == 0 || taken < best) best = taken;
      bar.show(part + 1, kParts);
    }
  });
  // One spawn for each call with n of 2 or more.
  return best * 1e9 / static_cast<double>(fib_by_hand(n + 1) - 1);
}

}  // namespace

void fork_join(Page& page) {
  const long n = at_most(27, 16, 12);
  page.say("fib(" + std::to_string(n) + ") with a fiber for every call, " +
           grouped(fib_by_hand(n + 1) - 1) + " of them; who joins runs its own unborn");
  page.say("children in place, and a worker with nothing to do takes the oldest of another's:");
  const double one = per_spawn(page, 1, n);
  page.figure("one worker", one, "ns a spawn");
  const unsigned cores = usable_cores();
  if (cores == 1) return page.say("There is one core here, so one worker is all there is.");
  const double all = per_spawn(page, cores, n);
  page.figure("one worker per core: " + std::to_string(cores), all, "ns a spawn");
  page.figure("times faster", rounded(one / all));
}

}  // namespace weft::tour
