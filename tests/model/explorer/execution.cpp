// The scheduler's side of an execution.
#include "explorer/execution.hpp"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "explorer/explore.hpp"

namespace weft::model {
namespace {

Execution* g_running = nullptr;

// So many standstills in a row with nothing written in between mean that the spinning threads are
// not in a bounded back-off: they spin for ever.
constexpr unsigned kMaxStandstills = 128;

}  // namespace

Execution* running() noexcept { return g_running; }

void raise(const Fault& fault) {
  if (!g_running) {
    std::fprintf(stderr, "explorer: %s (outside an execution)\n", fault.text);
    std::abort();
  }
  g_running->fail(fault);
}

Execution::Execution() {
  at_end_.reserve(8);
  objects_.reserve(64);
  schedule_.reserve(1024);
}

// ---- one run ------------------------------------------------------------------------------------

Outcome Execution::run(Search& search, const Rules& rules, Setup setup, void* context,
                       Trace* trace) {
  reset(search, rules, trace);
  setup_ = setup;
  setup_context_ = context;
  static_assert(sizeof(ExceptionGlobals) == 16);
  globals_ = reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
  const ExceptionGlobals outside = *globals_;
  g_running = this;
  const Outcome outcome = schedule_all();
  g_running = nullptr;
  *globals_ = outside;
  return outcome;
}

void Execution::reset(Search& search, const Rules& rules, Trace* trace) {
  g_program_runs = false;  // the last one may have been given up in the middle
  search_ = &search;
  rules_ = rules;
  trace_ = trace;
  memory_.reset();
  arena_.reset();
  objects_.clear();
  at_end_.clear();
  destructors_.clear();
  schedule_.clear();
  fault_ = {};
  thread_count_ = 0;
  current_ = last_ = kNoThread;
  steps_ = preemptions_ = sleeps_ = standstills_ = 0;
}

Outcome Execution::schedule_all() {
  search_->begin();
  prepare(kMainThread, &enter_setup);
  threads_[kMainThread].name = "main";
  run_on(kMainThread);
  if (fault_.kind != Failure::none) return Outcome::failed;
  for (unsigned id = 1; id <= thread_count_; ++id) {
    ThreadViews& views = threads_[id].views;
    views.now = threads_[kMainThread].views.now;
    views.now.clock.at[id] = 1;
  }
  for (;;) {
    run_released();
    if (fault_.kind != Failure::none) return Outcome::failed;
    const ThreadSet can_step = enabled();
    if (can_step == 0) {
      if (end_standstill()) continue;
      return finish();
    }
    const ThreadId next = search_->pick_thread(can_step, last_);
    if (next == kPrune) return Outcome::pruned;
    if (!take_step(next, can_step)) return Outcome::failed;
  }
}

// False: the execution has failed.
bool Execution::take_step(ThreadId next, ThreadSet can_step) {
  if (next == kDiverged || steps_ == rules_.max_steps) {
    fault_ = next == kDiverged
                 ? Fault{.kind = Failure::replay, .text = kDoesNotFit}
                 : Fault{.kind = Failure::livelock, .text = "the step limit is reached"};
    return false;
  }
  ++steps_;
  if (last_ != kNoThread && next != last_ && has(can_step, last_)) ++preemptions_;
  last_ = next;
  schedule_.push_back({true, next});
  run_on(next);
  if (fault_.kind != Failure::none) return false;
  const Step step{next, threads_[next].done};
  search_->stepped(step, pending_);
  release_others(step);
  return true;
}

Outcome Execution::finish() {
  bool all_finished = true;
  for (unsigned id = 1; id <= thread_count_; ++id)
    all_finished = all_finished && threads_[id].state == ThreadState::finished;
  if (!all_finished) {
    fault_ = {.kind = Failure::deadlock, .text = "nobody can move"};
    return Outcome::failed;
  }
  ThreadViews& main = threads_[kMainThread].views;
  for (unsigned id = 1; id <= thread_count_; ++id) main.now.join(threads_[id].views.now);
  const ThreadViews views = main;
  prepare(kMainThread, &enter_end);
  main = views;
  run_on(kMainThread);
  if (fault_.kind == Failure::none) check_leaks();
  return fault_.kind == Failure::none ? Outcome::finished : Outcome::failed;
}

// ---- threads that move by themselves ------------------------------------------------------------

ThreadSet Execution::enabled() const noexcept {
  ThreadSet set = 0;
  for (unsigned id = 1; id <= thread_count_; ++id) {
    const Thread& thread = threads_[id];
    if (thread.state != ThreadState::ready) continue;
    if (pending_[id].waits_for_lock && memory_.held(thread.place)) continue;
    set |= bit(id);
  }
  return set;
}

void Execution::run_released() {
  for (unsigned id = 1; id <= thread_count_; ++id)
    if (threads_[id].state == ThreadState::runnable && fault_.kind == Failure::none)
      run_on(static_cast<ThreadId>(id));
}

// After a step: whoever it woke goes on, and, if it wrote, whoever spun until somebody would.
void Execution::release_others(const Step& step) {
  if (step.done.writes()) {
    standstills_ = 0;
    threads_[step.thread].spin_rounds = 0;
  }
  for (unsigned id = 1; id <= thread_count_; ++id) {
    Thread& thread = threads_[id];
    if (id == step.thread) continue;
    if (thread.state == ThreadState::spinning && step.done.writes())
      thread.state = ThreadState::runnable;
    if (thread.state == ThreadState::runnable)
      search_->released_by_last_step(static_cast<ThreadId>(id));
  }
}

// Nobody can step. Time passes: timed sleeps end, and a spinning thread sees what has been written.
// That a spinner must find something newer is what lets a loop that may read stale values end.
bool Execution::end_standstill() {
  bool any = false;
  for (unsigned id = 1; id <= thread_count_; ++id) {
    Thread& thread = threads_[id];
    const bool spins = thread.state == ThreadState::spinning;
    if (!spins && !(thread.state == ThreadState::asleep && thread.timed)) continue;
    if (spins) memory_.catch_up(thread.views);
    thread.state = ThreadState::runnable;
    search_->released_by_standstill(static_cast<ThreadId>(id));
    any = true;
  }
  if (any && ++standstills_ > kMaxStandstills) {
    fault_ = {.kind = Failure::livelock, .text = "threads only spin or time out"};
    for (unsigned id = 1; id <= thread_count_; ++id)
      if (threads_[id].state == ThreadState::runnable) threads_[id].state = ThreadState::spinning;
  }
  return any;
}

void Execution::check_leaks() {
  for (const Object& object : objects_)
    if (object.alive) {
      fault_ = {.kind = Failure::leak, .text = object.type};
      return;
    }
}

// ---- stacks -------------------------------------------------------------------------------------

void Execution::prepare(ThreadId id, void (*entry)(void*)) {
  Thread& thread = threads_[id];
  if (!thread.stack_end) thread.stack_end = allocate_stack(kStackBytes);
  thread.context = make_context(thread.stack_end, entry, this);
  thread.state = ThreadState::runnable;
  thread.pending_kind = OpKind::start;
  thread.timed = thread.moved_since_spin = false;
  thread.locks_held = 0;
  thread.idle_spins = thread.spin_rounds = thread.spurious = 0;
  thread.place = kNoPlace;
  thread.site = {};
  thread.exceptions = {};
  thread.slot = nullptr;
  thread.views.clear();
  thread.views.now.clock.at[id] = 1;
  pending_[id] = {};
}

void Execution::run_on(ThreadId id) {
  Thread& thread = threads_[id];
  current_ = id;
  *globals_ = thread.exceptions;
  switch_context(scheduler_, thread.context);
  thread.exceptions = *globals_;
  current_ = kNoThread;
}

void Execution::leave() { switch_context(current().context, scheduler_); }

void Execution::fail(const Fault& fault) {
  g_program_runs = false;
  fault_ = fault;
  std::strncpy(fault_text_.data(), fault.text, fault_text_.size() - 1);
  fault_.text = fault_text_.data();
  fault_.thread = current_;
  for (;;) leave();
}

void Execution::enter_setup(void* execution) {
  auto& self = *static_cast<Execution*>(execution);
  self.run_guarded([&self] {
    Program program(self);
    self.setup_(self.setup_context_, program);
  });
}

void Execution::enter_thread(void* execution) {
  auto& self = *static_cast<Execution*>(execution);
  self.run_guarded([&self] {
    const Thread& thread = self.current();
    thread.function(thread.closure);
  });
}

void Execution::enter_end(void* execution) {
  auto& self = *static_cast<Execution*>(execution);
  self.run_guarded([&self] {
    for (const Call& check : self.at_end_) check.function(check.closure);
    for (auto last = self.destructors_.rbegin(); last != self.destructors_.rend(); ++last)
      last->function(last->closure);
  });
}

template <class Body>
void Execution::run_guarded(Body body) {
  try {
    g_program_runs = true;
    body();
    g_program_runs = false;
  } catch (...) {
    g_program_runs = false;
    fail({.kind = Failure::exception, .text = "an exception left the thread's function"});
  }
  Thread& thread = current();
  if (thread.locks_held != 0)
    fail({.kind = Failure::abandoned_lock, .text = "the thread ends while it holds a Lock"});
  thread.state = ThreadState::finished;
  for (;;) leave();
}

}  // namespace weft::model
