// The smallest HTTP server: the same answer to whatever is asked. With a port it serves until
// Ctrl-C, and what is being answered then still is; without one it asks itself, and ends.
//
//   http_hello 8080 &  wrk -c 64 http://127.0.0.1:8080/
#include <weft/weft.hpp>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace std::chrono_literals;
using weft::net::TcpListener;
using weft::net::TcpStream;

namespace {

constexpr std::string_view kHello =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nhello, world\n";
constexpr std::string_view kTooLong =
    "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n\r\n";

// Requests without a body. One whose head does not end within 8 KiB is refused; a client that is
// silent for a minute, or takes that long to ask, is not waited for.
void talk(TcpStream peer) {
  weft::net::BufferedReader reader{peer, {.line_bytes_max = 8192}};
  for (;;) {
    const auto head = weft::timeout(1min, [&] { return reader.read_until("\r\n\r\n"); });
    if (!head) return;
    if (head->error() == weft::IoError::too_long)
      return static_cast<void>(peer.write_all(kTooLong));
    if (!*head || !**head || !peer.write_all(kHello)) return;  // broken, or the end of it
  }
}

std::string ask(std::uint16_t port) {
  TcpStream stream = weft::net::connect({"127.0.0.1", port}).value();
  stream.write_all("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").value();
  weft::net::BufferedReader answer{stream};
  answer.read_until("\r\n\r\n").value();
  return std::string{answer.read_line().value().value_or("nothing")};
}

}  // namespace

int main(int count, char** arguments) {
  const int port = count > 1 ? std::atoi(arguments[1]) : 0;
  weft::run([port] {
    TcpListener listener =
        weft::net::listen({"127.0.0.1", static_cast<std::uint16_t>(port)}).value();
    if (port != 0) {
      const auto serve = [&] { weft::net::serve(listener, talk, {.drain_grace = 1s}).value(); };
      return static_cast<void>(weft::until_signal({SIGINT, SIGTERM}, serve));
    }
    weft::nursery([&](weft::Nursery& n) {
      n.spawn("server", [&] { weft::net::serve(listener, talk).value(); });
      std::puts(ask(listener.port()).c_str());
      listener.close().value();
    });
  });
}
