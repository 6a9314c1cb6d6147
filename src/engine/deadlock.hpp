// What an engine does when nothing can ever run again: the rest of it is in the kit.
#pragma once

#include <weft/engine_kit.hpp>

#include <string>
#include <vector>

namespace weft::engine {

// "fiber #3 \"reader\" on event wait \"ready\"", for each that waits for something else than the
// end of others. While no worker runs a fiber that waits now.
std::vector<std::string> describe_waits(const Io& io, Instant now, Duration grain);

bool is_from_outside(const Waiting& waiting) noexcept;

// A fiber that waits for the world outside: as long as there is one, nothing is a deadlock. It is
// remembered, so that one need not look for it again while it goes on waiting.
class OutsideWait {
 public:
  [[nodiscard]] bool still_there() const noexcept;
  // While no worker of `io` runs a fiber that waits now. False: there is none.
  [[nodiscard]] bool find(const Io& io) noexcept;

 private:
  const Fiber* fiber_ = nullptr;  // frames are never freed
  Ticket ticket_{};
};

// Whether an engine with so many threads, and what watches it, is all there is in this process.
bool is_alone(unsigned threads) noexcept;

}  // namespace weft::engine
