// Endpoint: where a socket is, or where one is wanted: an address and a port, a Unix socket, or a
// host name that is still to be looked up.
//
//   net::Endpoint{"127.0.0.1", 8080}   net::Endpoint{"::1", 8080}   net::Endpoint{"a.example", 80}
//   net::Endpoint::parse("[fe80::1%2]:80")   net::Endpoint::unix_socket("@lift")
//
// A plain value: it compares, hashes, and prints as what parse() reads.
#pragma once

#include <weft/core/kernel.hpp>
#include <weft/result.hpp>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <system_error>

namespace weft::net {

// What is wrong with a text that should have been an endpoint. All are std::errc::invalid_argument.
enum class EndpointError {
  empty = 1,         // there is no text
  no_host,           // ":80"
  bad_host,          // "1.2.3:80", "a..b:80", "[host]:80"
  no_port,           // "host", "[::1]"
  bad_port,          // "host:", "host:http", "host:65536"
  bare_ipv6,         // "::1:80": which colon begins the port?
  unclosed_bracket,  // "[::1:80"
  no_path,           // "unix:"
  path_too_long,     // more than 107 bytes after "unix:"
  bad_path,          // a path with a zero byte inside
};
const std::error_category& endpoint_category() noexcept;
inline std::error_code make_error_code(EndpointError error) noexcept {
  return {static_cast<int>(error), endpoint_category()};
}

class Endpoint {
 public:
  enum class Kind : std::uint8_t {
    none,         // the default: nowhere
    ipv4,
    ipv6,
    unix_socket,  // a path, an abstract name, or no name at all
    name,         // a host name, not looked up yet
  };
  using Ipv4 = std::array<std::uint8_t, 4>;
  using Ipv6 = std::array<std::uint8_t, 16>;

  Endpoint() = default;
  // `host` is an IPv4 or IPv6 address, the latter also with a numeric scope ("fe80::1%2"), without
  // brackets; whatever else it is, it is taken for a name, and looked up when it is used.
  Endpoint(std::string_view host, std::uint16_t port);
  Endpoint(Ipv4 address, std::uint16_t port) noexcept;
  Endpoint(Ipv6 address, std::uint16_t port, std::uint32_t scope = 0) noexcept;
  // A Unix socket. A leading '@' or zero byte: an abstract name, which is no file. (Not called
  // `unix`: compilers predefine that as a macro.)
  static Endpoint unix_socket(std::string_view path);

  // "1.2.3.4:80", "[::1]:80", "host:80", "unix:/path", "unix:@abstract".
  static Result<Endpoint> parse(std::string_view text);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_ip() const noexcept { return kind_ == Kind::ipv4 || kind_ == Kind::ipv6; }
  [[nodiscard]] bool is_unix() const noexcept { return kind_ == Kind::unix_socket; }
  [[nodiscard]] bool is_name() const noexcept { return kind_ == Kind::name; }
  // Whether it is a Unix socket that is no file.
  [[nodiscard]] bool is_abstract() const noexcept {
    return is_unix() && !text_.empty() && text_.front() == '\0';
  }
  [[nodiscard]] bool is_loopback() const noexcept;  // 127.0.0.0/8, ::1; never a name
  [[nodiscard]] bool is_any() const noexcept;       // 0.0.0.0, ::
  [[nodiscard]] bool is_multicast() const noexcept;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }  // 0: has none
  [[nodiscard]] Endpoint with_port(std::uint16_t port) const;
  [[nodiscard]] std::uint32_t scope() const noexcept { return scope_; }  // of IPv6; 0: none
  [[nodiscard]] Ipv4 ipv4() const noexcept;                              // of Kind::ipv4
  [[nodiscard]] const Ipv6& ipv6() const noexcept { return bytes_; }     // of Kind::ipv6
  // The address without port and brackets, or the name, or "" for Unix sockets.
  [[nodiscard]] std::string host() const;
  // Of a Unix socket; an abstract name begins with a zero byte; empty: it has no name.
  [[nodiscard]] std::string_view path() const noexcept {
    return is_unix() ? std::string_view{text_} : std::string_view{};
  }

  // IPv6's "::ffff:1.2.3.4" as the IPv4 address it stands for: what a listener on "::" sees of
  // IPv4 peers. Everything else stays as it is.
  [[nodiscard]] Endpoint unmapped() const;
  // The converse, of an IPv4 address.
  [[nodiscard]] Endpoint mapped() const;

  // As the kernel wants it. Fails for names, which must be looked up first, for Kind::none, and for
  // paths that do not fit.
  [[nodiscard]] Result<SocketAddress> address() const;
  // Kind::none for families that weft does not know.
  static Endpoint of(const SocketAddress& address);

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend std::strong_ordering operator<=>(const Endpoint&, const Endpoint&) = default;

  [[nodiscard]] std::size_t hash() const noexcept;

 private:
  Kind kind_ = Kind::none;
  std::uint16_t port_ = 0;
  std::uint32_t scope_ = 0;
  Ipv6 bytes_{};      // of IPv4 the first four
  std::string text_;  // a path or a name
};

// What parse() reads. A Unix socket without a name prints as "unix:", Kind::none as "none".
std::string to_string(const Endpoint& endpoint);
std::ostream& operator<<(std::ostream& out, const Endpoint& endpoint);

}  // namespace weft::net

template <>
struct std::is_error_code_enum<weft::net::EndpointError> : std::true_type {};

template <>
struct std::hash<weft::net::Endpoint> {
  std::size_t operator()(const weft::net::Endpoint& endpoint) const noexcept {
    return endpoint.hash();
  }
};
