// The small programs that several self-tests explore.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "explorer/explore.hpp"
#include "model_sync.hpp"

namespace weft::model::selftest {

using Sync = ModelSync;
using Values = std::vector<int>;
using enum std::memory_order;

// Two locations, and up to four values that the threads report.
struct Litmus {
  Sync::Atomic<int> x{0};
  Sync::Atomic<int> y{0};
  int r[4] = {-1, -1, -1, -1};
};

// Two bugs of the kind that costs weeks. In the first, worker and submitter each announce and then
// look, with acquire and release only. In the second the latch is set beside the state.
struct SleepyWorker {
  Sync::Atomic<std::uint32_t> asleep{0};
  Sync::Atomic<std::uint32_t> work{0};
  Sync::Atomic<std::uint32_t> bell{0};

  template <std::memory_order kStore, std::memory_order kLoad>
  void work_loop() {
    asleep.store(1, kStore);
    if (work.load(kLoad) == 0)
      while (bell.load(acquire) == 0) Sync::sleep(bell, 0);
  }
  template <std::memory_order kStore, std::memory_order kLoad>
  void submit() {
    work.store(1, kStore);
    if (asleep.load(kLoad) == 0) return;
    bell.store(1, release);
    Sync::wake(bell, 1);
  }
};

template <std::memory_order kStore, std::memory_order kLoad>
void sleepy_worker(Program& p) {
  auto& s = p.make<SleepyWorker>();
  p.thread("worker", [&s] { s.work_loop<kStore, kLoad>(); });
  p.thread("submitter", [&s] { s.submit<kStore, kLoad>(); });
}

struct TwoWordLatch {
  enum : std::uint32_t { kRunning, kParked, kAwake };
  Sync::Atomic<std::uint32_t> state{kRunning};
  Sync::Atomic<std::uint32_t> latch{0};

  void park() {
    if (latch.load(seq_cst) != 0) return;
    state.store(kParked, seq_cst);
    while (state.load(acquire) == kParked) Sync::sleep(state, kParked);
  }
  void unpark() {
    std::uint32_t parked = kParked;
    if (state.compare_exchange_strong(parked, kAwake))
      Sync::wake(state, 1);
    else
      latch.store(1, seq_cst);  // too late if the parker has already looked
  }
};

inline void two_word_latch(Program& p) {
  auto& s = p.make<TwoWordLatch>();
  p.thread("fiber", [&s] { s.park(); });
  p.thread("waker", [&s] { s.unpark(); });
}

}  // namespace weft::model::selftest
