// A TCP server that says what it is told, and its only client. When the client is content, the race
// is over, and the server is cancelled.
#include <weft/weft.hpp>

#include <array>
#include <cstdio>
#include <string_view>

void echo(weft::net::TcpStream peer) {
  std::array<std::byte, 4096> buf;
  while (auto got = peer.read_some(buf)) {                 // Result<span>: false on error
    if (got->empty()) return;                              // end of stream
    if (!peer.write_all(*got)) return;
  }
}

void serve(weft::net::TcpListener& listener) {
  weft::nursery([&](weft::Nursery& n) {
    while (auto peer = listener.accept())
      n.spawn([p = std::move(*peer)]() mutable { echo(std::move(p)); });
  });
}

int main() {
  weft::FiberIo io;
  io.run([] {
    auto listener = weft::net::listen({"127.0.0.1", 0}).value();
    std::uint16_t port = listener.port();
    weft::race([&] { serve(listener); },                   // lives until the client is content
               [&] {
                 auto c = weft::net::connect({"127.0.0.1", port}).value();
                 (void)c.write_all(std::as_bytes(std::span{"over, under", 11}));
                 std::array<std::byte, 64> b;
                 auto got = c.read_some(b).value();
                 std::printf("%.*s\n", int(got.size()), reinterpret_cast<const char*>(got.data()));
               });
  });
}
