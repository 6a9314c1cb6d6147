// Closed-loop echo load generator, one thread.
// usage: client <port> <connections> <seconds> <server pid> [epoll|sweep]
//        client cpu <pid>                                    seconds of CPU it has used
// Each connection sends 64 bytes, waits until they are back, repeats. Reports requests per second,
// latency, CPU per request of the server, and how busy both sides were: the slower one, at 100 %,
// is the one that was measured. Wrong bytes, a lost connection and silence are failures.
//
// `epoll` answers whoever is ready, and costs as much CPU as an epoll server does. `sweep` goes
// round and blocks at each connection: nothing but a read and a write per request, so that the
// server is the slower one; what is ready meanwhile waits for its turn, which its latency shows.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <string_view>
#include "bench.hpp"

namespace {

constexpr size_t kMessage = 64;
constexpr double kWarmUp = 0.3, kPatience = 10;  // seconds

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "client: %s\n", what);
  std::exit(1);
}

double cpu_of(pid_t pid) {
  clockid_t clock;
  timespec t;
  if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) fail("the server is gone");
  return double(t.tv_sec) + double(t.tv_nsec) / 1e9;
}

struct Connection {
  int fd = -1;
  size_t got = 0;
  clk::time_point sent;
  std::array<char, kMessage> message;

  void send_message() {
    sent = clk::now();
    if (write(fd, message.data(), kMessage) != ssize_t(kMessage)) fail("cannot send");
  }
  // Whether the whole message is back.
  bool receive() {
    char buf[2 * kMessage];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n <= 0) fail("connection lost");
    if (got + size_t(n) > kMessage || std::memcmp(buf, message.data() + got, size_t(n)))
      fail("not what was sent");
    got += size_t(n);
    if (got < kMessage) return false;
    got = 0;
    return true;
  }
};

void connect_to(int port, Connection& c) {
  static int number = 0;
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int tries = 0;; ++tries) {
    if ((c.fd = socket(AF_INET, SOCK_STREAM, 0)) < 0) fail("no socket: ulimit -n?");
    if (!connect(c.fd, (sockaddr*)&a, sizeof a)) break;
    if (tries > 300) fail("cannot connect");
    close(c.fd);
    usleep(10000);
  }
  int on = 1;
  setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  c.message.fill('.');
  std::snprintf(c.message.data(), kMessage, "connection %d", ++number);
}

// What was counted from the end of the warm-up on.
class Count {
 public:
  Count(pid_t pid, double duration) : pid_(pid), duration_(duration) {
    latencies_.reserve(4000000);
  }
  // Once per turn: whether it goes on.
  bool goes_on() {
    if (!counting_ && secs(start_) > kWarmUp) {
      counting_ = true;
      start_ = clk::now();
      own_ = cpu();
      server_ = cpu_of(pid_);
    }
    return !counting_ || secs(start_) <= duration_;
  }
  void answered(clk::time_point asked, clk::time_point now) {
    if (counting_)
      latencies_.push_back(std::chrono::duration<float, std::micro>(now - asked).count());
  }
  void report(const std::string& m) {
    const double took = secs(start_), own = cpu() - own_, server = cpu_of(pid_) - server_;
    if (latencies_.empty()) fail("no answer in time");
    const auto requests = double(latencies_.size());
    std::sort(latencies_.begin(), latencies_.end());
    emit(m, requests / took, "req/s");
    emit(m + "_srv_cpu", server * 1e6 / requests, "us/req");
    emit(m + "_srv_busy", server / took * 100, "% busy");
    emit(m + "_cli_busy", own / took * 100, "% busy");
    emit(m + "_p50", latencies_[latencies_.size() / 2], "us");
    emit(m + "_p99", latencies_[latencies_.size() * 99 / 100], "us");
  }

 private:
  const pid_t pid_;
  const double duration_;
  std::vector<float> latencies_;  // microseconds
  clk::time_point start_ = clk::now();
  bool counting_ = false;
  double own_ = 0, server_ = 0;
};

void next_request(Connection& c, Count& count) {
  if (!c.receive()) return;
  const auto asked = c.sent;
  c.send_message();
  count.answered(asked, c.sent);
}

void by_epoll(std::vector<Connection>& connections, Count& count) {
  int ep = epoll_create1(0);
  for (auto& c : connections) {
    epoll_event e{EPOLLIN, {.ptr = &c}};
    epoll_ctl(ep, EPOLL_CTL_ADD, c.fd, &e);
  }
  epoll_event ev[512];
  while (count.goes_on()) {
    int k = epoll_wait(ep, ev, 512, int(kPatience * 1000));
    if (k == 0) fail("no answer");
    for (int i = 0; i < k; ++i) next_request(*static_cast<Connection*>(ev[i].data.ptr), count);
  }
}

void by_sweep(std::vector<Connection>& connections, Count& count) {
  const timeval patience{.tv_sec = time_t(kPatience), .tv_usec = 0};
  for (auto& c : connections) setsockopt(c.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  while (count.goes_on())
    for (auto& c : connections) next_request(c, count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "cpu") {
    std::printf("%.6f\n", cpu_of(std::atoi(argv[2])));
    return 0;
  }
  const std::string_view how = argc > 5 ? argv[5] : "epoll";
  if (argc < 5 || argc > 6 || (how != "epoll" && how != "sweep"))
    fail("usage: client <port> <connections> <seconds> <server pid> [epoll|sweep]");
  std::vector<Connection> connections(std::atoi(argv[2]));
  for (auto& c : connections) connect_to(std::atoi(argv[1]), c);
  Count count{std::atoi(argv[4]), std::atof(argv[3])};
  for (auto& c : connections) c.send_message();
  (how == "epoll" ? by_epoll : by_sweep)(connections, count);
  count.report("echo_" + std::to_string(connections.size()));
}
