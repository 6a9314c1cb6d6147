#include <weft/process.hpp>

#include "net/child.hpp"

#include <weft/blocking.hpp>
#include <weft/time.hpp>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace weft {

std::string to_string(ExitStatus status) {
  if (status.signal == 0) return "exit code " + std::to_string(status.code);
  const char* const text = ::sigdescr_np(status.signal);
  return "signal " + std::to_string(status.signal) + " (" + (text ? text : "unknown") + ")";
}

namespace {

// Pointers to `strings`, as execve(2) wants them.
std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings)
    pointers.push_back(const_cast<char*>(string.c_str()));  // which it does not change
  pointers.push_back(nullptr);
  return pointers;
}

bool has_zero(const std::string& string) noexcept {
  return string.find('\0') != std::string::npos;
}

bool defines(const std::string& entry, std::string_view name) noexcept {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

// `options.env`, then what of our own it does not define anew.
std::vector<std::string> environment_of(const ProcessOptions& options) {
  std::vector<std::string> all = options.env;
  if (!options.inherit_env) return all;
  for (char** ours = environ; ours && *ours; ++ours) {
    const std::string_view entry{*ours};
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto anew = [&](const std::string& other) { return defines(other, name); };
    if (std::none_of(options.env.begin(), options.env.end(), anew)) all.emplace_back(entry);
  }
  return all;
}

bool can_be_given(const ProcessOptions& options) noexcept {
  if (options.argv.empty() || options.argv.front().empty() || has_zero(options.cwd)) return false;
  for (const std::string& argument : options.argv)
    if (has_zero(argument)) return false;
  for (const std::string& entry : options.env)
    if (has_zero(entry) || entry.find('=') == std::string::npos || entry.front() == '=')
      return false;
  return true;
}

}  // namespace

// One spawn: what the new process is to be given.
class Spawning {
 public:
  explicit Spawning(const ProcessOptions& options)
      : options_(options), environment_(environment_of(options)) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~Spawning() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  Result<Process> make() {
    Process process{std::make_unique<Process::Child>(options_.new_group)};
    int error = prepare();
    if (error == 0) error = blocking([&] { return start(*process.child_); });
    if (error != 0) return Unexpected::of(error);
    // From here on there is a process: whatever fails, `process` ends it.
    process.child_->open_handle();
    Result<void> adopted = adopt(process.in_, ours_[0]);
    if (adopted) adopted = adopt(process.out_, ours_[1]);
    if (adopted) adopted = adopt(process.err_, ours_[2]);
    if (!adopted) return adopted.failure();
    return process;
  }

 private:
  // Closes itself.
  class Fd {
   public:
    Fd() = default;
    explicit Fd(int fd) noexcept : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept {
      std::swap(fd_, other.fd_);
      return *this;
    }
    ~Fd() {
      if (fd_ >= 0) ::close(fd_);
    }
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

   private:
    int fd_ = -1;
  };

  int prepare() {
    const Stdio wanted[] = {options_.in, options_.out, options_.err};
    for (int fd = 0; fd < 3; ++fd)
      if (const int error = give(fd, wanted[fd]); error != 0) return error;
    // What somebody has opened without close-on-exec is none of its business.
    if (const int error = ::posix_spawn_file_actions_addclosefrom_np(&actions_, 3); error != 0)
      return error;
    if (!options_.cwd.empty())
      if (const int error = ::posix_spawn_file_actions_addchdir_np(&actions_, options_.cwd.c_str());
          error != 0)
        return error;
    return set_attributes();
  }

  int set_attributes() noexcept {
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (options_.new_group) flags |= POSIX_SPAWN_SETPGROUP;
    return ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }

  int give(int fd, Stdio what) noexcept {
    switch (what.kind_) {
      case Stdio::Kind::inherit: return 0;
      case Stdio::Kind::null:
        return ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null",
                                                  fd == 0 ? O_RDONLY : O_WRONLY, 0);
      case Stdio::Kind::pipe: return give_pipe(fd);
      case Stdio::Kind::to_out:
        return fd == 2 ? ::posix_spawn_file_actions_adddup2(&actions_, 1, 2) : EINVAL;
      case Stdio::Kind::descriptor: return give_copy(fd, what.fd_);
    }
    return EINVAL;
  }
  // Its end blocks, as programs expect, ours does not.
  int give_pipe(int fd) noexcept {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
    Fd reader{ends[0]};
    Fd writer{ends[1]};
    const auto at = static_cast<std::size_t>(fd);
    ours_[at] = fd == 0 ? std::move(writer) : std::move(reader);
    const Fd theirs = fd == 0 ? std::move(reader) : std::move(writer);
    if (::fcntl(ours_[at].get(), F_SETFL, O_NONBLOCK) != 0) return errno;
    return give_copy(fd, theirs.get());
  }
  // Of a number that is none of the three: giving one of them does not take another away.
  int give_copy(int fd, int from) noexcept {
    const int copy = ::fcntl(from, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return errno;
    theirs_[static_cast<std::size_t>(fd)] = Fd{copy};
    return ::posix_spawn_file_actions_adddup2(&actions_, copy, fd);
  }

  int start(Process::Child& child) {
    const std::vector<char*> arguments = pointers_to(options_.argv);
    const std::vector<char*> environment = pointers_to(environment_);
    pid_t pid = 0;
    const int error = ::posix_spawnp(&pid, arguments.front(), &actions_, &attributes_,
                                     arguments.data(), environment.data());
    if (error == 0) child.has_begun(pid);
    return error;
  }

  template <class End>
  static Result<void> adopt(End& end, Fd& fd) {
    if (fd.get() < 0) return {};
    Result<End> adopted = End::adopt(fd.release());
    if (!adopted) return adopted.failure();
    end = *std::move(adopted);
    return {};
  }

  const ProcessOptions& options_;
  const std::vector<std::string> environment_;
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::array<Fd, 3> ours_;    // ends of its pipes
  std::array<Fd, 3> theirs_;  // what it is given, until it has it
};

Process::Process() noexcept = default;
Process::Process(std::unique_ptr<Child> child) noexcept : child_(std::move(child)) {}
Process::Process(Process&&) noexcept = default;
Process& Process::operator=(Process&&) noexcept = default;
Process::~Process() = default;

Result<Process> Process::spawn(const ProcessOptions& options) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  if (*kernel != &system_kernel()) return Unexpected{std::errc::operation_not_supported};
  if (!can_be_given(options)) return Unexpected{std::errc::invalid_argument};
  return Spawning{options}.make();
}

int Process::pid() const noexcept { return child_ ? child_->pid() : 0; }

Result<ExitStatus> Process::wait() {
  if (!child_) return Unexpected{std::errc::no_child_process};
  return child_->wait();
}

Result<void> Process::kill(int signal) {
  if (!child_) return Unexpected{std::errc::no_such_process};
  return child_->kill(signal);
}

// That it has been waited for is no failure. All others are: to wait then would be to wait for what
// need not come.
Result<void> Process::send_or_gone(int signal) {
  Result<void> sent = kill(signal);
  if (sent.error() == std::errc::no_such_process) return {};
  return sent;
}

Result<ExitStatus> Process::terminate(Duration grace) {
  if (!child_) return Unexpected{std::errc::no_child_process};
  if (const Result<void> asked = send_or_gone(SIGTERM); !asked) return asked.failure();
  if (auto ended = timeout(grace, [this] { return wait(); })) return *std::move(ended);
  if (const Result<void> ended = send_or_gone(SIGKILL); !ended) return ended.failure();
  return wait();
}

}  // namespace weft
