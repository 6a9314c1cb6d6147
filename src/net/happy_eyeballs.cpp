#include "happy_eyeballs.hpp"

#include <weft/time.hpp>

#include <netinet/in.h>
#include <poll.h>

#include <algorithm>

namespace weft::net {
namespace {

constexpr std::size_t kAttemptsAtOnce = 16;
constexpr unsigned kMeetsItselfMost = 16;

// Says no more than that there is no way to addresses of that kind from here.
bool is_of_the_way(std::error_code error) noexcept {
  return error == std::errc::network_unreachable || error == std::errc::address_not_available ||
         error == std::errc::address_family_not_supported || error == std::errc::host_unreachable;
}

// Two ends that open at once become one connection. If the system chooses, for our end, the very
// port that we want to reach, and nobody listens there, we talk to ourselves.
bool has_met_itself(const Descriptor& socket, const Endpoint& to) {
  if (!to.is_loopback()) return false;
  const Result<Endpoint> local = local_endpoint_of(socket);
  return local && *local == to;
}

// Final: containers may destroy them.
struct Outcome final : Descriptor::Ready {
  explicit Outcome(const Descriptor& socket) noexcept : Ready(socket, Way::out) {}
};
struct Turn final : Alarm {
  using Alarm::Alarm;
};

}  // namespace

std::vector<Endpoint> interleaved(std::span<const Endpoint> endpoints) {
  std::vector<Endpoint> first;
  std::vector<Endpoint> others;
  for (const Endpoint& endpoint : endpoints)
    (endpoint.kind() == endpoints.front().kind() ? first : others).push_back(endpoint);
  std::vector<Endpoint> out;
  for (std::size_t i = 0; i < std::max(first.size(), others.size()); ++i) {
    if (i < first.size()) out.push_back(std::move(first[i]));
    if (i < others.size()) out.push_back(std::move(others[i]));
  }
  return out;
}

Result<Descriptor> HappyEyeballs::run() {
  for (;;) {
    const bool is_turn = attempts_.empty() || (attempts_.size() < kAttemptsAtOnce &&
                                               Clock::now() >= next_turn_);
    if (has_next() && is_turn) {
      begin_next();
      continue;
    }
    if (attempts_.empty()) return Unexpected{error_};
    const std::optional<std::size_t> attempt = wait_for_any();
    if (!attempt) continue;
    if (std::optional<Descriptor> connected = outcome_of(*attempt)) return *std::move(connected);
    next_turn_ = Clock::now();  // one has failed: the next need not wait
  }
}

void HappyEyeballs::begin_next() {
  next_turn_ = saturating_add(Clock::now(), stagger_);
  begin(next_++);
}

void HappyEyeballs::begin(std::size_t endpoint) {
  const Result<SocketAddress> address = endpoints_[endpoint].address();
  if (!address) return failed(address.error());
  Result<RawSocket> socket = RawSocket::open(address->storage.ss_family, SOCK_STREAM);
  if (!socket) return failed(socket.error());
  const Kernel::Answer begun = socket->connect(*address);
  if (begun < 0 && begun != -EINPROGRESS && begun != -EINTR)
    return failed(failure_of(begun).error());
  Result<Descriptor> watched =
      (*std::move(socket)).adopt(Carries::stream, "tcp read", "tcp write");
  if (!watched) return failed(watched.error());
  attempts_.push_back({*std::move(watched), endpoint});
}

std::optional<std::size_t> HappyEyeballs::wait_for_any() {
  std::deque<Outcome> outcomes;
  std::vector<Waitable*> arms;
  for (const Attempt& attempt : attempts_) arms.push_back(&outcomes.emplace_back(attempt.socket));
  std::optional<Turn> turn;
  if (has_next() && attempts_.size() < kAttemptsAtOnce) arms.push_back(&turn.emplace(next_turn_));
  const std::size_t won = wait(std::span<Waitable* const>{arms});
  if (won == attempts_.size()) return {};
  return won;
}

std::optional<Descriptor> HappyEyeballs::outcome_of(std::size_t attempt) {
  const auto at = attempts_.begin() + static_cast<std::ptrdiff_t>(attempt);
  const Result<void> outcome = finish_connecting(at->socket);
  Attempt ended = std::move(*at);
  attempts_.erase(at);
  const Endpoint& to = endpoints_[ended.endpoint];
  if (!outcome) {
    failed(outcome.error());
  } else if (!has_met_itself(ended.socket, to)) {
    return std::move(ended.socket);
  } else if (++met_itself_ < kMeetsItselfMost) {
    static_cast<void>(ended.socket.close());
    begin(ended.endpoint);
  } else {
    failed(std::make_error_code(std::errc::connection_refused));
  }
  return {};
}

void HappyEyeballs::failed(std::error_code error) noexcept {
  if (!error_ || (is_of_the_way(error_) && !is_of_the_way(error))) error_ = error;
}

}  // namespace weft::net
