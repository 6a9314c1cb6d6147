// StallWatch: which worker's fiber does not give way, as seen by one who looks now and then.
//
// A worker counts its picks. If the count stands still while the worker runs a fiber, that fiber
// has not given way since. Time counts on the processor: a thread that had to wait for a core is
// not to blame, and so is not reported before it has computed for as long. One that sleeps in the
// kernel keeps its worker all the same.
#pragma once

#include <weft/core/time.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace weft::engine {

// What the watcher sees of a worker at one look.
struct WorkerProgress {
  unsigned worker = 0;
  std::uint64_t picks = 0;  // another number when it has picked a fiber since
  bool runs = false;        // a fiber, or is about to; false: it looks for work, sleeps or is gone
};

// What a worker's thread is about; asked for only if it seems stalled.
struct ThreadSight {
  Duration on_cpu{};      // ever
  bool sleeping = false;  // in the kernel
};

struct Stall {
  unsigned worker = 0;
  Duration lasted{};
  bool sleeping = false;
};

class StallWatch {
 public:
  using Ask = std::function<ThreadSight(unsigned worker)>;

  // `after` must be positive.
  StallWatch(Duration after, Ask ask) : after_(after), ask_(std::move(ask)) {}

  // The stalls that are to be reported now: each once, however long it lasts. To be called every
  // few milliseconds; good until the next call.
  std::span<const Stall> look(Instant now, std::span<const WorkerProgress> sights);

 private:
  struct Record {
    std::uint64_t picks = 0;
    Instant since{};      // the first look with that count
    Duration on_cpu{};    // at the second, when `suspect`
    bool runs = false;
    bool suspect = false;
    bool reported = false;
  };

  const Duration after_;
  const Ask ask_;
  std::vector<Record> records_;  // by worker
  std::vector<Stall> due_;
};

}  // namespace weft::engine
