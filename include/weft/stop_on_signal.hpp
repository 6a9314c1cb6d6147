// StopOnSignal: Ctrl-C and kill end a run in order.
//
//   weft::FiberIo io;
//   const weft::StopOnSignal stop{io};  // SIGINT and SIGTERM
//   io.run(serve);                      // every fiber unwinds, and run() ends
#pragma once

#include <weft/engine.hpp>

#include <csignal>
#include <initializer_list>
#include <memory>

namespace weft {

// While it lives, the first of `signals` that comes calls io.stop(). If nothing runs then, the next
// run is stopped as soon as it has begun: a signal is not lost because it was early.
//
// The second one of the same kind does what it would do by default, which for these is to end the
// program: who is impatient, or sits before a fiber that does not unwind, types Ctrl-C again. The
// destructor puts back what was there before. Several may live at once, for the same signals, too;
// each stops its engine, which must outlive it.
//
// The signal handler only leaves word. A thread of this object's own calls stop(), so that while it
// lives no fiber is alone with the process: OnDeadlock::automatic waits. Throws std::system_error
// for signals that cannot be caught, and if the thread cannot be started; nothing is changed then.
class [[nodiscard]] StopOnSignal {
 public:
  explicit StopOnSignal(FiberIo& io, std::initializer_list<int> signals = {SIGINT, SIGTERM});
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  // The signal that came first, 0: none. Known before the run ends that it has stopped.
  [[nodiscard]] int caught() const noexcept;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace weft
