#include "scheduler.hpp"

#include "visit.hpp"

#include <weft/arch/fault.hpp>
#include <weft/core/closure.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace weft::engine {

namespace {

// Few: searchers look at other workers' queues. Threads beyond the cores could not run anyway.
unsigned searchers_max(unsigned workers) noexcept {
  return std::max(1U, std::min(workers, usable_cores()) / 2);
}

}  // namespace

// The threads of workers 1 and up, but for temporary ones, from construction to destruction.
class Scheduler::Threads {
 public:
  explicit Threads(Scheduler& scheduler) {
    started_.reserve(scheduler.options.workers - 1);
    for (unsigned i = 1; i < scheduler.options.workers; ++i) {
      pthread_t thread{};
      const int error =
          arch::sys_pthread_create(&thread, nullptr, &run_worker, scheduler.workers_[i].get());
      if (error != 0) {
        scheduler.leave(1);  // the root's own place: those that have started go home
        join();
        throw std::system_error{error, std::generic_category(),
                                "weft::FiberIo::run(): no thread for worker " + std::to_string(i)};
      }
      started_.push_back(thread);
    }
  }
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  void join() noexcept {
    for (const pthread_t thread : started_) ::pthread_join(thread, nullptr);
    started_.clear();
  }

  std::vector<pthread_t> started_;
};

namespace {

// Threads for blocking calls, while fibers run that may ask for them.
class [[nodiscard]] Offloading {
 public:
  explicit Offloading(OffloadPool& pool) noexcept : pool_(pool) { pool_.open(); }
  ~Offloading() { pool_.close(); }
  Offloading(const Offloading&) = delete;
  Offloading& operator=(const Offloading&) = delete;

 private:
  OffloadPool& pool_;
};

// The watcher's thread, and those of the workers it hires.
class [[nodiscard]] Watching {
 public:
  explicit Watching(Sysmon& sysmon) noexcept : sysmon_(sysmon) { sysmon_.start(); }
  ~Watching() { sysmon_.stop(); }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  Sysmon& sysmon_;
};

}  // namespace

void* Scheduler::run_worker(void* at) {
  Worker& worker = *static_cast<Worker*>(at);
  if (worker.is_temporary()) worker.take_signals();
  char name[16];
  std::snprintf(name, sizeof name, "weft-%u", worker.index());
  ::pthread_setname_np(::pthread_self(), name);
  const Mounted mounted{worker};
  worker.run();
  return nullptr;
}

Scheduler::Scheduler(Io& io, const Options& resolved)
    : options(resolved), idle(resolved.workers, searchers_max(resolved.workers)), io_(io),
      reactor_(options, io) {
  chaos::load_environment();
  if (options.max_workers > 1 && !Sync::has_fence_everywhere())
    throw std::runtime_error{"weft::FiberIo: several workers need the system call membarrier(2), "
                             "which the kernel or a sandbox refuses; use one worker"};
  check_reactor(options);
  const auto stacks = std::make_shared<arch::StackPool>(arch::StackOptions{
      .stack_bytes = options.stack_bytes, .stacks_max = options.max_fibers});
  workers_.reserve(options.max_workers);
  for (unsigned i = 0; i < options.max_workers; ++i)
    workers_.push_back(std::make_unique<Worker>(*this, io, stacks, i));
}

Scheduler::~Scheduler() {
  // acquire: pairs with ~Visitor().
  while (visitors_.load(std::memory_order_acquire) != 0) ::sched_yield();
  if (Poller* const made = poller()) made->engine_ends();
}

void Scheduler::run_root(Fiber& root_fiber) {
  watch_.store(kNobody, std::memory_order_relaxed);
  deadlock_reported_ = false;
  count.begin();
  const Offloading offloading{offload};
  try {
    const Threads threads{*this};
    const Watching watching{sysmon};
    count.open();  // from now on there is somebody who runs what is posted
    try {
      workers_[0]->start(root_fiber);
    } catch (...) {
      root_->cancel();
      leave(1);
      workers_[0]->run();  // what was posted meanwhile
      throw;
    }
    workers_[0]->run();
  } catch (...) {  // nothing but the start can throw
    discard_fiber(root_fiber);
    throw;
  }
}

void Scheduler::leave(std::size_t children) noexcept {
  if (!count.leave(children)) return;
  // A newcomer opens its inbox, lies down, and looks whether all is over: one of us sees the other.
  Sync::fence(std::memory_order_seq_cst);
  for (const auto& worker : workers()) worker->inbox.nudge();
}

// ── from foreign threads ────────────────────────────────────────────────────────────────────────

void Scheduler::dismiss() noexcept {
  const Visitor visitor{*this};
  leave(1);
}

bool Scheduler::stop() noexcept {
  if (!count.stop()) return false;
  root_->cancel();  // it lives: we are counted
  sysmon.ring();    // from now on it minds the time
  dismiss();
  return true;
}

void Scheduler::inject(Fiber& fiber) noexcept {
  const Visitor visitor{*this};
  fiber.id = 0;  // it gets one from the worker that takes it
  // To be pinned where it is spawned, but that is no worker: where it runs first, then.
  if (fiber.is_pinned()) fiber.traits ^= kPinned | kSettles;
  injector.push(fiber);
  tell_of_injected();
}

void Scheduler::give_to_anybody(FiberList fibers) noexcept {
  bool any = false;
  while (Fiber* const fiber = fibers.pop_front()) {
    if (fiber->is_pinned()) {
      workers_[fiber->last_worker]->inbox.push(*fiber);
    } else {
      injector.push(*fiber);
      any = true;
    }
  }
  if (any) tell_of_injected();
}

void Scheduler::send(Fiber& fiber) noexcept {
  const Visitor visitor{*this};
  Worker& last = *workers_[fiber.last_worker];
  if (fiber.is_pinned()) return last.inbox.push(fiber);
  const bool welcome = last.inbox.length() < policy::kInboxLong && !last.is_held();
  if (welcome && last.inbox.try_push(fiber)) return;
  injector.push(fiber);  // it has enough to do, does not come to it, or has gone
  tell_of_injected();
}

// ── the world outside ───────────────────────────────────────────────────────────────────────────

std::shared_ptr<Reactor> Scheduler::reactor() noexcept {
  ReactorOnDemand::Found found = reactor_.get();
  if (found.is_new)
    for (const auto& worker : workers()) worker->inbox.nudge();  // to sleep where one hears
  return std::move(found.poller);
}

std::string Scheduler::reactor_report() {
  static_cast<void>(reactor());
  return reactor_.report();
}

bool Scheduler::hear_elsewhere(Worker& worker) noexcept {
  Poller* const heard = poller();
  if (!heard) return false;
  FiberList woken;
  const bool any = heard->hear_all(woken);
  run_heard(std::move(woken), &worker);
  return any;
}

// A descriptor that another engine's fiber waits for belongs to ours all the same.
void Scheduler::run_heard(FiberList woken, Worker* worker) noexcept {
  FiberList ours, strangers;
  while (Fiber* const fiber = woken.pop_front())
    (owns(*fiber) ? ours : strangers).push_back(*fiber);
  resume_all(std::move(strangers));
  if (worker) worker->resume_all(std::move(ours));
  else give_to_anybody(std::move(ours));
}

// ── temporary workers ───────────────────────────────────────────────────────────────────────────

bool Scheduler::hire(unsigned place, pthread_t& thread) noexcept {
  // Who inspects us has stopped everybody: nobody may come in.
  if (inspected_.exchange(true, std::memory_order_acquire)) return false;
  Worker& worker = *workers_[place];
  worker.hire();
  idle.join();  // from now on not everybody sleeps, until the newcomer does
  // Before it starts: who looks for sleepers, or sends everybody home, must not overlook it.
  if (place >= worker_count()) places_.store(place + 1, std::memory_order_release);
  sysmon.one_more_thread();
  const bool hired = arch::sys_pthread_create(&thread, nullptr, &run_worker, &worker) == 0;
  if (!hired) {
    sysmon.one_thread_less();
    idle.leave();
    worker.not_hired();
  }
  inspected_.store(false, std::memory_order_release);
  return hired;
}

// ── idling ──────────────────────────────────────────────────────────────────────────────────────

void Scheduler::call_a_searcher() noexcept {
  if (!idle.begin_search_for_another()) return;
  const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
  for (const auto& worker : workers())  // the watch last: another would have to take its place
    if (worker->index() != watch && worker->inbox.call()) return;
  if (watch != kNobody && workers_[watch]->inbox.call()) return;
  idle.end_search();  // whoever was asleep is getting up by itself
  // Another thread may have seen that search, injected something, and told nobody. A nudge stays
  // with one that gets up and lies down again.
  Sync::fence(std::memory_order_seq_cst);  // pairs with must_be_told()
  if (injector.empty()) return;
  for (const auto& worker : workers()) worker->inbox.nudge();
}

void Scheduler::note_a_call(bool paid) noexcept {
  const std::uint32_t now = patience.load(std::memory_order_relaxed);
  patience.store(paid ? 1 : std::min(2 * now, policy::kPatienceMax), std::memory_order_relaxed);
}

bool Scheduler::take_the_watch(const Worker& worker) noexcept {
  std::uint32_t keeper = kNobody;
  return watch_.compare_exchange_strong(keeper, worker.index(), std::memory_order_seq_cst) ||
         keeper == worker.index();
}

// relaxed: it is given to who sleeps, and that one is woken; taken from us, we hand nothing on.
bool Scheduler::keeps_watch(const Worker& worker) const noexcept {
  return watch_.load(std::memory_order_relaxed) == worker.index();
}

void Scheduler::rouse_the_watch() noexcept {
  if (!idle.surface()) return;
  sysmon.rouse();
  const std::uint32_t watch = watch_.load(std::memory_order_seq_cst);
  if (watch != kNobody) workers_[watch]->inbox.nudge();
}

void Scheduler::have_the_watch_look() noexcept {
  surface();
  const std::uint32_t watch = watch_.load(std::memory_order_seq_cst);
  if (watch != kNobody) workers_[watch]->inbox.nudge();
}

void Scheduler::keep_watch(const Worker& worker) noexcept {
  std::uint32_t ours = worker.index();
  if (watch_.load(std::memory_order_relaxed) == ours) {
    // Who lies down meanwhile announces that, then looks here: one of us sees the other. The
    // watcher may have been faster.
    watch_.compare_exchange_strong(ours, kNobody, std::memory_order_seq_cst);
    Sync::fence(std::memory_order_seq_cst);
  }
  const Idle::Count others = idle.count();
  if (others.deep()) [[unlikely]] return rouse_the_watch();
  if (others.asleep() == 0 || watch_.load(std::memory_order_relaxed) != kNobody) return;
  while (!give_the_watch_away()) {}
}

void Scheduler::relieve_the_watch() noexcept {
  const std::uint32_t watch = watch_.load(std::memory_order_relaxed);
  if (watch == kNobody || workers_[watch]->inbox.is_asleep()) return;
  if (idle.count().asleep() == 0) return;
  keep_watch(*workers_[watch]);
  // It may have lain down meanwhile, and believe that the watch is still its own.
  if (workers_[watch]->inbox.is_asleep()) workers_[watch]->inbox.nudge();
}

// False: who was to have it got up meanwhile, and somebody may have lain down and relied on it.
bool Scheduler::give_the_watch_away() noexcept {
  for (const auto& other : workers()) {
    if (!other->inbox.is_asleep()) continue;
    // It goes round once and lies down again, with its eyes open.
    if (!take_the_watch(*other) || other->inbox.rouse()) return true;
    std::uint32_t keeper = other->index();
    if (!watch_.compare_exchange_strong(keeper, kNobody, std::memory_order_seq_cst))
      return true;  // it has handed it on by itself
    Sync::fence(std::memory_order_seq_cst);
    return false;
  }
  return true;
}

Instant Scheduler::soonest_elsewhere(const Worker& worker) noexcept {
  Instant soonest = Instant::max();
  for (const auto& other : workers())
    if (other.get() != &worker && !other->inbox.is_asleep())
      soonest = std::min(soonest, other->timers.soonest());
  return soonest;
}

bool Scheduler::fire_timers_elsewhere(Worker& worker, Instant now) noexcept {
  Fired fired;
  for (const auto& other : workers())
    if (!other->inbox.is_asleep()) other->timers.fire_due(now, fired);
  const bool any = !fired.woken.empty();
  worker.resume_all(std::move(fired.woken));
  CancelScope::tell(fired.hooks);
  return any;
}

// ── deadlock ────────────────────────────────────────────────────────────────────────────────────

// Whether every thread of this process is ours.
bool Scheduler::alone_in_process() const noexcept {
  return is_alone(options.workers + offload.threads() + sysmon.threads());
}

Scheduler::Deadlocked Scheduler::raise_if_deadlocked(Worker& worker) noexcept {
  if (options.on_deadlock == OnDeadlock::report && deadlock_reported_) return Deadlocked::no;
  if (offload.in_flight() != 0 || outside_.still_there()) return Deadlocked::no;
  for (const auto& other : workers())
    if (other->timers.soonest() != Instant::max()) return Deadlocked::no;
  Sync::fence(std::memory_order_seq_cst);  // the watcher announces, then takes timers off a wheel
  if (sysmon.holds_fibers()) return Deadlocked::unsure;
  const bool has_io = poller() != nullptr;
  const auto somebody_else_could = [this] {
    return options.on_deadlock == OnDeadlock::automatic && !alone_in_process();
  };
  if (!has_io && somebody_else_could()) return Deadlocked::no;
  // The others are asleep, but a foreign thread may wake them: keep them from running fibers.
  std::vector<std::unique_ptr<Worker::Visit>> visits;
  for (const auto& other : workers()) {
    if (other.get() == &worker || other->state() == WorkerState::dead) continue;
    visits.push_back(std::make_unique<Worker::Visit>(*other, Duration{}));
    if (!visits.back()->alone() || !other->inbox.is_asleep()) return Deadlocked::unsure;
  }
  if (!worker.inbox.is_asleep() || !injector.empty() || !idle.everybody_sleeps())
    return Deadlocked::unsure;
  if (has_io && (outside_.find(io_) || somebody_else_could())) return Deadlocked::no;
  deadlock_report = describe_deadlock(io_, monotonic_now(), policy::kClockGrain);
  if (options.on_deadlock != OnDeadlock::report)
    return raise_deadlock_in_waits(io_) ? Deadlocked::raised : Deadlocked::no;
  deadlock_reported_ = true;
  std::fprintf(stderr, "weft: %s\n", deadlock_report.c_str());
  return Deadlocked::no;
}

}  // namespace weft::engine
