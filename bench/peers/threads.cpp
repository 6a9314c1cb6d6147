// std::thread peer, for scale: one kernel thread per "fiber". usage: threads <workload> <cores>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
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
int main(int, char** argv) {
  std::string w = argv[1];
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
  else if (w == "echo")
    echo(std::atoi(argv[3]));
  else
    return 2;
}
