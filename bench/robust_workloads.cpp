// What others do to a fiber: blocked workers, hogs, herds, neighbours (W15 to W18); an engine that
// has nothing to do; wakes across workers.
//
// Each has an engine of its own. Who disturbs does so until a given time and not until somebody
// stops him, so that every workload ends even if the disturbed never got a turn.
#include "workloads.hpp"

#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/sync.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace weft::bench {
namespace {

using namespace std::chrono_literals;
using Time = RealClock::time_point;

double milliseconds(RealClock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

double percentile(std::vector<double> values, double hundredths) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(hundredths / 100 * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}

// ── W15 and W17: a heart, and those beside it ───────────────────────────────────────────────────

struct Heart {
  long beats = 0;            // in time
  std::vector<double> gaps;  // milliseconds, from the begin on and to the end

  // A beat whenever `next` returns, a millisecond after the last; what was missed is lost.
  template <class Next>
  void beat(Time begin, Time end, Next next) {
    for (Time last = begin; last < end;) {
      next();
      const Time now = RealClock::now();
      beats += now < end;
      gaps.push_back(milliseconds(now - last));
      last = now;
    }
  }
};

void sleep_in_the_kernel(RealClock::duration d) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(d);
  const std::timespec request{.tv_sec = whole.count(), .tv_nsec = (d - whole) / 1ns};
  ::nanosleep(&request, nullptr);
}

// A thread that is nobody's worker, and sends a byte per millisecond until a given time.
class Pulse {
 public:
  Pulse(std::uint16_t port, Time end)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        sender_([this, port, end] { send_until(port, end); }) {}
  ~Pulse() {
    sender_.join();
    ::close(socket_);
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  void send_until(std::uint16_t port, Time end) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (Time next = RealClock::now(); next < end; next = std::max(next, RealClock::now())) {
      if (::send(socket_, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) break;
      next += 1ms;
      sleep_in_the_kernel(next - RealClock::now());
    }
    ::shutdown(socket_, SHUT_WR);
  }

  const int socket_;
  std::thread sender_;
};

enum class Beats { by_ticker, by_socket };

// A heart beside `count` fibers that call `disturb(end)`.
template <class F>
Heart heart_beside(unsigned workers, unsigned count, F disturb, Beats beats = Beats::by_ticker) {
  Heart heart;
  const auto by_ticker = [&heart](Time begin, Time end) {
    Ticker ticker{1ms};
    heart.beat(begin, end, [&] { ticker.next(); });
  };
  const auto by_socket = [&heart](Time begin, Time end) {
    const net::TcpListener listener = net::listen({"127.0.0.1", 0}).value();
    const Pulse pulse{listener.port(), end};
    const net::TcpStream peer = listener.accept().value();
    std::array<std::byte, 64> bytes{};
    heart.beat(begin, end, [&] {
      if (peer.read_some(bytes).value().empty()) sleep_for(1ms);  // it has ended; so do we soon
    });
  };
  // The default but with one worker, which otherwise stays the only one.
  FiberIo io{Options{.workers = workers, .max_workers = 2 * workers}};
  io.run([&] {
    nursery([&](Nursery& n) {
      const Time begin = RealClock::now();
      const Time end = begin + lasting(2s);
      n.spawn([&, begin, end] {
        beats == Beats::by_ticker ? by_ticker(begin, end) : by_socket(begin, end);
      });
      for (unsigned i = 0; i < count; ++i) n.spawn([disturb, end] { disturb(end); });
    });
  });
  return heart;
}

// One call after another, 50 ms each; the others get a turn in between.
template <class Call>
void sit_in_calls(Time end, Call call) {
  for (Time now = RealClock::now(); now < end; now = RealClock::now()) {
    call(std::min<RealClock::duration>(50ms, end - now));
    this_fiber::yield();
  }
}
void without_asking(Time end) { sit_in_calls(end, sleep_in_the_kernel); }
void by_blocking(Time end) {
  sit_in_calls(end, [](RealClock::duration d) { blocking([d] { sleep_in_the_kernel(d); }); });
}

// Shares of the wakes that a heart keeps, of those of one that nobody disturbs.
void kidnap(unsigned workers, Beats by, const std::string& suffix) {
  const auto beats = [&](unsigned count, void (*disturb)(Time)) {
    return static_cast<double>(heart_beside(workers, count, disturb, by).beats);
  };
  const double before = beats(0, without_asking);
  const double half = beats((workers + 1) / 2, without_asking);
  const double all = beats(workers, without_asking);
  const double asked = by == Beats::by_ticker ? beats(workers, by_blocking) : 0;
  const double undisturbed = std::max(before, beats(0, without_asking));
  expect(undisturbed > 0, "kidnap: no heartbeat");
  emit("kidnap_half" + suffix, 100 * half / undisturbed, "% kept");
  emit("kidnap_all" + suffix, 100 * all / undisturbed, "% kept");
  if (by == Beats::by_ticker) emit("kidnap_all_asked", 100 * asked / undisturbed, "% kept");
}

void compute_until(Time end) {
  while (RealClock::now() < end) {}
}

void hogs(unsigned workers) {
  const Heart heart = heart_beside(workers, workers, compute_until);
  expect(!heart.gaps.empty(), "hogs: no gap, not even from begin to end");
  emit("hogs_gap_p99", percentile(heart.gaps, 99), "ms");
  emit("hogs_gap_max", *std::max_element(heart.gaps.begin(), heart.gaps.end()), "ms");
}

// ── W16 ─────────────────────────────────────────────────────────────────────────────────────────

constexpr long kHerd = 10'000;
constexpr long kReleases = 20'000;

// The woken goes back to the end of the line: everybody is parked, and each wake is another's.
void herd_on_a_semaphore() {
  const long releases = scaled(kReleases);
  Semaphore gate{0}, ran{0};
  std::atomic<bool> over{false};
  std::atomic<long> up{0}, came_through{0};
  Time woken;  // the semaphore orders it
  std::vector<double> waited;
  nursery([&](Nursery& n) {
    const long herd = scaled(kHerd);
    for (long i = 0; i < herd; ++i)
      n.spawn([&] {
        ++up;
        for (;;) {
          gate.acquire();
          if (over.load(std::memory_order_relaxed)) return;
          woken = RealClock::now();
          came_through.fetch_add(1, std::memory_order_relaxed);
          ran.release();
        }
      });
    while (up < herd) sleep_for(1ms);
    sleep_for(lasting(100ms));  // until they are parked
    for (long i = 0; i < releases; ++i) {
      const Time released = RealClock::now();
      gate.release();
      ran.acquire();
      waited.push_back(milliseconds(woken - released) * 1e6);
    }
    expect(came_through == releases && gate.available() == 0, "herd: one for each permit");
    over = true;
    gate.release(static_cast<std::size_t>(herd));
  });
  emit("herd_wake", percentile(waited, 50), "ns");
  emit("herd_wake_p99", percentile(waited, 99), "ns");
}

// The same through a condition, where one can count who was woken, and not only who was served.
void herd_on_a_condition() {
  const long releases = scaled(kReleases);
  Mutex mutex;
  CondVar condition;
  long waiting = 0, permits = 0, wakes = 0, served = 0;  // under the mutex
  bool over = false;
  Semaphore ran{0};
  nursery([&](Nursery& n) {
    const long herd = scaled(kHerd);
    for (long i = 0; i < herd; ++i)
      n.spawn([&] {
        std::unique_lock lock{mutex};
        ++waiting;
        for (;;) {
          while (permits == 0 && !over) {
            condition.wait(lock);
            ++wakes;
          }
          if (over) return;
          --permits;
          ++served;
          ran.release();
        }
      });
    const auto all_wait = [&] {
      const std::scoped_lock lock{mutex};
      return waiting >= herd;
    };
    while (!all_wait()) sleep_for(1ms);
    for (long i = 0; i < releases; ++i) {
      {
        const std::scoped_lock lock{mutex};
        ++permits;
      }
      condition.notify_one();
      ran.acquire();
    }
    const std::scoped_lock lock{mutex};
    expect(served == releases, "herd: one for each permit");
    emit("herd_wakes", static_cast<double>(wakes) / static_cast<double>(releases), "wakes");
    over = true;
    condition.notify_all();
  });
}

// ── W18 ─────────────────────────────────────────────────────────────────────────────────────────

// Seconds of one pipeline: a source, four stages that add one, and a sink.
double pipeline(long items) {
  constexpr int kStages = 4;
  std::uint64_t sum = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      Channel<std::uint64_t> in{128};
      n.spawn([tx = std::move(in.tx), items] {
        for (long i = 0; i < items; ++i)
          if (!tx.send(static_cast<std::uint64_t>(i))) return;
      });
      Receiver<std::uint64_t> from = std::move(in.rx);
      for (int stage = 0; stage < kStages; ++stage) {
        Channel<std::uint64_t> to{128};
        n.spawn([rx = std::move(from), tx = std::move(to.tx)] {
          while (const auto v = rx.recv())
            if (!tx.send(*v + 1)) return;
        });
        from = std::move(to.rx);
      }
      while (const auto v = from.recv()) sum += *v;
    });
  });
  const auto count = static_cast<std::uint64_t>(items);
  expect(sum == count * (count - 1) / 2 + count * kStages, "isolation");
  return s;
}

// Of a pipeline, the mean of several side by side: how long they take, and how much CPU.
struct Pipelines {
  std::vector<double> took, used;

  void run(unsigned count, long items) {
    std::vector<double> each_took(count);
    const double before = cpu_seconds();
    nursery([&](Nursery& n) {
      for (double& mine : each_took) n.spawn([&mine, items] { mine = pipeline(items); });
    });
    used.push_back((cpu_seconds() - before) / count);
    took.push_back(std::accumulate(each_took.begin(), each_took.end(), 0.0) / count);
  }
};

void isolation(unsigned workers) {
  const long items = scaled(500'000);
  Pipelines{}.run(workers, items);  // warm
  Pipelines alone, together;
  for (int i = 0; i < 5; ++i) {
    alone.run(1, items);
    together.run(workers, items);
  }
  const auto more = [](const std::vector<double>& with, const std::vector<double>& without) {
    return 100 * (percentile(with, 50) / percentile(without, 50) - 1);
  };
  emit("isolation_item", each(percentile(alone.took, 50), items), "ns");
  emit("isolation", more(together.took, alone.took), "%");
  emit("isolation_cpu", more(together.used, alone.used), "%");
}

// ── nothing to do ───────────────────────────────────────────────────────────────────────────────

// Of all threads but this one, which sleeps and looks.
long voluntary_switches() {
  rusage all{}, own{};
  ::getrusage(RUSAGE_SELF, &all);
  ::getrusage(RUSAGE_THREAD, &own);
  return all.ru_nvcsw - own.ru_nvcsw;
}

// One fiber, parked, and all workers asleep.
void idle(unsigned workers) {
  Event over;
  std::thread engine{[&] {
    FiberIo io{Options{.workers = workers}};  // this thread could wake it: no deadlock
    io.run([&] { over.wait(); });
  }};
  sleep_in_the_kernel(300ms);  // until they sleep
  const auto length = lasting(3s);
  const long before = voluntary_switches();
  sleep_in_the_kernel(length);
  const long after = voluntary_switches();
  over.set();
  engine.join();
  emit("idle_switches", static_cast<double>(after - before) * 1e3 / milliseconds(length), "1/s");
}

// ── wakes across workers ────────────────────────────────────────────────────────────────────────

// On each worker a captain with a crew that stays there. A captain wakes the crew of the next, one
// after another, and waits until the last of them has run.
class WakeStorm {
 public:
  WakeStorm(unsigned workers, long wakes)
      : crews_(workers), rounds_(std::max(1L, wakes / (workers * kCrew))) {
    for (auto& crew : crews_) crew = std::make_unique<Crew>();
  }

  double run() {
    nursery({.migration = Migration::until_started}, [&](Nursery& n) {
      for (std::size_t i = 0; i < crews_.size(); ++i) n.spawn([this, i] { captain(i); });
    });
    for (const auto& crew : crews_)
      for (const Hand& hand : crew->hands)
        expect(hand.woken == rounds_ && hand.call.available() == 0, "wake_storm: each once");
    const Time end = *std::max_element(ends_.begin(), ends_.end());
    return std::chrono::duration<double>(end - begin_.load()).count();
  }
  [[nodiscard]] long wakes() const {
    return static_cast<long>(crews_.size()) * kCrew * rounds_;
  }

 private:
  static constexpr long kCrew = 64;
  struct Hand {
    Semaphore call{0};
    long woken = 0;
  };
  struct Crew {
    std::vector<Hand> hands{static_cast<std::size_t>(kCrew)};
    std::atomic<long> to_go{0};
    Semaphore all_ran{0};
  };

  void captain(std::size_t mine) {
    // Nobody goes on before there is one on each worker.
    started_.fetch_add(1);
    while (started_ < crews_.size()) std::this_thread::yield();
    Crew& own = *crews_[mine];
    Crew& next = *crews_[(mine + 1) % crews_.size()];
    nursery({.migration = Migration::pinned}, [&](Nursery& n) {
      for (Hand& hand : own.hands) n.spawn([this, &own, &hand] { serve(own, hand); });
      if (ready_.fetch_add(1) + 1 == crews_.size()) {
        begin_ = RealClock::now();
        all_ready_.set();
      }
      all_ready_.wait();
      for (long i = 0; i < rounds_; ++i) {
        next.to_go = kCrew;
        for (Hand& hand : next.hands) hand.call.release();
        next.all_ran.acquire();
      }
    });
    ends_[mine] = RealClock::now();
  }

  void serve(Crew& own, Hand& hand) const {
    for (; hand.woken < rounds_; ++hand.woken) {
      hand.call.acquire();
      if (own.to_go.fetch_sub(1) == 1) own.all_ran.release();
    }
  }

  std::vector<std::unique_ptr<Crew>> crews_;
  const long rounds_;
  std::vector<Time> ends_ = std::vector<Time>(crews_.size());
  std::atomic<std::size_t> started_{0}, ready_{0};
  Event all_ready_;
  std::atomic<Time> begin_{Time{}};
};

void wake_storm(unsigned workers) {
  WakeStorm storm{workers, scaled(1'000'000)};
  const double s = storm.run();
  emit("wake_storm", each(s, storm.wakes()), "ns");
}

}  // namespace

bool run_robust_workload(std::string_view workload, unsigned workers) {
  const auto inside = [=](auto f) { FiberIo{Options{.workers = workers}}.run(f); };
  if (workload == "kidnap") {
    kidnap(workers, Beats::by_ticker, "");
    kidnap(workers, Beats::by_socket, "_socket");
  } else if (workload == "hogs") {
    hogs(workers);
  } else if (workload == "herd") {
    inside(herd_on_a_semaphore);
    inside(herd_on_a_condition);
  } else if (workload == "idle") {
    idle(workers);
  } else if (workload == "isolation" && workers > 1) {
    inside([=] { isolation(workers); });
  } else if (workload == "wake_storm" && workers > 1) {
    inside([=] { wake_storm(workers); });
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::bench
