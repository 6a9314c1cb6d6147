#include <support/faulty_kernel.hpp>

#include "engine/reactor_hook.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace weft::testing {
namespace {

std::uint64_t scrambled(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

bool is_tcp(int fd) noexcept {
  int protocol = 0;
  socklen_t length = sizeof protocol;
  return ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
         protocol == IPPROTO_TCP;
}

// Has Linux signal what is there to be read. If nothing is, the edge is still to come.
void signal_readable(int fd) noexcept {
  constexpr int kOne = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &kOne, sizeof kOne);
}

// Has Linux signal that more can be written. If not, poll(2) has it do so later.
void signal_writable(int fd) noexcept {
  pollfd asked{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&asked, 1, 0) <= 0) return;
  int bytes = 0;
  socklen_t length = sizeof bytes;
  ::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &length);
  bytes /= 2;  // it tells twice of what it was told
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

// That there is an error or an end is signalled once, and after it no call blocks.
bool is_at_its_end(int fd) noexcept {
  pollfd asked{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return ::poll(&asked, 1, 0) != 0;
}

std::uint16_t port_of(const SocketAddress& address) noexcept {
  if (address.storage.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

// A plain transfer of bytes, of which a part can be made.
bool is_plain(const msghdr& message) noexcept {
  return message.msg_iovlen > 0 && !message.msg_name && !message.msg_control;
}

}  // namespace

FaultyKernel::Between::Between(Kernel& kernel) noexcept {
  engine::kernel_in_between.store(&kernel, std::memory_order_release);
}
FaultyKernel::Between::~Between() {
  engine::kernel_in_between.store(nullptr, std::memory_order_release);
}

bool FaultyKernel::has_ended(std::uint16_t port) const {
  const std::lock_guard locked{lock_};
  return ended_.count(port) != 0;
}

std::uint64_t FaultyKernel::chance() noexcept {
  return scrambled(scrambled(faults_.seed) + chances_.fetch_add(1, std::memory_order_relaxed));
}

bool FaultyKernel::happens(Fault fault, double probability) noexcept {
  if (probability <= 0) return false;
  constexpr double kWhole = 9007199254740992.0;  // 2 to the 53rd
  if (static_cast<double>(chance() >> 11U) / kWhole >= probability) return false;
  counts_[static_cast<std::size_t>(fault)].fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool FaultyKernel::interrupts() noexcept {
  if (happens(Fault::late, faults_.late)) ::poll(nullptr, 0, 1);
  return happens(Fault::interrupted, faults_.interrupted);
}

bool FaultyKernel::would_block(int fd) noexcept {
  return happens(Fault::would_block, faults_.would_block) && is_tcp(fd) && !is_at_its_end(fd);
}

Kernel::Answer FaultyKernel::without_descriptors() noexcept {
  if (!happens(Fault::no_descriptors, faults_.no_descriptors)) return 0;
  return chance() % 2 == 0 ? -EMFILE : -ENFILE;
}

std::size_t FaultyKernel::cut(int fd, std::size_t bytes) noexcept {
  if (bytes < 2 || !happens(Fault::short_transfer, faults_.short_transfer) || !is_tcp(fd)) return 0;
  const std::uint64_t most = chance() % 2 == 0 ? 1 : 1 + chance() % 512;
  return bytes - std::min<std::size_t>(bytes, most);
}

void FaultyKernel::end(int fd, Fault how) noexcept {
  SocketAddress here;
  SocketAddress there;
  if (real_.local_address(fd, here) < 0 || real_.peer_address(fd, there) < 0) return;
  {
    const std::lock_guard locked{lock_};
    ended_.insert({port_of(here), port_of(there)});
  }
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (how == Fault::reset) ::connect(fd, &nowhere, sizeof nowhere);
  else ::shutdown(fd, SHUT_WR);
}

// ── sockets ─────────────────────────────────────────────────────────────────────────────────────

Kernel::Answer FaultyKernel::socket(int domain, int type, int protocol) noexcept {
  const Answer none = without_descriptors();
  return none < 0 ? none : real_.socket(domain, type, protocol);
}

Kernel::Answer FaultyKernel::socket_pair(int domain, int type, int (&ends)[2]) noexcept {
  const Answer none = without_descriptors();
  return none < 0 ? none : real_.socket_pair(domain, type, ends);
}

Kernel::Answer FaultyKernel::accept(int fd, SocketAddress& peer) noexcept {
  if (interrupts()) return -EINTR;
  if (happens(Fault::aborted, faults_.aborted)) return -ECONNABORTED;
  const Answer none = without_descriptors();
  return none < 0 ? none : real_.accept(fd, peer);
}

Kernel::Answer FaultyKernel::connect(int fd, const sockaddr* address, socklen_t length) noexcept {
  const Answer answer = real_.connect(fd, address, length);
  return answer == -EINPROGRESS && interrupts() ? -EINTR : answer;
}

Kernel::Answer FaultyKernel::receive(int fd, msghdr& message, int flags) noexcept {
  if (interrupts()) return -EINTR;
  if (would_block(fd)) {
    signal_readable(fd);
    return -EAGAIN;
  }
  if (happens(Fault::reset, faults_.reset) && is_tcp(fd)) end(fd, Fault::reset);
  const std::size_t less = is_plain(message) ? cut(fd, message.msg_iov->iov_len) : 0;
  if (less == 0) return real_.receive(fd, message, flags);
  iovec part = *message.msg_iov;
  part.iov_len -= less;
  msghdr some{};
  some.msg_iov = &part;
  some.msg_iovlen = 1;
  const Answer answer = real_.receive(fd, some, flags);
  signal_readable(fd);
  return answer;
}

Kernel::Answer FaultyKernel::send(int fd, const msghdr& message, int flags) noexcept {
  if (interrupts()) return -EINTR;
  if (would_block(fd)) {
    signal_writable(fd);
    return -EAGAIN;
  }
  if (happens(Fault::no_buffers, faults_.no_buffers)) return chance() % 2 == 0 ? -ENOBUFS : -ENOMEM;
  if (happens(Fault::broken_pipe, faults_.broken_pipe) && is_tcp(fd)) end(fd, Fault::broken_pipe);
  const std::size_t less = is_plain(message) ? cut(fd, message.msg_iov->iov_len) : 0;
  if (less == 0) return real_.send(fd, message, flags);
  iovec part = *message.msg_iov;
  part.iov_len -= less;
  msghdr some{};
  some.msg_iov = &part;
  some.msg_iovlen = 1;
  const Answer answer = real_.send(fd, some, flags);
  signal_writable(fd);
  return answer;
}

// ── streams and files ───────────────────────────────────────────────────────────────────────────

Kernel::Answer FaultyKernel::read(int fd, const iovec* parts, int count) noexcept {
  return interrupts() ? -EINTR : real_.read(fd, parts, count);
}
Kernel::Answer FaultyKernel::write(int fd, const iovec* parts, int count) noexcept {
  return interrupts() ? -EINTR : real_.write(fd, parts, count);
}
Kernel::Answer FaultyKernel::pipe(int (&ends)[2]) noexcept {
  const Answer none = without_descriptors();
  return none < 0 ? none : real_.pipe(ends);
}
Kernel::Answer FaultyKernel::send_file(int to, int from, std::int64_t& offset,
                                       std::size_t count) noexcept {
  return interrupts() ? -EINTR : real_.send_file(to, from, offset, count);
}
// The descriptor is gone all the same, as on Linux.
Kernel::Answer FaultyKernel::close(int fd) noexcept {
  const Answer answer = real_.close(fd);
  return answer == 0 && interrupts() ? -EINTR : answer;
}
Kernel::Answer FaultyKernel::open(const char* path, int flags, mode_t permissions) noexcept {
  if (interrupts()) return -EINTR;
  const Answer none = without_descriptors();
  return none < 0 ? none : real_.open(path, flags, permissions);
}

// A file's transfer may be short whenever it likes: nobody waits for an edge.
Kernel::Answer FaultyKernel::read_at(int fd, const iovec* parts, int count,
                                     std::int64_t offset) noexcept {
  if (interrupts()) return -EINTR;
  if (count < 1 || parts->iov_len < 2 || !happens(Fault::short_transfer, faults_.short_transfer))
    return real_.read_at(fd, parts, count, offset);
  const iovec part{parts->iov_base, 1 + chance() % (parts->iov_len - 1)};
  return real_.read_at(fd, &part, 1, offset);
}
Kernel::Answer FaultyKernel::write_at(int fd, const iovec* parts, int count,
                                      std::int64_t offset) noexcept {
  if (interrupts()) return -EINTR;
  if (count < 1 || parts->iov_len < 2 || !happens(Fault::short_transfer, faults_.short_transfer))
    return real_.write_at(fd, parts, count, offset);
  const iovec part{parts->iov_base, 1 + chance() % (parts->iov_len - 1)};
  return real_.write_at(fd, &part, 1, offset);
}
Kernel::Answer FaultyKernel::sync(int fd, bool data_only) noexcept {
  return interrupts() ? -EINTR : real_.sync(fd, data_only);
}
Kernel::Answer FaultyKernel::truncate(int fd, std::int64_t size) noexcept {
  return interrupts() ? -EINTR : real_.truncate(fd, size);
}
Kernel::Answer FaultyKernel::set_permissions(int fd, mode_t permissions) noexcept {
  return interrupts() ? -EINTR : real_.set_permissions(fd, permissions);
}

// ── as they are ─────────────────────────────────────────────────────────────────────────────────

Kernel::Answer FaultyKernel::bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  return real_.bind(fd, address, length);
}
Kernel::Answer FaultyKernel::listen(int fd, int backlog) noexcept {
  return real_.listen(fd, backlog);
}
Kernel::Answer FaultyKernel::shutdown(int fd, int how) noexcept { return real_.shutdown(fd, how); }
Kernel::Answer FaultyKernel::local_address(int fd, SocketAddress& address) noexcept {
  return real_.local_address(fd, address);
}
Kernel::Answer FaultyKernel::peer_address(int fd, SocketAddress& address) noexcept {
  return real_.peer_address(fd, address);
}
Kernel::Answer FaultyKernel::set_option(int fd, int level, int name, const void* value,
                                        socklen_t length) noexcept {
  return real_.set_option(fd, level, name, value, length);
}
Kernel::Answer FaultyKernel::get_option(int fd, int level, int name, void* value,
                                        socklen_t& length) noexcept {
  return real_.get_option(fd, level, name, value, length);
}
Kernel::Answer FaultyKernel::poll(int fd, short events) noexcept { return real_.poll(fd, events); }
Kernel::Answer FaultyKernel::seek(int fd, std::int64_t offset, int whence) noexcept {
  return real_.seek(fd, offset, whence);
}
Kernel::Answer FaultyKernel::status(int fd, struct stat& status) noexcept {
  return real_.status(fd, status);
}
Kernel::Answer FaultyKernel::status(const char* path, struct stat& status) noexcept {
  return real_.status(path, status);
}
Kernel::Answer FaultyKernel::rename(const char* from, const char* to) noexcept {
  return real_.rename(from, to);
}
Kernel::Answer FaultyKernel::remove(const char* path) noexcept { return real_.remove(path); }
Kernel::Answer FaultyKernel::make_directory(const char* path, mode_t permissions) noexcept {
  return real_.make_directory(path, permissions);
}
Kernel::Answer FaultyKernel::list_directory(const char* path,
                                            std::vector<DirectoryEntry>& entries) {
  return real_.list_directory(path, entries);
}
int FaultyKernel::resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) {
  return real_.resolve(host, found, system_error);
}

}  // namespace weft::testing
