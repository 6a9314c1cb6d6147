// Ending a run from outside: another thread, a signal, a fiber; and what run() makes of it.
#include <weft/weft.hpp>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <thread>

using namespace std::chrono_literals;

void runs_end_by_themselves() {
  weft::FiberIo io;  // or {{.stack_bytes = 64 * 1024}}
  const int answer = io.run([] { return 6 * 7; });

  weft::run([&] { std::printf("%d\n", answer); });  // the usual main: a FiberIo as it comes
}

struct Connection {
  ~Connection() { std::puts("connection closed"); }
};

// Would serve for ever.
void serve(weft::Event& up) {
  Connection connection;
  up.set();
  weft::nursery([](weft::Nursery& n) {
    for (int i = 0; i < 1'000; ++i) n.spawn("client", [] { weft::sleep_for(1h); });
  });
}

void stop_from_a_thread() {
  weft::FiberIo io;
  weft::Event up;
  std::thread admin{[&] {
    up.wait();
    io.stop();
  }};
  io.run([&] { serve(up); });  // every fiber unwinds; run() returns when the last one has
  admin.join();
  std::puts(io.stop() ? "runs" : "nothing runs");
}

void stop_on_signals() {
  weft::FiberIo io;
  const weft::StopOnSignal stop{io};  // SIGINT and SIGTERM; a second one ends the program
  weft::Event up;
  io.run([&] {
    std::raise(SIGINT);  // as Ctrl-C does
    serve(up);
  });
  std::puts(stop.caught() == SIGINT ? "stopped by SIGINT" : "ended by itself");
}

void what_run_makes_of_it() {
  weft::FiberIo io;
  try {
    io.run([&] {
      io.stop();
      weft::sleep_for(1h);
      return 42;
    });
  } catch (const weft::RunCancelled&) {
    std::puts("there is no value");
  }
  const int kept = io.run([&] {
    io.stop();  // asks; nobody is forced before the next wait
    return 42;
  });
  std::printf("%d all the same\n", kept);
  try {
    io.run([&] {
      io.stop();
      throw std::runtime_error{"disk full"};
    });
  } catch (const std::runtime_error& error) {
    std::printf("a failure wins: %s\n", error.what());
  }
}

void last_words() {
  weft::FiberIo io;
  io.run([&] {
    try {
      io.stop();
      weft::sleep_for(1h);
    } catch (const weft::Cancelled&) {
      weft::shielded([] { weft::sleep_for(1ms); });  // what must be finished: is
      std::puts("saved");
      throw;
    }
  });
}

int main() {
  runs_end_by_themselves();
  stop_from_a_thread();
  stop_on_signals();
  what_run_makes_of_it();
  last_words();
}
