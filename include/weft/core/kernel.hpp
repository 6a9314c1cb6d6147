// Kernel: the system calls that weft's I/O is made of, and nothing more.
//
// One implementation asks the machine's own kernel; the simulator has a network and disks of its
// own behind the same calls; a test puts faults in between. Whatever is above says nothing but
// this, so that a server runs unchanged in each of these worlds.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// An address as the kernel has it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

// What a directory holds.
struct DirectoryEntry {
  enum class Kind : std::uint8_t { file, directory, link, other };
  std::string name;
  Kind kind = Kind::other;
};

class Kernel {
 public:
  // A value that is not negative, or the negated errno.
  using Answer = std::int64_t;

  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Descriptors are made close-on-exec and, but for files, non-blocking.

  // ── sockets ─────────────────────────────────────────────────────────────────────────────────
  virtual Answer socket(int domain, int type, int protocol) noexcept = 0;
  // socketpair(2): two that are connected with each other.
  virtual Answer socket_pair(int domain, int type, int (&ends)[2]) noexcept {
    static_cast<void>(domain), static_cast<void>(type), static_cast<void>(ends);
    return -EOPNOTSUPP;
  }
  virtual Answer bind(int fd, const sockaddr* address, socklen_t length) noexcept = 0;
  virtual Answer listen(int fd, int backlog) noexcept = 0;
  virtual Answer accept(int fd, SocketAddress& peer) noexcept = 0;  // the new descriptor
  virtual Answer connect(int fd, const sockaddr* address, socklen_t length) noexcept = 0;
  virtual Answer shutdown(int fd, int how) noexcept = 0;
  virtual Answer local_address(int fd, SocketAddress& address) noexcept = 0;
  virtual Answer peer_address(int fd, SocketAddress& address) noexcept = 0;
  virtual Answer set_option(int fd, int level, int name, const void* value,
                            socklen_t length) noexcept = 0;
  virtual Answer get_option(int fd, int level, int name, void* value,
                            socklen_t& length) noexcept = 0;
  // recvmsg(2) and sendmsg(2), the latter with MSG_NOSIGNAL. How many bytes.
  virtual Answer receive(int fd, msghdr& message, int flags) noexcept = 0;
  virtual Answer send(int fd, const msghdr& message, int flags) noexcept = 0;

  // ── streams: pipes, terminals, files ────────────────────────────────────────────────────────
  virtual Answer read(int fd, const iovec* parts, int count) noexcept = 0;
  virtual Answer write(int fd, const iovec* parts, int count) noexcept = 0;
  virtual Answer pipe(int (&ends)[2]) noexcept = 0;  // to read from, to write to
  // sendfile(2): from a file to a socket or pipe. `offset` moves on.
  virtual Answer send_file(int to, int from, std::int64_t& offset, std::size_t count) noexcept = 0;
  virtual Answer close(int fd) noexcept = 0;
  // Which of `events`, as poll(2) has them, are there now; also POLLERR and POLLHUP.
  virtual Answer poll(int fd, short events) noexcept = 0;

  // ── files; each of these may block its thread ───────────────────────────────────────────────
  virtual Answer open(const char* path, int flags, mode_t permissions) noexcept = 0;
  virtual Answer read_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept = 0;
  virtual Answer write_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept = 0;
  virtual Answer seek(int fd, std::int64_t offset, int whence) noexcept = 0;
  virtual Answer sync(int fd, bool data_only) noexcept = 0;
  virtual Answer truncate(int fd, std::int64_t size) noexcept = 0;
  virtual Answer set_permissions(int fd, mode_t permissions) noexcept {  // whatever the umask
    static_cast<void>(fd), static_cast<void>(permissions);
    return -EOPNOTSUPP;
  }
  virtual Answer status(int fd, struct stat& status) noexcept = 0;
  virtual Answer status(const char* path, struct stat& status) noexcept = 0;
  virtual Answer rename(const char* from, const char* to) noexcept = 0;
  virtual Answer remove(const char* path) noexcept = 0;  // a file or an empty directory
  virtual Answer make_directory(const char* path, mode_t permissions) noexcept = 0;
  virtual Answer list_directory(const char* path, std::vector<DirectoryEntry>& entries) = 0;

  // ── names ───────────────────────────────────────────────────────────────────────────────────
  // The addresses of `host`, best first, ports not filled in. An answer below zero is one of
  // getaddrinfo(3)'s own codes, EAI_…, or EAI_SYSTEM with errno in `system_error`. May block.
  virtual int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) = 0;

 protected:
  Kernel() = default;
  ~Kernel() = default;
};

// The machine's own.
Kernel& system_kernel() noexcept;

}  // namespace weft
