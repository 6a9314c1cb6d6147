// Looking at an engine from outside: every worker is stopped at its gate meanwhile.
#include "scheduler.hpp"
#include "visit.hpp"

#include <weft/core/thread.hpp>

#include <ctime>
#include <vector>

namespace weft::engine {

// Workers that stand at their gates and wait, from construction to destruction.
class Inspection {
 public:
  explicit Inspection(Instant give_up) noexcept : give_up_(give_up) {}
  ~Inspection() {
    for (Worker* const worker : stopped_) worker->gate_.open();
  }
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  // False: it did not come in time. `ended` says that nobody runs any more.
  template <class Ended>
  bool stop(Worker& worker, Ended ended) {
    while (!worker.gate_.bar())
      if (!patient()) return false;  // a thief is there, and will be gone soon
    stopped_.push_back(&worker);
    worker.inbox.nudge();
    while (!worker.gate_.has_yielded() && !ended())
      if (!patient()) return false;
    if (worker.current != &worker.base()) running_.push_back(worker.current);
    return true;
  }
  void add_running(const Fiber* fiber) { running_.push_back(fiber); }

  // Meanwhile a worker whose fiber asks may itself be asked to stop.
  static void come_to(Worker& worker) noexcept { const Inside inside{worker.gate_}; }

  [[nodiscard]] std::span<const Fiber* const> running() const noexcept { return running_; }

  bool patient() const noexcept {
    const std::timespec briefly{0, 50'000};
    const Atomic<std::uint32_t> nobody_wakes{0};
    Sync::sleep(nobody_wakes, 0, &briefly);
    return monotonic_now() < give_up_;
  }

 private:
  const Instant give_up_;
  std::vector<Worker*> stopped_;
  std::vector<const Fiber*> running_;
};

bool Scheduler::inspect(Engine::Look look, void* at) {
  Carrier& here = Carrier::here();
  Worker* const mine = here.engine == &io_ ? static_cast<Worker*>(&here) : nullptr;
  Inspection inspection{monotonic_now() + std::chrono::seconds{1}};
  while (inspected_.exchange(true, std::memory_order_acquire)) {
    if (mine) Inspection::come_to(*mine);
    if (!inspection.patient()) return false;
  }
  bool all = true;
  const auto ended = [&] { return count.over(); };
  if (mine) inspection.add_running(mine->current);
  for (const auto& worker : workers())
    if (worker.get() != mine && worker->state() != WorkerState::dead && !ended())
      all = all && inspection.stop(*worker, ended);
  if (all) look(ended() ? std::span<const Fiber* const>{} : inspection.running(), at);
  inspected_.store(false, std::memory_order_release);
  return all;
}

}  // namespace weft::engine
