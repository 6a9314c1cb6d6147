// ShutdownReport: a run that is to end, and does not, says once who keeps it.
#pragma once

#include <weft/core/time.hpp>

namespace weft::engine {

// When to say it: once in each run, so long after it was first seen to be ending. Whoever has a
// clock asks; the caller's looks are all it knows of time.
class ShutdownReport {
 public:
  explicit ShutdownReport(Duration after) noexcept : after_(after) {}

  // `ending`: the root is cancelled, and somebody still lives. True: now.
  [[nodiscard]] bool is_due(Instant now, bool ending) noexcept {
    if (!ending || told_) return false;
    if (began_ == kNot) began_ = now;
    told_ = now - began_ >= after_;
    return told_;
  }
  // When it wants to be asked again at the latest; the end of time: when the run begins to end.
  [[nodiscard]] Instant next_look() const noexcept {
    if (began_ == kNot || told_ || Instant::max() - began_ < after_) return Instant::max();
    return began_ + after_;
  }

 private:
  static constexpr Instant kNot = Instant::min();

  Duration after_;
  Instant began_ = kNot;
  bool told_ = false;
};

}  // namespace weft::engine
