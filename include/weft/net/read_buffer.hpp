// ReadBuffer: bytes that were read and not yet taken. What BufferedReader is made of.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace weft::net {

class ReadBuffer {
 public:
  // Memory is taken when there is something to be read.
  explicit ReadBuffer(std::size_t bytes) noexcept : least_(bytes > 0 ? bytes : 1) {}

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {memory_.get() + begin_, end_ - begin_};
  }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(memory_.get()) + begin_, end_ - begin_};
  }
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::size_t least() const noexcept { return least_; }

  // Where more can be put: behind the bytes, room for one at least, and for so many that there can
  // be `wanted` in all. Moves or grows; throws std::bad_alloc, and nothing has changed.
  [[nodiscard]] std::span<std::byte> room(std::size_t wanted);
  // So many were put there.
  void filled(std::size_t bytes) noexcept { end_ += bytes; }
  // So many are taken from the front; they stay where they are until room() is asked for.
  void take(std::size_t bytes) noexcept { begin_ += bytes; }
  void append(std::span<const std::byte> bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t least_;
};

}  // namespace weft::net
