// Lossy time-out: a receive with a time limit, put together from a receive and a sleep, that throws
// away what came in the last moment.
//
// How one meets it: one in a million messages is neither handled nor reported. The receive has
// taken the message from the channel, and the sleep has ended as well, before either could stop the
// other; then the function looks at its clock and says that nothing came.
#include "gallery.hpp"

#include <optional>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;

std::optional<int> recv_or_sleep(const weft::Receiver<int>& rx, weft::Duration time) {
  std::optional<int> got;
  bool too_late = false;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("receive", [&] {
      got = rx.recv();
      n.cancel();  // ends the sleep
    });
    weft::sleep_for(time);
    too_late = true;
    n.cancel();  // ends the receive
  });
  return too_late ? std::nullopt : got;
}

// One operation, of which one arm wins: who was too late has taken nothing.
std::optional<int> recv_in_time(const weft::Receiver<int>& rx, weft::Duration time) {
  if (weft::Received<int> got = rx.recv_for(time)) return *got;
  return std::nullopt;
}

void three_messages(std::optional<int> (*receive)(const weft::Receiver<int>&, weft::Duration)) {
  weft::Channel<int> messages{8};
  int count = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("sender", [&] {
      for (int i = 0; i < 3; ++i) {
        weft::sleep_for(weft::io().random() % 12 * 1ms);
        static_cast<void>(messages.tx.send(i));
      }
    });
    for (int i = 0; i < 6; ++i)
      if (receive(messages.rx, 10ms)) ++count;
  });
  while (messages.rx.try_recv()) ++count;  // what is still there is not lost
  if (count != 3) throw std::runtime_error{"a message was taken and thrown away"};
}

void buggy() { three_messages(recv_or_sleep); }
void fixed() { three_messages(recv_in_time); }

}  // namespace

constinit const gallery::Bug gallery::lossy_timeout{
    .name = "lossy_timeout",
    .mistake = "a value that was received is thrown away, since the time was over as well",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 350,
    .buggy = buggy,
    .fixed = fixed,
};
