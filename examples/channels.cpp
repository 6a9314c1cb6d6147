// What channels promise, one function each. docs/channels.md quotes them.
#include <weft/weft.hpp>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

// ── ends ────────────────────────────────────────────────────────────────────────────────────────

int sum_of_three() {
  weft::Channel<int> numbers;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn([tx = std::move(numbers.tx)] {  // moved: the child has the only sender
      for (int i = 1; i <= 3; ++i)
        if (!tx.send(i)) return;
    });
    int sum = 0;
    for (int v : numbers.rx) sum += v;  // ends when the child has
    return sum;
  });
}

// Wrong: the copy that stays in `numbers` could still send, so the loop waits for it.
int forgotten_sender() {
  weft::Channel<int> numbers{{.name = "numbers"}};
  return weft::nursery({.name = "sum"}, [&](weft::Nursery& n) {
    n.spawn("counter", [tx = numbers.tx] {
      for (int i = 1; i <= 3; ++i)
        if (!tx.send(i)) return;
    });
    int sum = 0;
    for (int v : numbers.rx) sum += v;
    return sum;
  });
}

// Copies share the channel: each value goes to one of the receivers.
int two_workers_share() {
  weft::Channel<int> jobs{8};
  int done[2] = {};
  weft::nursery([&](weft::Nursery& n) {
    for (int& mine : done)
      n.spawn([&mine, rx = jobs.rx] {
        for (int job : rx) mine += job;
      });
    jobs.rx.drop();  // the workers' are the last ones
    for (int job = 1; job <= 100; ++job)
      if (!jobs.tx.send(job)) break;
    jobs.tx.drop();
  });
  return done[0] + done[1];
}

// ── kinds ───────────────────────────────────────────────────────────────────────────────────────

// The newest three; who is late misses the rest.
std::string last_three() {
  std::string missed;
  weft::Channel<char> news{{.capacity = 3,
                            .overflow = weft::Overflow::drop_old,
                            .on_undelivered = [&](char&& c) { missed += c; }}};
  for (char c : {'a', 'b', 'c', 'd', 'e'}) static_cast<void>(news.tx.send(c));  // never waits
  news.tx.close();
  std::string seen;
  for (char c : news.rx) seen += c;
  return seen + ", missed " + missed;
}

// A request that carries the way for its answer.
struct Request {
  int number;
  weft::Sender<int> answer;
};

int ask_the_server() {
  weft::Channel<Request> requests;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn("server", [rx = std::move(requests.rx)] {
      for (Request& request : rx)
        static_cast<void>(request.answer.send(request.number * request.number));
    });
    auto reply = weft::oneshot<int>();
    if (!requests.tx.send({12, std::move(reply.tx)})) return 0;
    requests.tx.drop();
    return reply.rx.recv().value();  // empty if the server had dropped the request
  });
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

// What was admitted comes first, then why there is no more.
std::string drained_then_thrown() {
  weft::Channel<int> lines{8};
  static_cast<void>(lines.tx.send(1));
  static_cast<void>(lines.tx.send(2));
  lines.tx.close(std::make_exception_ptr(std::runtime_error{"disk on fire"}));
  std::string seen;
  try {
    for (int line : lines.rx) seen += std::to_string(line) + ", ";
  } catch (const std::runtime_error& error) {
    seen += error.what();
  }
  return seen;
}

// abort() does not let receivers drain.
std::string aborted() {
  int undelivered = 0;
  weft::Channel<int> lines{{.capacity = 8, .on_undelivered = [&](int&&) { ++undelivered; }}};
  static_cast<void>(lines.tx.send(1));
  static_cast<void>(lines.tx.send(2));
  lines.tx.abort(std::make_exception_ptr(std::runtime_error{"disk on fire"}));
  try {
    static_cast<void>(lines.rx.recv());
  } catch (const std::runtime_error& error) {
    return std::to_string(undelivered) + " undelivered, " + error.what();
  }
  return "unreachable";
}

// A send that fails leaves the value where it was.
std::string kept() {
  weft::Channel<std::unique_ptr<std::string>> letters;
  letters.rx.drop();  // nobody receives
  auto letter = std::make_unique<std::string>("dear reader");
  if (letters.tx.send(std::move(letter))) return "sent";
  return *letter;
}

// ── waiting ─────────────────────────────────────────────────────────────────────────────────────

std::string impatient() {
  weft::Channel<int> slow;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn([tx = std::move(slow.tx)] {
      weft::sleep_for(1s);
      static_cast<void>(tx.send(42));
    });
    std::string seen;
    for (;;) {
      weft::Received<int> got = slow.rx.recv_for(300ms);
      switch (got.status()) {
        case weft::RecvStatus::value: seen += std::to_string(*got) + ", "; break;
        case weft::RecvStatus::timed_out: seen += "nothing yet, "; break;
        default: return seen + std::string{weft::to_string(got.status())};
      }
    }
  });
}

// Sends against time-outs and a receiver that leaves in the middle: each value is in one place.
bool nothing_is_lost() {
  int sent = 0;
  int kept = 0;
  int received = 0;
  int undelivered = 0;
  weft::Channel<int> busy{{.capacity = 2, .on_undelivered = [&](int&&) { ++undelivered; }}};
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&, tx = std::move(busy.tx)] {
      for (int i = 0; i < 100; ++i) {
        const weft::SendStatus status = tx.send_for(i, 3ms);
        ++(status == weft::SendStatus::ok ? sent : kept);  // kept: timed out, or nobody is there
      }
    });
    n.spawn([&, rx = std::move(busy.rx)] {
      static_cast<void>(weft::timeout(100ms, [&] {
        for (;; weft::sleep_for(5ms))
          if (rx.recv_for(2ms)) ++received;
      }));
    });
  });
  return sent + kept == 100 && sent == received + undelivered;
}

// ── threads ─────────────────────────────────────────────────────────────────────────────────────

// One side is a plain thread; the code is the same on both.
int from_a_thread() {
  weft::Channel<int> readings{4};
  std::jthread sensor{[tx = std::move(readings.tx)] {
    for (int i = 1; i <= 100; ++i)
      if (!tx.send(i)) return;  // sleeps in the kernel while the buffer is full
  }};
  return weft::run([&] {
    int sum = 0;
    for (int reading : readings.rx) sum += reading;
    return sum;
  });
}

int main() {
  weft::SimIo io;
  try {
    io.run([] { return forgotten_sender(); });
  } catch (const weft::Deadlock& deadlock) {
    std::puts(deadlock.what());
  }
  io.run([] {
    std::printf("sum of three %d\n", sum_of_three());
    std::printf("two workers share %d\n", two_workers_share());
    std::printf("last three: %s\n", last_three().c_str());
    std::printf("ask the server: %d\n", ask_the_server());
    std::printf("drained, then thrown: %s\n", drained_then_thrown().c_str());
    std::printf("aborted: %s\n", aborted().c_str());
    std::printf("kept: %s\n", kept().c_str());
    std::printf("impatient: %s\n", impatient().c_str());
    std::printf("nothing is lost: %s\n", nothing_is_lost() ? "true" : "false");
  });
  std::printf("from a thread: %d\n", from_a_thread());
}
