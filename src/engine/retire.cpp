// How a temporary worker comes and goes, and how a worker that is stuck is relieved of its fibers.
//
// DRAINING: it takes nothing new, and what waits here goes to the injector, where everybody looks.
// Its inbox is closed in the same step that finds it empty, so that whoever sends it a fiber later
// knows, and gives it to the injector instead.
#include "scheduler.hpp"
#include "visit.hpp"
#include "worker.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdint>

namespace weft::engine {

using namespace policy;

void Worker::take_signals() noexcept {
  ::pthread_sigmask(SIG_SETMASK, &shared_.sysmon.program_mask(), nullptr);
}

void Worker::arrive() noexcept {
  thread_id_ = static_cast<int>(::gettid());
  has_pinned = false;
  has_run_ = true;
  if (!is_temporary()) return;
  leaving_ = false;
  inbox.reopen();
}

// Inside the gate.
bool Worker::empty_queues(std::size_t most) noexcept {
  std::size_t left = most;
  const auto give = [&](Fiber* fiber) {
    if (fiber) shared_.injector.push(*fiber), --left;
    return fiber != nullptr;
  };
  if (give(next_)) next_ = nullptr;
  while (left != 0 && give(ready_.take())) {}
  while (left != 0 && give(fresh_.pop_oldest())) {}
  return left != most;
}

void Worker::give_all_away() noexcept {
  bool any = false;
  {
    const Inside inside{gate_};
    any = empty_queues(SIZE_MAX);
  }
  Inbox::Arrivals arrivals = inbox.take_all();
  called_ = called_ || arrivals.called;
  while (Fiber* const fiber = arrivals.fibers.pop_front()) {
    shared_.injector.push(*fiber);
    any = true;
  }
  if (any) shared_.tell_of_injected();
}

void Worker::relieve() noexcept {
  const Visit visit{*this, Duration{}};
  if (!visit.alone()) return;
  FiberList stranded = inbox.take_over();
  bool any = empty_queues(kLootMax);
  while (Fiber* const fiber = stranded.pop_front()) {
    if (fiber->is_pinned()) {
      inbox.push(*fiber);
    } else {
      shared_.injector.push(*fiber);
      any = true;
    }
  }
  if (any) shared_.tell_of_injected();
}

// At the end of the run there is nothing left to give away, but a call may have come late.
void Worker::retire() noexcept {
  if (is_temporary()) become(WorkerState::draining);
  do {
    if (is_temporary()) give_all_away();
    else called_ = inbox.take_all().called || called_;
    if (called_) leave_the_search();
  } while (is_temporary() && !inbox.close());
  thread_id_ = 0;
  if (!is_temporary()) return;
  shared_.keep_watch(*this);
  shared_.idle.leave();
  shared_.sysmon.one_thread_less();
  become(WorkerState::dead);
  shared_.sysmon.ring();  // to join our thread
}

}  // namespace weft::engine
