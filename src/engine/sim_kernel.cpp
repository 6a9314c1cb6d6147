#include "sim_kernel.hpp"

#include "sim_bytes.hpp"
#include "sim_datagram.hpp"
#include "sim_open_file.hpp"
#include "sim_stream.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <utility>

namespace weft::engine {
namespace {

bool is_standard(int fd) noexcept { return fd >= STDIN_FILENO && fd <= STDERR_FILENO; }

// Nothing that a program asks for ends it.
template <class F>
Kernel::Answer guarded(F f) noexcept {
  try {
    return f();
  } catch (const std::exception&) {  // bad_alloc, length_error
    return -ENOMEM;
  }
}

}  // namespace

// ── descriptors ─────────────────────────────────────────────────────────────────────────────────

SimKernel::Slot* SimKernel::slot(int fd) noexcept {
  if (fd < kFirst) return nullptr;
  const auto at = static_cast<std::size_t>(fd - kFirst);
  return at < slots_.size() && slots_[at].is_used ? &slots_[at] : nullptr;
}

template <class F>
Kernel::Answer SimKernel::with(int fd, F f) noexcept {
  const SimEvents::Call call{fabric_.events};
  Slot* const found = slot(fd);
  if (!found) return -EBADF;
  const std::shared_ptr<SimObject> object = found->object;  // it may leave while it answers
  if (!object) return -EIO;
  return guarded([&] { return f(*object); });
}

template <class F>
Kernel::Answer SimKernel::with_file(int fd, F f) noexcept {
  return with(fd, [&](SimObject& object) -> Answer {
    return object.is_file() ? f(static_cast<SimOpenFile&>(object)) : -ESPIPE;
  });
}

template <class F>
Kernel::Answer SimKernel::opening(std::size_t count, F f) noexcept {
  const Caller caller = here_();
  const SimHostState& on = fabric_.host(caller.host);
  if (!caller.is_alive) return -EIO;
  if (on.descriptors + count > on.descriptors_max) return -EMFILE;
  return guarded([&]() -> Answer { return f(caller.host); });
}

Kernel::Answer SimKernel::add(std::shared_ptr<SimObject> object) {
  if (free_.empty()) {
    free_.insert(slots_.size());
    slots_.emplace_back();
  }
  const std::size_t at = *free_.begin();
  free_.erase(free_.begin());
  ++fabric_.host(object->host).descriptors;
  if (!object->is_file()) fabric_.keep(object);
  slots_[at] = {.object = object, .host = object->host, .key = 0, .is_used = true};
  return kFirst + static_cast<Answer>(at);
}

Kernel::Answer SimKernel::close(int fd) noexcept {
  if (is_standard(fd)) return 0;
  const SimEvents::Call call{fabric_.events};
  Slot* const found = slot(fd);
  if (!found) return -EBADF;
  const std::shared_ptr<SimObject> object = std::move(found->object);
  --fabric_.host(found->host).descriptors;
  *found = Slot{};
  return guarded([&]() -> Answer {
    free_.insert(static_cast<std::size_t>(fd - kFirst));
    if (!object) return 0;
    object->key = 0;
    object->close();
    return 0;
  });
}

void SimKernel::end_host(HostId host, bool abruptly) {
  for (Slot& one : slots_) {
    if (!one.object || one.host != host) continue;
    const std::shared_ptr<SimObject> object = std::move(one.object);
    one.object = nullptr;
    object->key = 0;
    if (abruptly) object->vanish();
    else object->close();
    fabric_.events.tell(one.key, EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
  }
  if (!abruptly) return;
  for (const auto& object : fabric_.objects_of(host)) object->vanish();
  fabric_.host(host).ports.clear();
  fabric_.host(host).names.clear();
}

Kernel::Answer SimKernel::watch(int fd, Watched::Key key) noexcept {
  if (is_standard(fd)) return -EPERM;
  Slot* const found = slot(fd);
  if (!found) return -EBADF;
  if (found->object && found->object->is_file()) return -EPERM;
  found->key = key;
  if (!found->object) return 0;
  found->object->key = key;
  // What came before it was watched is an edge, too.
  const SimEvents::Call call{fabric_.events};
  if (const short now = found->object->poll()) found->object->tell(static_cast<unsigned>(now));
  return 0;
}

void SimKernel::forget(int fd) noexcept {
  Slot* const found = slot(fd);
  if (!found) return;
  found->key = 0;
  if (found->object) found->object->key = 0;
}

// ── sockets ─────────────────────────────────────────────────────────────────────────────────────

Kernel::Answer SimKernel::socket(int domain, int type, int) noexcept {
  const int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) return -EAFNOSUPPORT;
  if (kind != SOCK_STREAM && kind != SOCK_DGRAM) return -ESOCKTNOSUPPORT;
  return opening(1, [&](HostId host) {
    const auto family = static_cast<sa_family_t>(domain);
    if (kind == SOCK_STREAM) return add(std::make_shared<SimStream>(fabric_, host, family));
    return add(std::make_shared<SimDatagram>(fabric_, host, family));
  });
}

Kernel::Answer SimKernel::socket_pair(int domain, int type, int (&ends)[2]) noexcept {
  if (domain != AF_UNIX || (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != SOCK_STREAM)
    return -EOPNOTSUPP;
  return opening(2, [&](HostId host) -> Answer {
    auto [one, other] = SimStream::make_pair(fabric_, host);
    ends[0] = static_cast<int>(add(std::move(one)));
    ends[1] = static_cast<int>(add(std::move(other)));
    return 0;
  });
}

Kernel::Answer SimKernel::bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  return with(fd, [&](SimObject& object) {
    SimAddress parsed;
    const Answer answer = SimAddress::parse(address, length, parsed);
    return answer < 0 ? answer : object.bind(parsed);
  });
}

Kernel::Answer SimKernel::listen(int fd, int backlog) noexcept {
  return with(fd, [&](SimObject& object) { return object.listen(backlog); });
}

Kernel::Answer SimKernel::accept(int fd, SocketAddress& peer) noexcept {
  return with(fd, [&](SimObject& object) -> Answer {
    const SimHostState& on = fabric_.host(object.host);
    if (on.descriptors >= on.descriptors_max) return -EMFILE;
    std::shared_ptr<SimObject> accepted;
    const Answer answer = object.accept(accepted, peer);
    return answer < 0 ? answer : add(std::move(accepted));
  });
}

Kernel::Answer SimKernel::connect(int fd, const sockaddr* address, socklen_t length) noexcept {
  return with(fd, [&](SimObject& object) {
    SimAddress parsed;
    const Answer answer = SimAddress::parse(address, length, parsed);
    return answer < 0 ? answer : object.connect(parsed);
  });
}

Kernel::Answer SimKernel::shutdown(int fd, int how) noexcept {
  return with(fd, [&](SimObject& object) { return object.shutdown(how); });
}

Kernel::Answer SimKernel::local_address(int fd, SocketAddress& address) noexcept {
  return with(fd, [&](SimObject& object) { return object.local_address(address); });
}

Kernel::Answer SimKernel::peer_address(int fd, SocketAddress& address) noexcept {
  return with(fd, [&](SimObject& object) { return object.peer_address(address); });
}

Kernel::Answer SimKernel::set_option(int fd, int level, int name, const void* value,
                                     socklen_t length) noexcept {
  return with(fd, [&](SimObject& object) {
    return object.set_option(level, name, value, length);
  });
}

Kernel::Answer SimKernel::get_option(int fd, int level, int name, void* value,
                                     socklen_t& length) noexcept {
  return with(fd, [&](SimObject& object) {
    return object.get_option(level, name, value, length);
  });
}

Kernel::Answer SimKernel::receive(int fd, msghdr& message, int flags) noexcept {
  return with(fd, [&](SimObject& object) { return object.receive(message, flags); });
}

Kernel::Answer SimKernel::send(int fd, const msghdr& message, int flags) noexcept {
  return with(fd, [&](SimObject& object) { return object.send(message, flags); });
}

// ── streams ─────────────────────────────────────────────────────────────────────────────────────

Kernel::Answer SimKernel::read(int fd, const iovec* parts, int count) noexcept {
  if (is_standard(fd)) return 0;
  return with(fd, [&](SimObject& object) { return object.read(parts, count); });
}

Kernel::Answer SimKernel::write(int fd, const iovec* parts, int count) noexcept {
  if (is_standard(fd)) return system_kernel().write(fd, parts, count);
  return with(fd, [&](SimObject& object) { return object.write(parts, count); });
}

Kernel::Answer SimKernel::pipe(int (&ends)[2]) noexcept {
  return opening(2, [&](HostId host) -> Answer {
    auto [reader, writer] = SimStream::make_pipe(fabric_, host);
    ends[0] = static_cast<int>(add(std::move(reader)));
    ends[1] = static_cast<int>(add(std::move(writer)));
    return 0;
  });
}

// Until all is sent or there is no room. A file that ends before `count` is no sign of the latter,
// so that whoever watches is told that there is room.
Kernel::Answer SimKernel::send_file(int to, int from, std::int64_t& offset,
                                    std::size_t count) noexcept {
  constexpr std::size_t kAtOnce = std::size_t{64} << 10;
  Answer total = 0;
  while (static_cast<std::size_t>(total) < count) {
    std::string bytes;
    const std::size_t asked = std::min(count - static_cast<std::size_t>(total), kAtOnce);
    const Answer got = with_file(
        from, [&](SimOpenFile& file) { return file.read_into(bytes, asked, offset); });
    if (got < 0) return total > 0 ? total : got == -ESPIPE ? -EINVAL : got;
    if (got == 0) break;
    const iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
    const Answer sent = write(to, &part, 1);
    if (sent < 0) return total > 0 ? total : sent;
    offset += sent;
    total += sent;
    if (sent < got) return total;
  }
  static_cast<void>(with(to, [](SimObject& object) -> Answer {
    object.tell(EPOLLOUT);
    return 0;
  }));
  return total;
}

Kernel::Answer SimKernel::poll(int fd, short events) noexcept {
  if (is_standard(fd)) return events;
  const int asked = events | POLLERR | POLLHUP;
  const Answer there = with(fd, [](SimObject& object) -> Answer {
    return static_cast<unsigned short>(object.poll());
  });
  return there < 0 ? POLLERR | POLLHUP : there & asked;
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────

template <class F>
Kernel::Answer SimKernel::on_disk(const char* path, F f) noexcept {
  if (!path) return -EFAULT;
  const Caller caller = here_();
  if (!caller.is_alive) return -EIO;
  return guarded([&]() -> Answer { return f(fabric_.host(caller.host).disk); });
}

Kernel::Answer SimKernel::open(const char* path, int flags, mode_t permissions) noexcept {
  if (!path) return -EFAULT;
  return opening(1, [&](HostId host) -> Answer {
    std::shared_ptr<SimFile> file;
    const Answer answer = fabric_.host(host).disk.open(path, flags, permissions, file);
    if (answer < 0) return answer;
    return add(std::make_shared<SimOpenFile>(fabric_, host, std::move(file), flags));
  });
}

Kernel::Answer SimKernel::read_at(int fd, const iovec* parts, int count,
                                  std::int64_t offset) noexcept {
  return with_file(fd, [&](SimOpenFile& file) { return file.read_at(parts, count, offset); });
}

Kernel::Answer SimKernel::write_at(int fd, const iovec* parts, int count,
                                   std::int64_t offset) noexcept {
  return with_file(fd, [&](SimOpenFile& file) { return file.write_at(parts, count, offset); });
}

Kernel::Answer SimKernel::seek(int fd, std::int64_t offset, int whence) noexcept {
  if (is_standard(fd)) return -ESPIPE;
  return with_file(fd, [&](SimOpenFile& file) { return file.seek(offset, whence); });
}

Kernel::Answer SimKernel::sync(int fd, bool) noexcept {
  return with_file(fd, [](SimOpenFile& file) { return file.sync(); });
}

Kernel::Answer SimKernel::truncate(int fd, std::int64_t size) noexcept {
  return with_file(fd, [&](SimOpenFile& file) { return file.truncate(size); });
}

Kernel::Answer SimKernel::status(int fd, struct stat& to) noexcept {
  if (is_standard(fd)) {
    to = {};
    to.st_mode = S_IFCHR | 0600;
    return 0;
  }
  return with(fd, [&](SimObject& object) -> Answer {
    if (object.is_file()) return static_cast<SimOpenFile&>(object).status(to);
    SocketAddress ignored;
    to = {};
    to.st_mode = (object.local_address(ignored) == -ENOTSOCK ? S_IFIFO : S_IFSOCK) | 0600;
    return 0;
  });
}

Kernel::Answer SimKernel::status(const char* path, struct stat& to) noexcept {
  return on_disk(path, [&](SimDiskState& disk) { return disk.status(path, to); });
}

Kernel::Answer SimKernel::rename(const char* from, const char* to) noexcept {
  if (!to) return -EFAULT;
  return on_disk(from, [&](SimDiskState& disk) { return disk.rename(from, to); });
}

Kernel::Answer SimKernel::remove(const char* path) noexcept {
  return on_disk(path, [&](SimDiskState& disk) { return disk.remove(path); });
}

Kernel::Answer SimKernel::make_directory(const char* path, mode_t permissions) noexcept {
  return on_disk(path, [&](SimDiskState& disk) { return disk.make_directory(path, permissions); });
}

Kernel::Answer SimKernel::list_directory(const char* path, std::vector<DirectoryEntry>& entries) {
  return on_disk(path, [&](SimDiskState& disk) { return disk.list(path, entries); });
}

// ── names ───────────────────────────────────────────────────────────────────────────────────────

int SimKernel::resolve(const char* host, std::vector<SocketAddress>& found, int& system_error) {
  system_error = 0;
  SocketAddress address;
  if (!host || parse_numeric(host, address)) {
    if (host) found.push_back(address);
    return host ? 0 : EAI_NONAME;
  }
  const std::string_view name = host;
  SimAddress four;
  four.scope = SimAddress::Scope::loopback;
  if (name != "localhost") {
    const SimHostState* const known = fabric_.find_host(name);
    if (!known) return EAI_NONAME;
    four.scope = SimAddress::Scope::host;
    four.host = known->id;
  }
  SimAddress six = four;
  six.family = AF_INET6;
  four.print(found.emplace_back());
  six.print(found.emplace_back());
  return 0;
}

}  // namespace weft::engine
