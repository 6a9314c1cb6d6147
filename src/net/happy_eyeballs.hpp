// HappyEyeballs: connects to the first of several addresses that answers (RFC 8305).
//
// One fiber holds all attempts and waits for any of them, or for the next one's turn. Rejected: a
// fiber for each attempt, because one that is cancelled in the middle has to be joined, and an
// engine that runs children in place could not do it at all.
#pragma once

#include "socket.hpp"

#include <weft/core/time.hpp>

#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace weft::net {

// The families in turn, beginning with the first one's; within each the order stays.
std::vector<Endpoint> interleaved(std::span<const Endpoint> endpoints);

class HappyEyeballs {
 public:
  HappyEyeballs(std::span<const Endpoint> endpoints, Duration stagger)
      : endpoints_(interleaved(endpoints)), stagger_(stagger) {}

  // A socket that is connected. Parks. Cancel point; what was begun is closed by the destructor.
  Result<Descriptor> run();

 private:
  struct Attempt {
    Descriptor socket;
    std::size_t endpoint;
  };

  void begin_next();
  void begin(std::size_t endpoint);
  // The attempt that has an outcome; none: it is the next address's turn.
  [[nodiscard]] std::optional<std::size_t> wait_for_any();
  [[nodiscard]] std::optional<Descriptor> outcome_of(std::size_t attempt);
  void failed(std::error_code error) noexcept;
  [[nodiscard]] bool has_next() const noexcept { return next_ < endpoints_.size(); }

  const std::vector<Endpoint> endpoints_;
  const Duration stagger_;
  std::size_t next_ = 0;     // among endpoints_
  Instant next_turn_{};      // if nothing happens before
  std::deque<Attempt> attempts_;
  unsigned met_itself_ = 0;
  std::error_code error_;
};

}  // namespace weft::net
