// Child: a process that must be waited for once, by us.
//
// Invariant: its number is its own until it has been waited for, which happens once, under lock_;
//            nothing is sent to the number after that.
// Race:      a signal is sent while another fiber learns that the process has ended. Both hold the
//            lock: the signal goes to the process, or to nobody.
//
// It is made before the process is: from its first moment on there is somebody to end it, whatever
// fails in between.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/descriptor.hpp>
#include <weft/process.hpp>

#include <sys/types.h>

#include <optional>

namespace weft {

class Process::Child {
 public:
  explicit Child(bool leads_group);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // It is ours now. By who has made the process, be it on another thread.
  void has_begun(pid_t pid) noexcept { pid_ = pid; }
  // By a fiber of the engine that is to wait for it.
  void open_handle();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  Result<ExitStatus> wait();
  Result<void> kill(int signal) noexcept;
  // Completes when there is an end to be found, but only if can_tell().
  [[nodiscard]] Descriptor::Ready on_end() const noexcept { return handle_.on_ready(Way::in); }
  [[nodiscard]] bool can_tell() const noexcept { return handle_.is_open(); }
  // 0: it has ended, and status() tells how; -EAGAIN: it has not; else what waitid(2) says.
  int look() noexcept;
  [[nodiscard]] ExitStatus status() const noexcept { return *status_; }
  // Returns once it has ended, or at `at`: false. No cancel point.
  bool wait_shielded_until(Instant at) noexcept;

 private:
  pid_t pid_ = 0;  // 0: it has not begun
  const bool leads_group_;
  Descriptor handle_;  // a pidfd, if such a thing can be had
  Lock lock_;          // protects the two below, and pid_'s being a process of ours
  std::optional<ExitStatus> status_;
  bool lost_ = false;  // somebody else has waited for it
};

}  // namespace weft
