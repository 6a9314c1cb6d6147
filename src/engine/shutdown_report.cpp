#include "shutdown_report.hpp"

#include "deadlock.hpp"
#include "scheduler.hpp"
#include "visit.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
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

// Whoever has not come to its gate by the end of the visit's patience is in the middle of a fiber.
void describe_worker(Worker& worker, const Worker::Visit& visit, std::string& text) {
  if (!visit.alone()) return;
  const Fiber* const current = worker.current;
  if (current == &worker.base() || worker.inbox.is_asleep()) return;
  text += "\n  worker " + std::to_string(worker.index()) + " runs " + describe(*current);
}

}  // namespace

std::string describe_unfinished(Scheduler& scheduler, const Io& io) {
  std::string text;
  std::vector<std::unique_ptr<Worker::Visit>> visits;
  for (unsigned i = 0; i < scheduler.worker_count(); ++i) {
    Worker& worker = scheduler.worker(i);
    visits.push_back(std::make_unique<Worker::Visit>(worker, kPolite));
    describe_worker(worker, *visits.back(), text);
  }
  if (const std::uint32_t calls = scheduler.offload.in_flight(); calls != 0)
    text += "\n  " + std::to_string(calls) +
            (calls == 1 ? " call of blocking() has" : " calls of blocking() have") +
            " not returned";
  const bool all_stand = std::all_of(visits.begin(), visits.end(),
                                     [](const auto& visit) { return visit->alone(); });
  if (!all_stand) return text;
  const std::vector<std::string> waiting = describe_waits(io);
  for (std::size_t i = 0; i < std::min(waiting.size(), kFibersMax); ++i)
    text += "\n  " + waiting[i];
  if (waiting.size() > kFibersMax)
    text += "\n  and " + std::to_string(waiting.size() - kFibersMax) + " more that wait";
  return text;
}

}  // namespace weft::engine
