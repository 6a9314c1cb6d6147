// Stages that change how values flow, not what they are; and those with several inputs or outputs.
#pragma once

#include <weft/stream/stage.hpp>

namespace weft {

namespace stream_detail {

struct Buffer : StageTag {
  explicit Buffer(std::size_t n) noexcept : capacity(n) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    Nursery& n = s.nursery();
    return stream_of(n, std::move(s).open(capacity));
  }
  std::size_t capacity;
};

}  // namespace stream_detail

// Room for n values in the channel behind the stage before: that may run so far ahead. Costs no
// fiber, unless nothing but a channel stands before it.
//
//   1 2 3 4   ▶ buffer(2) ▶   1 2 3 4, at their own pace
[[nodiscard]] inline auto buffer(std::size_t n) noexcept { return stream_detail::Buffer{n}; }

}  // namespace weft
