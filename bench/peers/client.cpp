// Closed-loop echo load generator, one epoll thread.
// usage: client <port> <connections> <seconds> <server pid>
// Each connection sends 64 bytes, waits for 64 bytes back, repeats. Reports requests per second,
// latency, and CPU per request of both sides.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cstring>
#include "bench.hpp"

static double server_cpu(int pid) {  // utime+stime, seconds
  char path[64], buf[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE* f = std::fopen(path, "r");
  if (!f) return 0;
  size_t n = std::fread(buf, 1, sizeof buf - 1, f);
  std::fclose(f);
  buf[n] = 0;
  unsigned long u = 0, s = 0;
  std::sscanf(std::strrchr(buf, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u,
              &s);
  return double(u + s) / sysconf(_SC_CLK_TCK);
}
struct Conn {
  int fd;
  int got = 0;
  clk::time_point sent;
};

int main(int, char** argv) {
  int port = std::atoi(argv[1]), n = std::atoi(argv[2]), pid = std::atoi(argv[4]);
  double dur = std::atof(argv[3]);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int ep = epoll_create1(0), on = 1;
  std::vector<Conn> cs(n);
  for (auto& c : cs) {
    c.fd = socket(AF_INET, SOCK_STREAM, 0);
    for (int tries = 0; connect(c.fd, (sockaddr*)&a, sizeof a); ++tries) {
      if (tries > 300) {
        std::perror("connect");
        return 1;
      }
      usleep(10000);
    }
    setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event e{EPOLLIN, {.ptr = &c}};
    epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &e);
  }
  char msg[64] = {'x'}, buf[4096];
  std::vector<float> lat;
  lat.reserve(4000000);
  auto start = clk::now();
  double c0 = 0, s0 = 0, warm = 0.3;
  bool counting = false;
  long reqs = 0;
  for (auto& c : cs) {
    c.sent = clk::now();
    if (write(c.fd, msg, 64) != 64) return 1;
  }
  epoll_event ev[512];
  auto t0 = start;
  for (;;) {
    int k = epoll_wait(ep, ev, 512, 1000);
    auto now = clk::now();
    if (!counting && secs(start) > warm) {
      counting = true;
      t0 = now;
      c0 = cpu();
      s0 = server_cpu(pid);
    }
    if (counting && std::chrono::duration<double>(now - t0).count() > dur) break;
    for (int i = 0; i < k; ++i) {
      auto& c = *static_cast<Conn*>(ev[i].data.ptr);
      ssize_t r = read(c.fd, buf, sizeof buf);
      if (r <= 0) {
        std::fprintf(stderr, "connection lost\n");
        return 1;
      }
      if ((c.got += r) < 64) continue;
      c.got = 0;
      auto t = clk::now();
      if (counting) {
        ++reqs;
        lat.push_back(std::chrono::duration<float, std::micro>(t - c.sent).count());
      }
      c.sent = t;
      if (write(c.fd, msg, 64) != 64) return 1;
    }
  }
  double el = secs(t0), cc = cpu() - c0, sc = server_cpu(pid) - s0;
  std::string m = "echo_" + std::to_string(n);
  std::sort(lat.begin(), lat.end());
  emit(m, reqs / el, "req/s");
  emit(m + "_srv_cpu", sc * 1e6 / reqs, "us/req");
  emit(m + "_cli_busy", cc / el * 100, "%");
  emit(m + "_p50", lat[lat.size() / 2], "us");
  emit(m + "_p99", lat[lat.size() * 99 / 100], "us");
}
