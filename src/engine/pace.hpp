// Pace: whether the fibers of a worker run but briefly from one call that they leave to the kernel
// to the next, so that who goes along with them does not wait for long.
//
// Written by whoever makes calls or tells the kernel of them, most of it under the lock of its
// owner: what one of them loses of another's is one call, or one long turn.
#pragma once

#include <weft/base/inspected.hpp>

#include <cstdint>

namespace weft::engine {

class Pace {
 public:
  using Ticks = std::uint64_t;
  static constexpr unsigned kCalls = 32;  // in a row

  // What is longer than `moment` is long.
  explicit Pace(Ticks moment) noexcept : moment_(moment) {}

  // A fiber leaves a call.
  void call(Ticks now) noexcept {
    calls_ = is_late(now) ? 0 : calls_ + 1;
    last_ = now;
  }
  // The kernel is told now of calls that wait: if they waited for somebody's long turn, it counts.
  void tell(Ticks now) noexcept {
    if (is_late(now)) calls_ = 0;
  }
  // The worker is back from the kernel, and fibers go on: what was before is not their time.
  void go_on(Ticks now) noexcept { last_ = now; }

  // Each of the last calls came soon after what was before it, and the last one just now.
  [[nodiscard]] bool is_quick(Ticks now) const noexcept {
    return calls_ >= kCalls && !is_late(now);
  }
  // Nothing has happened for a moment.
  [[nodiscard]] bool is_late(Ticks now) const noexcept {
    const auto since = static_cast<std::int64_t>(now - last_);  // of another core: perhaps not yet
    return since >= static_cast<std::int64_t>(moment_);
  }

 private:
  const Ticks moment_;
  Inspected<Ticks> last_ = 0;
  Inspected<std::uint64_t> calls_ = 0;
};

}  // namespace weft::engine
