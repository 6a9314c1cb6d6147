// How a temporary worker comes and goes.
//
// DRAINING: it takes nothing new, and what waits here goes to the injector, where everybody looks.
// Its inbox is closed in the same step that finds it empty, so that whoever sends it a fiber later
// knows, and gives it to the injector instead.
#include "scheduler.hpp"
#include "worker.hpp"

#include <unistd.h>

namespace weft::engine {

void Worker::arrive() noexcept {
  thread_id_ = static_cast<int>(::gettid());
  has_pinned = false;
  has_run_ = true;
  if (!is_temporary()) return;
  leaving_ = false;
  inbox.reopen();
}

void Worker::give_all_away() noexcept {
  bool any = false;
  const auto give = [&](Fiber& fiber) {
    shared_.injector.push(fiber);
    any = true;
  };
  {
    const Inside inside{gate_};
    if (Fiber* const fiber = next_) {
      next_ = nullptr;
      give(*fiber);
    }
    while (Fiber* const fiber = ready_.take()) give(*fiber);
    while (Fiber* const fiber = fresh_.pop_oldest()) give(*fiber);
  }
  Inbox::Arrivals arrivals = inbox.take_all();
  while (Fiber* const fiber = arrivals.fibers.pop_front()) give(*fiber);
  called_ = called_ || arrivals.called;
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
  become(WorkerState::dead);
  shared_.sysmon.ring();  // to join our thread
}

}  // namespace weft::engine
