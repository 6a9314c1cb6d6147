// Search: who decides. The execution asks the search at every scheduling point which thread steps
// next, and at every load (and every other free choice) which value comes out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "explorer/limits.hpp"
#include "explorer/operation.hpp"

namespace weft::model {

// Answers that are no decision.
inline constexpr ThreadId kPrune = 0xfe;     // nothing new can come of this execution
inline constexpr ThreadId kDiverged = 0xfd;  // the program is not where the search thinks it is
inline constexpr unsigned kNoValue = ~0U;    // likewise

// A step that has just been executed.
struct Step {
  ThreadId thread;
  Footprint done;
};

using PendingSteps = std::array<Footprint, kMaxThreads>;  // what each thread would do next

class Search {
 public:
  virtual ~Search() = default;
  Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // A new execution begins.
  virtual void begin() = 0;

  // `last` is the thread of the previous step, kNoThread at first.
  virtual ThreadId pick_thread(ThreadSet enabled, ThreadId last) = 0;

  // Picks from [0, count), count > 1. 0 is the tame choice: the newest store, no spurious failure.
  virtual unsigned pick_value(unsigned count) = 0;

  virtual void stepped(const Step&, const PendingSteps&) {}

  // `thread` stood still until the last step: it was woken by it, or was spinning.
  virtual void released_by_last_step(ThreadId) {}
  // `thread` stood still until nobody else could move: a time-out, or the end of a fair spin.
  virtual void released_by_standstill(ThreadId) {}
  // `thread` calls spin().
  virtual void yielded(ThreadId) {}

  // The execution is over. False: there is nothing left to explore.
  virtual bool next() = 0;
};

// Every execution, one per class of equivalent ones.
[[nodiscard]] std::unique_ptr<Search> dpor_search();
// Every execution with at most `preemptions` switches away from a thread that could have gone on.
[[nodiscard]] std::unique_ptr<Search> bounded_search(unsigned preemptions);
// Random priorities with depth - 1 changes: finds a bug of that depth among n threads and k steps
// with probability at least 1 / (n * k^(depth-1)) per execution.
[[nodiscard]] std::unique_ptr<Search> pct_search(unsigned depth, std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Search> random_search(std::uint64_t seed);

}  // namespace weft::model
