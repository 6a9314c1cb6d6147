// Findings: what is wrong with the fibers of a running program, said on standard error or to the
// program's hook (<weft/engine.hpp>).
#pragma once

#include "arch/held_locks.hpp"
#include "arch/thread_backtrace.hpp"
#include "stall_watch.hpp"

#include <weft/core/carrier.hpp>
#include <weft/core/io.hpp>
#include <weft/engine.hpp>

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::engine {

class Scheduler;

// ── where findings go, and what they say ────────────────────────────────────────────────────────

// Findings of one kind: to the program's hook, or to standard error.
class FindingSink {
 public:
  void set(FindingHook hook);
  void tell(const Finding& finding);
  [[nodiscard]] std::shared_ptr<const FindingHook> hook() {  // null: none
    const Locked locked{lock_};
    return hook_;
  }

 private:
  Lock lock_;
  std::shared_ptr<const FindingHook> hook_;
};

// What the environment wants done about findings of one kind.
enum class OnFinding : std::uint8_t { report, abort, ignore };
OnFinding on_finding(const char* variable) noexcept;

std::string title_of(FiberId id, std::string_view name);
// Where such fibers are spawned, as a line; empty if that is not known.
std::string spawned_at(const Closure* closure);

// ── stalls ──────────────────────────────────────────────────────────────────────────────────────

// A worker as the report needs it.
struct StalledWorker {
  unsigned index = 0;
  pid_t tid = 0;
  const Carrier* carrier = nullptr;
  // The count of picks again: who was looked at is known for certain only if it has not moved.
  std::function<std::uint64_t()> picks;
};

ThreadSight look_at_thread(pid_t tid) noexcept;

// Takes a backtrace on the worker if it computes, and says what was found. Nothing, if the worker
// has gone on meanwhile. An arch::BacktraceHandler must be there.
void report_stall(const Stall& stall, const StalledWorker& worker);

// The stalls of an engine's workers, told as they are found. Nothing unless the option is on.
class StallReporter {
 public:
  explicit StallReporter(Scheduler& scheduler);
  void look(Instant now) noexcept;  // by the watcher, once in a round

 private:
  void look_at_all(Instant now);

  Scheduler& shared_;
  std::optional<arch::BacktraceHandler> handler_;
  std::optional<StallWatch> watch_;
  std::vector<WorkerProgress> sights_;
};

// ── locks ───────────────────────────────────────────────────────────────────────────────────────

[[gnu::cold, gnu::noinline]] void report_held_locks(const Fiber& self, Departure how) noexcept;

// By every engine, when `self` leaves its worker to others.
inline void check_held_locks([[maybe_unused]] const Fiber& self,
                             [[maybe_unused]] Departure how) noexcept {
  if constexpr (arch::kWatchesLocks) {
    const arch::LockWatch* const watch = arch::LockWatch::here();
    if (watch && !watch->empty()) [[unlikely]] report_held_locks(self, how);
  }
}

}  // namespace weft::engine
