// Looking at another thread of this process: what it is doing, without disturbing it.
//
// A backtrace can only be taken by the thread itself, so it is asked by a signal. One that computes
// does not notice. One that sleeps in the kernel might: a signal ends nanosleep(2), poll(2),
// epoll_wait(2) and their like with EINTR, whatever SA_RESTART says (signal(7) has the list). So
// only running threads are asked; where a sleeping one is, the kernel says. Between the look at its
// state and the signal a thread may fall asleep: in that window of some microseconds such a call
// can end early, which is why every program must expect that of it.
#pragma once

#include "arch/backtrace.hpp"

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace weft::arch {

enum class ThreadState : std::uint8_t { running, sleeping, gone };

// As /proc tells it; `running` if it tells nothing. Waiting for a core counts as running.
ThreadState state_of_thread(pid_t tid) noexcept;

// Where a sleeping thread is: the system call and who made it, as far as the kernel tells. Empty:
// it tells nothing, or the thread does not sleep.
std::string place_in_kernel(pid_t tid);

// The bytes [from, from + bytes) of this process, which need not be there. False: nothing was read.
// Nobody is held up; the caller must have a way to tell whether what it got belongs together.
bool peek(const void* from, void* to, std::size_t bytes) noexcept;

// Keeps the handler of kBacktraceSignal installed; objects nest and overlap as they like. Signals
// that weft did not send are passed on to the handler that was there before. If the program puts
// one of its own on top, threads are not asked any more.
class [[nodiscard]] BacktraceHandler {
 public:
  BacktraceHandler() noexcept;
  ~BacktraceHandler();
  BacktraceHandler(const BacktraceHandler&) = delete;
  BacktraceHandler& operator=(const BacktraceHandler&) = delete;
};

int backtrace_signal() noexcept;  // a real-time signal; what SIGRTMAX is, the C library knows

// Called in the handler, on the thread that was asked: async-signal-safe code only.
struct Witness {
  void (*see)(void* at) noexcept;
  void* at;
};

enum class Answer : std::uint8_t {
  taken,
  none_in_time,  // asked, but it did not answer within kAnswerWithin
  not_asked,     // no handler of ours is installed, or the signal could not be sent
};
inline constexpr unsigned kAnswerWithinMs = 200;

// Asks `tid`, a thread of this process other than the caller, which must have a stack for signals
// if its own may be a fiber's. When this has returned, `witness` is not called any more.
Answer take_backtrace_of(pid_t tid, Backtrace& trace, Witness witness) noexcept;

}  // namespace weft::arch
