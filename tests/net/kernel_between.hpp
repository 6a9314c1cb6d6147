// KernelBetween: the machine's own kernel, for tests to put something in between.
#pragma once

#include <weft/core/kernel.hpp>

#include <vector>

namespace weft::testing {

class KernelBetween : public Kernel {
 public:
  Answer socket(int domain, int type, int protocol) noexcept override {
    return real_.socket(domain, type, protocol);
  }
  Answer socket_pair(int domain, int type, int (&ends)[2]) noexcept override {
    return real_.socket_pair(domain, type, ends);
  }
  Answer bind(int fd, const sockaddr* address, socklen_t length) noexcept override {
    return real_.bind(fd, address, length);
  }
  Answer listen(int fd, int backlog) noexcept override { return real_.listen(fd, backlog); }
  Answer accept(int fd, SocketAddress& peer) noexcept override { return real_.accept(fd, peer); }
  Answer connect(int fd, const sockaddr* address, socklen_t length) noexcept override {
    return real_.connect(fd, address, length);
  }
  Answer shutdown(int fd, int how) noexcept override { return real_.shutdown(fd, how); }
  Answer local_address(int fd, SocketAddress& address) noexcept override {
    return real_.local_address(fd, address);
  }
  Answer peer_address(int fd, SocketAddress& address) noexcept override {
    return real_.peer_address(fd, address);
  }
  Answer set_option(int fd, int level, int name, const void* value,
                    socklen_t length) noexcept override {
    return real_.set_option(fd, level, name, value, length);
  }
  Answer get_option(int fd, int level, int name, void* value, socklen_t& length) noexcept override {
    return real_.get_option(fd, level, name, value, length);
  }
  Answer receive(int fd, msghdr& message, int flags) noexcept override {
    return real_.receive(fd, message, flags);
  }
  Answer send(int fd, const msghdr& message, int flags) noexcept override {
    return real_.send(fd, message, flags);
  }
  Answer read(int fd, const iovec* parts, int count) noexcept override {
    return real_.read(fd, parts, count);
  }
  Answer write(int fd, const iovec* parts, int count) noexcept override {
    return real_.write(fd, parts, count);
  }
  Answer pipe(int (&ends)[2]) noexcept override { return real_.pipe(ends); }
  Answer send_file(int to, int from, std::int64_t& offset, std::size_t count) noexcept override {
    return real_.send_file(to, from, offset, count);
  }
  Answer close(int fd) noexcept override { return real_.close(fd); }
  Answer poll(int fd, short events) noexcept override { return real_.poll(fd, events); }
  Answer open(const char* path, int flags, mode_t permissions) noexcept override {
    return real_.open(path, flags, permissions);
  }
  Answer read_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override {
    return real_.read_at(fd, parts, count, offset);
  }
  Answer write_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override {
    return real_.write_at(fd, parts, count, offset);
  }
  Answer seek(int fd, std::int64_t offset, int whence) noexcept override {
    return real_.seek(fd, offset, whence);
  }
  Answer sync(int fd, bool data_only) noexcept override { return real_.sync(fd, data_only); }
  Answer truncate(int fd, std::int64_t size) noexcept override { return real_.truncate(fd, size); }
  Answer set_permissions(int fd, mode_t permissions) noexcept override {
    return real_.set_permissions(fd, permissions);
  }
  Answer status(int fd, struct stat& status) noexcept override { return real_.status(fd, status); }
  Answer status(const char* path, struct stat& status) noexcept override {
    return real_.status(path, status);
  }
  Answer rename(const char* from, const char* to) noexcept override {
    return real_.rename(from, to);
  }
  Answer remove(const char* path) noexcept override { return real_.remove(path); }
  Answer make_directory(const char* path, mode_t permissions) noexcept override {
    return real_.make_directory(path, permissions);
  }
  Answer list_directory(const char* path, std::vector<DirectoryEntry>& entries) override {
    return real_.list_directory(path, entries);
  }
  int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) override {
    return real_.resolve(host, found, system_error);
  }

 protected:
  Kernel& real_ = system_kernel();
};

}  // namespace weft::testing
