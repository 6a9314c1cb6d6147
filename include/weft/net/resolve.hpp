// resolve: host names to addresses.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/time.hpp>
#include <weft/net/endpoint.hpp>
#include <weft/result.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace weft::net {

// What became of a lookup, by getaddrinfo(3)'s own numbers.
enum class ResolveError {
  host_not_found = -2,  // no such name
  try_again = -3,       // the name server does not answer, or not now
  failed = -4,          // the name server says that it will not
  no_address = -5,      // the name is known, but has no address
  no_such_family = -9,  // the name has no address of a family that this host can reach
  no_memory = -10,
};
const std::error_category& resolve_category() noexcept;
inline std::error_code make_error_code(ResolveError error) noexcept {
  return {static_cast<int>(error), resolve_category()};
}

struct ResolverCacheOptions {
  Duration ttl = std::chrono::seconds{60};          // how long addresses are remembered
  Duration negative_ttl = std::chrono::seconds{5};  // and that there is no such host; 0: not at all
  std::size_t max_entries = 1024;                   // the one that would expire first has to go
};

// Remembers lookups, in the time of the engine it is used in. For any number of fibers of one
// engine. Two that miss the same name at once both look it up. Failures that may pass (no answer
// from the name server, no memory) are not remembered.
class ResolverCache {
 public:
  using Options = ResolverCacheOptions;
  using Answer = Result<std::vector<SocketAddress>>;

  explicit ResolverCache(Options options = {}) noexcept : options_(options) {}
  ResolverCache(const ResolverCache&) = delete;
  ResolverCache& operator=(const ResolverCache&) = delete;

  // Empty: not known, or no longer.
  [[nodiscard]] std::optional<Answer> find(std::string_view host);
  void remember(std::string_view host, const Answer& answer);
  void forget(std::string_view host);
  void clear();
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    Answer answer;
    Instant until;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  void make_room(Instant now);

  const Options options_;
  mutable Lock lock_;  // protects entries_
  Entries entries_;
};

enum class Family : std::uint8_t { any, ipv4, ipv6 };

struct ResolveOptions {
  Duration timeout = Duration::max();
  ResolverCache* cache = nullptr;  // must outlive the call
  Family family = Family::any;     // addresses of others are left out
};

// The addresses of `host`, best first, with `port`; at least one. An address as `host` is its own
// answer, and nobody is asked. Parks while a thread that may block asks the system. Cancel point.
//
// std::errc::timed_out when the timeout comes first. Neither it nor a cancel waits for the system's
// resolver, which cannot be interrupted: the lookup goes on by itself, with data of its own, and
// what it finds is dropped. Such a thread counts among Options::max_blocking, and the engine's
// run() returns after it.
Result<std::vector<Endpoint>> resolve(std::string_view host, std::uint16_t port,
                                      const ResolveOptions& options = {});
// The same of an endpoint; one that is no name is its own answer.
Result<std::vector<Endpoint>> resolve(const Endpoint& endpoint, const ResolveOptions& options = {});

}  // namespace weft::net

template <>
struct std::is_error_code_enum<weft::net::ResolveError> : std::true_type {};
