#include <weft/net/listener_socket.hpp>

#include <weft/time.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft::net {
namespace {

constexpr Duration kPauseFirst = std::chrono::milliseconds{1};
constexpr Duration kPauseMost = std::chrono::seconds{1};

// Something has happened to that one connection, or to the way to it (accept(2)). EPERM and
// EOPNOTSUPP, which it also lists, may be there for good: to try again would be to spin.
bool is_of_one_connection(int error) noexcept {
  constexpr std::array kErrors{ECONNABORTED, EPROTO,       ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
                               ENONET,       EHOSTUNREACH, ENETUNREACH, ECONNRESET,  ETIMEDOUT};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

// Passes when something else is closed, or freed. ENOSPC: the reactor may watch no more.
bool is_of_scarcity(int error) noexcept {
  constexpr std::array kErrors{EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

bool is_system(std::error_code error) noexcept {
  return error.category() == std::system_category() || error.category() == std::generic_category();
}

}  // namespace

Result<void> ListenerSocket::close() noexcept { return socket_.close(); }

Result<Descriptor> ListenerSocket::accept_socket(const Accepted& as, SocketAddress* peer) const {
  for (Duration length = kPauseFirst;;) {
    const Result<int> fd = socket_.accept(peer);
    Result<Descriptor> taken =
        fd ? Descriptor::adopt(*fd, as.carries, as.reading, as.writing) : fd.failure();
    if (taken || !is_system(taken.error())) return taken;
    if (!fd && is_of_one_connection(fd.error().value())) continue;
    if (!is_of_scarcity(taken.error().value())) return taken;
    const Result<void> paused = pause(taken.error(), length);
    if (!paused) return paused.failure();
    length = std::min(length * 2, kPauseMost);
  }
}

// A listener never becomes writable: that arm completes only when it is closed.
Result<void> ListenerSocket::pause(std::error_code why, Duration length) const {
  if (on_pause_) on_pause_(why, length);
  Alarm over{saturating_add(Clock::now(), length)};
  Descriptor::Ready closed = socket_.on_ready(Way::out);
  Waitable* const arms[] = {&over, &closed};
  if (wait(std::span<Waitable* const>{arms}) == 0) return {};
  if (!socket_.is_open()) return Unexpected{IoError::closed};
  wait(over);  // it was something else: we must not spin
  return {};
}

}  // namespace weft::net
