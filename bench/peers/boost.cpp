// Boost.Fiber peer. usage: boost <workload> <workers> <rr|ws|sw> [stack bytes]
// rr = round_robin (1 thread), ws = work_stealing, sw = shared_work. The default stack is that of
// the traits (128 KiB, malloc). No select, no cancellation, no sockets in Boost.Fiber: those
// workloads are absent (cancel_100k = channel close).
#include <atomic>
#include <boost/fiber/all.hpp>
#include <thread>
#include "bench.hpp"

namespace bf = boost::fibers;
using Chan = bf::unbuffered_channel<long>;
static size_t g_stack = bf::fixedsize_stack::traits_type::default_size();

template <class F>
bf::fiber go(F&& f) {
  return bf::fiber(std::allocator_arg, bf::fixedsize_stack(g_stack), std::forward<F>(f));
}
using Fibers = std::vector<bf::fiber>;
static void join(Fibers& v) {
  for (auto& f : v) f.join();
  v.clear();
}

// counts down from n across fibers; the waiter parks
struct Latch {
  std::atomic<long> left;
  bf::mutex m;
  bf::condition_variable cv;
  explicit Latch(long n) : left(n) {}
  void done() {
    if (left.fetch_sub(1) == 1) {
      std::lock_guard l(m);
      cv.notify_all();
    }
  }
  void wait() {
    std::unique_lock l(m);
    cv.wait(l, [&] { return left.load() == 0; });
  }
};

static void yields(int n, int total) {
  Fibers v;
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    v.push_back(go([=] {
      for (int j = 0; j < total / n; ++j) boost::this_fiber::yield();
    }));
  join(v);
  per_op("yield_" + std::to_string(n), t, total);
}

static void spawn() {
  constexpr int seq = 100000, batch = 100000;
  auto t = clk::now();
  for (int i = 0; i < seq; ++i) go([] {}).join();
  per_op("spawn_seq", t, seq);
  for (auto m : {"spawn_batch_cold", "spawn_batch"}) {
    t = clk::now();
    Fibers v;
    v.reserve(batch);
    for (int i = 0; i < batch; ++i) v.push_back(go([] {}));
    join(v);
    per_op(m, t, batch);
  }
}

static void pingpong() {
  constexpr int n = 500000;
  Chan a, b;
  auto f = go([&] {
    long v;
    while (a.pop(v) == bf::channel_op_status::success) b.push(v);
  });
  auto t = clk::now();
  for (int i = 0; i < n; ++i) {
    a.push(i);
    b.value_pop();
  }
  per_op("pingpong", t, n);
  a.close();
  f.join();
}

static void buffered(int k, int total) {
  bf::buffered_channel<long> c(128);
  Fibers p, q;
  auto t = clk::now();
  for (int i = 0; i < k; ++i) {
    p.push_back(go([&] {
      for (int j = 0; j < total / k; ++j) c.push(j);
    }));
    q.push_back(go([&] {
      long v;
      while (c.pop(v) == bf::channel_op_status::success) {
      }
    }));
  }
  join(p);
  c.close();
  join(q);
  per_op("buf_" + std::to_string(k) + "x" + std::to_string(k), t, total);
}

static void ring() {
  constexpr int n = 503, hops = 1000000;
  std::vector<Chan> c(n);
  Latch done(1);
  Fibers v;
  for (int i = 0; i < n; ++i)
    v.push_back(go([&, i] {
      long x;
      while (c[i].pop(x) == bf::channel_op_status::success) {
        if (x == 0) {
          done.done();
          return;
        }
        c[(i + 1) % n].push(x - 1);
      }
    }));
  auto t = clk::now();
  c[0].push(hops);
  done.wait();
  per_op("ring", t, hops);
  for (auto& x : c) x.close();
  join(v);
}

static void skynode(Chan& out, long num, long size) {
  if (size == 1) {
    out.push(num);
    return;
  }
  Chan rc;
  long sum = 0;
  Fibers v;
  for (int i = 0; i < 10; ++i)
    v.push_back(go([&rc, num, size, i] { skynode(rc, num + i * (size / 10), size / 10); }));
  for (int i = 0; i < 10; ++i) sum += rc.value_pop();
  join(v);  // rc lives on this stack
  out.push(sum);
}
static void skynet() {
  auto t = clk::now();
  Chan c;
  auto f = go([&] { skynode(c, 0, 1000000); });
  if (c.value_pop() != 499999500000) std::abort();
  msec("skynet", t);
  f.join();
  emit("skynet_peak", peak_mib(), "MiB");
}

static void mem(const std::string& label, int n) {
  Chan stop;
  Latch up(n);
  Fibers v;
  v.reserve(n);
  double r0 = rss(), p0 = page_tables();
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    v.push_back(go([&] {
      up.done();
      long x;
      stop.pop(x);
    }));
  up.wait();
  per_op("mem_" + label + "_create", t, n);
  emit("mem_" + label, (rss() - r0) / n, "B");
  emit("mem_" + label + "_tables", (page_tables() - p0) / n, "B");
  t = clk::now();
  stop.close();
  join(v);
  per_op("mem_" + label + "_teardown", t, n);
}

static void cancel() {  // nearest: close the channel everyone is blocked on
  constexpr int n = 100000;
  Chan stop;
  Latch up(n), down(n);
  for (int i = 0; i < n; ++i)
    go([&] {
      up.done();
      long x;
      stop.pop(x);
      down.done();
    }).detach();
  up.wait();
  auto t = clk::now();
  stop.close();
  down.wait();
  msec("cancel_100k", t);
  std::_Exit(0);
}

static void sleepers() {
  constexpr int n = 100000;
  std::vector<double> late(n);
  Fibers v;
  v.reserve(n);
  Rng r;
  double c0 = cpu();
  for (int i = 0; i < n; ++i) {
    auto d = std::chrono::milliseconds(1 + r.below(1000));
    v.push_back(go([&late, i, d] {
      auto t = clk::now();
      boost::this_fiber::sleep_for(d);
      late[i] = (secs(t) - std::chrono::duration<double>(d).count()) * 1e3;
    }));
  }
  join(v);
  report_lateness(late, c0);
}

static void mutex(const char* name, int total, bool yield) {
  constexpr int k = 64;
  bf::mutex m;
  long x = 0;
  Fibers v;
  auto t = clk::now();
  for (int i = 0; i < k; ++i)
    v.push_back(go([&] {
      for (int j = 0; j < total / k; ++j) {
        std::lock_guard l(m);
        ++x;
        if (yield) boost::this_fiber::yield();
      }
    }));
  join(v);
  per_op(name, t, total);
}

static long fib(long n) {
  if (n < 2) return n;
  long a;
  auto f = go([&a, n] { a = fib(n - 1); });
  long b = fib(n - 2);
  f.join();
  return a + b;
}
static void forkjoin(int n, double spawns) {
  auto t = clk::now();
  fib(n);
  per_op("fib_" + std::to_string(n), t, spawns);
}

static void sieve() {
  auto t = clk::now();
  auto in = std::make_shared<Chan>();
  go([in] {
    for (long i = 2;; ++i) in->push(i);
  }).detach();
  for (int i = 0; i < 2000; ++i) {
    long p = in->value_pop();
    auto out = std::make_shared<Chan>();
    go([in, out, p] {
      for (;;) {
        long v = in->value_pop();
        if (v % p) out->push(v);
      }
    }).detach();
    in = out;
  }
  msec("sieve", t);
  std::_Exit(0);
}

static void guard() {  // how many guarded stacks before vm.max_map_count (2 mappings each) says no
  Chan stop;
  Fibers v;
  try {
    for (int i = 0; i < 100000; ++i)
      v.emplace_back(std::allocator_arg, bf::protected_fixedsize_stack(g_stack), [&] {
        long x;
        stop.pop(x);
      });
  } catch (std::exception&) {
  }
  emit("guard_limit", v.size(), "fibers");
  std::_Exit(0);
}

static void workload(const std::string& w) {
  if (w == "yield") {
    yields(1, 3000000);
    yields(1000, 3000000);
  } else if (w == "spawn")
    spawn();
  else if (w == "pingpong")
    pingpong();
  else if (w == "buffered") {
    buffered(1, 3000000);
    buffered(4, 3000000);
  } else if (w == "ring")
    ring();
  else if (w == "skynet")
    skynet();
  else if (w == "mem100k")
    mem("100k", 100000);
  else if (w == "mem1m")
    mem("1m", 1000000);
  else if (w == "sleepers")
    sleepers();
  else if (w == "mutex") {
    mutex("mutex", 1000000, false);
    mutex("mutex_yield", 400000, true);
  } else if (w == "fib")
    forkjoin(25, 121392);
  else if (w == "fib30")
    forkjoin(30, 1346268);
  else if (w == "sieve")
    sieve();
  else if (w == "cancel")
    cancel();
  else if (w == "guard")
    guard();
  else
    std::_Exit(2);
}

int main(int, char** argv) {
  std::string w = argv[1], algo = argv[3];
  unsigned n = std::atoi(argv[2]);
  if (argv[4]) g_stack = std::atol(argv[4]);
  auto use = [&] {
    if (algo == "ws") bf::use_scheduling_algorithm<bf::algo::work_stealing>(n, false);
    if (algo == "sw") bf::use_scheduling_algorithm<bf::algo::shared_work>(n > 1);
  };
  Latch end(1);
  std::vector<std::thread> th;
  for (unsigned i = 1; i < n; ++i)
    th.emplace_back([&] {
      use();
      end.wait();
    });
  use();
  go([&] { workload(w); }).join();  // not on the main fiber, which is pinned to its thread
  end.done();
  std::_Exit(0);  // worker threads are parked in the scheduler; nothing left to measure
}
