// Engines: what runs fibers. FiberIo is the real one; see <weft/sim.hpp> for the simulator.
#pragma once

#include <weft/core/closure.hpp>
#include <weft/core/error.hpp>
#include <weft/core/io.hpp>
#include <weft/core/spec.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

namespace engine {
class Scheduler;
class Worker;
}  // namespace engine

// What to do when nothing can run any more and nobody seems left to change that.
enum class OnDeadlock {
  automatic,  // raise when this is the only thread of the process, else keep waiting
  report,     // print the report on standard error once, and keep waiting
  raise,      // every waiting fiber's wait throws Deadlock
};

// How an engine hears from sockets, pipes and other descriptors.
enum class ReactorKind {
  automatic,  // io_uring if it works here, else epoll
  uring,      // nothing else: where it does not work, there is no engine
  epoll,
};

// Each option has an environment variable that replaces its default: WEFT_WORKERS,
// WEFT_MAX_WORKERS, WEFT_SCALE_INTERVAL, WEFT_TEMP_IDLE_TIMEOUT, WEFT_STACK_BYTES, WEFT_MAX_FIBERS,
// WEFT_MAX_BLOCKING, WEFT_ON_DEADLOCK, WEFT_SHUTDOWN_REPORT_AFTER, WEFT_STALL_REPORT_AFTER,
// WEFT_DUMP_SIGNAL, WEFT_IO, WEFT_RING_ENTRIES. A value that the program sets stands.
// Durations are written "10ms", "2s", "500us", or as a number of milliseconds.
struct Options {
  unsigned workers = 0;                  // threads that run fibers, 1 to 1024; 0: usable cores, as
                                         // affinity mask and cgroup quota allow
  unsigned max_workers = 0;              // with temporary ones, which stand in for workers that are
                                         // blocked or held; 0: twice `workers`, but 1 if one was
                                         // asked for: then nothing else ever runs fibers
  Duration scale_interval = std::chrono::milliseconds{10};  // between two temporary workers
  Duration temp_idle_timeout = std::chrono::seconds{1};     // idle or needless this long, they go
  std::size_t stack_bytes = 256 * 1024;  // per fiber, virtual; only touched pages cost memory
  std::size_t max_fibers = 0;            // fibers that may have started and not ended; 0: no limit.
                                         // One more fails with OutOfStacks
  unsigned max_blocking = 64;            // threads for blocking(), at most, 1 to 1024
  OnDeadlock on_deadlock = OnDeadlock::automatic;
  // A run that was stopped, or has failed, and has not ended for so long says once, on standard
  // error, who keeps it: which fibers workers are in, calls of blocking(), fibers that wait.
  Duration shutdown_report_after = std::chrono::seconds{5};
  Duration stall_report_after{};         // a fiber that keeps its worker for longer without giving
                                         // way is reported, once, with a backtrace; 0: none is
  int dump_signal = 0;                   // a signal that has every engine dumped to standard error,
                                         // as SIGUSR1, while this engine lives; 0: none
  ReactorKind reactor = ReactorKind::automatic;
  unsigned ring_entries = 256;           // of a worker's io_uring: what it can ask for at once, 1
                                         // to 32768; with more to ask, it asks more often
};

// The options an engine would run with: defaults, environment and machine filled in. Throws
// std::invalid_argument for values that make no sense, saying which and why.
Options resolve(const Options& options);

// Every option as a person would want to see it: name, variable, value, and what it means.
struct OptionLine {
  std::string_view name, variable, meaning;
  std::string value;
};
std::vector<OptionLine> describe(const Options& options);

// Something that weft noticed about a running fiber. What is only looked at is good for the call.
struct Finding {
  FiberId fiber = 0;
  std::string_view name;  // the fiber's
  std::string_view text;  // all there is to say, in lines
};
using FindingHook = std::function<void(const Finding&)>;

// Where findings go instead of standard error: fibers that kept their worker for longer than
// Options::stall_report_after; and, in checked builds, fibers that waited, yielded or ended with a
// lock of the C library held (std::mutex is one), and simulated fibers that looked at a real clock,
// slept in earnest, or would have blocked the thread (see RealWorld in <weft/sim.hpp>). An empty
// hook: to standard error again.
//
// From any thread, for the whole process. A hook is called by a thread of weft's or, for the last
// two, by the fiber itself in the middle of its call: it must not use weft, nor throw. A call that
// had begun when the hook was replaced may still be running.
void set_stall_hook(FindingHook hook);
void set_held_lock_hook(FindingHook hook);
void set_tripwire_hook(FindingHook hook);

// How many threads can run at once here: the affinity mask, and no more than the cgroup's quota.
unsigned usable_cores() noexcept;

// How the workers of an engine are doing: a sample, and what its watcher has counted since the
// engine was made. WEFT_PRESSURE_STATS=1 prints it at the end of every run().
struct Statistics {
  // Why a round of the watcher hired no temporary worker.
  enum Reason : std::uint8_t {
    none,           // it did
    no_work,        // nothing waits
    nonpositive,    // less than nothing: the queues moved while they were counted
    idle_capacity,  // a worker sleeps or searches, and will find it
    at_limit,       // max_workers
    too_soon,       // scale_interval
    not_stuck,      // every worker makes progress, or waits for a core
  };
  static constexpr std::size_t kReasons = 7;

  unsigned workers = 0;       // there now, temporary ones included
  unsigned active_count = 0;  // of them, neither asleep nor searching
  std::int64_t pressure = 0;  // fibers that wait to run, by the last round's count

  std::uint64_t positive_samples = 0, negative_samples = 0;  // of pressure
  std::uint64_t negative_streak_max = 0;                     // rounds in a row
  std::uint64_t gate_passes = 0;   // rounds that found reason to hire
  std::uint64_t promotions = 0;    // temporary workers hired
  std::uint64_t retirements = 0;   // and gone again
  std::uint64_t blocked[kReasons] = {};  // rounds by Reason
  std::uint64_t time_slices = 0;   // fibers asked to yield
  std::uint64_t late_timers = 0;   // fired by the watcher
};
// "pressure 0 (12 positive, 0 negative, …", in one line.
std::string to_string(const Statistics& statistics);

// What Engine::inspect() shows besides the fibers' frames.
struct WorkerSight {
  unsigned index = 0;
  WorkerState state = WorkerState::active;
  const Fiber* running = nullptr;  // null: none
  // Not so: it did not come to rest in time. Its fiber runs on, but starts, wakes and picks
  // nobody; and if `queues_known`, nobody else touches the queues.
  bool stands_still = true;
  bool queues_known = true;        // else the lengths are those of some moment, and not of one
  bool next = false;               // one fiber is to run next, before the queues
  std::size_t fresh = 0, ready = 0, inbox = 0, pinned = 0;
  std::size_t timers = 0;          // armed
};
struct EngineSight {
  Instant now{};
  Duration clock_grain = std::chrono::milliseconds{1};  // what ages are good for; zero: exact
  std::vector<WorkerSight> workers{};  // empty: the engine does not run
  std::size_t injected = 0;            // fibers that wait for any worker
  unsigned blocking_threads = 0;       // those of blocking(), and
  std::size_t blocking_calls = 0;      // calls under way,
  std::size_t blocking_queued = 0;     // of which so many wait for a thread
  // Whether all workers stand still. If not, only parked fibers and these are known to.
  bool complete = true;
  std::vector<const Fiber*> queued{};  // only while not complete
};

// Thrown by run() when its function was unwound by cancellation, so that there is no value.
class RunCancelled : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override {
    return "weft: the root function was cancelled before it returned a value";
  }
};

// The part of an engine that programs see: run() a function as the root of a tree of fibers.
class Engine : public Io, public ListNode<Engine> {
 public:
  // Runs `f` as the root fiber, on the calling thread, until it and every fiber below it has ended.
  // Returns f's value; an exception that leaves f leaves run(). Throws std::logic_error if the
  // engine is running already. May be called again and again.
  template <std::invocable F>
  std::invoke_result_t<F> run(F&& f, Site site = Site::here()) {
    using R = std::invoke_result_t<F>;
    static_assert(!std::is_reference_v<R>, "run() returns by value; return a pointer instead");
    struct Call {
      F&& f;
      std::optional<std::conditional_t<std::is_void_v<R>, bool, R>> result;
    } call{std::forward<F>(f), std::nullopt};
    run_site_.replace(site);
    run_root(Body{[](void* at) {
                    Call& to = *static_cast<Call*>(at);
                    if constexpr (std::is_void_v<R>) std::invoke(std::forward<F>(to.f));
                    else to.result.emplace(std::invoke(std::forward<F>(to.f)));
                  },
                  &call});
    if constexpr (!std::is_void_v<R>) {
      if (!call.result) throw RunCancelled{};
      return std::move(*call.result);
    }
  }

  // Calls `look(sight, at)` while the fibers of this engine stand still; those of workers that do
  // not come to rest within `patience` go on, and the sight says which. False, and not called: not
  // even that could be had. One at a time; from any thread.
  using Look = void (*)(const EngineSight& sight, void* at);
  virtual bool inspect(Look look, void* at, Duration patience) = 0;
  // Where run() was called last.
  [[nodiscard]] Site run_site() const noexcept { return run_site_.get(); }

 protected:
  struct Body {
    void (*call)(void*);
    void* at;
    void operator()() && { call(at); }
  };

  Engine() = default;
  ~Engine() = default;

  // Between these two for_each_engine() shows us. The last line of the most derived constructor and
  // the first of its destructor: a visitor must not meet half an engine.
  void enlist() noexcept;
  void delist() noexcept;

 private:
  virtual void run_root(Body body) = 0;

  KeptSite run_site_;
};

// Fibers on real threads and in real time. The thread that calls run() is worker 0; the other
// workers' threads live as long as the call. run() throws std::system_error if they cannot be
// started, and std::runtime_error if several workers were asked for and the kernel has no
// membarrier(2).
class FiberIo final : public Engine {
 public:
  FiberIo() : FiberIo(Options{}) {}
  // Throws std::invalid_argument for options that make no sense, and std::runtime_error for a
  // reactor that does not work here, saying which and why.
  explicit FiberIo(const Options& options);
  ~FiberIo();

  [[nodiscard]] const Options& options() const noexcept;  // resolved
  [[nodiscard]] Statistics statistics() const noexcept;   // at any time, from any thread

  // "io_uring: it works", "epoll: io_uring is forbidden here, …": which reactor it is, and why. It
  // is made when it is first asked for, and so by this. From any thread.
  [[nodiscard]] std::string reactor_report() const;

  // Ends the run that is under way: cancels its root, so that every fiber unwinds, the sooner the
  // better, and accepts nothing new. Does not wait for that; run() does.
  //
  // run() then ends as its function does: with its value, if it still returns one, else with
  // RunCancelled, or just so if it is void. A failure wins: run() throws it. True: a run is under
  // way, and ends, by this call or an earlier one. False: none is, or it is only being started; a
  // run that begins later is not stopped. Never parks. From any thread and any fiber, its own
  // included, whose next wait throws Cancelled; not from a signal handler (see StopOnSignal).
  bool stop() noexcept;

  // From a foreign thread: `f` becomes a child of run()'s root. False, and `f` is destroyed unrun,
  // when the engine is not running, or stop() was called. An exception that leaves f fails run().
  // Never parks.
  template <std::invocable F>
  bool post(F f, Site site = Site::here()) {
    static_assert(std::is_void_v<std::invoke_result_t<F>>, "post() drops no results: return void");
    Home* const home = admit();
    if (!home) return false;
    Fiber* fiber = nullptr;
    try {
      fiber = &make_fiber(*this, *home, std::move(f), site);
    } catch (...) {
      dismiss();
      throw;
    }
    deliver(*fiber);
    return true;
  }

  // ── Io ──────────────────────────────────────────────────────────────────────────────────────
  void start(Fiber& fiber) override;
  Fiber& successor(Fiber& self, Departure how) noexcept override;
  void departed(Fiber& fiber, Departure how) noexcept override;
  void resume(FiberList fibers) noexcept override;
  void resume_one(Fiber& fiber) noexcept override;
  Fiber* adopt(CancelScope& home, Departure how) noexcept override;
  [[nodiscard]] Instant now() const noexcept override;
  [[nodiscard]] Instant now_or_later() noexcept override;
  void arm(Timer& timer) noexcept override;
  void disarm(Timer& timer) noexcept override;
  [[nodiscard]] Offload* offload() noexcept override;
  [[nodiscard]] std::shared_ptr<Reactor> reactor() noexcept override;
  void expect_blocking(bool about_to) noexcept override;
  [[nodiscard]] std::uint64_t random() noexcept override;  // from any thread
  [[nodiscard]] std::string_view kind() const noexcept override { return "FiberIo"; }
  [[noreturn]] void raise_deadlock() const override;
  bool inspect(Look look, void* at, Duration patience) override;

 private:
  void run_root(Body body) override;
  Home* admit() noexcept;               // null: not running; else the root counts one more child
  void deliver(Fiber& fiber) noexcept;  // an admitted child
  void dismiss() noexcept;              // an admitted child that came to nothing

  [[nodiscard]] engine::Worker* worker_here() const noexcept;  // null: a foreign thread

  std::unique_ptr<engine::Scheduler> scheduler_;
};

// Calls `visit(engine, at)` for every engine that exists; none comes or goes meanwhile.
void for_each_engine(void (*visit)(Engine&, void*), void* at);

// One FiberIo with default options: the usual main().
template <std::invocable F>
std::invoke_result_t<F> run(F&& f, Site site = Site::here()) {
  return FiberIo{}.run(std::forward<F>(f), site);
}

}  // namespace weft
