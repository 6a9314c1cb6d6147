// Bytes in a simulated world: those that wait to be read, those of a file, and those of a caller.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace weft::engine {

// The buffers of a scattered call. Saturates rather than wraps.
inline std::size_t bytes_in(const iovec* parts, std::size_t count) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i)
    bytes = bytes + parts[i].iov_len < bytes ? SIZE_MAX : bytes + parts[i].iov_len;
  return bytes;
}

// The first `most` bytes of it.
inline std::string gather(const iovec* parts, std::size_t count, std::size_t most) {
  std::string bytes;
  for (std::size_t i = 0; i < count && bytes.size() < most; ++i)
    bytes.append(static_cast<const char*>(parts[i].iov_base),
                 std::min(parts[i].iov_len, most - bytes.size()));
  return bytes;
}

inline void scatter(std::string_view bytes, const iovec* parts, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count && !bytes.empty(); ++i) {
    const std::size_t size = std::min(parts[i].iov_len, bytes.size());
    if (size > 0) std::memcpy(parts[i].iov_base, bytes.data(), size);
    bytes.remove_prefix(size);
  }
}

// First in, first out.
class ByteQueue {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - taken_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::string_view view() const noexcept {
    return std::string_view{bytes_}.substr(taken_);
  }
  void append(std::string_view bytes) { bytes_ += bytes; }
  void remove(std::size_t count) noexcept {
    taken_ += count;
    if (taken_ < bytes_.size() / 2) return;
    bytes_.erase(0, taken_);
    taken_ = 0;
  }
  void clear() noexcept {
    bytes_.clear();
    taken_ = 0;
  }

 private:
  std::string bytes_;
  std::size_t taken_ = 0;
};

// A file's bytes. Holes, however large, take no room.
class SparseBytes {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  SparseBytes() = default;
  SparseBytes(const SparseBytes& other) : size_(other.size_) {
    for (const auto& [at, page] : other.pages_) pages_[at] = std::make_unique<Page>(*page);
  }
  SparseBytes& operator=(SparseBytes other) noexcept {
    pages_.swap(other.pages_);
    size_ = other.size_;
    return *this;
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t room_taken() const noexcept { return pages_.size() * kPageBytes; }
  // How many more pages a write there would take.
  [[nodiscard]] bool has_page(std::uint64_t offset) const {
    return pages_.contains(offset / kPageBytes);
  }

  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t count) const {
    if (offset >= size_) return {};
    std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(count, size_ - offset)), 0);
    for (std::size_t done = 0; done < bytes.size();) {
      const std::uint64_t at = offset + done;
      const std::size_t part = part_of_page(at, bytes.size() - done);
      const auto page = pages_.find(at / kPageBytes);
      if (page != pages_.end())
        std::memcpy(bytes.data() + done, page->second->data() + at % kPageBytes, part);
      done += part;
    }
    return bytes;
  }
  void write(std::uint64_t offset, std::string_view bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const std::uint64_t at = offset + done;
      const std::size_t part = part_of_page(at, bytes.size() - done);
      auto& page = pages_[at / kPageBytes];
      if (!page) page = std::make_unique<Page>();
      std::memcpy(page->data() + at % kPageBytes, bytes.data() + done, part);
      done += part;
    }
    if (!bytes.empty()) size_ = std::max(size_, offset + bytes.size());
  }
  void resize(std::uint64_t size) {
    if (size < size_) {
      pages_.erase(pages_.lower_bound((size + kPageBytes - 1) / kPageBytes), pages_.end());
      const auto last = pages_.find(size / kPageBytes);
      if (last != pages_.end())
        std::fill(last->second->begin() + static_cast<std::ptrdiff_t>(size % kPageBytes),
                  last->second->end(), char{0});
    }
    size_ = size;
  }

 private:
  using Page = std::array<char, kPageBytes>;

  static std::size_t part_of_page(std::uint64_t at, std::size_t left) noexcept {
    return static_cast<std::size_t>(std::min<std::uint64_t>(left, kPageBytes - at % kPageBytes));
  }

  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::uint64_t size_ = 0;
};

}  // namespace weft::engine
