// Double close: two fibers find the same connection open, and both close it.
//
// How one meets it: a log file ends in the middle of a line, and what follows is in no file. A
// connection was closed by its reader and by its writer. Between the two closes the system gave the
// number of the descriptor away again; the second one closed the log.
#include "gallery.hpp"

#include <array>
#include <atomic>
#include <stdexcept>

namespace {

// Numbers as a kernel gives them: the lowest that is free.
class Descriptors {
 public:
  std::size_t open() {
    std::size_t number = 0;
    while (open_[number].exchange(true)) ++number;
    return number;
  }
  void close(std::size_t number) { open_[number] = false; }
  [[nodiscard]] bool is_open(std::size_t number) const { return open_[number]; }

 private:
  std::array<std::atomic<bool>, 8> open_{};
};

struct Connection {
  Descriptors& system;
  weft::Channel<int> wire{8};
  std::size_t descriptor = system.open();
  std::atomic<bool> open{true};

  void close() {
    if (!open) return;
    say_goodbye();  // waits, and so lets the other one in
    open = false;
    system.close(descriptor);
  }

  // Whoever turns the flag is the one who closes: it is looked at and written in one step.
  void close_once() {
    if (!open.exchange(false)) return;
    say_goodbye();
    system.close(descriptor);
  }

  void say_goodbye() const { static_cast<void>(wire.tx.send(0)); }
};

void hang_up(void (Connection::*close)()) {
  Descriptors system;
  Connection connection{.system = system};
  std::size_t log = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("reader", [&] { (connection.*close)(); });
    n.spawn("writer", [&] { (connection.*close)(); });
    n.spawn("log", [&] { log = system.open(); });
  });
  if (!system.is_open(log)) throw std::runtime_error{"somebody has closed the log"};
}

void buggy() { hang_up(&Connection::close); }
void fixed() { hang_up(&Connection::close_once); }

}  // namespace

constinit const gallery::Bug gallery::double_close{
    .name = "double_close",
    .mistake = "two fibers see that it is open, and both close it",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::exhaustive,
    .runs = 200,
    .buggy = buggy,
    .fixed = fixed,
};
