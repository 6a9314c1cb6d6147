#include "tour.hpp"

#include <weft/weft.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace weft::tour {
namespace {

volatile bool endless = true;  // so that no compiler sees the end, or the lack of one

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  return endless ? recurse(depth + 1) + frame[0] : frame[0];
}

[[noreturn]] void victim() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  try {
    FiberIo io{{.stack_bytes = 64 * 1024}};
    io.run([] {
      nursery([](Nursery& n) { n.spawn("parser", [] { static_cast<void>(recurse(0)); }); });
    });
  } catch (...) {  // it did not even come to run: the parent goes by what it does not read
  }
  ::_exit(0);
}

std::string read_to_end(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

struct End {
  std::string words;  // on standard error
  int status;
};

End run_victim() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category());
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category());
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    victim();
  }
  ::close(ends[1]);
  End end{read_to_end(ends[0]), 0};
  ::close(ends[0]);
  while (::waitpid(child, &end.status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category());
  return end;
}

}  // namespace

void overflow(Page& page) {
  const End end = run_victim();
  const std::size_t at = end.words.find("weft: stack overflow");
  expect(at != std::string::npos, "the overflow was not reported");
  const std::string line = end.words.substr(at, end.words.find('\n', at) - at);
  expect(line.find("\"parser\"") != std::string::npos, "the report does not name the fiber");

  page.say("A child process runs a fiber that recurses without end. Its last words:");
  page.quote(line);
  if (WIFSIGNALED(end.status)) {
    expect(WTERMSIG(end.status) == SIGSEGV, "the process died of another signal");
    page.say("Then it died by SIGSEGV, at the guard below its stack: no other stack was touched.");
  } else {
    expect(kSanitized && WEXITSTATUS(end.status) != 0, "the process survived");
    page.say("Then the sanitizer's handler, which the program had installed before, ended it.");
  }
}

}  // namespace weft::tour
