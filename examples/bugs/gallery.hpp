// The gallery: what its bugs have in common, so that each file can tell its own story.
#pragma once

#include <weft/explore.hpp>
#include <weft/weft.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gallery {

// A program that goes wrong on some schedules, and the one that does not. Both throw, or wait for
// ever, where a test would fail.
struct Bug {
  std::string_view name;     // and that of its file
  std::string_view mistake;  // in one line
  weft::Failure::Kind kind;  // how it shows
  weft::Schedule schedule;   // how it is looked for
  unsigned depth = 3;        // of pct
  unsigned preemptions = 2;  // of exhaustive
  std::uint64_t runs;        // the budget: it is found in so many, whatever the seed
  void (*buggy)();
  void (*fixed)();
};

extern const Bug lost_update, stale_cache, double_checked, forgotten_undo;
extern const Bug lock_order, pool_deadlock, missed_signal, starvation;
extern const Bug close_race, double_close, forgotten_sender, unbounded_queue;
extern const Bug lossy_timeout, paid_twice, aba;

std::span<const Bug* const> all();

// How a bug is looked for, and its fix is tried. Nothing is printed.
weft::ExploreOptions exploration(const Bug& bug, std::uint64_t seed);

// "pct of depth 3", say.
std::string schedule_of(const Bug& bug);

}  // namespace gallery
