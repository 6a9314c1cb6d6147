// State Threads peer (single kernel thread). usage: st <workload> 1
// No channels in ST: a one-slot rendezvous over condition variables stands in. yield is
// st_usleep(0), for ST 1.9 has no yield call.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <st.h>
#include <sys/socket.h>
#include <functional>
#include "bench.hpp"

static void* tramp(void* p) {
  auto* f = static_cast<std::function<void()>*>(p);
  (*f)();
  delete f;
  return nullptr;
}
static st_thread_t go(std::function<void()> f, bool joinable = true) {
  auto t = st_thread_create(tramp, new std::function<void()>(std::move(f)), joinable, 0);
  if (!t) {
    std::perror("st_thread_create");
    std::_Exit(4);
  }
  return t;
}
struct Chan {  // unbuffered; ST has no spurious wakeups and st_cond_signal is FIFO
  st_cond_t put = st_cond_new(), space = st_cond_new(), ack = st_cond_new();
  bool full = false;
  long v;
  void push(long x) {
    while (full) st_cond_wait(space);
    v = x;
    full = true;
    st_cond_signal(put);
    st_cond_wait(ack);
  }
  long pop() {
    while (!full) st_cond_wait(put);
    full = false;
    st_cond_signal(ack);
    st_cond_signal(space);
    return v;
  }
};
static void* empty(void*) { return nullptr; }

static void yields(int n, int total) {
  std::vector<st_thread_t> v;
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    v.push_back(go([=] {
      for (int j = 0; j < total / n; ++j) st_usleep(0);
    }));
  for (auto x : v) st_thread_join(x, nullptr);
  per_op("yield_" + std::to_string(n), t, total);
}
static void spawn() {
  constexpr int seq = 300000, batch = 100000;
  auto t = clk::now();
  for (int i = 0; i < seq; ++i) st_thread_join(st_thread_create(empty, nullptr, 1, 0), nullptr);
  per_op("spawn_seq", t, seq);
  for (auto m : {"spawn_batch_cold", "spawn_batch"}) {
    t = clk::now();
    std::vector<st_thread_t> v;
    for (int i = 0; i < batch; ++i) {
      v.push_back(st_thread_create(empty, nullptr, 1, 0));
      if (!v.back()) {
        std::perror(m);
        std::_Exit(4);
      }
    }
    for (auto x : v) st_thread_join(x, nullptr);
    per_op(m, t, batch);
  }
}
static void pingpong() {
  constexpr int n = 500000;
  Chan a, b;
  go(
      [&] {
        for (;;) b.push(a.pop());
      },
      false);
  auto t = clk::now();
  for (int i = 0; i < n; ++i) {
    a.push(i);
    b.pop();
  }
  per_op("pingpong", t, n);
}
static void ring() {
  constexpr int n = 503, hops = 1000000;
  std::vector<Chan> c(n);
  Chan done;
  for (int i = 0; i < n; ++i)
    go(
        [&, i] {
          for (;;) {
            long x = c[i].pop();
            if (x == 0) {
              done.push(0);
              return;
            }
            c[(i + 1) % n].push(x - 1);
          }
        },
        false);
  auto t = clk::now();
  c[0].push(hops);
  done.pop();
  per_op("ring", t, hops);
}
static void mem(const char* label, int n) {
  st_cond_t stop = st_cond_new();
  int up = 0, down = 0;
  double r0 = rss();
  auto t = clk::now();
  for (int i = 0; i < n; ++i)
    go(
        [&] {
          ++up;
          st_cond_wait(stop);
          ++down;
        },
        false);
  while (up < n) st_usleep(0);
  per_op(std::string("mem_") + label + "_create", t, n);
  emit(std::string("mem_") + label, (rss() - r0) / n, "B");
  t = clk::now();
  st_cond_broadcast(stop);
  while (down < n) st_usleep(0);
  per_op(std::string("mem_") + label + "_teardown", t, n);
}
static void cancel() {
  constexpr int n = 100000;
  std::vector<st_thread_t> v;
  st_cond_t never = st_cond_new();
  int down = 0;
  for (int i = 0; i < n; ++i)
    v.push_back(go(
        [&] {
          st_cond_wait(never);
          ++down;
        },
        false));
  st_usleep(0);
  auto t = clk::now();
  for (auto x : v) st_thread_interrupt(x);
  while (down < n) st_usleep(0);
  msec("cancel_100k", t);
}
static void sleepers(int n) {
  std::vector<double> late(n);
  Rng r;
  double c0 = cpu();
  int left = n;
  for (int i = 0; i < n; ++i) {
    long d = 1 + r.below(1000);
    go(
        [&, i, d] {
          auto t = clk::now();
          st_usleep(d * 1000);
          late[i] = secs(t) * 1e3 - d;
          --left;
        },
        false);
  }
  while (left) st_usleep(10000);
  report_lateness(late, c0);
}
static void mutex(const char* name, int total, bool yield) {
  constexpr int k = 64;
  st_mutex_t m = st_mutex_new();
  long x = 0;
  std::vector<st_thread_t> v;
  auto t = clk::now();
  for (int i = 0; i < k; ++i)
    v.push_back(go([&] {
      for (int j = 0; j < total / k; ++j) {
        st_mutex_lock(m);
        ++x;
        if (yield) st_usleep(0);
        st_mutex_unlock(m);
      }
    }));
  for (auto y : v) st_thread_join(y, nullptr);
  per_op(name, t, total);
}
static void sieve() {
  auto t = clk::now();
  Chan* in = new Chan;
  go(
      [in] {
        for (long i = 2;; ++i) in->push(i);
      },
      false);
  for (int i = 0; i < 2000; ++i) {
    long p = in->pop();
    Chan* out = new Chan;
    go(
        [in, out, p] {
          for (;;) {
            long v = in->pop();
            if (v % p) out->push(v);
          }
        },
        false);
    in = out;
  }
  msec("sieve", t);
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
  st_netfd_t srv = st_netfd_open_socket(l);
  for (;;) {
    st_netfd_t c = st_accept(srv, nullptr, nullptr, ST_UTIME_NO_TIMEOUT);
    if (!c) continue;
    setsockopt(st_netfd_fileno(c), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    go(
        [c] {
          char buf[4096];
          for (ssize_t n; (n = st_read(c, buf, sizeof buf, ST_UTIME_NO_TIMEOUT)) > 0 &&
                          st_write(c, buf, n, ST_UTIME_NO_TIMEOUT) == n;) {
          }
          st_netfd_close(c);
        },
        false);
  }
}
int main(int, char** argv) {
  std::string w = argv[1];
  st_set_eventsys(ST_EVENTSYS_ALT);  // epoll
  st_init();
  if (w == "yield") {
    yields(1, 500000);
    yields(1000, 500000);
  } else if (w == "spawn")
    spawn();
  else if (w == "pingpong")
    pingpong();
  else if (w == "ring")
    ring();
  else if (w == "mem100k")
    mem("100k", 100000);
  else if (w == "mem1m")
    mem("1m", 1000000);
  else if (w == "sleepers")
    sleepers(100000);
  else if (w == "mutex") {
    mutex("mutex", 1000000, false);
    mutex("mutex_yield", 400000, true);
  } else if (w == "sieve")
    sieve();
  else if (w == "cancel")
    cancel();
  else if (w == "echo")
    echo(std::atoi(argv[3]));
  else
    return 2;
  std::_Exit(0);
}
