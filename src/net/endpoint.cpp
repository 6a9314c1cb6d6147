#include <weft/net/endpoint.hpp>

#include "endpoint_text.hpp"

#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace weft::net {
namespace {

constexpr Endpoint::Ipv6 kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kMappedBytes = 12;
constexpr std::size_t kPathOffset = offsetof(sockaddr_un, sun_path);

template <class T>
SocketAddress as_address(const T& address, std::size_t length = sizeof(T)) noexcept {
  SocketAddress out;
  std::memcpy(&out.storage, &address, sizeof address);
  out.length = static_cast<socklen_t>(length);
  return out;
}

template <class T>
T from_address(const SocketAddress& address) noexcept {
  T out{};
  std::memcpy(&out, &address.storage, std::min<std::size_t>(sizeof out, address.length));
  return out;
}

Result<SocketAddress> unix_address(std::string_view path, bool is_abstract) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  // A path needs a zero byte behind it, an abstract name has one in front already.
  if (path.size() + (is_abstract ? 0 : 1) > sizeof out.sun_path)
    return Unexpected{EndpointError::path_too_long};
  if (!is_abstract && path.find('\0') != std::string_view::npos)
    return Unexpected{EndpointError::bad_path};
  if (path.empty()) return as_address(out, kPathOffset);
  std::memcpy(out.sun_path, path.data(), path.size());
  return as_address(out, kPathOffset + path.size() + (is_abstract ? 0 : 1));
}

}  // namespace

Endpoint::Endpoint(std::string_view host, std::uint16_t port) {
  if (!text::read_ip(host, *this)) {
    kind_ = Kind::name;
    text_ = host;
  }
  port_ = port;
}

Endpoint::Endpoint(Ipv4 address, std::uint16_t port) noexcept : kind_(Kind::ipv4), port_(port) {
  std::copy(address.begin(), address.end(), bytes_.begin());
}

Endpoint::Endpoint(Ipv6 address, std::uint16_t port, std::uint32_t scope) noexcept
    : kind_(Kind::ipv6), port_(port), scope_(scope), bytes_(address) {}

Endpoint Endpoint::unix_socket(std::string_view path) {
  Endpoint out;
  out.kind_ = Kind::unix_socket;
  out.text_ = path;
  if (!path.empty() && path.front() == '@') out.text_.front() = '\0';
  return out;
}

bool Endpoint::is_loopback() const noexcept {
  if (kind_ == Kind::ipv4) return bytes_[0] == 127;
  if (kind_ != Kind::ipv6) return false;
  return bytes_.back() == 1 &&
         std::all_of(bytes_.begin(), bytes_.end() - 1, [](std::uint8_t byte) { return byte == 0; });
}

bool Endpoint::is_any() const noexcept { return is_ip() && bytes_ == Ipv6{}; }

bool Endpoint::is_multicast() const noexcept {
  if (kind_ == Kind::ipv4) return (bytes_[0] & 0xf0) == 0xe0;
  return kind_ == Kind::ipv6 && bytes_[0] == 0xff;
}

Endpoint Endpoint::with_port(std::uint16_t port) const {
  Endpoint out = *this;
  out.port_ = port;
  return out;
}

Endpoint::Ipv4 Endpoint::ipv4() const noexcept {
  return {bytes_[0], bytes_[1], bytes_[2], bytes_[3]};
}

Endpoint Endpoint::unmapped() const {
  if (kind_ != Kind::ipv6 || !std::equal(kMapped.begin(), kMapped.begin() + kMappedBytes,
                                         bytes_.begin()))
    return *this;
  return Endpoint{Ipv4{bytes_[12], bytes_[13], bytes_[14], bytes_[15]}, port_};
}

Endpoint Endpoint::mapped() const {
  if (kind_ != Kind::ipv4) return *this;
  Ipv6 bytes = kMapped;
  std::copy_n(bytes_.begin(), 4, bytes.begin() + kMappedBytes);
  return Endpoint{bytes, port_};
}

Result<SocketAddress> Endpoint::address() const {
  switch (kind_) {
    case Kind::ipv4: {
      sockaddr_in out{};
      out.sin_family = AF_INET;
      out.sin_port = htons(port_);
      std::memcpy(&out.sin_addr, bytes_.data(), sizeof out.sin_addr);
      return as_address(out);
    }
    case Kind::ipv6: {
      sockaddr_in6 out{};
      out.sin6_family = AF_INET6;
      out.sin6_port = htons(port_);
      out.sin6_scope_id = scope_;
      std::memcpy(&out.sin6_addr, bytes_.data(), sizeof out.sin6_addr);
      return as_address(out);
    }
    case Kind::unix_socket: return unix_address(text_, is_abstract());
    case Kind::name: return Unexpected{std::errc::destination_address_required};
    case Kind::none: break;
  }
  return Unexpected{std::errc::invalid_argument};
}

Endpoint Endpoint::of(const SocketAddress& address) {
  if (address.length < sizeof(sa_family_t)) return {};
  switch (address.storage.ss_family) {
    case AF_INET: {
      const auto in = from_address<sockaddr_in>(address);
      Ipv4 bytes{};
      std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
      return Endpoint{bytes, ntohs(in.sin_port)};
    }
    case AF_INET6: {
      const auto in = from_address<sockaddr_in6>(address);
      Ipv6 bytes{};
      std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
      return Endpoint{bytes, ntohs(in.sin6_port), in.sin6_scope_id};
    }
    case AF_UNIX: {
      const auto in = from_address<sockaddr_un>(address);
      const std::size_t length = address.length > kPathOffset ? address.length - kPathOffset : 0;
      std::string_view path{in.sun_path, std::min(length, sizeof in.sun_path)};
      if (!path.empty() && path.front() != '\0') path = path.substr(0, path.find('\0'));
      // A file of that name: '@' would make it an abstract one.
      if (!path.empty() && path.front() == '@') return unix_socket("./" + std::string{path});
      return unix_socket(path);
    }
    default: return {};
  }
}

std::size_t Endpoint::hash() const noexcept {
  const std::string_view bytes{reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  constexpr std::size_t kFactor = 0x9e3779b97f4a7c15U;
  std::size_t out = std::hash<std::string_view>{}(bytes);
  out = out * kFactor + std::hash<std::string>{}(text_);
  out = out * kFactor + ((static_cast<std::size_t>(kind_) << 16U) | port_);
  return out * kFactor + scope_;
}

}  // namespace weft::net
