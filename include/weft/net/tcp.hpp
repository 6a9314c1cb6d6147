// TCP: streams, listeners, and how to connect.
//
//   auto listener = weft::net::listen({"127.0.0.1", 0}).value();
//   while (auto peer = listener.accept())
//     n.spawn([p = std::move(*peer)]() mutable { talk(std::move(p)); });
#pragma once

#include <weft/core/time.hpp>
#include <weft/net/listener_socket.hpp>
#include <weft/net/resolve.hpp>
#include <weft/net/stream_socket.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace weft::net {

struct ListenOptions {
  int backlog = 4096;         // connections that wait to be accepted; the system may allow fewer
  bool reuse_address = true;  // connections of a predecessor, still closing, do not matter
  bool reuse_port = false;    // several listeners on one port share its connections
  bool ipv6_only = false;     // else "::" takes IPv4 as well
  OnPause on_pause{};
};

struct ConnectOptions {
  Duration timeout = Duration::max();  // in all, lookup included
  ResolverCache* cache = nullptr;
  Family family = Family::any;
  bool no_delay = true;
  Duration stagger = std::chrono::milliseconds{250};  // the head start of each address
};

struct Keepalive {
  std::chrono::seconds idle{60};      // silence before the first probe
  std::chrono::seconds interval{10};  // between probes
  int probes = 6;                     // without an answer: the connection is broken
};

// Small writes are sent at once: Nagle's algorithm is off unless asked for, because whoever writes
// through a buffer has gathered already, and whoever does not waits for the answer.
class TcpStream : public StreamSocket {
 public:
  TcpStream() = default;  // closed
  // Takes over a connected socket that does not block. If that fails, it is closed.
  static Result<TcpStream> adopt(int fd);

  Result<void> set_no_delay(bool on) const;
  // nullopt: off, which is the default.
  Result<void> set_keepalive(std::optional<Keepalive> keepalive) const;
  // How long the system goes on sending after close(); zero: the connection is reset instead.
  // nullopt: in the background, as long as it takes, which is the default.
  Result<void> set_linger(std::optional<std::chrono::seconds> linger) const;

 private:
  friend class TcpListener;
  friend Result<TcpStream> connect(const Endpoint& to, const ConnectOptions& options);
  explicit TcpStream(Descriptor socket) noexcept : StreamSocket(std::move(socket)) {}
};

class TcpListener : public ListenerSocket {
 public:
  TcpListener() = default;  // closed

  // The next connection, and where it comes from.
  Result<TcpStream> accept() const;
  Result<TcpStream> accept(Endpoint& peer) const;

  [[nodiscard]] std::uint16_t port() const noexcept { return local_endpoint().port(); }

 private:
  friend Result<TcpListener> listen(const Endpoint& at, const ListenOptions& options);
  TcpListener(Descriptor socket, Endpoint local, OnPause on_pause) noexcept
      : ListenerSocket(std::move(socket), std::move(local), std::move(on_pause)) {}
};

// Port 0: the system chooses one, see port(). A name is looked up, and the first of its addresses
// that is ours is taken.
Result<TcpListener> listen(const Endpoint& at, const ListenOptions& options = {});

// A connection to `to`. Of a name with several addresses all are tried, IPv6 and IPv4 in turn: the
// next one as soon as the last has failed or had its head start. The first that answers wins, and
// the others are closed (RFC 8305). Parks until then. Cancel point; nothing is left behind.
//
// std::errc::timed_out: the timeout came first. If all addresses fail, the error is the first one,
// unless that says only that this host has no way to that kind of address.
Result<TcpStream> connect(const Endpoint& to, const ConnectOptions& options = {});

}  // namespace weft::net
