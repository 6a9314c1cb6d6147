// weft's side of the workloads: `weft-bench <workload> <workers> [port]` prints "metric value unit"
// lines. Exit status 2: a workload this version does not offer, or this machine does not allow.
//
// WEFT_BENCH_SCALE, a number up to 1, makes every count smaller: to see that it runs, not how fast.
// Every workload checks its result; where the check itself would cost something, it has a round of
// its own that is not timed.
#include "count.hpp"
#include "workloads.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace weft::bench;

// ── W1 ──────────────────────────────────────────────────────────────────────────────────────────

void yields(long fibers, long total) {
  const long rounds = std::max(1L, total / fibers);
  std::atomic<long> done{0};
  const double s = seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (long i = 0; i < fibers; ++i)
        n.spawn([&done, rounds] {
          for (long j = 0; j < rounds; ++j) weft::this_fiber::yield();
          done.fetch_add(rounds, std::memory_order_relaxed);
        });
    });
  });
  expect(done == rounds * fibers, "yields");
  emit("yield_" + std::to_string(fibers), each(s, rounds * fibers), "ns");
}

// ── W2 ──────────────────────────────────────────────────────────────────────────────────────────

void spawn_one_by_one(long total) {
  long ran = 0;  // there is one child at a time, and the join orders them
  const double s = seconds([&] {
    for (long i = 0; i < total; ++i)
      weft::nursery([&](weft::Nursery& n) { n.spawn([&ran] { ++ran; }); });
  });
  expect(ran == total, "spawn_seq");
  emit("spawn_seq", each(s, total), "ns");
}

template <class Body>
double batch(long total, Body body) {
  return seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (long i = 0; i < total; ++i) n.spawn(body);
    });
  });
}

// Empty children, as the peers have: one word that all of them count in would be most of the price.
void spawn_batches(long total) {
  emit("spawn_batch_cold", each(batch(total, [] {}), total), "ns");
  for (int i = 0; i < 4; ++i) emit("spawn_batch", each(batch(total, [] {}), total), "ns");
  std::atomic<long> ran{0};
  batch(total, [&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
  expect(ran == total, "spawn_batch");
}

// The same with a result: a future, which is shared with the child, on top.
void async_one_by_one(long total) {
  long sum = 0;
  const double s = seconds([&] {
    for (long i = 0; i < total; ++i)
      sum += weft::nursery([i](weft::Nursery& n) { return n.async([i] { return i & 1; }).get(); });
  });
  expect(sum == total / 2, "async_seq");
  emit("async_seq", each(s, total), "ns");
}

// ── two fibers ──────────────────────────────────────────────────────────────────────────────────

// They wake each other through events: one round trip is two parks and two wakes.
void event_ping_pong(long rounds) {
  weft::Event there, back;
  long answered = 0;
  const double s = seconds([&] {
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([&, rounds] {
        for (long i = 0; i < rounds; ++i) {
          there.wait();
          there.reset();
          ++answered;
          back.set();
        }
      });
      for (long i = 0; i < rounds; ++i) {
        there.set();
        back.wait();
        back.reset();
      }
    });
  });
  expect(answered == rounds, "event_pingpong");
  emit("event_pingpong", each(s, rounds), "ns");
}

// ── W8 ──────────────────────────────────────────────────────────────────────────────────────────

// Everybody waits for one event. Every stack has its guard: there is no other kind.
void parked(const std::string& label, long count) {
  std::atomic<long> up{0};
  std::atomic<long> ended{0};
  weft::Event all_up, go;
  const Memory before = Memory::now();
  double create = 0;
  Memory during;
  auto woken_at = RealClock::now();
  weft::nursery([&](weft::Nursery& n) {
    create = seconds([&] {
      for (long i = 0; i < count; ++i)
        n.spawn([&, count] {
          if (up.fetch_add(1, std::memory_order_relaxed) + 1 == count) all_up.set();
          go.wait();
          ended.fetch_add(1, std::memory_order_relaxed);
        });
      all_up.wait();
    });
    during = Memory::now();
    woken_at = RealClock::now();
    go.set();
  });
  const double end = std::chrono::duration<double>(RealClock::now() - woken_at).count();
  expect(ended == count, "mem_" + label);
  const auto bytes_each = [&](double bytes) { return bytes / static_cast<double>(count); };
  emit("mem_" + label, bytes_each(during.resident - before.resident), "B");
  emit("mem_" + label + "_tables", bytes_each(during.page_tables - before.page_tables), "B");
  emit("mem_" + label + "_create", each(create, count), "ns");
  emit("mem_" + label + "_teardown", each(end, count), "ns");
}

// ── W9 ──────────────────────────────────────────────────────────────────────────────────────────

// Each fiber measures how much later than asked for it went on.
void sleepers(long count) {
  std::vector<double> late(static_cast<std::size_t>(count));
  std::mt19937 random{1};
  const double before = cpu_seconds();
  weft::nursery([&](weft::Nursery& n) {
    for (double& at : late) {
      const weft::Duration d = std::chrono::milliseconds{1 + random() % 1000};
      n.spawn([&at, d] {
        const weft::Instant begin = weft::Clock::now();
        weft::sleep_for(d);
        at = static_cast<double>((weft::Clock::now() - begin - d).count()) / 1e6;
      });
    }
  });
  emit("sleep_cpu", (cpu_seconds() - before) * 1e3, "ms");
  expect(*std::min_element(late.begin(), late.end()) >= 0, "sleepers: one was early");
  emit("sleep_late_mean", std::accumulate(late.begin(), late.end(), 0.0) / double(count), "ms");
  emit("sleep_late_max", *std::max_element(late.begin(), late.end()), "ms");
}

class Silent final : public weft::Timer {
 public:
  ~Silent() = default;

 private:
  void fire(weft::Fired&) noexcept override {}
};

void timers(long count) {
  long ended = 0;
  const double one_by_one = seconds([&] {
    for (long i = 0; i < count; ++i) ended += weft::timeout(std::chrono::hours{1}, [] {});
  });
  expect(ended == count, "timer_seq");
  emit("timer_seq", each(one_by_one, count), "ns");

  std::vector<weft::Duration> delays;  // drawn before: random numbers are not what is measured
  std::mt19937 random{1};
  for (long i = 0; i < count; ++i)
    delays.push_back(std::chrono::hours{1} + std::chrono::milliseconds{random() % 1000});
  std::deque<Silent> all(static_cast<std::size_t>(count));
  weft::Io& io = weft::io();
  const double bulk = seconds([&] {
    auto delay = delays.begin();
    for (Silent& timer : all) {
      timer.when = io.now() + *delay++;
      io.arm(timer);
    }
    for (Silent& timer : all) io.disarm(timer);
  });
  emit("timer_bulk", each(bulk, count), "ns");
}

// ── W14 ─────────────────────────────────────────────────────────────────────────────────────────

struct Unwound {
  std::atomic<long>& count;
  ~Unwound() { count.fetch_add(1, std::memory_order_relaxed); }
};

// All of them parked, then told to stop at once: until the last one has ended.
void cancel_parked(const std::string& label, long count, bool by_exception) {
  std::atomic<long> up{0}, ended{0};
  weft::Event all_up, never;
  auto told_at = RealClock::now();
  weft::nursery([&](weft::Nursery& n) {
    for (long i = 0; i < count; ++i)
      n.spawn([&, count, by_exception] {
        const Unwound unwound{ended};
        if (up.fetch_add(1, std::memory_order_relaxed) + 1 == count) all_up.set();
        if (by_exception) never.wait();
        else expect(!never.wait(weft::no_throw), "cancel");
      });
    all_up.wait();
    told_at = RealClock::now();
    n.cancel();
  });
  const double s = std::chrono::duration<double>(RealClock::now() - told_at).count();
  expect(ended == count, "cancel: all have ended");
  emit("cancel_" + label + (by_exception ? "_unwound" : ""), s * 1e3, "ms");
}

// ── W11 ─────────────────────────────────────────────────────────────────────────────────────────

long fib(long n) {  // NOLINT(misc-no-recursion)
  if (n < 2) return n;
  long a = 0;
  long b = 0;
  weft::nursery([&](weft::Nursery& both) {
    both.spawn([&a, n] { a = fib(n - 1); });
    b = fib(n - 2);
  });
  return a + b;
}

void fork_join(long n) {
  long before = 0;  // fib(n), without fibers
  long result = 1;
  for (long i = 1; i < n; ++i) before = std::exchange(result, result + before);
  long seen = 0;
  const double s = seconds([&] { seen = fib(n); });
  expect(seen == result, "fib");
  // One spawn for each call with n of 2 or more: fib(n + 1) - 1 of them.
  emit("fib_" + std::to_string(n), each(s, result + before - 1), "ns");
}

// ────────────────────────────────────────────────────────────────────────────────────────────────

bool run_workload(std::string_view workload) {
  const bool tiny = scale < 1;
  if (workload == "yield") {
    yields(1, scaled(10'000'000));
    yields(1000, scaled(10'000'000));
  } else if (workload == "spawn") {
    spawn_one_by_one(scaled(3'000'000));
    spawn_batches(scaled(100'000));
    async_one_by_one(scaled(1'000'000));
  } else if (workload == "sleepers") {
    sleepers(scaled(100'000));
  } else if (workload == "timers") {
    timers(scaled(1'000'000));
  } else if (workload == "cancel") {
    cancel_parked("100k", scaled(100'000), false);
    cancel_parked("100k", scaled(100'000), true);
  } else if (workload == "cancel1m") {
    cancel_parked("1m", scaled(1'000'000), false);
  } else if (workload == "event") {
    event_ping_pong(scaled(2'000'000));
  } else if (workload == "mem100k") {
    parked("100k", scaled(100'000));
  } else if (workload == "mem1m") {
    parked("1m", scaled(1'000'000));
  } else if (workload == "fib") {
    fork_join(tiny ? 10 : 25);
  } else if (workload == "fib30") {
    fork_join(tiny ? 15 : 30);
  } else {
    return run_flow_workload(workload) || run_lock_workload(workload) ||
           run_stream_workload(workload);
  }
  return true;
}

// By what this engine waits for sockets: "epoll". WEFT_IO asks for another one.
int print_reactor() {
  const auto reactor = weft::FiberIo{}.run([] { return weft::io().reactor(); });
  std::printf("%s\n", reactor ? std::string{reactor->kind()}.c_str() : "none");
  return 0;
}

int refuse(const char* why) {
  std::fprintf(stderr,
               "weft-bench: %s\n"
               "usage: weft-bench yield|spawn|event|pingpong|buffered|select|ring|skynet|sieve|\n"
               "                  pipeline|parmap|mem100k|mem1m|sleepers|timers|cancel|cancel1m|\n"
               "                  mutex|fib|fib30|kidnap|herd|hogs|isolation|idle|wake_storm|\n"
               "                  sim|echo|http|idle_connections [workers] [port]\n"
               "       weft-bench --build | --reactor\n",
               why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) return refuse("a workload, the number of workers, and no more");
  if (argc == 2 && std::string_view{argv[1]} == "--build") return weft::bench::print_build();
  char* end = nullptr;
  const unsigned long workers = argc > 2 ? std::strtoul(argv[2], &end, 10) : 1;
  if (argc > 2 && (end == argv[2] || *end != '\0' || workers == 0 || workers > 1024))
    return refuse("the number of workers is 1 to 1024");
  const unsigned long port = argc > 3 ? std::strtoul(argv[3], &end, 10) : 0;
  if (argc > 3 && (end == argv[3] || *end != '\0' || port > 65535))
    return refuse("a port is 1 to 65535; 0: any");
  if (const char* const text = std::getenv("WEFT_BENCH_SCALE")) {
    scale = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(scale > 0 && scale <= 1))
      return refuse("WEFT_BENCH_SCALE is a number above 0, and 1 at most");
  }
  try {
    if (std::string_view{argv[1]} == "--reactor") return print_reactor();
    if (run_net_workload(argv[1], static_cast<unsigned>(workers), static_cast<std::uint16_t>(port)))
      return 0;
    if (run_robust_workload(argv[1], static_cast<unsigned>(workers))) return 0;
    if (run_sim_workload(argv[1], static_cast<unsigned>(workers))) return 0;
    weft::FiberIo io{weft::Options{.workers = static_cast<unsigned>(workers)}};
    return io.run([&] { return run_workload(argv[1]); }) ? 0 : 2;
  } catch (const NotHere& why) {
    std::fprintf(stderr, "weft-bench: %s\n", why.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft-bench: %s\n", error.what());
    return 1;
  }
}
