// shared by the raw loops: a listening socket, and what a minimal HTTP server answers
#pragma once
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <cstdlib>
#include <string_view>

// TCP_NODELAY is inherited by what it accepts.
inline int listen_on(int port, int flags = 0) {
  int l = socket(AF_INET, SOCK_STREAM | flags, 0), on = 1;
  setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(l, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(l, (sockaddr*)&a, sizeof a) || listen(l, 4096)) std::_Exit(3);
  return l;
}

constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n";

// Counts the heads of requests that end in what a connection has sent, wherever it was cut.
class Heads {
 public:
  int ended_in(std::string_view bytes) {
    constexpr std::string_view end = "\r\n\r\n";
    int heads = 0;
    size_t at = 0;
    if (matched_ == 0) {  // most often the whole request is there
      for (size_t found; (found = bytes.find(end, at)) != bytes.npos; at = found + end.size())
        ++heads;
      if (bytes.size() - at > end.size()) at = bytes.size() - end.size() + 1;
    }
    for (; at < bytes.size(); ++at) {
      matched_ = bytes[at] == end[matched_] ? matched_ + 1 : bytes[at] == '\r' ? 1 : 0;
      if (matched_ == end.size()) {
        matched_ = 0;
        ++heads;
      }
    }
    return heads;
  }

 private:
  size_t matched_ = 0;
};
