// Arena: the memory of one execution.
//
// What model::make() returns is never handed out twice in an execution (quarantine), so a dangling
// pointer stays recognisable. An abandoned execution gives everything back by forgetting it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace weft::model {

class Arena {
 public:
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) {
    for (;; ++chunk_, used_ = 0) {
      if (chunk_ == chunks_.size()) add_chunk(bytes + alignment);
      Chunk& chunk = chunks_[chunk_];
      void* at = chunk.memory.get() + used_;
      std::size_t left = chunk.bytes - used_;
      if (!std::align(alignment, bytes, at, left)) continue;
      used_ = chunk.bytes - left + bytes;
      return at;
    }
  }

  void reset() noexcept { chunk_ = used_ = 0; }

  [[nodiscard]] bool owns(const void* memory) const noexcept {
    for (const Chunk& chunk : chunks_) {
      const auto* const at = static_cast<const std::byte*>(memory);
      if (std::less_equal<>{}(chunk.memory.get(), at) &&
          std::less<>{}(at, chunk.memory.get() + chunk.bytes))
        return true;
    }
    return false;
  }

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };

  void add_chunk(std::size_t at_least) {
    constexpr std::size_t kChunkBytes = 256 * 1024;
    const std::size_t bytes = at_least > kChunkBytes ? at_least : kChunkBytes;
    chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes});
  }

  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::size_t used_ = 0;
};

}  // namespace weft::model
