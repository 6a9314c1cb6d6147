// Other programs: run to their end, talked to, timed out, several at once.
#include <weft/weft.hpp>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using weft::Process;
using weft::Stdio;

void run_to_the_end() {
  const auto done = weft::run_process({.argv = {"sort"}, .input = "weft\nwarp\nloom\n"});
  std::printf("%s%s\n", done->out.c_str(), to_string(done->status).c_str());

  const auto failed = weft::run_process({.argv = {"sh", "-c", "echo oops >&2; exit 3"}});
  std::printf("%s%s\n", failed->err.c_str(), to_string(failed->status).c_str());

  const auto missing = weft::run_process({.argv = {"no-such-program"}});
  std::puts(missing.error().message().c_str());
}

void talk() {
  Process cat = Process::spawn({.argv = {"cat"}, .in = Stdio::pipe, .out = Stdio::pipe}).value();
  std::array<std::byte, 5> buffer;
  for (const std::string word : {"over,", "under"}) {
    cat.in().write_all(word).value();
    cat.out().read_exactly(buffer).value();
    std::printf("%.*s\n", int(buffer.size()), reinterpret_cast<const char*>(buffer.data()));
  }
  cat.in().close().value();
  std::puts(to_string(cat.wait().value()).c_str());
}

void lose_patience() {
  const auto late = weft::run_process({.argv = {"sleep", "1000"}, .timeout = 10ms});
  std::puts(late.error() == std::errc::timed_out ? "killed: it took too long" : "?");

  Process sleeper = Process::spawn({.argv = {"sleep", "1000"}}).value();
  std::puts(to_string(sleeper.terminate(1h).value()).c_str());  // SIGTERM is enough
}

void many_at_once() {
  std::vector<int> codes(10);
  weft::parallel_for(codes.size(), [&](std::size_t i) {
    const auto done = weft::run_process({.argv = {"sh", "-c", "exit " + std::to_string(i)}});
    codes[i] = done->status.code;
  });
  for (const int code : codes) std::printf("%d ", code);
  std::puts("");
}

int main() {
  weft::run([] {
    run_to_the_end();
    talk();
    lose_patience();
    many_at_once();
  });
}
