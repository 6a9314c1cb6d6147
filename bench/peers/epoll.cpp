// Upper reference for the echo workload: a hand-written level-triggered epoll loop, one thread.
// usage: epoll echo 1 <port>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdlib>
int main(int, char** argv) {
  int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(std::atoi(argv[3]));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(l, (sockaddr*)&a, sizeof a) || listen(l, 4096)) return 3;
  int ep = epoll_create1(0);
  epoll_event e{EPOLLIN, {.fd = l}}, ev[512];
  epoll_ctl(ep, EPOLL_CTL_ADD, l, &e);
  char buf[4096];
  for (;;) {
    int n = epoll_wait(ep, ev, 512, -1);
    for (int i = 0; i < n; ++i) {
      int fd = ev[i].data.fd;
      if (fd == l) {
        fd = accept4(l, nullptr, nullptr, SOCK_NONBLOCK);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        e = {EPOLLIN, {.fd = fd}};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
      } else {
        ssize_t k = read(fd, buf, sizeof buf);
        if (k <= 0 || write(fd, buf, k) != k) close(fd);
      }
    }
  }
}
