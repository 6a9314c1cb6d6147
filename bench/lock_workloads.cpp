// Locks: W10.
#include "workloads.hpp"

#include <weft/weft.hpp>

#include <mutex>

namespace weft::bench {
namespace {

// Fibers that share one mutex, held for an increment or over a yield.
void mutex(long fibers, long total, bool yields) {
  const long rounds = std::max(1L, total / fibers);
  const char* const metric = yields ? "mutex_yield" : "mutex";
  Mutex shared;
  long count = 0;  // the mutex orders it
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      for (long i = 0; i < fibers; ++i)
        n.spawn([&, rounds, yields] {
          for (long k = 0; k < rounds; ++k) {
            const std::scoped_lock lock{shared};
            ++count;
            if (yields) this_fiber::yield();
          }
        });
    });
  });
  expect(count == rounds * fibers, metric);
  emit(metric, each(s, count), "ns");
}

}  // namespace

bool run_lock_workload(std::string_view workload) {
  if (workload != "mutex") return false;
  mutex(64, scaled(4'000'000), false);
  mutex(64, scaled(1'000'000), true);
  return true;
}

}  // namespace weft::bench
