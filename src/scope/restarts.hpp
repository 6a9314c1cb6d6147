// What a supervisor reckons with: how many restarts, and how long to rest before each.
#pragma once

#include <weft/supervisor.hpp>

#include <cstddef>
#include <deque>
#include <exception>
#include <string>

namespace weft {

// Throws std::invalid_argument for options that make no sense.
SupervisorOptions checked(SupervisorOptions options);

// Restarts in a row, each before those it started had run for SupervisorOptions::within.
struct Streak {
  std::size_t attempts = 0;
  double delay = 0;   // the last one, without jitter, in nanoseconds
  Instant started{};  // after it

  Duration next_delay(const SupervisorOptions& options, Instant now);
};

// The restarts of the last time, SupervisorOptions::within long.
class Intensity {
 public:
  // Counts a restart at `now`, unless it would be one too many: false.
  bool one_more(const SupervisorOptions& options, Instant now);

 private:
  std::deque<Instant> recent_;
};

// For messages.
std::string quoted(std::string_view name);
std::string what_of(const std::exception_ptr& error);

}  // namespace weft
