#include <weft/net/unix.hpp>

#include "socket.hpp"

#include <weft/cancel.hpp>
#include <weft/time.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <optional>

namespace weft::net {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds{1};
constexpr Duration kLongestPause = std::chrono::milliseconds{100};
constexpr std::string_view kUnixReading = "unix read";
constexpr std::string_view kUnixWriting = "unix write";

Result<Descriptor> adopt_stream(RawSocket socket) {
  return std::move(socket).adopt(Carries::messages, kUnixReading, kUnixWriting);
}

// A full backlog answers EAGAIN, and nothing tells when it is no longer full.
Result<Descriptor> connect_now(const SocketAddress& address) {
  for (Duration pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    {
      Result<RawSocket> socket = RawSocket::open(AF_UNIX, SOCK_STREAM);
      if (!socket) return socket.failure();
      const Kernel::Answer begun = socket->connect(address);
      if (begun >= 0 || begun == -EINPROGRESS) {
        Result<Descriptor> watched = adopt_stream(*std::move(socket));
        if (!watched || begun >= 0) return watched;
        const Result<void> outcome = finish_connecting(*watched);
        if (!outcome) return outcome.failure();
        return watched;
      }
      if (begun != -EAGAIN && begun != -EINTR) return failure_of(begun);
    }
    sleep_for(pause);
  }
}

Result<SocketAddress> address_of(const Endpoint& endpoint) {
  if (!endpoint.is_unix()) return Unexpected{std::errc::address_family_not_supported};
  if (endpoint.path().empty()) return Unexpected{EndpointError::no_path};
  return endpoint.address();
}

// Whether the file is a socket that nobody listens on.
bool is_stale(Kernel& kernel, const std::string& path, const SocketAddress& address) {
  struct stat status {};
  if (kernel.status(path.c_str(), status) < 0 || !S_ISSOCK(status.st_mode)) return false;
  const Result<RawSocket> probe = RawSocket::open(AF_UNIX, SOCK_STREAM);
  return probe && probe->connect(address) == -ECONNREFUSED;
}

Result<void> bind_listener(const RawSocket& socket, const Endpoint& at,
                           const SocketAddress& address, const UnixListenOptions& options) {
  Result<void> bound = socket.bind(address);
  if (bound || bound.error() != std::errc::address_in_use) return bound;
  if (!options.remove_stale || at.is_abstract()) return bound;
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  const std::string path{at.path()};
  if (!kernel || !is_stale(**kernel, path, address)) return bound;
  static_cast<void>((*kernel)->remove(path.c_str()));
  return socket.bind(address);
}

}  // namespace

Result<UnixStream> UnixStream::adopt(int fd) {
  Result<Descriptor> socket = Descriptor::adopt(fd, Carries::messages, kUnixReading, kUnixWriting);
  if (!socket) return socket.failure();
  return UnixStream{*std::move(socket)};
}

Result<UnixStream> UnixStream::connect(const Endpoint& to, const UnixConnectOptions& options) {
  const Result<SocketAddress> address = address_of(to);
  if (!address) return address.failure();
  const auto now = [&] { return connect_now(*address); };
  std::optional<Result<Descriptor>> socket;
  if (options.timeout == Duration::max()) socket = now();
  else socket = timeout(options.timeout, now);
  if (!socket) return Unexpected{std::errc::timed_out};
  if (!*socket) return socket->failure();
  return UnixStream{*std::move(*socket)};
}

// For kernels that have no pairs.
static Result<std::pair<UnixStream, UnixStream>> pair_by_name() {
  const std::string name = "@weft-pair-" + std::to_string(io().random());
  const Result<UnixListener> listener = UnixListener::listen(name, {.backlog = 1});
  if (!listener) return listener.failure();
  Result<UnixStream> one = UnixStream::connect(name);
  if (!one) return one.failure();
  Result<UnixStream> other = listener->accept();
  if (!other) return other.failure();
  return std::pair{*std::move(one), *std::move(other)};
}

Result<std::pair<UnixStream, UnixStream>> UnixStream::pair() {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  int ends[2] = {-1, -1};
  const Kernel::Answer made = (*kernel)->socket_pair(AF_UNIX, SOCK_STREAM, ends);
  if (made == -EOPNOTSUPP) return pair_by_name();
  if (made < 0) return failure_of(made);
  RawSocket second{**kernel, ends[1]};
  Result<Descriptor> one = adopt_stream(RawSocket{**kernel, ends[0]});
  if (!one) return one.failure();
  Result<Descriptor> other = adopt_stream(std::move(second));
  if (!other) return other.failure();
  return std::pair{UnixStream{*std::move(one)}, UnixStream{*std::move(other)}};
}

Result<UnixListener> UnixListener::listen(const Endpoint& at, const UnixListenOptions& options) {
  const Result<SocketAddress> address = address_of(at);
  if (!address) return address.failure();
  Result<RawSocket> socket = RawSocket::open(AF_UNIX, SOCK_STREAM);
  if (!socket) return socket.failure();
  Result<void> done = bind_listener(*socket, at, *address, options);
  if (done) done = socket->listen(options.backlog);
  if (!done) return done.failure();
  Result<Descriptor> watched =
      (*std::move(socket)).adopt(Carries::messages, "unix accept", "unix listener");
  if (!watched) return watched.failure();
  const bool unlinks = options.unlink_at_close && !at.is_abstract();
  return UnixListener{*std::move(watched), at, options.on_pause,
                      unlinks ? std::string{at.path()} : std::string{}};
}

UnixListener& UnixListener::operator=(UnixListener&& other) noexcept {
  if (this != &other) {
    static_cast<void>(close());
    ListenerSocket::operator=(std::move(other));
    unlinked_ = std::move(other.unlinked_);
  }
  return *this;
}

UnixListener::~UnixListener() { static_cast<void>(close()); }

Result<UnixStream> UnixListener::accept() const {
  Result<Descriptor> socket =
      accept_socket({Carries::messages, kUnixReading, kUnixWriting}, nullptr);
  if (!socket) return socket.failure();
  return UnixStream{*std::move(socket)};
}

// The file first: once the socket is closed, it may be somebody else's.
Result<void> UnixListener::close() noexcept {
  if (!unlinked_.empty())
    static_cast<void>(descriptor().ask([this](Kernel& kernel, int) {
      return kernel.remove(unlinked_.c_str());
    }));
  return ListenerSocket::close();
}

}  // namespace weft::net
