#include <weft/net/stream_socket.hpp>

#include <climits>

#include <algorithm>
#include <array>

namespace weft::net {
namespace {

constexpr std::size_t kPartsAtOnce = 64;  // on the stack: the rest comes with the next call

// The first parts that are not empty, as the kernel wants them.
class Gathered {
 public:
  template <class Parts>
  explicit Gathered(const Parts& parts) noexcept {
    for (const auto& part : parts) {
      const iovec one = as_iovec(part);
      if (one.iov_len == 0) continue;
      parts_[count_++] = one;
      if (count_ == parts_.size()) break;
    }
  }
  [[nodiscard]] std::span<const iovec> get() const noexcept { return {parts_.data(), count_}; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

 private:
  template <class Byte>
  static iovec as_iovec(std::span<Byte> part) noexcept {
    return {const_cast<std::byte*>(part.data()), part.size()};  // which the kernel only reads
  }
  static iovec as_iovec(const iovec& part) noexcept { return part; }

  std::array<iovec, kPartsAtOnce> parts_;
  std::size_t count_ = 0;
};

std::size_t size_of(std::span<const std::byte> part) noexcept { return part.size(); }
std::size_t size_of(const iovec& part) noexcept { return part.iov_len; }
std::span<const std::byte> rest_of(std::span<const std::byte> part, std::size_t from) noexcept {
  return part.subspan(from);
}
std::span<const std::byte> rest_of(const iovec& part, std::size_t from) noexcept {
  return std::span{static_cast<const std::byte*>(part.iov_base), part.iov_len}.subspan(from);
}

// Part by part as far as the system takes them, the first one by itself where it was cut.
template <class Part>
Result<void> write_all_of(const StreamSocket& socket, std::span<const Part> parts) {
  for (;;) {
    const Result<std::size_t> written = socket.writev(parts);
    if (!written) return written.failure();
    std::size_t left = *written;
    while (!parts.empty() && left >= size_of(parts.front())) {
      left -= size_of(parts.front());
      parts = parts.subspan(1);
    }
    if (parts.empty()) return {};
    if (left == 0) continue;
    const Result<void> rest = socket.write_all(rest_of(parts.front(), left));
    if (!rest) return rest;
    parts = parts.subspan(1);
    if (parts.empty()) return {};
  }
}

iovec part_of(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // which the kernel only reads
}

}  // namespace

Result<std::size_t> StreamSocket::nothing_asked() const {
  if (!is_open()) return Unexpected{IoError::closed};
  checkpoint(Fiber::current());
  return std::size_t{0};
}

Result<std::span<std::byte>> StreamSocket::read_some(std::span<std::byte> buffer) const {
  const iovec part = part_of(buffer);
  const Result<std::size_t> got =
      buffer.empty() ? nothing_asked() : descriptor().receive({&part, 1});
  if (!got) return got.failure();
  return buffer.first(*got);
}

Result<std::span<std::byte>> StreamSocket::read_up_to(std::span<std::byte> buffer) const {
  std::size_t filled = 0;
  do {
    const Result<std::span<std::byte>> got = read_some(buffer.subspan(filled));
    if (!got) return got.failure();
    if (got->empty()) break;
    filled += got->size();
  } while (filled < buffer.size());
  return buffer.first(filled);
}

Result<void> StreamSocket::read_exactly(std::span<std::byte> buffer) const {
  const Result<std::span<std::byte>> got = read_up_to(buffer);
  if (!got) return got.failure();
  if (got->size() < buffer.size()) return Unexpected{IoError::end_of_stream};
  return {};
}

Result<std::size_t> StreamSocket::readv(std::span<const std::span<std::byte>> parts) const {
  const Gathered gathered{parts};
  return gathered.empty() ? nothing_asked() : descriptor().receive(gathered.get());
}

Result<std::size_t> StreamSocket::readv(std::span<const iovec> parts) const {
  const Gathered gathered{parts};
  return gathered.empty() ? nothing_asked() : descriptor().receive(gathered.get());
}

Result<std::size_t> StreamSocket::write_some(std::span<const std::byte> bytes) const {
  const iovec part = part_of(bytes);
  return bytes.empty() ? nothing_asked() : descriptor().send({&part, 1});
}

Result<void> StreamSocket::write_all(std::span<const std::byte> bytes) const {
  do {
    const Result<std::size_t> written = write_some(bytes);
    if (!written) return written.failure();
    bytes = bytes.subspan(*written);
  } while (!bytes.empty());
  return {};
}

Result<std::size_t> StreamSocket::writev(std::span<const std::span<const std::byte>> parts) const {
  const Gathered gathered{parts};
  return gathered.empty() ? nothing_asked() : descriptor().send(gathered.get());
}

Result<std::size_t> StreamSocket::writev(std::span<const iovec> parts) const {
  const Gathered gathered{parts};
  return gathered.empty() ? nothing_asked() : descriptor().send(gathered.get());
}

Result<void> StreamSocket::writev_all(std::span<const std::span<const std::byte>> parts) const {
  return write_all_of(*this, parts);
}

Result<void> StreamSocket::writev_all(std::span<const iovec> parts) const {
  return write_all_of(*this, parts);
}

Result<void> StreamSocket::shutdown_write() const {
  const Result<std::size_t> asked =
      descriptor().ask([](Kernel& kernel, int fd) { return kernel.shutdown(fd, SHUT_WR); });
  if (!asked) return asked.failure();
  return {};
}

}  // namespace weft::net
