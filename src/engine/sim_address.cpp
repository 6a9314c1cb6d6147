#include "sim_address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace weft::engine {
namespace {

constexpr std::uint32_t kNet = 0x0a00'0000;  // 10.0.0.0/16
constexpr std::uint32_t kNetMask = 0xffff'0000;
constexpr std::uint32_t kLoopback = 0x7f00'0001;

void parse_v4(std::uint32_t address, SimAddress& parsed) noexcept {
  using Scope = SimAddress::Scope;
  if (address == 0) parsed.scope = Scope::any;
  else if ((address >> 24) == 127) parsed.scope = Scope::loopback;
  else if ((address & kNetMask) == kNet && (address & ~kNetMask) != 0) parsed.scope = Scope::host;
  else parsed.scope = Scope::nowhere;
  if (parsed.scope == Scope::host) parsed.host = (address & ~kNetMask) - 1;
}

std::uint32_t number_v4(const SimAddress& address) noexcept {
  switch (address.scope) {
    case SimAddress::Scope::loopback: return kLoopback;
    case SimAddress::Scope::host: return kNet + address.host + 1;
    default: return 0;
  }
}

std::uint32_t big_endian(const std::uint8_t* bytes) noexcept {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | bytes[i];
  return number;
}

void put_big_endian(std::uint32_t number, std::uint8_t* bytes) noexcept {
  for (int i = 3; i >= 0; --i, number >>= 8) bytes[i] = static_cast<std::uint8_t>(number);
}

void parse_v6(const in6_addr& address, SimAddress& parsed) noexcept {
  using Scope = SimAddress::Scope;
  const std::uint8_t* const bytes = address.s6_addr;
  const std::uint32_t last = big_endian(bytes + 12);
  const bool zeros = std::all_of(bytes + 1, bytes + 12, [](std::uint8_t b) { return b == 0; });
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    parsed.mapped = true;
    parse_v4(last, parsed);
  } else if (zeros && bytes[0] == 0xfd && last != 0) {
    parsed.scope = Scope::host;
    parsed.host = last - 1;
  } else if (zeros && bytes[0] == 0 && last <= 1) {
    parsed.scope = last == 0 ? Scope::any : Scope::loopback;
  } else {
    parsed.scope = Scope::nowhere;
  }
}

}  // namespace

Kernel::Answer SimAddress::parse(const sockaddr* address, socklen_t length, SimAddress& parsed) {
  if (!address || length < sizeof(sa_family_t)) return -EINVAL;
  parsed.family = address->sa_family;
  if (parsed.family == AF_INET) {
    sockaddr_in in{};
    if (length < sizeof in) return -EINVAL;
    std::memcpy(&in, address, sizeof in);
    parsed.port = ntohs(in.sin_port);
    parse_v4(ntohl(in.sin_addr.s_addr), parsed);
    return 0;
  }
  if (parsed.family == AF_INET6) {
    sockaddr_in6 in6{};
    if (length < sizeof in6) return -EINVAL;
    std::memcpy(&in6, address, sizeof in6);
    parsed.port = ntohs(in6.sin6_port);
    parse_v6(in6.sin6_addr, parsed);
    return 0;
  }
  if (parsed.family != AF_UNIX) return -EAFNOSUPPORT;
  constexpr std::size_t kPathAt = offsetof(sockaddr_un, sun_path);
  if (length > sizeof(sockaddr_un)) return -EINVAL;
  if (length > kPathAt)
    parsed.path.assign(reinterpret_cast<const char*>(address) + kPathAt, length - kPathAt);
  if (!parsed.path.empty() && parsed.path.front() != '\0')
    parsed.path.resize(std::strlen(parsed.path.c_str()));
  return 0;
}

void SimAddress::print(SocketAddress& to) const noexcept {
  to = SocketAddress{};
  if (family == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(number_v4(*this));
    std::memcpy(&to.storage, &in, to.length = sizeof in);
  } else if (family == AF_INET6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::uint8_t* const bytes = in6.sin6_addr.s6_addr;
    if (mapped) {
      bytes[10] = bytes[11] = 0xff;
      put_big_endian(number_v4(*this), bytes + 12);
    } else if (scope == Scope::host) {
      bytes[0] = 0xfd;
      put_big_endian(host + 1, bytes + 12);
    } else {
      bytes[15] = scope == Scope::loopback ? 1 : 0;
    }
    std::memcpy(&to.storage, &in6, to.length = sizeof in6);
  } else {
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    const std::size_t size = std::min(path.size(), sizeof un.sun_path);
    if (size > 0) std::memcpy(un.sun_path, path.data(), size);
    // A name in the file system is printed with its final zero, as Linux does.
    const bool ends_with_zero = size > 0 && path.front() != '\0' && size < sizeof un.sun_path;
    to.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size +
                                       (ends_with_zero ? 1 : 0));
    std::memcpy(&to.storage, &un, sizeof un);
  }
}

bool parse_numeric(std::string_view text, SocketAddress& address) noexcept {
  std::array<char, INET6_ADDRSTRLEN + 1> copy{};
  if (text.size() >= copy.size()) return false;
  std::copy(text.begin(), text.end(), copy.begin());
  address = SocketAddress{};
  sockaddr_in in{};
  if (::inet_pton(AF_INET, copy.data(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    std::memcpy(&address.storage, &in, address.length = sizeof in);
    return true;
  }
  sockaddr_in6 in6{};
  if (::inet_pton(AF_INET6, copy.data(), &in6.sin6_addr) != 1) return false;
  in6.sin6_family = AF_INET6;
  std::memcpy(&address.storage, &in6, address.length = sizeof in6);
  return true;
}

std::string dotted(HostId host) {
  const std::uint32_t number = kNet + host + 1;
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8)
    text += std::to_string(number >> shift & 0xff) + (shift > 0 ? "." : "");
  return text;
}

}  // namespace weft::engine
