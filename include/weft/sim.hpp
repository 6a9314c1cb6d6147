// SimIo: the same fibers in a deterministic world.
//
// One thread, a virtual clock, and a seeded choice of who runs next. The same seed gives the same
// schedule, byte for byte, whatever the machine, the compiler or the optimisation level; a schedule
// that went wrong is a string that replays it.
#pragma once

#include <weft/base/intrusive_list.hpp>
#include <weft/engine.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace weft {

namespace arch {
class StackPool;
}
namespace engine {
class Explorer;
struct Plan;
class Simulation;
class Tripwire;
}  // namespace engine
class SimWorld;

// How the next fiber is chosen among those that can run.
enum class Schedule : std::uint8_t {
  random,       // each equally likely, at every step
  pct,          // by priorities that change at a few random steps: finds what needs few orderings,
                // among however many fibers
  round_robin,  // the one that has waited longest
  exhaustive,   // the calmest schedule; explore() goes on from it to all others, within bounds
};

struct SimOptions {
  std::uint64_t seed = 0;
  Schedule schedule = Schedule::random;
  unsigned depth = 3;            // pct: depth - 1 changes of priority
  std::uint64_t length = 1000;   // pct: about so many steps, over which the changes are spread
  bool preempt = false;          // operations that need not wait are points of choice, too
  std::uint64_t max_steps = 0;   // of a run(), which then throws StepLimit; 0: no limit
  std::string replay{};          // a schedule() of an earlier run; empty: choose by seed
  bool strict_replay = false;    // if it is not that of one run() of this program, with the same
                                 // max_steps: ScheduleMismatch; else it goes on by seed
  std::size_t log_events = 0;    // so many are kept for log()
  std::size_t stack_bytes = 256 * 1024;
};

// Thrown by run() after SimOptions::max_steps steps: a livelock, most likely. Says who runs.
class StepLimit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown by run() if the schedule to replay is that of another program.
class ScheduleMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SimIo final : public Engine {
 public:
  SimIo() : SimIo(SimOptions{}) {}
  // Throws std::invalid_argument if `replay` is not a schedule, or `depth` is 0.
  explicit SimIo(const SimOptions& options);
  ~SimIo();

  // ── what happened, after run() or during it ─────────────────────────────────────────────────

  // Who ran in which order, as text: fit for a bug report and for SimOptions::replay.
  [[nodiscard]] std::string schedule() const;
  // Equal for equal schedules of equal programs.
  [[nodiscard]] std::uint64_t trace_hash() const noexcept;
  [[nodiscard]] std::uint64_t steps() const noexcept;  // choices of the next fiber so far
  // The last events, a line each: who went on, who waits for what, who ended, and when.
  [[nodiscard]] std::string log() const;

  // The hosts, the net and the disks that programs see: <weft/sim_world.hpp>. Before run() or
  // during it.
  [[nodiscard]] SimWorld& world();

  // ── Io ──────────────────────────────────────────────────────────────────────────────────────
  void start(Fiber& fiber) override;
  Fiber& successor(Fiber& self, Departure how) noexcept override;
  void departed(Fiber& fiber, Departure how) noexcept override;
  void resume(FiberList fibers) noexcept override;
  [[nodiscard]] Instant now() const noexcept override;
  void arm(Timer& timer) noexcept override;
  void disarm(Timer& timer) noexcept override;
  [[nodiscard]] std::uint64_t random() noexcept override;
  [[nodiscard]] std::shared_ptr<Reactor> reactor() noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return "SimIo"; }
  [[noreturn]] void raise_deadlock() const override;
  bool inspect(Look look, void* at, Duration patience) override;

 private:
  friend void settle();
  friend engine::Explorer;
  SimIo(const SimOptions& options, engine::Plan plan, std::shared_ptr<arch::StackPool> stacks);
  void run_root(Body body) override;

  std::unique_ptr<engine::Simulation> simulation_;
};

// A simulated run must not look at a real clock, sleep in earnest, or block its thread in a lock or
// a condition variable of the C library (std::mutex, std::condition_variable): it could not be
// repeated, or would stand still. Checked builds without a sanitizer say so, once for each place
// and run (see set_tripwire_hook); WEFT_ON_TRIPWIRE is report, abort or ignore. A lock that is held
// by another fiber of the run can never be released: the program ends there, with the report.
//
// While one of these lives, its fiber (not the children that it spawns) means it.
class [[nodiscard]] RealWorld : public ListNode<RealWorld> {
 public:
  RealWorld() noexcept {
    if constexpr (spec::kSpecAssert) enter();
  }
  ~RealWorld() {
    if constexpr (spec::kSpecAssert) leave();
  }

  [[nodiscard]] const Fiber* fiber() const noexcept { return fiber_; }

 private:
  void enter() noexcept;
  void leave() noexcept;

  engine::Tripwire* wire_ = nullptr;  // null: nobody watches
  const Fiber* fiber_ = nullptr;
};

// In simulation: returns when every other fiber is blocked. Sleepers count as blocked, and time
// stands still meanwhile. Several may settle; they return one after another. Cancel point. Throws
// std::logic_error under any other engine.
void settle();

}  // namespace weft
