#include "socket.hpp"

#include <weft/net/resolve.hpp>

#include <netinet/in.h>
#include <poll.h>

#include <system_error>
#include <vector>

namespace weft::net {
namespace {

Result<void> done(Kernel::Answer answer) noexcept {
  if (answer < 0) return failure_of(answer);
  return {};
}

template <class T>
Result<void> done(const Result<T>& result) noexcept {
  if (!result) return result.failure();
  return {};
}

template <class Ask>
Result<Endpoint> endpoint_by(const Descriptor& socket, Ask ask) {
  SocketAddress address;
  const Result<std::size_t> asked = socket.ask(
      [&](Kernel& kernel, int fd) { return ask(kernel, fd, address); });
  if (!asked) return asked.failure();
  return Endpoint::of(address);
}

Result<BoundSocket> bind_to(const Endpoint& at, const BindOptions& options) {
  const Result<SocketAddress> address = at.address();
  if (!address) return address.failure();
  Result<RawSocket> socket = RawSocket::open(address->storage.ss_family, options.type);
  if (!socket) return socket.failure();
  Result<void> all;
  const auto set = [&](int level, int name, bool on) {
    if (all) all = socket->set(level, name, on ? 1 : 0);
  };
  if (options.reuse_address) set(SOL_SOCKET, SO_REUSEADDR, true);
  if (options.reuse_port) set(SOL_SOCKET, SO_REUSEPORT, true);
  if (at.kind() == Endpoint::Kind::ipv6) set(IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only);
  if (all) all = socket->bind(*address);
  if (all && options.backlog) all = socket->listen(*options.backlog);
  if (!all) return all.failure();
  Result<Endpoint> local = socket->local_endpoint();
  if (!local) return local.failure();
  return BoundSocket{*std::move(socket), *std::move(local)};
}

}  // namespace

Result<RawSocket> RawSocket::open(int domain, int type) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  const Kernel::Answer fd = (*kernel)->socket(domain, type, 0);
  if (fd < 0) return failure_of(fd);
  return RawSocket{**kernel, static_cast<int>(fd)};
}

Result<void> RawSocket::set(int level, int name, int value) const noexcept {
  return done(kernel_->set_option(fd_, level, name, &value, sizeof value));
}

Result<void> RawSocket::bind(const SocketAddress& address) const noexcept {
  return done(kernel_->bind(fd_, address.get(), address.length));
}

Result<void> RawSocket::listen(int backlog) const noexcept {
  return done(kernel_->listen(fd_, backlog));
}

Kernel::Answer RawSocket::connect(const SocketAddress& address) const noexcept {
  return kernel_->connect(fd_, address.get(), address.length);
}

Result<Endpoint> RawSocket::local_endpoint() const {
  SocketAddress address;
  const Kernel::Answer answer = kernel_->local_address(fd_, address);
  if (answer < 0) return failure_of(answer);
  return Endpoint::of(address);
}

Result<BoundSocket> bind_socket(const Endpoint& at, const BindOptions& options) {
  if (at.is_unix()) return Unexpected{std::errc::address_family_not_supported};
  const Result<std::vector<Endpoint>> found = resolve(at);
  if (!found) return found.failure();
  std::error_code error;
  for (const Endpoint& one : *found) {
    Result<BoundSocket> bound = bind_to(one, options);
    if (bound) return bound;
    if (!error) error = bound.error();
  }
  return Unexpected{error};
}

Result<void> set_option(const Descriptor& socket, int level, int name, const void* value,
                        socklen_t length) {
  return done(socket.ask([&](Kernel& kernel, int fd) {
    return kernel.set_option(fd, level, name, value, length);
  }));
}

Result<void> set_option(const Descriptor& socket, int level, int name, int value) {
  return set_option(socket, level, name, &value, sizeof value);
}

Result<Endpoint> local_endpoint_of(const Descriptor& socket) {
  return endpoint_by(socket, [](Kernel& kernel, int fd, SocketAddress& address) {
    return kernel.local_address(fd, address);
  });
}

Result<Endpoint> peer_endpoint_of(const Descriptor& socket) {
  return endpoint_by(socket, [](Kernel& kernel, int fd, SocketAddress& address) {
    return kernel.peer_address(fd, address);
  });
}

Result<void> finish_connecting(const Descriptor& socket) {
  return done(socket.call(Way::out, 0, [](Kernel& kernel, int fd) -> Kernel::Answer {
    if (kernel.poll(fd, POLLOUT) == 0) return -EAGAIN;
    int error = 0;
    socklen_t length = sizeof error;
    const Kernel::Answer answer = kernel.get_option(fd, SOL_SOCKET, SO_ERROR, &error, length);
    return answer < 0 ? answer : -error;
  }));
}

}  // namespace weft::net
