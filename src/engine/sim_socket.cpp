#include "sim_socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::engine {

using Scope = SimAddress::Scope;

// ── addresses ───────────────────────────────────────────────────────────────────────────────────

SimObject::Answer SimSocket::bind(const SimAddress& address) {
  if (address.family != family_) return is_unix() ? -EINVAL : -EAFNOSUPPORT;
  if (is_bound_) return -EINVAL;
  SimHostState& on = fabric_.host(host);
  SimAddress wanted = address;
  if (is_unix()) {
    if (wanted.path.empty()) wanted.path = '\0' + std::to_string(id);  // Linux: autobind
    const bool is_abstract = wanted.path.front() == '\0';
    if (is_abstract && on.names.contains({transport_, wanted.path})) return -EADDRINUSE;
    if (!is_abstract)
      if (const Answer answer = on.disk.make_socket(wanted.path); answer < 0) return answer;
    on.names[{transport_, wanted.path}] = id;
  } else {
    const bool is_foreign = wanted.scope == Scope::nowhere ||
                            (wanted.scope == Scope::host && wanted.host != host);
    if (is_foreign) return -EADDRNOTAVAIL;
    if (wanted.mapped && is_v6_only()) return -EINVAL;
    const Answer answer = fabric_.take_port(host, transport_, wanted, binding());
    if (answer < 0) return answer == -EADDRNOTAVAIL ? -EADDRINUSE : answer;
  }
  local_ = wanted;
  is_bound_ = true;
  return 0;
}

SimBinding SimSocket::binding() const noexcept {
  return {.v6_only = is_v6_only(),
          .reuse_port = option(SOL_SOCKET, SO_REUSEPORT) != 0,
          .socket = id};
}

SimObject::Answer SimSocket::bind_for(const SimAddress& to) {
  if (is_unix()) return 0;
  if (!is_bound_) {
    const Answer answer = fabric_.take_port(host, transport_, local_, binding());
    if (answer < 0) return answer;
    is_bound_ = is_chosen_for_us_ = true;
  }
  if (local_.scope != Scope::any) return 0;
  local_.scope = to.scope == Scope::host ? Scope::host : Scope::loopback;
  local_.host = host;
  local_.mapped = to.mapped;
  return 0;
}

SimObject::Answer SimSocket::host_of(const SimAddress& to) const {
  if (to.family != family_) return -EAFNOSUPPORT;
  if (to.mapped && is_v6_only()) return -ENETUNREACH;
  if (is_unix() || to.scope == Scope::any || to.scope == Scope::loopback) return host;
  if (to.scope == Scope::nowhere) return -ENETUNREACH;
  if (to.host >= fabric_.hosts()) return -EHOSTUNREACH;
  return to.host;
}

void SimSocket::release_address(bool rests) {
  if (!is_bound_) return;
  is_bound_ = false;
  if (!is_unix()) {
    fabric_.release_port(host, transport_, local_.port, id, rests && is_chosen_for_us_);
    return;
  }
  auto& names = fabric_.host(host).names;
  const auto at = names.find({transport_, local_.path});
  if (at != names.end() && at->second == id) names.erase(at);
}

SimObject::Answer SimSocket::local_address(SocketAddress& address) {
  local_.print(address);
  return 0;
}

// ── options ─────────────────────────────────────────────────────────────────────────────────────

int SimSocket::option(int level, int name) const noexcept {
  const auto at = options_.find({level, name});
  int value = 0;
  if (at != options_.end())
    std::memcpy(&value, at->second.data(), std::min(sizeof value, at->second.size()));
  return value;
}

bool SimSocket::is_v6_only() const noexcept {
  return option(IPPROTO_IPV6, IPV6_V6ONLY) != 0;
}

void SimSocket::inherit_from(const SimSocket& other) {
  options_ = other.options_;
  receive_max_ = other.receive_max_;
  send_max_ = other.send_max_;
}

SimObject::Answer SimSocket::set_option(int level, int name, const void* value, socklen_t length) {
  const bool known = level == SOL_SOCKET || level == IPPROTO_IP || level == IPPROTO_IPV6 ||
                     (level == IPPROTO_TCP && transport_ == Transport::stream && !is_unix());
  if (!known) return -ENOPROTOOPT;
  constexpr socklen_t kLengthMax = 1024;
  if (!value || length == 0 || length > kLengthMax) return -EINVAL;
  int number = 0;
  std::memcpy(&number, value, std::min<std::size_t>(sizeof number, length));
  if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF)) {
    if (length < sizeof number) return -EINVAL;
    constexpr int kLeast = 1024, kMost = 8 << 20;
    number = std::clamp(number, kLeast, kMost) * 2;  // as Linux counts
    (name == SO_RCVBUF ? receive_max_ : send_max_) = static_cast<std::size_t>(number);
    return 0;
  }
  if (level == SOL_SOCKET && (name == SO_ERROR || name == SO_TYPE || name == SO_DOMAIN))
    return -ENOPROTOOPT;
  options_[{level, name}].assign(static_cast<const char*>(value), length);
  return 0;
}

SimObject::Answer SimSocket::get_option(int level, int name, void* value, socklen_t& length) {
  std::string known(sizeof(int), '\0');
  const auto give = [&](int number) { std::memcpy(known.data(), &number, sizeof number); };
  const auto at = options_.find({level, name});
  if (at != options_.end()) known = at->second;
  else if (level == SOL_SOCKET && name == SO_ERROR) give(std::exchange(error_, 0));
  else if (level == SOL_SOCKET && name == SO_RCVBUF) give(static_cast<int>(receive_max_));
  else if (level == SOL_SOCKET && name == SO_SNDBUF) give(static_cast<int>(send_max_));
  else if (level == SOL_SOCKET && name == SO_DOMAIN) give(family_);
  else if (level == SOL_SOCKET && name == SO_TYPE)
    give(transport_ == Transport::stream ? SOCK_STREAM : SOCK_DGRAM);
  else if (level == SOL_SOCKET && name == SO_ACCEPTCONN) give(is_listening() ? 1 : 0);
  else if (level == SOL_SOCKET && name == SO_LINGER) known.resize(sizeof(linger));
  else if (level == IPPROTO_TCP && name == TCP_INFO) return -ENOPROTOOPT;
  else if (level == SOL_SOCKET && name == SO_PEERCRED) return -ENOPROTOOPT;
  else if (level != SOL_SOCKET && level != IPPROTO_TCP && level != IPPROTO_IP &&
           level != IPPROTO_IPV6)
    return -ENOPROTOOPT;
  length = static_cast<socklen_t>(std::min<std::size_t>(length, known.size()));
  std::memcpy(value, known.data(), length);
  return 0;
}

std::size_t SimSocket::piece_of(std::size_t most) noexcept {
  if (most < 2 || !fabric_.events.chance(fabric_.short_transfers)) return most;
  return fabric_.events.between(std::uint64_t{1}, most);
}

}  // namespace weft::engine
