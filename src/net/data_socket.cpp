#include <weft/net/data_socket.hpp>

#include "socket.hpp"

#include <algorithm>
#include <limits>

namespace weft::net {
namespace {

Result<void> set_buffer(const Descriptor& socket, int name, std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  return set_option(socket, SOL_SOCKET, name, static_cast<int>(std::min(bytes, kMost)));
}

Result<std::size_t> buffer(const Descriptor& socket, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  const Result<std::size_t> asked = socket.ask([&](Kernel& kernel, int fd) {
    return kernel.get_option(fd, SOL_SOCKET, name, &value, length);
  });
  if (!asked) return asked.failure();
  return static_cast<std::size_t>(value);
}

}  // namespace

Result<Endpoint> DataSocket::local_endpoint() const { return local_endpoint_of(descriptor()); }
Result<Endpoint> DataSocket::peer_endpoint() const { return peer_endpoint_of(descriptor()); }

Result<void> DataSocket::set_send_buffer(std::size_t bytes) const {
  return set_buffer(descriptor(), SO_SNDBUF, bytes);
}
Result<void> DataSocket::set_receive_buffer(std::size_t bytes) const {
  return set_buffer(descriptor(), SO_RCVBUF, bytes);
}
Result<std::size_t> DataSocket::send_buffer() const { return buffer(descriptor(), SO_SNDBUF); }
Result<std::size_t> DataSocket::receive_buffer() const { return buffer(descriptor(), SO_RCVBUF); }

}  // namespace weft::net
