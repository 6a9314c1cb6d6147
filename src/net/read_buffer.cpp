#include <weft/net/read_buffer.hpp>

#include <algorithm>
#include <cstring>

namespace weft::net {

std::span<std::byte> ReadBuffer::room(std::size_t wanted) {
  const std::size_t held = size();
  const std::size_t needed = std::max(wanted, held + 1);
  if (empty()) begin_ = end_ = 0;
  // One long line does not make an idle connection large.
  if (empty() && capacity_ > least_ && needed <= least_) memory_.reset(), capacity_ = 0;
  if (needed > capacity_) {
    // Twice as much as before, so that a long line is not copied for each of its pieces.
    const std::size_t grown = std::max({needed, least_, capacity_ * 2});
    auto memory = std::make_unique_for_overwrite<std::byte[]>(grown);
    if (held != 0) std::memcpy(memory.get(), memory_.get() + begin_, held);
    memory_ = std::move(memory);
    capacity_ = grown;
    begin_ = 0;
    end_ = held;
  } else if (begin_ + needed > capacity_ || begin_ > capacity_ / 2) {  // no more than was taken
    std::memmove(memory_.get(), memory_.get() + begin_, held);
    begin_ = 0;
    end_ = held;
  }
  return {memory_.get() + end_, capacity_ - end_};
}

void ReadBuffer::append(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(room(size() + bytes.size()).data(), bytes.data(), bytes.size());
  filled(bytes.size());
}

}  // namespace weft::net
