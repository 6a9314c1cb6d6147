// Sysmon: the watcher of an engine, on a thread of its own. Advisory: without it every fiber still
// runs, but perhaps later than it should.
//
// A worker may be blocked by a system call, or held by a fiber that computes. If another worker is
// idle, that one takes over what is stranded there (see Worker::watch_round). If all are busy, this
// thread finds out, once in a round, and
//   - hires a temporary worker, one in a scale_interval, while work is stranded, or else moves that
//     to the injector;
//   - fires timers that the workers are late with;
//   - asks a fiber whose time slice is over to yield at its next operation, if others wait;
//   - lets temporary workers go that are no longer needed;
//   - tells who keeps a run that is to end;
//   - reports fibers that do not give way, if Options::stall_report_after says so.
// It sleeps when everybody does.
#pragma once

#include "bell.hpp"
#include "findings.hpp"
#include "shutdown_report.hpp"

#include <weft/base/inspected.hpp>
#include <weft/core/time.hpp>
#include <weft/engine.hpp>

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <vector>

namespace weft::engine {

class Scheduler;
class Worker;

class Sysmon {
 public:
  explicit Sysmon(Scheduler& scheduler);

  // Around a run of the engine. When stop() has returned, no thread of ours is left.
  void start() noexcept;
  void stop() noexcept;

  // By who ends everybody's sleep.
  void rouse() noexcept { bell_.rouse(); }
  // By who knows that there is something to see.
  void ring() noexcept { bell_.ring(); }

  [[nodiscard]] Statistics statistics() const noexcept;
  // How many threads are there on our account: this one's, and temporary workers'. Never more than
  // there are, unless one is on its way in, and counts as awake.
  [[nodiscard]] unsigned threads() const noexcept {
    return threads_.load(std::memory_order_relaxed);
  }
  void one_more_thread() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
  void one_thread_less() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }
  // Fibers may be in our hands alone: woken, and not queued yet.
  [[nodiscard]] bool holds_fibers() const noexcept {
    return firing_.load(std::memory_order_seq_cst);
  }
  // The signals that were blocked where run() was called. Workers have that mask, we have not.
  [[nodiscard]] const sigset_t& program_mask() const noexcept { return program_mask_; }

 private:
  // What the last round saw of a worker.
  struct Seen {
    std::uint64_t ticks = 0;
    std::uint64_t heads = 0;      // of its queues
    unsigned still = 0;           // rounds without a pick
    unsigned stranded = 0;        // rounds in which, besides, nobody took from its queues
    Duration cpu_at_first{};      // time its thread had used when it was seen still
  };

  static void* body(void* at);
  void watch() noexcept;
  void round(Instant now) noexcept;
  void see(Worker& worker, Seen& seen, bool work_for_anybody) noexcept;
  void fire_late_timers(Instant now) noexcept;
  void hear_from_outside() noexcept;
  void end_time_slices() noexcept;
  [[nodiscard]] std::int64_t measure_pressure() noexcept;
  // Why no worker is hired now, or `none`.
  [[nodiscard]] Statistics::Reason consider(Instant now, std::int64_t pressure) noexcept;
  void look_for_the_stuck() noexcept;
  void relieve_the_stuck() noexcept;
  [[nodiscard]] bool is_stuck(const Worker& worker) const noexcept;
  [[nodiscard]] bool keeps_its_fiber(const Worker& worker) const noexcept;
  bool hire(Instant now) noexcept;
  void say_goodbye(unsigned place) noexcept;
  void join_the_retired() noexcept;
  void let_one_go(Instant now) noexcept;

  Scheduler& shared_;
  StallReporter stalls_{shared_};
  Bell bell_;
  Atomic<bool> stopping_{false};
  bool started_ = false;
  pthread_t thread_{};
  std::vector<pthread_t> hired_;      // by place; of temporary workers that are there,
  std::vector<bool> is_hired_ = std::vector<bool>(hired_.size());  // as this says
  std::vector<Seen> seen_;
  Instant scaled_at_{};
  Instant stuck_at_{};                // when somebody was stuck last
  enum class Stuck : std::uint8_t { nobody, some, everybody };
  Stuck stuck_ = Stuck::nobody;       // while something waits for them, in this round
  std::uint64_t negative_streak_ = 0;
  Atomic<unsigned> threads_{0};
  Atomic<bool> firing_{false};
  sigset_t program_mask_{};
  ShutdownReport report_;

  Inspected<std::int64_t> pressure_ = 0;
  Inspected<std::uint64_t> positive_ = 0, negative_ = 0, negative_streak_max_ = 0;
  Inspected<std::uint64_t> passes_ = 0, promotions_ = 0, retirements_ = 0;
  Inspected<std::uint64_t> slices_ = 0, late_timers_ = 0;
  Inspected<std::uint64_t> blocked_[Statistics::kReasons]{};
};

}  // namespace weft::engine
