#include <weft/pipe.hpp>

#include "net/no_sigpipe.hpp"
#include "net/whole.hpp"

#include <weft/blocking.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <string>

namespace weft {
namespace {

Kernel::Answer read_into(Kernel& kernel, int fd, std::span<std::byte> buffer) noexcept {
  const iovec part{buffer.data(), buffer.size()};
  return kernel.read(fd, &part, 1);
}

Kernel::Answer write_from(Kernel& kernel, int fd, std::span<const std::byte> bytes) noexcept {
  const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // which it only reads
  return net::without_sigpipe([&] { return kernel.write(fd, &part, 1); });
}

Result<std::span<std::byte>> filled(std::span<std::byte> buffer, Result<std::size_t> count) {
  if (!count) return count.failure();
  return buffer.first(*count);
}

}  // namespace

// ── pipes ───────────────────────────────────────────────────────────────────────────────────────

Result<PipeReader> PipeReader::adopt(int fd) {
  Result<Descriptor> descriptor = Descriptor::adopt(fd, Carries::stream, "pipe read", "pipe write");
  if (!descriptor) return descriptor.failure();
  return PipeReader{*std::move(descriptor)};
}

Result<std::span<std::byte>> PipeReader::read_some(std::span<std::byte> buffer) const {
  if (buffer.empty()) return buffer;
  return filled(buffer, descriptor().call(Way::in, buffer.size(), [&](Kernel& kernel, int fd) {
    return read_into(kernel, fd, buffer);
  }));
}

Result<std::span<std::byte>> PipeReader::try_read_some(std::span<std::byte> buffer) const {
  if (buffer.empty()) return buffer;
  return filled(buffer, descriptor().ask([&](Kernel& kernel, int fd) {
    return read_into(kernel, fd, buffer);
  }));
}

Result<void> PipeReader::read_exactly(std::span<std::byte> buffer) const {
  return net::read_exactly(buffer, [this](std::span<std::byte> rest) { return read_some(rest); });
}

Result<std::string> PipeReader::read_all(std::size_t limit) const {
  return net::read_all<std::string>(
      limit, 0, [this](std::span<std::byte> buffer) { return read_some(buffer); });
}

Result<PipeWriter> PipeWriter::adopt(int fd) {
  Result<Descriptor> descriptor = Descriptor::adopt(fd, Carries::stream, "pipe read", "pipe write");
  if (!descriptor) return descriptor.failure();
  return PipeWriter{*std::move(descriptor)};
}

// A pipe that takes less than it was given is not always full: pages count, not bytes. So nothing
// is concluded from that, and 0 is given for what would be all.
Result<std::size_t> PipeWriter::write_some(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return std::size_t{0};
  return descriptor().call(
      Way::out, 0, [&](Kernel& kernel, int fd) { return write_from(kernel, fd, bytes); });
}

Result<std::size_t> PipeWriter::try_write_some(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return std::size_t{0};
  return descriptor().ask([&](Kernel& kernel, int fd) { return write_from(kernel, fd, bytes); });
}

Result<void> PipeWriter::write_all(std::span<const std::byte> bytes) const {
  return net::write_all(bytes,
                        [this](std::span<const std::byte> rest) { return write_some(rest); });
}

Result<Pipe> pipe() {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  int ends[2] = {-1, -1};
  if (const Kernel::Answer made = (*kernel)->pipe(ends); made < 0)
    return Unexpected::of(static_cast<int>(-made));
  Result<PipeReader> reader = PipeReader::adopt(ends[0]);
  Result<PipeWriter> writer = PipeWriter::adopt(ends[1]);
  if (!reader) return reader.failure();
  if (!writer) return writer.failure();
  return Pipe{*std::move(reader), *std::move(writer)};
}

// ── what the program was born with ──────────────────────────────────────────────────────────────

namespace detail {
namespace {

Unexpected last_error() { return Unexpected::of(errno); }

// The same pipe or terminal under a descriptor of our own, with modes of our own; below zero: no.
int opened_again(int fd, Way way) noexcept {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int access = way == Way::in ? O_RDONLY : O_WRONLY;
  return ::open(path.c_str(), access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

Result<Inherited> Inherited::open(int fd, Way way) {
  const Result<Kernel*> kernel = Descriptor::kernel_here();
  if (!kernel) return kernel.failure();
  if (*kernel != &system_kernel()) return Unexpected{std::errc::operation_not_supported};
  struct stat found {};
  if (::fstat(fd, &found) != 0) return last_error();
  Manner manner = Manner::file;
  int ours = -1;
  if (S_ISSOCK(found.st_mode)) {
    manner = Manner::socket;
  } else if (S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode)) {
    ours = opened_again(fd, way);
    manner = ours >= 0 ? Manner::reopened : Manner::shared;
  }
  if (ours < 0) ours = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (ours < 0) return last_error();
  Result<Descriptor> descriptor =
      Descriptor::adopt(ours, Carries::messages, "standard input", "standard output");
  if (!descriptor) return descriptor.failure();
  return Inherited{*std::move(descriptor), manner};
}

bool Inherited::is_terminal() const noexcept { return ::isatty(descriptor_.fd()) == 1; }

// Waits until it would not block, so that a cancel need not wait for somebody to type something.
template <class Call>
Result<std::size_t> Inherited::on_thread(Way way, Call call) const {
  if (manner_ == Manner::shared) {
    Descriptor::Ready ready = descriptor_.on_ready(way);
    wait(ready);
  }
  return descriptor_.ask([&](Kernel& kernel, int fd) {
    return blocking([&] { return call(kernel, fd); });
  });
}

Result<std::size_t> Inherited::read(std::span<std::byte> buffer) const {
  const auto call = [&](Kernel& kernel, int fd) { return read_into(kernel, fd, buffer); };
  if (manner_ == Manner::reopened) return descriptor_.call(Way::in, buffer.size(), call);
  if (manner_ != Manner::socket) return on_thread(Way::in, call);
  iovec part{buffer.data(), buffer.size()};
  return descriptor_.call(Way::in, buffer.size(), [&](Kernel& kernel, int fd) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return kernel.receive(fd, message, MSG_DONTWAIT);
  });
}

Result<std::size_t> Inherited::write(std::span<const std::byte> bytes) const {
  const auto call = [&](Kernel& kernel, int fd) { return write_from(kernel, fd, bytes); };
  if (manner_ == Manner::reopened) return descriptor_.call(Way::out, bytes.size(), call);
  if (manner_ != Manner::socket) return on_thread(Way::out, call);
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return descriptor_.call(Way::out, bytes.size(), [&](Kernel& kernel, int fd) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return kernel.send(fd, message, MSG_DONTWAIT);
  });
}

}  // namespace detail

Result<std::span<std::byte>> StandardInput::read_some(std::span<std::byte> buffer) const {
  if (buffer.empty()) return buffer;
  return filled(buffer, stream_.read(buffer));
}

Result<void> StandardInput::read_exactly(std::span<std::byte> buffer) const {
  return net::read_exactly(buffer, [this](std::span<std::byte> rest) { return read_some(rest); });
}

Result<std::string> StandardInput::read_all(std::size_t limit) const {
  return net::read_all<std::string>(
      limit, 0, [this](std::span<std::byte> buffer) { return read_some(buffer); });
}

Result<std::size_t> StandardOutput::write_some(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return std::size_t{0};
  return stream_.write(bytes);
}

Result<void> StandardOutput::write_all(std::span<const std::byte> bytes) const {
  return net::write_all(bytes,
                        [this](std::span<const std::byte> rest) { return write_some(rest); });
}

Result<StandardInput> standard_input() {
  return detail::Inherited::open(STDIN_FILENO, Way::in).transform([](detail::Inherited stream) {
    return StandardInput{std::move(stream)};
  });
}
Result<StandardOutput> standard_output() {
  return detail::Inherited::open(STDOUT_FILENO, Way::out).transform([](detail::Inherited stream) {
    return StandardOutput{std::move(stream)};
  });
}
Result<StandardOutput> standard_error() {
  return detail::Inherited::open(STDERR_FILENO, Way::out).transform([](detail::Inherited stream) {
    return StandardOutput{std::move(stream)};
  });
}

}  // namespace weft
