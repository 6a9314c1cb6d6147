// Keepalive: an idle connection asks now and then whether its peer is there, and ends if not.
//
// Probes that are answered change nothing, and so are no events: else a program in which everybody
// waits would never be at rest. Only when a way closes, or the peer is gone, is it reckoned when
// the next probe would have been sent, and when the last one is given up.
#include "sim_stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace weft::engine {
namespace {

// Linux's, where the program has not said anything.
constexpr int kIdleSeconds = 7200, kIntervalSeconds = 75, kProbes = 9;

bool is_keepalive(int level, int name) noexcept {
  if (level == SOL_SOCKET) return name == SO_KEEPALIVE;
  return level == IPPROTO_TCP &&
         (name == TCP_KEEPIDLE || name == TCP_KEEPINTVL || name == TCP_KEEPCNT);
}

bool is_in_range(int name, int number) noexcept {
  return number >= 1 && number <= (name == TCP_KEEPCNT ? 127 : 32767);
}

}  // namespace

SimObject::Answer SimStream::set_option(int level, int name, const void* value, socklen_t length) {
  const bool is_ours = is_keepalive(level, name);
  if (is_ours && level == IPPROTO_TCP && value) {
    int number = 0;
    if (length < sizeof number) return -EINVAL;
    std::memcpy(&number, value, sizeof number);
    if (!is_in_range(name, number)) return -EINVAL;
  }
  const Answer answer = SimSocket::set_option(level, name, value, length);
  if (answer < 0 || !is_ours) return answer;
  hear();
  return 0;
}

void SimStream::hear() {
  heard_ = fabric_.events.now();
  if (option(SOL_SOCKET, SO_KEEPALIVE) == 0 && silence_ == 0) return;
  ++minded_;
  silence_ = 0;
  mind_silence();
}

// What a probe that is sent now comes to; 0: an answer.
int SimStream::fate_of_probes() const noexcept {
  if (state_ != State::connected || is_unix() || option(SOL_SOCKET, SO_KEEPALIVE) == 0) return 0;
  if (end_received_ && end_arrived_) return 0;  // it is over, and in order
  if (is_cut_off()) return ETIMEDOUT;
  const Ptr other = peer();
  return other && other->state_ != State::over ? 0 : ECONNRESET;
}

void SimStream::mind_silence() {
  const int before = std::exchange(silence_, fate_of_probes());
  if (silence_ == before) return;
  ++minded_;
  const Instant now = fabric_.events.now();
  if (silence_ == 0) {
    heard_ = now;
    return;
  }
  const auto chosen = [&](int name, int otherwise) {
    const int number = option(IPPROTO_TCP, name);
    return number > 0 ? number : otherwise;
  };
  const Duration idle = std::chrono::seconds{chosen(TCP_KEEPIDLE, kIdleSeconds)};
  const Duration interval = std::chrono::seconds{chosen(TCP_KEEPINTVL, kIntervalSeconds)};
  const auto answered = (now - heard_) / idle;
  Instant end = before == 0 ? saturating_add(heard_, idle * (answered + 1))  // the next probe
                            : saturating_add(now, interval);
  // A host that is there and knows nothing of the connection says so at the first probe.
  if (silence_ == ETIMEDOUT) end = saturating_add(end, interval * chosen(TCP_KEEPCNT, kProbes));
  fabric_.events.at(end, [&fabric = fabric_, id = id, minded = minded_] {
    const Ptr self = fabric.find<SimStream>(id);
    if (self && self->minded_ == minded) self->silence_ends();
  });
}

// As with Linux, what waits to be sent, or for its answer, needs no probes: it has a limit of its
// own, which may be a longer one.
void SimStream::silence_ends() {
  if (state_ == State::connected && unsent_.empty() && unacknowledged_ == 0) fail(silence_);
}

}  // namespace weft::engine
