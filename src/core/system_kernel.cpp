#include <weft/core/kernel.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace weft {
namespace {

Kernel::Answer answer(std::int64_t returned) noexcept { return returned < 0 ? -errno : returned; }

class SystemKernel final : public Kernel {
 public:
  Answer socket(int domain, int type, int protocol) noexcept override {
    return answer(::socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  }
  Answer socket_pair(int domain, int type, int (&ends)[2]) noexcept override {
    return answer(::socketpair(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
  }
  Answer bind(int fd, const sockaddr* address, socklen_t length) noexcept override {
    return answer(::bind(fd, address, length));
  }
  Answer listen(int fd, int backlog) noexcept override { return answer(::listen(fd, backlog)); }
  Answer accept(int fd, SocketAddress& peer) noexcept override {
    peer.length = sizeof peer.storage;
    return answer(::accept4(fd, peer.get(), &peer.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }
  Answer connect(int fd, const sockaddr* address, socklen_t length) noexcept override {
    return answer(::connect(fd, address, length));
  }
  Answer shutdown(int fd, int how) noexcept override { return answer(::shutdown(fd, how)); }
  Answer local_address(int fd, SocketAddress& address) noexcept override {
    address.length = sizeof address.storage;
    return answer(::getsockname(fd, address.get(), &address.length));
  }
  Answer peer_address(int fd, SocketAddress& address) noexcept override {
    address.length = sizeof address.storage;
    return answer(::getpeername(fd, address.get(), &address.length));
  }
  Answer set_option(int fd, int level, int name, const void* value,
                    socklen_t length) noexcept override {
    return answer(::setsockopt(fd, level, name, value, length));
  }
  Answer get_option(int fd, int level, int name, void* value,
                    socklen_t& length) noexcept override {
    return answer(::getsockopt(fd, level, name, value, &length));
  }
  // recv(2) and send(2) where they are enough: the kernel has less to copy.
  Answer receive(int fd, msghdr& message, int flags) noexcept override {
    if (message.msg_iovlen == 1 && !message.msg_name && !message.msg_control)
      return answer(::recv(fd, message.msg_iov->iov_base, message.msg_iov->iov_len, flags));
    return answer(::recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC));
  }
  Answer send(int fd, const msghdr& message, int flags) noexcept override {
    if (message.msg_iovlen == 1 && !message.msg_name && !message.msg_control)
      return answer(::send(fd, message.msg_iov->iov_base, message.msg_iov->iov_len,
                           flags | MSG_NOSIGNAL));
    return answer(::sendmsg(fd, &message, flags | MSG_NOSIGNAL));
  }

  Answer read(int fd, const iovec* parts, int count) noexcept override {
    if (count == 1) return answer(::read(fd, parts->iov_base, parts->iov_len));
    return answer(::readv(fd, parts, count));
  }
  Answer write(int fd, const iovec* parts, int count) noexcept override {
    if (count == 1) return answer(::write(fd, parts->iov_base, parts->iov_len));
    return answer(::writev(fd, parts, count));
  }
  Answer pipe(int (&ends)[2]) noexcept override {
    return answer(::pipe2(ends, O_CLOEXEC | O_NONBLOCK));
  }
  Answer send_file(int to, int from, std::int64_t& offset, std::size_t count) noexcept override {
    off_t at = offset;
    const Answer sent = answer(::sendfile(to, from, &at, count));
    offset = at;
    return sent;
  }
  Answer close(int fd) noexcept override { return answer(::close(fd)); }
  Answer poll(int fd, short events) noexcept override {
    pollfd asked{.fd = fd, .events = events, .revents = 0};
    const Answer ready = answer(::poll(&asked, 1, 0));
    return ready <= 0 ? ready : asked.revents;
  }

  Answer open(const char* path, int flags, mode_t permissions) noexcept override {
    return answer(::open(path, flags | O_CLOEXEC, permissions));
  }
  Answer read_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override {
    return answer(::preadv(fd, parts, count, offset));
  }
  Answer write_at(int fd, const iovec* parts, int count, std::int64_t offset) noexcept override {
    return answer(::pwritev(fd, parts, count, offset));
  }
  Answer seek(int fd, std::int64_t offset, int whence) noexcept override {
    return answer(::lseek(fd, offset, whence));
  }
  Answer sync(int fd, bool data_only) noexcept override {
    return answer(data_only ? ::fdatasync(fd) : ::fsync(fd));
  }
  Answer truncate(int fd, std::int64_t size) noexcept override {
    return answer(::ftruncate(fd, size));
  }
  Answer set_permissions(int fd, mode_t permissions) noexcept override {
    return answer(::fchmod(fd, permissions));
  }
  Answer status(int fd, struct stat& status) noexcept override {
    return answer(::fstat(fd, &status));
  }
  Answer status(const char* path, struct stat& status) noexcept override {
    return answer(::stat(path, &status));
  }
  Answer rename(const char* from, const char* to) noexcept override {
    return answer(std::rename(from, to));
  }
  Answer remove(const char* path) noexcept override { return answer(std::remove(path)); }
  Answer make_directory(const char* path, mode_t permissions) noexcept override {
    return answer(::mkdir(path, permissions));
  }
  Answer list_directory(const char* path, std::vector<DirectoryEntry>& entries) override {
    struct Close {
      void operator()(DIR* directory) const noexcept { ::closedir(directory); }
    };
    const std::unique_ptr<DIR, Close> directory{::opendir(path)};
    if (!directory) return -errno;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory.get());
      if (!entry) return -errno;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") entries.push_back({std::string{name}, kind_of(*entry)});
    }
  }

  int resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) override {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* all = nullptr;
    const int code = ::getaddrinfo(host, nullptr, &hints, &all);
    system_error = code == EAI_SYSTEM ? errno : 0;
    if (code != 0) return code;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned{all, &::freeaddrinfo};
    for (const addrinfo* one = all; one; one = one->ai_next) {
      SocketAddress& address = found.emplace_back();
      address.length = one->ai_addrlen;
      std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    }
    return 0;
  }

 private:
  static DirectoryEntry::Kind kind_of(const dirent& entry) noexcept {
    switch (entry.d_type) {
      case DT_REG: return DirectoryEntry::Kind::file;
      case DT_DIR: return DirectoryEntry::Kind::directory;
      case DT_LNK: return DirectoryEntry::Kind::link;
      default: return DirectoryEntry::Kind::other;
    }
  }
};

}  // namespace

Kernel& system_kernel() noexcept {
  static SystemKernel* const kernel = new SystemKernel;  // never destroyed: files may close late
  return *kernel;
}

}  // namespace weft
