// SimAddress: who is meant by a socket address in a simulated net.
//
// Host number n (from 0) is 10.0.x.y and fd00::z, where n + 1 is x·256 + y, and z. 127.0.0.0/8 and
// ::1 are whoever asks, 0.0.0.0 and :: any address of a host.
#pragma once

#include <weft/core/kernel.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::engine {

using HostId = std::uint32_t;

struct SimAddress {
  enum class Scope : std::uint8_t { any, loopback, host, nowhere };

  sa_family_t family = AF_INET;  // AF_INET, AF_INET6, or AF_UNIX with a path
  Scope scope = Scope::any;
  bool mapped = false;           // an IPv4 address in IPv6's clothes
  HostId host = 0;               // of Scope::host
  std::uint16_t port = 0;
  std::string path{};            // of AF_UNIX; with a zero byte in front: abstract

  // 0, or the negated errno.
  static Kernel::Answer parse(const sockaddr* address, socklen_t length, SimAddress& parsed);
  void print(SocketAddress& to) const noexcept;
};

// What `text` is as a numeric address; false: a name.
bool parse_numeric(std::string_view text, SocketAddress& address) noexcept;
std::string dotted(HostId host);

}  // namespace weft::engine
