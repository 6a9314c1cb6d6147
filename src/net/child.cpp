#include "net/child.hpp"

#include <weft/time.hpp>

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace weft {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Processes that would not go, or that we may not kill: whoever comes by looks after them.
class Orphans {
 public:
  static Orphans& get() {
    static Orphans* const kept = new Orphans;  // never destroyed: a Process may be static
    return *kept;
  }
  void add(pid_t pid) {
    const Locked locked{lock_};
    pids_.push_back(pid);
  }
  void look_after() noexcept {
    const Locked locked{lock_};
    std::erase_if(pids_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
  }

 private:
  Lock lock_;
  std::vector<pid_t> pids_;
};

// Where the kernel, or who guards it, does not let us have one, the process is asked now and then.
Descriptor handle_for(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return {};
  Result<Descriptor> handle = Descriptor::adopt(static_cast<int>(fd), Carries::messages,
                                                "process wait", "process wait");
  return handle ? *std::move(handle) : Descriptor{};
}

ExitStatus status_of(const siginfo_t& info) noexcept {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status, .signal = 0};
  return {.code = 0, .signal = info.si_status};
}

// The time to the next look, if one has to look.
class Pause {
 public:
  [[nodiscard]] Duration next() noexcept {
    return std::exchange(now_, std::min<Duration>(2 * now_, 20ms));
  }

 private:
  Duration now_ = 1ms;
};

}  // namespace

Process::Child::Child(bool leads_group) : leads_group_(leads_group) {
  Orphans::get().look_after();
}

void Process::Child::open_handle() { handle_ = handle_for(pid_); }

Process::Child::~Child() {
  Orphans::get().look_after();
  if (pid_ == 0 || look() != -EAGAIN) return;
  // Who may not be killed, being another user's by now, is not waited for either.
  if (kill(SIGKILL) && wait_shielded_until(saturating_add(Clock::now(), to_duration(1s)))) return;
  try {
    Orphans::get().add(pid_);
  } catch (...) {  // no memory for it: it stays behind until we end
  }
}

int Process::Child::look() noexcept {
  const Locked locked{lock_};
  if (status_) return 0;
  if (lost_) return -ECHILD;
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG) != 0) {
    if (errno == EINTR) continue;
    lost_ = errno == ECHILD;
    return -errno;
  }
  if (info.si_pid == 0) return -EAGAIN;
  status_ = status_of(info);
  return 0;
}

Result<ExitStatus> Process::Child::wait() {
  if (can_tell()) {
    const Result<std::size_t> ended =
        handle_.call(Way::in, 0, [this](Kernel&, int) -> Kernel::Answer { return look(); });
    if (!ended) return ended.failure();
    return status();
  }
  for (Pause pause;;) {
    checkpoint(Fiber::current());
    const int found = look();
    if (found == 0) return status();
    if (found != -EAGAIN) return Unexpected::of(-found);
    sleep_for(pause.next());
  }
}

Result<void> Process::Child::kill(int signal) noexcept {
  const Locked locked{lock_};
  if (status_ || lost_) return Unexpected{std::errc::no_such_process};
  if (::kill(leads_group_ ? -pid_ : pid_, signal) != 0) return Unexpected::of(errno);
  return {};
}

bool Process::Child::wait_shielded_until(Instant at) noexcept {
  for (Pause pause;;) {
    if (look() != -EAGAIN) return true;
    const Instant now = Clock::now();
    if (now >= at) return false;
    Alarm alarm{can_tell() ? at : std::min(at, saturating_add(now, pause.next()))};
    Descriptor::Ready end = on_end();
    Waitable* const arms[] = {&alarm, &end};
    const std::span<Waitable* const> all{arms};
    static_cast<void>(wait_shielded(all.first(can_tell() ? 2 : 1)));
  }
}

}  // namespace weft
