// Sockets before anybody waits on them.
#pragma once

#include <weft/core/descriptor.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::net {

inline Unexpected failure_of(Kernel::Answer answer) noexcept {
  return Unexpected::of(static_cast<int>(-answer));
}

// An open socket that no reactor knows yet. An epoll that is told of a socket before it connects or
// listens says that it is hung up: so these steps come first.
class RawSocket {
 public:
  static Result<RawSocket> open(int domain, int type);
  RawSocket(Kernel& kernel, int fd) noexcept : kernel_(&kernel), fd_(fd) {}
  RawSocket(RawSocket&& other) noexcept
      : kernel_(other.kernel_), fd_(std::exchange(other.fd_, -1)) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (fd_ >= 0) static_cast<void>(kernel_->close(fd_));
  }

  [[nodiscard]] Result<void> set(int level, int name, int value) const noexcept;
  [[nodiscard]] Result<void> bind(const SocketAddress& address) const noexcept;
  [[nodiscard]] Result<void> listen(int backlog) const noexcept;
  // Begins to, and answers as the system does.
  [[nodiscard]] Kernel::Answer connect(const SocketAddress& address) const noexcept;
  [[nodiscard]] Result<Endpoint> local_endpoint() const;

  // From now on it can be waited on.
  Result<Descriptor> adopt(Carries carries, std::string_view reading, std::string_view writing) && {
    return Descriptor::adopt(std::exchange(fd_, -1), carries, reading, writing);
  }

 private:
  Kernel* kernel_;
  int fd_;
};

// How a TCP listener or a UDP socket takes its address.
struct BindOptions {
  int type;
  bool reuse_address = false;
  bool reuse_port = false;
  bool ipv6_only = false;
  std::optional<int> backlog{};  // of one that listens
};
struct BoundSocket {
  RawSocket socket;
  Endpoint local;
};
// Of the addresses of `at`, the first that can be had; the error is that of the first. A name is
// looked up: cancel point.
Result<BoundSocket> bind_socket(const Endpoint& at, const BindOptions& options);

// Options of sockets that are in use.
Result<void> set_option(const Descriptor& socket, int level, int name, const void* value,
                        socklen_t length);
Result<void> set_option(const Descriptor& socket, int level, int name, int value);

Result<Endpoint> local_endpoint_of(const Descriptor& socket);
Result<Endpoint> peer_endpoint_of(const Descriptor& socket);

// What came of a connection that has been begun; waits for it. Cancel point.
Result<void> finish_connecting(const Descriptor& socket);

}  // namespace weft::net
