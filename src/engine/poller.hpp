// Poller: a reactor as its engine sees it: where workers hear from outside, and where they sleep.
//
// A place is a worker's index. Fibers that were woken are handed to the caller, who resumes them.
#pragma once

#include <weft/core/reactor.hpp>

#include <ctime>

namespace weft::engine {

class Poller : public Reactor {
 public:
  // What has happened so far, as the worker in `place` sees it; never sleeps. True: somebody was
  // woken. By that worker.
  virtual bool hear(unsigned place, FiberList& woken) noexcept = 0;
  // The same for all places: also what belongs to a worker that is blocked or busy. By anybody.
  virtual bool hear_all(FiberList& woken) noexcept = 0;
  // Whatever `place` has asked for and not told the kernel yet is told now.
  virtual void flush(unsigned place) noexcept { static_cast<void>(place); }
  // The same for those that have not come to it for a while. By anybody.
  virtual void flush_late() noexcept {}

  // Whether `place` should sleep here, rather than on its inbox. `watching`: it is the one that
  // keeps an eye on everything. True: sleep() and leave_bed() follow, and until then rouse() ends
  // the sleep.
  [[nodiscard]] virtual bool take_bed(unsigned place, bool watching) noexcept = 0;
  // Until something happens, rouse() was called since take_bed(), or `timeout`. May return early.
  // True: somebody was woken, or hear() will find something.
  virtual bool sleep(unsigned place, const std::timespec* timeout, FiberList& woken) noexcept = 0;
  virtual void leave_bed(unsigned place) noexcept = 0;
  // From any thread.
  virtual void rouse(unsigned place) noexcept = 0;

  // Nobody hears any more, but for who closes a descriptor that is left.
  virtual void engine_ends() noexcept {}
};

}  // namespace weft::engine
