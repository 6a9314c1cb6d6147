// The workloads of locks, for weft-bench.
#pragma once

#include <string>

namespace weft::bench {

struct Timed {
  std::string metric;
  double ns_each;
  bool right;  // the result was
};

// `fibers` share one mutex and lock it `total` times in all; held over a yield, or for an increment.
Timed time_mutex(long fibers, long total, bool yields);

}  // namespace weft::bench
