// Which reactor an engine gets: the one that was asked for, else the best that works here.
//
// To find out takes system calls, and in odd sandboxes a second. Whoever asks first does it, and
// holds no lock meanwhile; others who need the reactor wait for the outcome. That there is none is
// an outcome, too: it is what all are told for a while. Then the system is asked again, since most
// of what is in the way, a lack of descriptors or of memory, passes.
#pragma once

#include "poller.hpp"

#include <weft/base/sync.hpp>
#include <weft/core/time.hpp>
#include <weft/engine.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace weft::engine {

struct ReactorChoice {
  std::shared_ptr<Poller> poller;  // null: the system has none for us
  std::string report;              // which it is, and why
};

// For the workers of `engine`.
ReactorChoice choose_reactor(const Options& resolved, const Io& engine) noexcept;

// The reactor of one engine, chosen when it is first asked for. From any thread.
class ReactorOnDemand {
 public:
  // For so long it is not tried again.
  static constexpr Duration kFailureHolds = std::chrono::milliseconds{100};

  ReactorOnDemand(const Options& resolved, const Io& engine) noexcept
      : options_(resolved), engine_(engine) {}
  ReactorOnDemand(const ReactorOnDemand&) = delete;
  ReactorOnDemand& operator=(const ReactorOnDemand&) = delete;

  struct Found {
    std::shared_ptr<Poller> poller;  // null: there is none, and report() says why
    bool is_new = false;             // this call has made it
  };
  [[nodiscard]] Found get() noexcept;
  // Null: nobody has asked yet, or there is none.
  [[nodiscard]] Poller* made() const noexcept { return made_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string report();

 private:
  enum State : std::uint32_t {
    // state      poller_, made_     who may write them
    kUntried,  // null               nobody
    kTrying,   // -                  the one who tries
    kMade,     // set, for good      nobody
    kFailed,   // null               nobody
  };
  Found choose() noexcept;

  const Options& options_;
  const Io& engine_;
  Atomic<std::uint32_t> state_{kUntried};
  std::shared_ptr<Poller> poller_;
  Atomic<Poller*> made_{nullptr};
  Atomic<std::int64_t> try_again_at_{0};  // in nanoseconds of the monotonic clock
  Lock report_lock_;                      // protects the text, and is held to copy it
  std::string report_;
};

// Throws std::runtime_error, saying why, if one was asked for that does not work here.
void check_reactor(const Options& resolved);

}  // namespace weft::engine
