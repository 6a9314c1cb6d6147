// Idle: who searches for work, who sleeps, and whether anybody keeps watch.
//
//   running ──nothing to do──► searching ──found nothing──► asleep ──called──► searching …
//
// One word counts the workers, the searchers and the sleepers. Searchers are few: they look at
// other workers' queues and would only get in each other's way. While somebody runs, one sleeper
// keeps watch: it wakes now and then, and finds what was not worth a wake when it was queued. When
// everybody sleeps, so does the watch, until somebody rouses it. Workers may join and leave
// meanwhile.
//
// Invariant: everybody asleep and the watch asleep for good (`deep`) implies that no fiber is
//            queued anywhere; who queues one then finds `deep`, and rouses the watch.
// Race:      (1) a foreign thread puts work into the injector while the last worker lies down. Each
//            announces, fences, and looks: one of them sees the other. (2) a worker is woken by its
//            inbox while the watch goes to sleep for good. Its count and `deep` are the same word:
//            either the watch finds one awake, or that one finds `deep`.
// Rejected:  waking a sleeper at every push (7 us for the waker, 20 until it runs, 60 ns of work);
//            a fence at every push (2 ns on a path of 8).
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>

#include <cstdint>

namespace weft::engine {

class Idle {
 public:
  Idle(unsigned workers, unsigned searchers_max) noexcept
      : searchers_max_(searchers_max), word_(workers * kOneWorker) {}

  // One more worker, awake, or one less.
  void join() noexcept { word_.fetch_add(kOneWorker, std::memory_order_seq_cst); }
  void leave() noexcept { word_.fetch_sub(kOneWorker, std::memory_order_seq_cst); }

  struct Count {
    std::uint64_t word;
    [[nodiscard]] std::uint32_t searching() const noexcept { return word & kField; }
    [[nodiscard]] std::uint32_t asleep() const noexcept { return word / kOneAsleep & kField; }
    [[nodiscard]] std::uint32_t workers() const noexcept { return word / kOneWorker & kField; }
    [[nodiscard]] bool deep() const noexcept { return (word & kDeep) != 0; }
    [[nodiscard]] bool everybody_sleeps() const noexcept { return asleep() == workers(); }
    // Somebody sleeps who could search, and nobody does.
    [[nodiscard]] bool wants_a_search() const noexcept { return asleep() != 0 && searching() == 0; }
  };
  // A hint, one load of a line that changes only when somebody falls asleep or wakes.
  [[nodiscard]] Count count() const noexcept { return {word_.load(std::memory_order_relaxed)}; }

  // ── searching ───────────────────────────────────────────────────────────────────────────────

  // For ourselves. False: enough others do.
  [[nodiscard]] bool begin_search() noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while (Count{seen}.searching() < searchers_max_)
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        return true;
    return false;
  }
  void end_search() noexcept { word_.fetch_sub(1, std::memory_order_seq_cst); }

  // On behalf of a sleeper that the caller goes on to wake. False: nobody sleeps, or one searches.
  [[nodiscard]] bool begin_search_for_another() noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while (Count{seen}.wants_a_search())
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        return true;
    return false;
  }

  // ── sleeping ────────────────────────────────────────────────────────────────────────────────

  // Announces us; after this, and not before, the sleeper looks once more for work that came from
  // outside.
  void begin_sleep() noexcept {
    chaos::step();
    word_.fetch_add(kOneAsleep, std::memory_order_seq_cst);
    if (!mutant::kSleepAnnouncedUnfenced) Sync::fence(std::memory_order_seq_cst);
  }
  void end_sleep() noexcept { word_.fetch_sub(kOneAsleep, std::memory_order_seq_cst); }

  // By a foreign thread that has put work into the injector: whether it must wake somebody.
  [[nodiscard]] bool must_be_told() const noexcept {
    chaos::step();
    if (!mutant::kInjectionUnfenced) Sync::fence(std::memory_order_seq_cst);
    return count().wants_a_search();
  }

  // ── the watch ───────────────────────────────────────────────────────────────────────────────

  [[nodiscard]] bool everybody_sleeps() const noexcept { return count().everybody_sleeps(); }

  // By the watch, asleep itself: from now on nobody keeps watch. False: somebody is awake.
  [[nodiscard]] bool deepen() noexcept {
    chaos::step();
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while (Count{seen}.everybody_sleeps() || mutant::kWatchSleepsRegardless)
      if (word_.compare_exchange_weak(seen, seen | kDeep, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        return true;
    return false;
  }
  // True: it was deep, and the caller is the one who rouses the watch.
  bool surface() noexcept {
    return (word_.fetch_and(~kDeep, std::memory_order_seq_cst) & kDeep) != 0;
  }

 private:
  static constexpr std::uint64_t kField = 0xffff;
  static constexpr std::uint64_t kOneAsleep = std::uint64_t{1} << 16;
  static constexpr std::uint64_t kOneWorker = std::uint64_t{1} << 32;
  static constexpr std::uint64_t kDeep = std::uint64_t{1} << 48;

  const std::uint32_t searchers_max_;
  alignas(64) Atomic<std::uint64_t> word_;
};

}  // namespace weft::engine
