// The words in which dumps and reports speak of fibers.
#pragma once

#include <weft/core/fiber.hpp>
#include <weft/core/site.hpp>
#include <weft/core/time.hpp>

#include <string>
#include <vector>

namespace weft {

// One report: it numbers the objects without a name in the order in which it meets them.
class Words {
 public:
  // Spans are rounded down to multiples of `grain`; zero: they are exact.
  Words(Instant now, Duration grain) noexcept : now_(now), grain_(grain) {}

  // "event wait "go" or channel recv @1 (2 senders live) for 250 ms".
  [[nodiscard]] std::string wait_of(const Waiting& waiting);
  // The same without the time.
  [[nodiscard]] std::string arms_of(const Waiting& waiting);
  // ", spawned at src/main.cpp:12", or nothing if that is not known.
  [[nodiscard]] static std::string origin_of(const Fiber& fiber);
  [[nodiscard]] static std::string origin(std::string text, Site site);  // text first
  [[nodiscard]] std::string span(Duration length) const;

 private:
  std::string number_of(const void* object);

  const Instant now_;
  const Duration grain_;
  std::vector<const void*> nameless_;
};

}  // namespace weft
