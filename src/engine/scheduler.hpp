// Scheduler: the workers of one engine, and what they share.
#pragma once

#include "deadlock.hpp"
#include "dump_signal.hpp"
#include "idle.hpp"
#include "injector.hpp"
#include "offload_pool.hpp"
#include "poller.hpp"
#include "reactor_choice.hpp"
#include "root.hpp"
#include "sysmon.hpp"
#include "worker.hpp"

#include <weft/core/thread.hpp>
#include <weft/engine.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::engine {

class Scheduler {
 public:
  Scheduler(Io& io, const Options& resolved);
  ~Scheduler();  // waits for foreign threads that are still inside

  // Runs the fiber that `make` returns, and all that comes of it. The calling thread is worker 0.
  template <class Make>
  void run(Make make) {
    const Exclusive exclusive{busy_, "weft::FiberIo::run()"};
    Root& root = root_.emplace(*this);
    const Mounted mounted{*workers_[0]};
    run_root(make(root));
    root.rethrow_if_failed();
  }

  // How many places for workers were ever taken: the usual ones, and temporary ones behind them, of
  // whom some may have gone.
  [[nodiscard]] unsigned worker_count() const noexcept {
    return places_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Worker& worker(unsigned i) const noexcept { return *workers_[i]; }
  [[nodiscard]] std::span<const std::unique_ptr<Worker>> workers() const noexcept {
    return {workers_.data(), worker_count()};
  }

  const Options options;
  RootCount count;
  Injector injector;
  Idle idle;
  Atomic<std::uint32_t> patience{1};  // edges of surplus before a sleeper is called
  std::string deadlock_report;
  OffloadPool offload{*this, options.max_blocking};
  DumpSignal dump_signal{options.dump_signal};
  Sysmon sysmon{*this};

  // ── from foreign threads ────────────────────────────────────────────────────────────────────

  [[nodiscard]] Home* admit() noexcept { return count.admit() ? &*root_ : nullptr; }
  // One of the root's children, admitted from outside, came to nothing.
  void dismiss() noexcept;
  // Cancels the root and admits nobody any more. False: not running. From any thread.
  bool stop() noexcept;
  // Leaves new work to whoever has time, and woken fibers to who ran them last.
  void inject(Fiber& fiber) noexcept;
  void send(Fiber& fiber) noexcept;
  // Fibers for whoever has time, from the watcher; pinned ones wait for their worker.
  void give_to_anybody(FiberList fibers) noexcept;

  // relaxed: every caller gets a state of its own, and no more is needed.
  std::uint64_t random_outside() noexcept {
    return SplitMix::mixed(chance_.fetch_add(SplitMix::kStep, std::memory_order_relaxed));
  }

  // Made when it is first asked for; null: the system has none for us.
  [[nodiscard]] std::shared_ptr<Reactor> reactor() noexcept;
  [[nodiscard]] std::string reactor_report();  // which it is, and why
  // Null: nobody has asked yet.
  [[nodiscard]] Poller* poller() const noexcept { return reactor_.made(); }

  // See Engine::inspect().
  bool inspect(Engine::Look look, void* at, Duration longest);

  // ── for the workers ─────────────────────────────────────────────────────────────────────────

  static constexpr FiberId kIdsAtOnce = 1024;
  FiberId take_ids() noexcept { return ids_.fetch_add(kIdsAtOnce, std::memory_order_relaxed); }

  // Something was put into the injector.
  void tell_of_injected() noexcept {
    if (idle.must_be_told()) call_a_searcher();
  }
  // Wakes one sleeper to search, unless somebody does.
  void call_a_searcher() noexcept;
  // How a call turned out. Called in vain, sleepers are called less.
  void note_a_call(bool paid) noexcept;

  // By who lies down. False: somebody else keeps it.
  [[nodiscard]] bool take_the_watch(const Worker& worker) noexcept;
  [[nodiscard]] bool keeps_watch(const Worker& worker) const noexcept;
  void rouse_the_watch() noexcept;
  // Also if it looks just now.
  void have_the_watch_look() noexcept;
  // By the watch, who gets up.
  void surface() noexcept {
    if (idle.surface()) sysmon.rouse();
  }
  // By who is about to run fibers: if others sleep, one of them must look after us meanwhile.
  void keep_watch(const Worker& worker) noexcept;
  // By the watcher: the same for who keeps the watch and runs fibers all the same.
  void relieve_the_watch() noexcept;
  // How often the watch finds everybody asleep before it sleeps for good: rousing it costs a wake.
  [[nodiscard]] unsigned quiet_rounds() const noexcept {
    return options.max_workers == 1 ? 0 : policy::kQuietRounds;
  }
  // The timers of workers that are not asleep: those do not look after them themselves.
  [[nodiscard]] Instant soonest_elsewhere(const Worker& worker) noexcept;
  bool fire_timers_elsewhere(Worker& worker, Instant now) noexcept;
  // What has happened outside and is for workers that do not look.
  bool hear_elsewhere(Worker& worker) noexcept;
  [[nodiscard]] bool owns(const Fiber& fiber) const noexcept { return fiber.io == &io_; }
  // Whom the poller woke. `worker`: where they run; null: anywhere.
  void run_heard(FiberList woken, Worker* worker) noexcept;

  // Everybody seems asleep. If no timer will change that, and nobody outside can either, that is a
  // deadlock.
  enum class Deadlocked : std::uint8_t {
    no,
    unsure,  // somebody is about: ask again
    raised,  // and `worker` has fibers to run again
  };
  Deadlocked raise_if_deadlocked(Worker& worker) noexcept;

  // ── for the watcher ─────────────────────────────────────────────────────────────────────────

  // A thread for a temporary worker. False: there is none to be had, or somebody inspects us.
  [[nodiscard]] bool hire(unsigned place, pthread_t& thread) noexcept;
  // The run was stopped, or has failed, and somebody still lives. While it is under way.
  [[nodiscard]] bool is_ending() const noexcept { return root_->cancelled() && !count.over(); }
  // Says on standard error who does. The workers stand at their gates meanwhile.
  void tell_who_keeps_it() noexcept;

 private:
  // A foreign thread inside the engine. Its last touch of us is its own decrement.
  class Visitor {
   public:
    explicit Visitor(Scheduler& scheduler) noexcept : count_(scheduler.visitors_) {
      count_.fetch_add(1, std::memory_order_relaxed);  // the fiber keeps the engine alive till here
    }
    ~Visitor() { count_.fetch_sub(1, std::memory_order_release); }
    Visitor(const Visitor&) = delete;
    Visitor& operator=(const Visitor&) = delete;

   private:
    Atomic<std::uint32_t>& count_;
  };

  // The last child to end sends the workers home.
  class SharedRoot final : public Root {
   public:
    explicit SharedRoot(Scheduler& scheduler) noexcept
        : Root(scheduler.count), scheduler_(scheduler) {}
    void children_ended(std::size_t ended) noexcept override { scheduler_.leave(ended); }

   private:
    Scheduler& scheduler_;
  };

  class Threads;
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  static void* run_worker(void* at);
  void run_root(Fiber& root_fiber);
  bool give_the_watch_away() noexcept;
  void leave(std::size_t children) noexcept;
  [[nodiscard]] bool alone_in_process() const noexcept;

  Io& io_;
  std::vector<std::unique_ptr<Worker>> workers_;  // max_workers
  Atomic<unsigned> places_{options.workers};
  Atomic<bool> busy_{false};         // a call of run() is under way
  std::optional<SharedRoot> root_;   // while it runs, and until the next
  Atomic<FiberId> ids_{1};
  Atomic<std::uint64_t> chance_{entropy()};  // for foreign threads
  Atomic<std::uint32_t> watch_{kNobody};
  bool deadlock_reported_ = false;
  OutsideWait outside_;
  ReactorOnDemand reactor_;
  Atomic<bool> inspected_{false};    // one inspection at a time
  alignas(64) Atomic<std::uint32_t> visitors_{0};
};

// ── the worker's shortest paths, inlined into the engine's ──────────────────────────────────────

// Something was queued where `queued_before` had been. Others hear of it only if that may pay.
[[gnu::always_inline]] inline void Worker::advertise(std::size_t queued_before) noexcept {
  const Idle::Count others = shared_.idle.count();
  if (others.deep()) [[unlikely]] return shared_.rouse_the_watch();
  if (queued_before % policy::kSurplus == 0 && others.wants_a_search()) [[unlikely]]
    consider_a_call(queued_before);
}

// As most are woken: nobody was to run next, and nobody looks on.
inline void Worker::resume(Fiber& fiber) noexcept {
  if (fiber.is_pinned() || next_ || !gate_.enter_if_open()) [[unlikely]]
    return resume_displacing(fiber);
  next_ = &fiber;
  gate_.leave();
  advertise(1);
}

// As most are started: an id is at hand, nobody looks on, and the queue has room.
inline void Worker::start(Fiber& fiber) {
  if (next_id_ == ids_end_ || fiber.is_pinned() || !gate_.enter_if_open()) [[unlikely]]
    return start_with_care(fiber);
  const FiberId id = next_id_;
  fiber.id = id;
  const std::size_t before = fresh_.push_if_room(fiber);
  gate_.leave();
  if (before == FreshQueue::kNoRoom) [[unlikely]] return start_with_care(fiber);
  next_id_ = id + 1;
  advertise(before);  // and the fiber may have ended by now
}

inline void Worker::arm(Timer& timer) noexcept {
  if (!wheel_->arm(timer) || wheel_ == &timers) return;
  shared_.worker(number % shared_.options.workers).inbox.nudge();  // it may sleep for longer
}

// What adopt() comes to most of the time for one that has ended: the owner of its home, as pick()
// would have it, if it is its turn.
inline Fiber* Worker::next_if_owner(const Home& home) noexcept {
  Fiber* const next = next_;
  if (!next || next != home.owner() || until_fair_ <= 1 || turns_ + 1 >= policy::kTurnsMax ||
      !gate_.enter_if_open())
    return nullptr;
  Fiber* const owner = next_ == next ? next : nullptr;  // unless a thief has taken it
  if (owner) [[likely]] {
    next_ = nullptr;
    until_fair_ = until_fair_ - 1;
    ++turns_;
  }
  gate_.leave();
  return owner;
}

inline Fiber* Worker::adopt(CancelScope& home, Departure how) noexcept {
  if (arch::kTsan) return nullptr;
  if (how == Departure::finish)
    if (Fiber* const owner = next_if_owner(static_cast<const Home&>(home))) return owner;
  return adopt_unborn(home, how);
}

}  // namespace weft::engine
