#include <support/child_process.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace weft::testing {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// Our environment with the variables that `added` names replaced. Pointers into both.
std::vector<char*> merged_environment(const std::vector<std::string>& added) {
  const auto is_replaced = [&](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(added.begin(), added.end(),
                       [&](const std::string& other) { return other.starts_with(name); });
  };
  std::vector<char*> merged;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!is_replaced(*entry)) merged.push_back(*entry);
  for (const std::string& entry : added) merged.push_back(const_cast<char*>(entry.c_str()));
  merged.push_back(nullptr);
  return merged;
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment) {
  // Everything is allocated before the fork: the child of a threaded process may only make system
  // calls.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::vector<char*> envp = merged_environment(environment);

  int output[2];
  int start_error[2];  // closed by exec, so it carries a byte only if exec failed
  if (::pipe2(output, O_CLOEXEC) != 0 || ::pipe2(start_error, O_CLOEXEC) != 0) fail("pipe2");

  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(output[1], STDOUT_FILENO);
    ::dup2(output[1], STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(start_error[1], &error, sizeof error);
    ::_exit(127);
  }
  ::close(output[1]);
  ::close(start_error[1]);

  ChildResult result;
  result.output = read_to_end(output[0]);
  int error = 0;
  const bool not_started = ::read(start_error[0], &error, sizeof error) == sizeof error;
  ::close(output[0]);
  ::close(start_error[0]);

  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid");
  if (not_started) throw std::system_error(error, std::generic_category(), arguments.at(0));
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::string sibling_program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace weft::testing
