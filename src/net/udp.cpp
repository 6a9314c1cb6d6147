#include <weft/net/udp.hpp>

#include "socket.hpp"

#include <netinet/in.h>

#include <cstring>

namespace weft::net {
namespace {

Family family_of(const Endpoint& endpoint) noexcept {
  return endpoint.kind() == Endpoint::Kind::ipv4 ? Family::ipv4 : Family::ipv6;
}

Result<void> send_message(const Descriptor& socket, std::span<const std::byte> bytes,
                          SocketAddress* to) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // which the kernel only reads
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (to) {
    message.msg_name = &to->storage;
    message.msg_namelen = to->length;
  }
  const Result<std::size_t> sent = socket.call(
      Way::out, 0, [&](Kernel& kernel, int fd) { return kernel.send(fd, message, 0); });
  if (!sent) return sent.failure();
  return {};
}

}  // namespace

Result<UdpSocket> UdpSocket::bind(const Endpoint& at, const UdpOptions& options) {
  Result<BoundSocket> bound = bind_socket(at, {.type = SOCK_DGRAM,
                                               .reuse_address = options.reuse_address,
                                               .reuse_port = options.reuse_port,
                                               .ipv6_only = options.ipv6_only});
  if (!bound) return bound.failure();
  if (options.broadcast)
    if (const Result<void> set = bound->socket.set(SOL_SOCKET, SO_BROADCAST, 1); !set)
      return set.failure();
  const Family family = family_of(bound->local);
  const bool reaches_both = family == Family::ipv6 && !options.ipv6_only;
  Result<Descriptor> watched =
      std::move(bound->socket).adopt(Carries::messages, "udp receive", "udp send");
  if (!watched) return watched.failure();
  return UdpSocket{*std::move(watched), family, reaches_both ? Family::any : family,
                   bound->local.port()};
}

// A socket on "::" knows IPv4 addresses as mapped ones.
Result<SocketAddress> UdpSocket::address_of(const Endpoint& to) const {
  if (to.is_unix()) return Unexpected{std::errc::address_family_not_supported};
  if (!to.is_name()) return (family_ == Family::ipv6 ? to.mapped() : to).address();
  const Result<std::vector<Endpoint>> found = resolve(to, {.family = reach_});
  if (!found) return found.failure();
  return (family_ == Family::ipv6 ? found->front().mapped() : found->front()).address();
}

Result<void> UdpSocket::connect(const Endpoint& to) const {
  const Result<SocketAddress> address = address_of(to);
  if (!address) return address.failure();
  const Result<std::size_t> asked = descriptor().ask([&](Kernel& kernel, int fd) {
    return kernel.connect(fd, address->get(), address->length);
  });
  if (!asked) return asked.failure();
  return {};
}

Result<void> UdpSocket::send_to(std::span<const std::byte> bytes, const Endpoint& to) const {
  Result<SocketAddress> address = address_of(to);
  if (!address) return address.failure();
  return send_message(descriptor(), bytes, &*address);
}

Result<void> UdpSocket::send(std::span<const std::byte> bytes) const {
  return send_message(descriptor(), bytes, nullptr);
}

Result<Datagram> UdpSocket::recv_from(std::span<std::byte> buffer) const {
  iovec part{buffer.data(), buffer.size()};
  SocketAddress from;
  msghdr message{};
  const Result<std::size_t> got = descriptor().call(Way::in, 0, [&](Kernel& kernel, int fd) {
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_name = &from.storage;
    message.msg_namelen = sizeof from.storage;
    return kernel.receive(fd, message, 0);
  });
  if (!got) return got.failure();
  from.length = message.msg_namelen;
  return Datagram{.bytes = buffer.first(*got),
                  .from = Endpoint::of(from),
                  .truncated = (message.msg_flags & MSG_TRUNC) != 0};
}

Result<std::span<std::byte>> UdpSocket::recv(std::span<std::byte> buffer) const {
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const Result<std::size_t> got = descriptor().call(
      Way::in, 0, [&](Kernel& kernel, int fd) { return kernel.receive(fd, message, 0); });
  if (!got) return got.failure();
  return buffer.first(*got);
}

Result<void> UdpSocket::set_broadcast(bool on) const {
  return set_option(descriptor(), SOL_SOCKET, SO_BROADCAST, on ? 1 : 0);
}

Result<void> UdpSocket::change_membership(const Endpoint& group, std::uint32_t interface_index,
                                          bool join) const {
  if (!group.is_multicast() || family_of(group) != family_)
    return Unexpected{std::errc::invalid_argument};
  if (family_ == Family::ipv4) {
    ip_mreqn request{};
    const Endpoint::Ipv4 address = group.ipv4();
    std::memcpy(&request.imr_multiaddr, address.data(), address.size());
    request.imr_ifindex = static_cast<int>(interface_index);
    return set_option(descriptor(), IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
                      &request, sizeof request);
  }
  ipv6_mreq request{};
  std::memcpy(&request.ipv6mr_multiaddr, group.ipv6().data(), group.ipv6().size());
  request.ipv6mr_interface = interface_index;
  return set_option(descriptor(), IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP,
                    &request, sizeof request);
}

Result<void> UdpSocket::join(const Endpoint& group, std::uint32_t interface_index) const {
  return change_membership(group, interface_index, true);
}
Result<void> UdpSocket::leave(const Endpoint& group, std::uint32_t interface_index) const {
  return change_membership(group, interface_index, false);
}

Result<void> UdpSocket::set_multicast_loop(bool on) const {
  return family_ == Family::ipv4
             ? set_option(descriptor(), IPPROTO_IP, IP_MULTICAST_LOOP, on ? 1 : 0)
             : set_option(descriptor(), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on ? 1 : 0);
}

Result<void> UdpSocket::set_multicast_hops(int hops) const {
  return family_ == Family::ipv4
             ? set_option(descriptor(), IPPROTO_IP, IP_MULTICAST_TTL, hops)
             : set_option(descriptor(), IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops);
}

Result<void> UdpSocket::set_multicast_interface(std::uint32_t interface_index) const {
  if (family_ == Family::ipv6)
    return set_option(descriptor(), IPPROTO_IPV6, IPV6_MULTICAST_IF,
                      static_cast<int>(interface_index));
  ip_mreqn request{};
  request.imr_ifindex = static_cast<int>(interface_index);
  return set_option(descriptor(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request);
}

}  // namespace weft::net
