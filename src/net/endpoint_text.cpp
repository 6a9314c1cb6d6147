#include "endpoint_text.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ostream>

namespace weft::net {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::size_t kNameMax = 253;  // RFC 1035, as text
constexpr std::size_t kLabelMax = 63;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

template <class T>
std::optional<T> read_number(std::string_view text) noexcept {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

// Underscores are not in the rules, but in use.
bool is_label(std::string_view label) noexcept {
  return !label.empty() && label.size() <= kLabelMax &&
         std::all_of(label.begin(), label.end(), [](char c) {
           return is_letter(c) || is_digit(c) || c == '-' || c == '_';
         });
}

bool is_host_name(std::string_view name) noexcept {
  if (name.ends_with('.')) name.remove_suffix(1);  // fully qualified
  if (name.size() > kNameMax) return false;
  for (;;) {
    const std::size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (!is_label(label)) return false;
    // "1.2.3" is a mistyped address, and no name: top-level domains are not numbers.
    if (dot == std::string_view::npos) return !std::all_of(label.begin(), label.end(), is_digit);
    name.remove_prefix(dot + 1);
  }
}

Result<std::uint16_t> read_port(std::string_view text) noexcept {
  const auto port = read_number<std::uint16_t>(text);
  if (!port) return Unexpected{EndpointError::bad_port};
  return *port;
}

Result<Endpoint> read_unix(std::string_view path) {
  if (path.empty()) return Unexpected{EndpointError::no_path};
  Endpoint out = Endpoint::unix_socket(path);
  const Result<SocketAddress> address = out.address();
  if (!address) return address.failure();
  return out;
}

// "[::1]:80", and "[fe80::1%eth0]:80", where only the system knows which number eth0 has.
Result<Endpoint> read_bracketed(std::string_view text) {
  const std::size_t bracket = text.find(']');
  if (bracket == std::string_view::npos) return Unexpected{EndpointError::unclosed_bracket};
  const std::string_view host = text.substr(1, bracket - 1);
  const std::string_view rest = text.substr(bracket + 1);
  if (host.empty()) return Unexpected{EndpointError::no_host};
  const std::size_t percent = host.find('%');
  Endpoint bare;
  if (!text::read_ip(host.substr(0, percent), bare) || bare.kind() != Endpoint::Kind::ipv6)
    return Unexpected{EndpointError::bad_host};
  if (percent != std::string_view::npos && !is_label(host.substr(percent + 1)))
    return Unexpected{EndpointError::bad_host};
  if (rest.empty()) return Unexpected{EndpointError::no_port};
  if (rest.front() != ':') return Unexpected{EndpointError::bad_port};
  const Result<std::uint16_t> port = read_port(rest.substr(1));
  if (!port) return port.failure();
  return Endpoint{host, *port};
}

class EndpointCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "endpoint"; }
  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<EndpointError>(code)) {
      case EndpointError::empty: return "no endpoint: the text is empty";
      case EndpointError::no_host: return "no host before the port";
      case EndpointError::bad_host: return "neither an address nor a host name";
      case EndpointError::no_port: return "no port: host:port is wanted";
      case EndpointError::bad_port: return "the port is not a number from 0 to 65535";
      case EndpointError::bare_ipv6: return "an IPv6 address with a port needs brackets: [::1]:80";
      case EndpointError::unclosed_bracket: return "the bracket around the address is not closed";
      case EndpointError::no_path: return "no path after unix:";
      case EndpointError::path_too_long: return "a Unix socket's path has at most 107 bytes";
      case EndpointError::bad_path: return "a Unix socket's path has no zero bytes";
    }
    return "unknown error " + std::to_string(code);
  }
  [[nodiscard]] std::error_condition default_error_condition(int) const noexcept override {
    return std::errc::invalid_argument;
  }
};

}  // namespace

const std::error_category& endpoint_category() noexcept {
  static const EndpointCategory category;
  return category;
}

bool text::read_ip(std::string_view host, Endpoint& out) {
  const std::size_t percent = host.find('%');
  const std::string bare{host.substr(0, percent)};
  if (bare.size() > INET6_ADDRSTRLEN || bare.find('\0') != std::string::npos) return false;
  in_addr in{};
  if (percent == std::string_view::npos && ::inet_pton(AF_INET, bare.c_str(), &in) == 1) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&in);
    out = Endpoint{Endpoint::Ipv4{bytes[0], bytes[1], bytes[2], bytes[3]}, 0};
    return true;
  }
  in6_addr in6{};
  if (::inet_pton(AF_INET6, bare.c_str(), &in6) != 1) return false;
  std::uint32_t scope = 0;
  if (percent != std::string_view::npos) {
    const auto number = read_number<std::uint32_t>(host.substr(percent + 1));
    if (!number) return false;
    scope = *number;
  }
  Endpoint::Ipv6 bytes{};
  std::copy_n(in6.s6_addr, bytes.size(), bytes.begin());
  out = Endpoint{bytes, 0, scope};
  return true;
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  if (text.empty()) return Unexpected{EndpointError::empty};
  if (text.starts_with(kUnix)) return read_unix(text.substr(kUnix.size()));
  if (text.front() == '[') return read_bracketed(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Unexpected{EndpointError::no_port};
  const std::string_view host = text.substr(0, colon);
  if (host.empty()) return Unexpected{EndpointError::no_host};
  if (host.find(':') != std::string_view::npos) return Unexpected{EndpointError::bare_ipv6};
  const Result<std::uint16_t> port = read_port(text.substr(colon + 1));
  if (!port) return port.failure();
  Endpoint out{host, *port};
  if (out.is_name() && !is_host_name(host)) return Unexpected{EndpointError::bad_host};
  return out;
}

std::string Endpoint::host() const {
  char out[INET6_ADDRSTRLEN] = "";
  switch (kind_) {
    case Kind::name: return text_;
    case Kind::ipv4: return ::inet_ntop(AF_INET, bytes_.data(), out, sizeof out);
    case Kind::ipv6: {
      std::string text = ::inet_ntop(AF_INET6, bytes_.data(), out, sizeof out);
      if (scope_ != 0) text += "%" + std::to_string(scope_);
      return text;
    }
    default: return {};
  }
}

std::string to_string(const Endpoint& endpoint) {
  if (endpoint.kind() == Endpoint::Kind::none) return "none";
  if (endpoint.is_unix()) {
    std::string path{endpoint.path()};
    if (endpoint.is_abstract()) path.front() = '@';
    return std::string{kUnix} + path;
  }
  std::string host = endpoint.host();
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return host + ":" + std::to_string(endpoint.port());
}

std::ostream& operator<<(std::ostream& out, const Endpoint& endpoint) {
  return out << to_string(endpoint);
}

}  // namespace weft::net
