// Signals of the process, for all parts of it that want to know.
//
// A handler may interrupt anything, so it only leaves word: it counts, wakes who sleeps on the
// count, and writes a byte to the pipe of each who listens. It is the same for all, and so is what
// it writes to, for the life of the process: a handler that is late meets nothing that could be
// gone, at worst a pipe that belongs to somebody else by now, who reads past what it did not want.
//
// A child made by a bare fork(2) has the handler and the pipes, too, but the pipes are its
// parent's: there, the handler leaves them alone, and who listens gets a pipe of the child's own.
#pragma once

#include <weft/base/sync.hpp>

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace weft::signals_of_process {

inline constexpr int kSignals = 64;  // they are numbered from 1
[[nodiscard]] constexpr bool is_signal(int signal) noexcept {
  return signal > 0 && signal <= kSignals;
}

// What the next one of a signal does that somebody has taken.
enum class Taker : std::uint8_t {
  stopper,   // after one signal it has what it wants: then the default
  listener,  // wants all of them, and while it does, everybody gets them
};

// The handler is ours from now on, until give_back(). False: it cannot be caught.
[[nodiscard]] bool take(int signal, Taker taker) noexcept;
// The last one's puts back what was there before the first.
void give_back(int signal, Taker taker) noexcept;

// How many there have been while somebody had taken it.
[[nodiscard]] std::uint32_t arrived(int signal) noexcept;
// Steps on with each of them, and with ring().
inline constinit Atomic<std::uint32_t> bell{0};
void ring() noexcept;

// A pipe that gets a byte, the number, for each signal that is wanted. Never freed, but used again.
struct Tap {
  int reader = -1;
  int writer = -1;
  pid_t owner = 0;  // the process that made it
  Atomic<std::uint64_t> wanted{0};  // bit `signal` - 1
  Tap* next = nullptr;
  bool in_use = true;  // protected by the lock of all taps
};
// An empty one, that wants nothing. Null, and errno: none can be had.
[[nodiscard]] Tap* open_tap() noexcept;
void close_tap(Tap& tap) noexcept;

}  // namespace weft::signals_of_process
