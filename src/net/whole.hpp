// All of a stream, by calls that carry some of it.
#pragma once

#include <weft/result.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace weft::net {

// `read_some(buffer)` until the buffer is full.
template <class ReadSome>
Result<void> read_exactly(std::span<std::byte> buffer, ReadSome read_some) {
  while (!buffer.empty()) {
    const Result<std::span<std::byte>> got = read_some(buffer);
    if (!got) return got.failure();
    if (got->empty()) return Unexpected{IoError::end_of_stream};
    buffer = buffer.subspan(got->size());
  }
  return {};
}

// `write_some(bytes)` until none are left.
template <class WriteSome>
Result<void> write_all(std::span<const std::byte> bytes, WriteSome write_some) {
  while (!bytes.empty()) {
    const Result<std::size_t> count = write_some(bytes);
    if (!count) return count.failure();
    bytes = bytes.subspan(*count);
  }
  return {};
}

// `read_some(buffer)` until the end, which is expected after `expected` bytes.
template <class Container, class ReadSome>
Result<Container> read_all(std::size_t limit, std::size_t expected, ReadSome read_some) {
  constexpr std::size_t kLeast = 4096;
  constexpr std::size_t kMost = std::size_t{1} << 20;  // in between one can be cancelled
  if (expected > limit) return Unexpected{IoError::too_long};
  Container all;
  if (expected != 0) all.reserve(expected + 1);
  std::size_t length = 0;
  for (;;) {
    if (length == all.size()) {
      // One byte more than expected, or allowed: that there is none shows that this was all.
      std::size_t room = length < expected ? expected - length + 1 : std::max(length, kLeast);
      if (room > limit - length) room = limit - length + 1;
      all.resize(length + std::min(room, kMost));
    }
    const auto buffer = std::as_writable_bytes(std::span{all}).subspan(length);
    const Result<std::span<std::byte>> got = read_some(buffer);
    if (!got) return got.failure();
    length += got->size();
    if (length > limit) return Unexpected{IoError::too_long};
    if (got->empty()) break;
  }
  all.resize(length);
  return all;
}

}  // namespace weft::net
