// UDP: datagrams, each of which arrives whole, or not at all.
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/net/data_socket.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/net/resolve.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace weft::net {

struct Datagram {
  std::span<std::byte> bytes;  // at the beginning of the caller's buffer; may be none
  Endpoint from;
  bool truncated = false;  // the rest did not fit, and is lost
};

struct UdpOptions {
  bool reuse_address = false;
  bool reuse_port = false;
  bool ipv6_only = false;  // else "::" sends to and receives from IPv4 as well
  bool broadcast = false;  // may send to broadcast addresses
};

// A handle that owns its socket: it moves, and closes when it is destroyed. Any number of fibers
// may send and receive at once: each datagram goes to one of them.
//
// All that send or receive are cancel points, and park: the former rarely. A datagram that was too
// large for the way fails with std::errc::message_size. Of what connected sockets have sent, that
// it was refused shows as std::errc::connection_refused in a later call; there may be more to
// receive all the same.
class UdpSocket : public DataSocket {
 public:
  UdpSocket() = default;  // closed

  // {"0.0.0.0", 0} or {"::", 0}: any port, for clients.
  static Result<UdpSocket> bind(const Endpoint& at, const UdpOptions& options = {});

  // From now on send() goes there, and only what comes from there is received.
  Result<void> connect(const Endpoint& to) const;

  // Names are looked up, each time. From a socket on "::", IPv4 is reached, too.
  Result<void> send_to(std::span<const std::byte> bytes, const Endpoint& to) const;
  Result<void> send(std::span<const std::byte> bytes) const;
  // The next datagram, as much of it as fits; of a buffer of no bytes: that there was one.
  Result<Datagram> recv_from(std::span<std::byte> buffer) const;
  // The same, if it does not matter from whom.
  Result<std::span<std::byte>> recv(std::span<std::byte> buffer) const;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  Result<void> set_broadcast(bool on) const;
  // `group` is an address of the socket's own family. On which interface: 0 lets the system choose.
  Result<void> join(const Endpoint& group, std::uint32_t interface_index = 0) const;
  Result<void> leave(const Endpoint& group, std::uint32_t interface_index = 0) const;
  Result<void> set_multicast_loop(bool on) const;     // whether we get what we send; default: yes
  Result<void> set_multicast_hops(int hops) const;    // default: 1, so that it stays on the link
  Result<void> set_multicast_interface(std::uint32_t interface_index) const;  // to send from

 private:
  UdpSocket(Descriptor socket, Family family, Family reach, std::uint16_t port) noexcept
      : DataSocket(std::move(socket)), family_(family), reach_(reach), port_(port) {}
  Result<SocketAddress> address_of(const Endpoint& to) const;
  Result<void> change_membership(const Endpoint& group, std::uint32_t interface_index,
                                 bool join) const;

  Family family_ = Family::any;
  Family reach_ = Family::any;  // of the addresses that it can send to
  std::uint16_t port_ = 0;
};

}  // namespace weft::net
