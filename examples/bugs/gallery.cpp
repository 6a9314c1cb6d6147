#include "gallery.hpp"

namespace gallery {

std::span<const Bug* const> all() {
  static constexpr const Bug* kAll[] = {
      &lost_update,   &stale_cache,   &double_checked,   &forgotten_undo,  &lock_order,
      &pool_deadlock, &missed_signal, &starvation,       &close_race,      &double_close,
      &aba,           &paid_twice,    &forgotten_sender, &unbounded_queue, &lossy_timeout,
  };
  return kAll;
}

weft::ExploreOptions exploration(const Bug& bug, std::uint64_t seed) {
  return {.name = std::string{bug.name},
          .runs = bug.runs,
          .seed = seed,
          .schedule = bug.schedule,
          .depth = bug.depth,
          .preemptions = bug.preemptions,
          .progress = weft::Progress::never,
          .print = false};
}

std::string schedule_of(const Bug& bug) {
  switch (bug.schedule) {
    case weft::Schedule::pct: return "pct of depth " + std::to_string(bug.depth);
    case weft::Schedule::exhaustive:
      return "exhaustive, at most " + std::to_string(bug.preemptions) +
             (bug.preemptions == 1 ? " preemption" : " preemptions");
    case weft::Schedule::round_robin: return "round robin";
    case weft::Schedule::random: break;
  }
  return "random";
}

}  // namespace gallery
