// std::thread peer, for scale: one kernel thread per "fiber". usage: threads <workload> <cores>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <time.h>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <thread>
#include "bench.hpp"

using Threads = std::vector<std::thread>;
static void join(Threads& v) {
  for (auto& t : v) t.join();
  v.clear();
}

static void yields(int n, int total) {
  Threads v;
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    v.emplace_back([=] {
      for (int j = 0; j < total / n; ++j) std::this_thread::yield();
    });
  join(v);
  per_op("yield_" + std::to_string(n), t, total);
}
static void spawn() {
  constexpr int seq = 10000;
  auto t = clk::now();
  for (int i = 0; i < seq; ++i) std::thread([] {}).join();
  per_op("spawn_seq", t, seq);
}
static void pingpong() {  // binary_semaphore pair = futex rendezvous
  constexpr int n = 50000;
  std::binary_semaphore a{0}, b{0};
  std::thread th([&] {
    for (int i = 0; i < n; ++i) {
      a.acquire();
      b.release();
    }
  });
  auto t = clk::now();
  for (int i = 0; i < n; ++i) {
    a.release();
    b.acquire();
  }
  per_op("pingpong", t, n);
  th.join();
}
struct Queue {
  std::mutex m;
  std::condition_variable nf, ne;
  uint64_t buf[128];
  unsigned h = 0, n = 0;
  bool closed = false;
  void push(uint64_t v) {
    std::unique_lock l(m);
    nf.wait(l, [&] { return n < 128; });
    buf[(h + n++) % 128] = v;
    l.unlock();
    ne.notify_one();
  }
  bool pop(uint64_t& v) {
    std::unique_lock l(m);
    ne.wait(l, [&] { return n || closed; });
    if (!n) return false;
    v = buf[h];
    h = (h + 1) % 128;
    --n;
    l.unlock();
    nf.notify_one();
    return true;
  }
};
static void buffered(int k, int total) {
  Queue c;
  Threads p, q;
  auto t = clk::now();
  for (int i = 0; i < k; ++i) {
    p.emplace_back([&] {
      for (int j = 0; j < total / k; ++j) c.push(j);
    });
    q.emplace_back([&] {
      uint64_t v;
      while (c.pop(v)) {
      }
    });
  }
  join(p);
  {
    std::lock_guard l(c.m);
    c.closed = true;
  }
  c.ne.notify_all();
  join(q);
  per_op("buf_" + std::to_string(k) + "x" + std::to_string(k), t, total);
}
static void ring() {
  constexpr int n = 503, hops = 100000;
  std::vector<std::binary_semaphore*> s;
  for (int i = 0; i < n; ++i) s.push_back(new std::binary_semaphore(0));
  std::binary_semaphore done{0};
  static int token = hops;
  for (int i = 0; i < n; ++i)
    std::thread([&, i] {
      for (;;) {
        s[i]->acquire();
        if (token-- == 0) {
          done.release();
          return;
        }
        s[(i + 1) % n]->release();
      }
    }).detach();
  auto t = clk::now();
  s[0]->release();
  done.acquire();
  per_op("ring", t, hops);
  std::_Exit(0);
}
static void mem() {  // 10k only
  constexpr int n = 10000;
  std::counting_semaphore<> stop{0};
  std::atomic<int> up{0};
  Threads v;
  double r0 = rss();
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    v.emplace_back([&] {
      ++up;
      stop.acquire();
    });
  while (up < n) std::this_thread::yield();
  per_op("mem_10k_create", t, n);
  emit("mem_10k", (rss() - r0) / n, "B");
  t = clk::now();
  stop.release(n);
  join(v);
  per_op("mem_10k_teardown", t, n);
}
static void mutex() {
  constexpr int k = 64, total = 1000000;
  std::mutex m;
  long x = 0;
  Threads v;
  auto t = clk::now();
  for (int i = 0; i < k; ++i)
    v.emplace_back([&] {
      for (int j = 0; j < total / k; ++j) {
        std::lock_guard l(m);
        ++x;
      }
    });
  join(v);
  per_op("mutex", t, total);
}
// ---- W15 and W17: a heart, and those beside it. There are no workers: each is a thread.
using ms = std::chrono::duration<double, std::milli>;
static double percentile(std::vector<double> v, double hundredths) {
  std::sort(v.begin(), v.end());
  return v[std::min(size_t(hundredths / 100 * double(v.size())), v.size() - 1)];
}
static void sleep_until(clk::time_point at) {
  auto ns = std::chrono::nanoseconds(at.time_since_epoch()).count();
  timespec t{ns / 1000000000, ns % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
}
struct Heart {
  long beats = 0;
  std::vector<double> gaps;
  void beat(clk::time_point begin, clk::time_point end) {  // what was missed is lost
    constexpr std::chrono::milliseconds period(1);
    auto due = begin;
    for (auto last = begin; last < end;) {
      auto now = clk::now();
      due += std::max<clk::rep>(1, (now - due) / period + 1) * period;
      sleep_until(due);
      now = clk::now();
      beats += now < end;
      gaps.push_back(ms(now - last).count());
      last = now;
    }
  }
};
// The heart of a socket: one thread sends a byte per millisecond, another one reads.
static void beat_by_socket(Heart& h, clk::time_point begin, clk::time_point end) {
  int s[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) std::_Exit(3);
  std::thread sender([=] {
    for (auto due = begin; clk::now() < end; sleep_until(due)) {
      if (write(s[1], "", 1) != 1) std::_Exit(3);
      due = std::max(due, clk::now()) + std::chrono::milliseconds(1);
    }
    close(s[1]);
  });
  char bytes[64];
  for (auto last = begin; read(s[0], bytes, sizeof bytes) > 0;) {
    auto now = clk::now();
    h.beats += now < end;
    h.gaps.push_back(ms(now - last).count());
    last = now;
  }
  sender.join();
  close(s[0]);
}
template <class F>
static Heart heart_beside(int count, F disturb, bool by_socket = false) {
  Heart h;
  Threads v;
  auto begin = clk::now(), end = begin + std::chrono::seconds(2);
  v.emplace_back([&] { by_socket ? beat_by_socket(h, begin, end) : h.beat(begin, end); });
  for (int i = 0; i < count; ++i) v.emplace_back([=] { disturb(end); });
  join(v);
  return h;
}
static void sit_in_calls(clk::time_point end) {
  for (auto now = clk::now(); now < end; now = clk::now())
    sleep_until(std::min(now + std::chrono::milliseconds(50), end));
}
static void kidnap(int cores, bool by_socket, const std::string& suffix) {
  auto beats = [&](int count) {
    return double(heart_beside(count, sit_in_calls, by_socket).beats);
  };
  double before = beats(0), half = beats((cores + 1) / 2), all = beats(cores);
  double undisturbed = std::max(before, beats(0));
  emit("kidnap_half" + suffix, 100 * half / undisturbed, "% kept");
  emit("kidnap_all" + suffix, 100 * all / undisturbed, "% kept");
}
static void hogs(int cores) {
  Heart h = heart_beside(cores, [](clk::time_point end) {
    while (clk::now() < end) {
    }
  });
  emit("hogs_gap_p99", percentile(h.gaps, 99), "ms");
  emit("hogs_gap_max", percentile(h.gaps, 100), "ms");
}

// ---- W16
static void herd() {
  constexpr int herd = 10000, releases = 20000;
  sem_t gate, ran;  // with std::counting_semaphore it takes minutes
  sem_init(&gate, 0, 0);
  sem_init(&ran, 0, 0);
  clk::time_point woken;
  std::atomic<bool> over{false};
  Threads v;
  for (int i = 0; i < herd; ++i)
    v.emplace_back([&] {
      for (;;) {
        sem_wait(&gate);
        if (over) return;
        woken = clk::now();
        sem_post(&ran);
      }
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::vector<double> waited;
  for (int i = 0; i < releases; ++i) {
    auto released = clk::now();
    sem_post(&gate);
    sem_wait(&ran);
    waited.push_back(ms(woken - released).count() * 1e6);
  }
  over = true;
  for (int i = 0; i < herd; ++i) sem_post(&gate);
  join(v);
  emit("herd_wake", percentile(waited, 50), "ns");
  emit("herd_wake_p99", percentile(waited, 99), "ns");
}
static void herd_on_a_condition() {
  constexpr int herd = 10000, releases = 20000;
  std::mutex m;
  std::condition_variable c;
  long waiting = 0, permits = 0, wakes = 0;
  std::counting_semaphore<> ran{0};
  for (int i = 0; i < herd; ++i)
    std::thread([&] {
      std::unique_lock l(m);
      ++waiting;
      for (;;) {
        while (!permits) {
          c.wait(l);
          ++wakes;
        }
        --permits;
        ran.release();
      }
    }).detach();
  for (std::unique_lock l(m); waiting < herd; l.lock()) {
    l.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < releases; ++i) {
    {
      std::lock_guard l(m);
      ++permits;
    }
    c.notify_one();
    ran.acquire();
  }
  std::lock_guard l(m);
  emit("herd_wakes", double(wakes) / releases, "wakes");
  std::_Exit(0);
}

// ---- W18: a source, four stages that add one, and a sink, each a thread
static double pipeline(int items) {
  constexpr int stages = 4;
  std::vector<Queue> q(stages + 1);
  auto close = [](Queue& c) {
    std::lock_guard l(c.m);
    c.closed = true;
    c.ne.notify_all();
  };
  Threads v;
  auto t = clk::now();
  v.emplace_back([&] {
    for (int i = 0; i < items; ++i) q[0].push(i);
    close(q[0]);
  });
  for (int s = 0; s < stages; ++s)
    v.emplace_back([&, s] {
      for (uint64_t x; q[s].pop(x);) q[s + 1].push(x + 1);
      close(q[s + 1]);
    });
  uint64_t sum = 0, n = items;
  for (uint64_t x; q[stages].pop(x);) sum += x;
  double took = secs(t);
  join(v);
  if (sum != n * (n - 1) / 2 + n * stages) std::abort();
  return took;
}
struct Pipelines {  // of one, the mean of several side by side: how long, and how much CPU
  std::vector<double> took, used;
  void run(int count, int items) {
    std::vector<double> each(count);
    double before = cpu();
    Threads v;
    for (double& mine : each) v.emplace_back([&mine, items] { mine = pipeline(items); });
    join(v);
    used.push_back((cpu() - before) / count);
    took.push_back(std::accumulate(each.begin(), each.end(), 0.0) / count);
  }
};
static void isolation(int cores) {
  constexpr int items = 50000;
  Pipelines{}.run(cores, items);
  Pipelines alone, together;
  for (int i = 0; i < 5; ++i) {
    alone.run(1, items);
    together.run(cores, items);
  }
  auto more = [](auto& with, auto& without) {
    return 100 * (percentile(with, 50) / percentile(without, 50) - 1);
  };
  emit("isolation_item", percentile(alone.took, 50) * 1e9 / items, "ns");
  emit("isolation", more(together.took, alone.took), "%");
  emit("isolation_cpu", more(together.used, alone.used), "%");
}

// ---- nothing to do: of all threads but this one, which looks
static long voluntary_switches() {
  rusage all, own;
  getrusage(RUSAGE_SELF, &all);
  getrusage(RUSAGE_THREAD, &own);
  return all.ru_nvcsw - own.ru_nvcsw;
}
static void idle(int cores) {
  std::counting_semaphore<> never{0};
  for (int i = 0; i < cores; ++i) std::thread([&] { never.acquire(); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  long before = voluntary_switches();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  emit("idle_switches", (voluntary_switches() - before) / 3.0, "1/s");
  std::_Exit(0);
}

static void echo(int port) {
  int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(l, (sockaddr*)&a, sizeof a) || listen(l, 4096)) std::_Exit(3);
  for (;;) {
    int c = accept(l, nullptr, nullptr);
    setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread([c] {
      char buf[4096];
      for (ssize_t n; (n = read(c, buf, sizeof buf)) > 0 && write(c, buf, n) == n;) {
      }
      close(c);
    }).detach();
  }
}
int main(int argc, char** argv) {
  std::string w = argv[1];
  int cores = argc > 2 ? std::atoi(argv[2]) : 1;
  if (w == "yield") {
    yields(1, 1000000);
    yields(1000, 1000000);
  } else if (w == "spawn")
    spawn();
  else if (w == "pingpong")
    pingpong();
  else if (w == "buffered") {
    buffered(1, 500000);
    buffered(4, 500000);
  } else if (w == "ring")
    ring();
  else if (w == "mem100k")
    mem();
  else if (w == "mutex")
    mutex();
  else if (w == "kidnap") {
    kidnap(cores, false, "");
    kidnap(cores, true, "_socket");
  } else if (w == "hogs")
    hogs(cores);
  else if (w == "herd") {
    herd();
    herd_on_a_condition();
  } else if (w == "isolation" && cores > 1)
    isolation(cores);
  else if (w == "idle")
    idle(cores);
  else if (w == "echo")
    echo(std::atoi(argv[3]));
  else
    return 2;
}
