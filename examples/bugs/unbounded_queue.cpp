// Unbounded queue: the producer is faster than the consumer, for long enough.
//
// How one meets it: out of memory, at three in the morning, in a process that needs 200 MB on every
// other day. On average the consumer is faster by a quarter; a queue without a bound is as long
// as the worst minute makes it.
#include "gallery.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAllowed = 6;

void some_time(unsigned most) { weft::sleep_for(weft::io().random() % most * 1ms); }

void ingest(weft::Channel<int> queue) {
  std::size_t longest = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("producer", [&longest, tx = std::move(queue.tx)] {
      for (int request = 0; request < 50; ++request) {
        some_time(10);
        if (!tx.send(request)) return;
        longest = std::max(longest, tx.size());
      }
    });
    n.spawn("consumer", [rx = std::move(queue.rx)] {
      while (rx.recv()) some_time(8);
    });
  });
  if (longest > kAllowed) throw std::runtime_error{"the queue has grown too long"};
}

void buggy() { ingest(weft::unbounded<int>("requests")); }

// A channel with a bound makes the producer wait: it is as fast as the consumer.
void fixed() { ingest(weft::Channel<int>{{.capacity = kAllowed, .name = "requests"}}); }

}  // namespace

constinit const gallery::Bug gallery::unbounded_queue{
    .name = "unbounded_queue",
    .mistake = "nothing makes a producer wait for its consumer",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 250,
    .buggy = buggy,
    .fixed = fixed,
};
