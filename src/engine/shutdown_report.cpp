// Who keeps a run that is to end.
#include "deadlock.hpp"
#include "scheduler.hpp"
#include "visit.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace weft::engine {
namespace {

constexpr std::size_t kFibersMax = 32;  // more would hide the workers
constexpr std::chrono::milliseconds kPolite{20};

std::string describe(const Fiber& fiber) {
  std::string text = "fiber #" + std::to_string(fiber.id);
  if (const std::string name = fiber.copy_name(); !name.empty()) text += " \"" + name + '"';
  return text;
}

}  // namespace

void Scheduler::tell_who_keeps_it() noexcept try {
  std::string text = "weft: a run that was stopped, or has failed, does not end";
  std::vector<std::unique_ptr<Worker::Visit>> visits;
  bool all_stand = true;
  for (const auto& worker : workers()) {
    if (worker->state() == WorkerState::dead) continue;
    visits.push_back(std::make_unique<Worker::Visit>(*worker, kPolite));
    all_stand = all_stand && visits.back()->alone();
    if (!visits.back()->alone()) continue;
    // Who has not come to its gate in all that time is in the middle of a fiber, and has to pass
    // the gate before that fiber can end.
    if (const Fiber* const current = worker->current_from_outside(); current != &worker->base())
      text += "\n  worker " + std::to_string(worker->index()) + " runs " + describe(*current);
  }
  if (const std::uint32_t calls = offload.in_flight(); calls != 0)
    text += "\n  " + std::to_string(calls) +
            (calls == 1 ? " call of blocking() has" : " calls of blocking() have") +
            " not returned";
  const std::vector<std::string> waiting =
      all_stand ? describe_waits(io_, monotonic_now(), policy::kClockGrain)
                : std::vector<std::string>{};
  for (std::size_t i = 0; i < std::min(waiting.size(), kFibersMax); ++i)
    text += "\n  " + waiting[i];
  if (waiting.size() > kFibersMax)
    text += "\n  and " + std::to_string(waiting.size() - kFibersMax) + " more that wait";
  if (count.over()) return;  // it took us so long
  std::fprintf(stderr, "%s\n", text.c_str());
} catch (...) {  // no memory to say it
}

}  // namespace weft::engine
