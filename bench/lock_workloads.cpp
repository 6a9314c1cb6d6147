#include "lock_workloads.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>

namespace weft::bench {

Timed time_mutex(long fibers, long total, bool yields) {
  const long rounds = std::max(1L, total / fibers);
  Mutex mutex;
  long count = 0;  // the mutex orders it
  const auto begin = std::chrono::steady_clock::now();
  nursery([&](Nursery& n) {
    for (long i = 0; i < fibers; ++i)
      n.spawn([&, rounds, yields] {
        for (long k = 0; k < rounds; ++k) {
          const std::scoped_lock lock{mutex};
          ++count;
          if (yields) this_fiber::yield();
        }
      });
  });
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
  return {yields ? "mutex_yield" : "mutex", spent.count() / static_cast<double>(rounds * fibers),
          count == rounds * fibers};
}

}  // namespace weft::bench
