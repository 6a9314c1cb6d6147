// Reference for the network workloads: a hand-written level-triggered epoll loop, one thread.
// usage: epoll echo|http 1 <port>
#include <sys/epoll.h>
#include <unistd.h>
#include <string>
#include <vector>
#include "serve.hpp"

static bool echo(int fd, char* bytes, ssize_t n) { return write(fd, bytes, n) == n; }
static bool hello(int fd, Heads& heads, std::string_view bytes, std::string& out) {
  out.clear();
  for (int n = heads.ended_in(bytes); n > 0; --n) out += kHello;
  return out.empty() || write(fd, out.data(), out.size()) == ssize_t(out.size());
}

int main(int argc, char** argv) {
  if (argc != 4 || (std::string_view(argv[1]) != "echo" && std::string_view(argv[1]) != "http"))
    return 2;
  const bool http = std::string_view(argv[1]) == "http";
  int l = listen_on(std::atoi(argv[3]));
  int ep = epoll_create1(0);
  epoll_event e{EPOLLIN, {.fd = l}}, ev[512];
  epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
  std::vector<Heads> heads;  // by descriptor
  std::string out;
  char buf[4096];
  for (;;) {
    int n = epoll_wait(ep, ev, 512, -1);
    for (int i = 0; i < n; ++i) {
      int fd = ev[i].data.fd;
      if (fd == l) {
        fd = accept4(l, nullptr, nullptr, SOCK_NONBLOCK);
        if (fd < 0) continue;
        if (size_t(fd) >= heads.size()) heads.resize(2 * fd + 1);
        heads[fd] = {};
        e = {EPOLLIN, {.fd = fd}};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
      } else {
        ssize_t k = read(fd, buf, sizeof buf);
        bool go_on =
            k > 0 && (http ? hello(fd, heads[fd], {buf, size_t(k)}, out) : echo(fd, buf, k));
        if (!go_on) close(fd);
      }
    }
  }
}
