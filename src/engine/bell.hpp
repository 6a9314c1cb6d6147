// Bell: what the watcher waits by, between two rounds or, while nobody runs, for good.
//
// Invariant: the watcher asleep for good implies that nobody runs, or that it is being woken.
// Race:      it lies down while a worker gets up. Each announces, fences, and looks: the watcher
//            whether everybody still sleeps (Idle::deep), the worker whether the watcher does.
// Rejected:  waking it at every start of work: 7 us, for a program that serves a request now and
//            then. It waits out some rounds before it sleeps for good, and costs a load till then.
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>

#include <cstdint>
#include <ctime>

namespace weft::engine {

class Bell {
 public:
  // ── from any thread ─────────────────────────────────────────────────────────────────────────

  // Has the watcher look at once.
  void ring() noexcept {
    if (word_.exchange(kRung, std::memory_order_acq_rel) != kRung) Sync::wake(word_, 1);
  }
  // By who ends everybody's sleep, and has announced that: only one asleep for good must be told.
  void rouse() noexcept {
    chaos::step();
    if (word_.load(std::memory_order_seq_cst) == kAsleep) ring();
  }

  // ── by the watcher ──────────────────────────────────────────────────────────────────────────

  // Until `timeout`, or rung. May return early.
  void doze(const std::timespec& timeout) noexcept {
    Sync::sleep(word_, kNothing, &timeout);
    word_.exchange(kNothing, std::memory_order_acquire);
  }
  // Until rung, if nobody runs. May return early.
  template <class NobodyRuns>
  void sleep(NobodyRuns nobody_runs) noexcept {
    chaos::step();
    std::uint32_t nothing = kNothing;
    if (word_.compare_exchange_strong(nothing, kAsleep, std::memory_order_seq_cst)) {
      if (!mutant::kBellUnfenced) Sync::fence(std::memory_order_seq_cst);  // pairs with rouse()
      if (nobody_runs() || mutant::kBellUnfenced) Sync::sleep(word_, kAsleep, nullptr);
    }
    word_.exchange(kNothing, std::memory_order_acquire);
  }

 private:
  enum : std::uint32_t { kNothing, kRung, kAsleep };

  Atomic<std::uint32_t> word_{kNothing};
};

}  // namespace weft::engine
