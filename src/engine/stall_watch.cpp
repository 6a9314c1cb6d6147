#include "stall_watch.hpp"

namespace weft::engine {

std::span<const Stall> StallWatch::look(Instant now, std::span<const WorkerProgress> sights) {
  due_.clear();
  for (const WorkerProgress& sight : sights) {
    if (sight.worker >= records_.size()) records_.resize(sight.worker + 1);
    Record& record = records_[sight.worker];
    if (!sight.runs || !record.runs || sight.picks != record.picks) {
      record = {.picks = sight.picks, .since = now, .runs = sight.runs};
      continue;
    }
    if (record.reported) continue;
    if (!record.suspect) {
      record.suspect = true;
      record.on_cpu = ask_(sight.worker).on_cpu;
    }
    const Duration lasted = now - record.since;
    if (lasted < after_) continue;
    const ThreadSight thread = ask_(sight.worker);
    if (!thread.sleeping && thread.on_cpu - record.on_cpu < after_) continue;
    record.reported = true;
    due_.push_back({sight.worker, lasted, thread.sleeping});
  }
  return due_;
}

}  // namespace weft::engine
