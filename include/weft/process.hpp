// Processes: other programs, started, talked to, waited for and ended.
//
//   auto listing = weft::run_process({.argv = {"ls", "-l"}, .timeout = 5s});
//   if (listing && listing->status.success()) show(listing->out);
//
//   auto sorter = weft::Process::spawn({.argv = {"sort"}, .in = Stdio::pipe, .out = Stdio::pipe});
//
// In simulation there are none: std::errc::operation_not_supported. While SIGCHLD is ignored, the
// kernel keeps nothing to be waited for, and wait() fails with std::errc::no_child_process.
#pragma once

#include <weft/core/time.hpp>
#include <weft/pipe.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// What one of a process's first three descriptors is.
class Stdio {
 public:
  static const Stdio inherit;  // ours
  static const Stdio null;     // nothing to be read, and what is written is gone
  static const Stdio pipe;     // Process::in(), out() or err() is its other end
  static const Stdio to_out;   // of `err`: where `out` goes
  // `fd` of this process, which stays open here. It should be one that blocks.
  static constexpr Stdio descriptor(int fd) noexcept { return Stdio{Kind::descriptor, fd}; }

 private:
  friend class Spawning;
  enum class Kind : std::uint8_t { inherit, null, pipe, to_out, descriptor };
  constexpr explicit Stdio(Kind kind, int fd = -1) noexcept : kind_(kind), fd_(fd) {}

  Kind kind_;
  int fd_;
};
inline constexpr Stdio Stdio::inherit{Kind::inherit};
inline constexpr Stdio Stdio::null{Kind::null};
inline constexpr Stdio Stdio::pipe{Kind::pipe};
inline constexpr Stdio Stdio::to_out{Kind::to_out};

struct ProcessOptions {
  // The program first; without a slash it is looked for in our PATH. No shell is involved.
  std::vector<std::string> argv{};
  std::vector<std::string> env{};  // "NAME=value", in addition to ours and before it
  bool inherit_env = true;         // false: `env` is all
  std::string cwd{};               // empty: ours
  Stdio in = Stdio::inherit;
  Stdio out = Stdio::inherit;
  Stdio err = Stdio::inherit;
  bool new_group = false;  // the process leads a group of its own, which kill() is for
};

// How a process has ended: by itself, with a code, or by a signal.
struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: by itself

  [[nodiscard]] bool success() const noexcept { return code == 0 && signal == 0; }
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};
// "exit code 3", "signal 9 (Killed)".
std::string to_string(ExitStatus status);

// A process we have started. Movable. It has no signal blocked and none ignored, and of our
// descriptors only those that it was given.
//
// The destructor of one that was not waited for kills it and waits until it is gone, for at most a
// second: a process that the kernel cannot end by then is waited for by later calls of this class.
// One that we may not kill, because it has become another user's, is left to itself, and waited for
// in the same way.
class Process {
 public:
  Process() noexcept;  // none
  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;
  ~Process();

  // Fails with what execve(2) and chdir(2) say (ENOENT: there is no such program, or directory),
  // and with std::errc::invalid_argument for strings that no process can be given. Cancel point,
  // before it is begun.
  static Result<Process> spawn(const ProcessOptions& options);

  [[nodiscard]] int pid() const noexcept;  // 0: none

  // Our ends of its pipes; else they are not open. To be closed, or moved away, by the caller.
  PipeWriter& in() noexcept { return in_; }
  PipeReader& out() noexcept { return out_; }
  PipeReader& err() noexcept { return err_; }

  // Returns when it has ended. Pipes may have more to be read then. Parks; cancel point. Several
  // fibers may wait, and later calls return the same.
  Result<ExitStatus> wait();
  // Sends `signal` to it, or to its group. std::errc::no_such_process: it has been waited for;
  // std::errc::operation_not_permitted: it is another user's by now.
  Result<void> kill(int signal);
  // Asks it to end (SIGTERM) and, if it has not in `grace`, ends it (SIGKILL). Parks until it has.
  // Cancel point; cancelled, it may run still, as it does if kill() fails with the error returned.
  Result<ExitStatus> terminate(Duration grace);

 private:
  friend class Spawning;
  friend class Running;
  class Child;
  explicit Process(std::unique_ptr<Child> child) noexcept;
  Result<void> send_or_gone(int signal);

  std::unique_ptr<Child> child_;
  PipeWriter in_;
  PipeReader out_;
  PipeReader err_;
};

struct RunOptions {
  std::vector<std::string> argv{};  // these as in ProcessOptions
  std::vector<std::string> env{};
  bool inherit_env = true;
  std::string cwd{};
  bool new_group = false;
  std::string input{};                        // what it can read; it need not
  std::size_t output_limit = std::size_t{64} << 20;  // in bytes, for each of its outputs
  Duration timeout = Duration::max();
};
struct Finished {
  ExitStatus status;
  std::string out;
  std::string err;
};
// Runs a program to its end, and until nobody holds its outputs any more. std::errc::timed_out and
// IoError::too_long: it was killed for that, and what it had written is gone. Cancel point;
// cancelled, it is killed. Parks, but needs no other fiber.
Result<Finished> run_process(const RunOptions& options);

}  // namespace weft
