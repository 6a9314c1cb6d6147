// Writing to a pipe without being killed for it.
//
// send(2) can be told not to raise SIGPIPE, write(2) cannot. What it raises is for the thread that
// writes, and comes before the call returns: blocked meanwhile, it waits, and can be taken away.
// Rejected: ignoring SIGPIPE in the whole program, which is not ours to decide, and which children
// would inherit.
#pragma once

#include <weft/core/kernel.hpp>

#include <signal.h>

#include <cerrno>
#include <ctime>

namespace weft::net {

// `write()`, which answers as Kernel's calls do, and does not park.
template <class Write>
Kernel::Answer without_sigpipe(Write write) noexcept {
  sigset_t broken_pipe;
  sigset_t before;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const bool was_blocked = ::sigismember(&before, SIGPIPE) == 1;
  sigset_t pending;
  ::sigemptyset(&pending);
  if (was_blocked) ::sigpending(&pending);  // else it would not have waited

  const Kernel::Answer answer = write();

  if (answer == -EPIPE && ::sigismember(&pending, SIGPIPE) == 0) {
    const std::timespec at_once{};
    while (::sigtimedwait(&broken_pipe, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  if (!was_blocked) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return answer;
}

}  // namespace weft::net
