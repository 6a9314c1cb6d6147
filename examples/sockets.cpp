// What docs/io.md quotes: results, lines, datagrams, and waits that end in other ways than by data.
#include <weft/weft.hpp>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using weft::net::BufferedReader;
using weft::net::BufferedWriter;
using weft::net::UdpSocket;
using weft::net::UnixStream;

namespace {

// Ordinary failures are values; who does not expect them says so.
void results() {
  const auto refused = weft::net::connect({"127.0.0.1", 1});
  if (!refused) std::printf("connect: %s\n", refused.error().message().c_str());
  try {
    weft::net::connect({"127.0.0.1", 1}).value();
  } catch (const std::system_error& error) {
    std::printf("thrown: %s\n", error.code().message().c_str());
  }
}

void lines() {
  const auto [near, far] = UnixStream::pair().value();
  BufferedWriter writer{near};
  writer.print_line("weft ", 1).value();
  writer.print_line("warp ", 2).value();
  writer.flush().value();
  near.shutdown_write().value();
  BufferedReader reader{far, {.line_bytes_max = 80}};
  while (const auto line = reader.read_line().value())
    std::printf("line: %s\n", std::string{*line}.c_str());
}

void datagrams() {
  const auto here = UdpSocket::bind({"127.0.0.1", 0}).value();
  const auto there = UdpSocket::bind({"127.0.0.1", 0}).value();
  there.send_to(std::as_bytes(std::span{"knock", 5}), {"127.0.0.1", here.port()}).value();
  std::array<std::byte, 64> buffer;
  const auto got = here.recv_from(buffer).value();
  std::printf("datagram: %zu bytes, from the other: %s\n", got.bytes.size(),
              got.from.port() == there.port() ? "yes" : "no");
}

// An arm that loses has read nothing.
std::string_view what_comes(const UnixStream& peer, const weft::Receiver<int>& orders) {
  switch (weft::select_first(peer.on_readable(), orders.on_recv(), weft::after(1ms))) {
    case 0: return "bytes, or the end";
    case 1: return "an order";
    default: return "nothing";
  }
}

void whichever_is_first() {
  const auto [near, far] = UnixStream::pair().value();
  const weft::Channel<int> orders{1};
  std::printf("comes: %s\n", what_comes(far, orders.rx).data());
  near.write_all("over").value();
  std::printf("comes: %s\n", what_comes(far, orders.rx).data());
}

// Nothing is lost by a timeout: what comes later is there for the next call.
void timeouts() {
  const auto [near, far] = UnixStream::pair().value();
  std::array<std::byte, 64> buffer;
  const auto in_time =
      weft::timeout(1ms, [&far = far, &buffer] { return far.read_some(buffer); });
  near.write_all("late").value();
  std::printf("in time: %s; then %zu bytes\n", in_time ? "yes" : "no",
              far.read_some(buffer).value().size());
}

// Who closes wakes who waits.
void closing() {
  auto [near, far] = UnixStream::pair().value();
  weft::nursery([&far = far](weft::Nursery& n) {
    n.spawn([&far] {
      std::array<std::byte, 64> buffer;
      const auto got = far.read_some(buffer);
      std::printf("closed by us: %s\n", got.error() == weft::IoError::closed ? "yes" : "no");
    });
    far.close().value();
  });
}

}  // namespace

int main() {
  weft::run([] {
    results();
    lines();
    datagrams();
    whichever_is_first();
    timeouts();
    closing();
  });
}
