#include <weft/net/tcp.hpp>

#include "happy_eyeballs.hpp"
#include "socket.hpp"

#include <weft/cancel.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace weft::net {
namespace {

constexpr std::string_view kTcpReading = "tcp read";
constexpr std::string_view kTcpWriting = "tcp write";

// Simulated kernels need not know it.
void prefer_no_delay(const Descriptor& socket) {
  static_cast<void>(set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1));
}

Result<Descriptor> connect_now(const Endpoint& to, const ConnectOptions& options) {
  const Result<std::vector<Endpoint>> found =
      resolve(to, {.cache = options.cache, .family = options.family});
  if (!found) return found.failure();
  Result<Descriptor> socket = HappyEyeballs{*found, options.stagger}.run();
  if (socket && options.no_delay) prefer_no_delay(*socket);
  return socket;
}

}  // namespace

Result<TcpStream> TcpStream::adopt(int fd) {
  Result<Descriptor> socket = Descriptor::adopt(fd, Carries::stream, kTcpReading, kTcpWriting);
  if (!socket) return socket.failure();
  return TcpStream{*std::move(socket)};
}

Result<void> TcpStream::set_no_delay(bool on) const {
  return set_option(descriptor(), IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0);
}

Result<void> TcpStream::set_keepalive(std::optional<Keepalive> keepalive) const {
  Result<void> done = set_option(descriptor(), SOL_SOCKET, SO_KEEPALIVE, keepalive ? 1 : 0);
  if (!done || !keepalive) return done;
  const auto set = [&](int name, auto value) {
    if (done) done = set_option(descriptor(), IPPROTO_TCP, name, static_cast<int>(value));
  };
  set(TCP_KEEPIDLE, keepalive->idle.count());
  set(TCP_KEEPINTVL, keepalive->interval.count());
  set(TCP_KEEPCNT, keepalive->probes);
  return done;
}

Result<void> TcpStream::set_linger(std::optional<std::chrono::seconds> linger) const {
  const ::linger value{.l_onoff = linger ? 1 : 0,
                       .l_linger = linger ? static_cast<int>(linger->count()) : 0};
  return set_option(descriptor(), SOL_SOCKET, SO_LINGER, &value, sizeof value);
}

Result<TcpStream> TcpListener::accept() const {
  Result<Descriptor> socket = accept_socket({Carries::stream, kTcpReading, kTcpWriting}, nullptr);
  if (!socket) return socket.failure();
  return TcpStream{*std::move(socket)};
}

Result<TcpStream> TcpListener::accept(Endpoint& peer) const {
  SocketAddress address;
  Result<Descriptor> socket = accept_socket({Carries::stream, kTcpReading, kTcpWriting}, &address);
  if (!socket) return socket.failure();
  peer = Endpoint::of(address);
  return TcpStream{*std::move(socket)};
}

Result<TcpListener> listen(const Endpoint& at, const ListenOptions& options) {
  Result<BoundSocket> bound = bind_socket(at, {.type = SOCK_STREAM,
                                               .reuse_address = options.reuse_address,
                                               .reuse_port = options.reuse_port,
                                               .ipv6_only = options.ipv6_only,
                                               .backlog = options.backlog});
  if (!bound) return bound.failure();
  // The sockets that are accepted inherit it: no call for each of them.
  static_cast<void>(bound->socket.set(IPPROTO_TCP, TCP_NODELAY, 1));
  Result<Descriptor> watched =
      std::move(bound->socket).adopt(Carries::messages, "tcp accept", "tcp listener");
  if (!watched) return watched.failure();
  return TcpListener{*std::move(watched), std::move(bound->local), options.on_pause};
}

Result<TcpStream> connect(const Endpoint& to, const ConnectOptions& options) {
  if (to.is_unix()) return Unexpected{std::errc::address_family_not_supported};
  const auto now = [&] { return connect_now(to, options); };
  std::optional<Result<Descriptor>> socket;
  if (options.timeout == Duration::max()) socket = now();
  else socket = timeout(options.timeout, now);
  if (!socket) return Unexpected{std::errc::timed_out};
  if (!*socket) return socket->failure();
  return TcpStream{*std::move(*socket)};
}

}  // namespace weft::net
