#include "sim_stream.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::engine {
namespace {

constexpr std::size_t kSegmentMax = std::size_t{16} << 10;  // what travels in one piece
constexpr std::size_t kPipeAtomic = 4096;                   // is written whole or not at all

}  // namespace

// ── reading and writing ─────────────────────────────────────────────────────────────────────────

SimObject::Answer SimStream::receive(msghdr& message, int flags) {
  if (is_pipe_) return -ENOTSOCK;
  message.msg_namelen = 0;
  message.msg_controllen = 0;
  message.msg_flags = 0;
  return take(message.msg_iov, message.msg_iovlen, (flags & MSG_PEEK) != 0);
}

SimObject::Answer SimStream::send(const msghdr& message, int) {
  if (is_pipe_) return -ENOTSOCK;
  if (message.msg_controllen != 0) return -EOPNOTSUPP;
  return put(message.msg_iov, message.msg_iovlen);
}

SimObject::Answer SimStream::read(const iovec* parts, int count) {
  if (count < 0) return -EINVAL;
  if (is_pipe_ && reading_shut_) return -EBADF;
  return take(parts, static_cast<std::size_t>(count), false);
}

SimObject::Answer SimStream::write(const iovec* parts, int count) {
  if (count < 0) return -EINVAL;
  if (is_pipe_ && writing_shut_ && !end_wanted_) return -EBADF;
  return put(parts, static_cast<std::size_t>(count));
}

SimObject::Answer SimStream::take(const iovec* parts, std::size_t count, bool only_peek) {
  if (state_ == State::fresh || state_ == State::listening) return -ENOTCONN;
  const std::size_t asked = bytes_in(parts, count);
  if (received_.empty()) {
    if (asked == 0) return 0;
    if (error_ != 0) return -std::exchange(error_, 0);
    return end_received_ || reading_shut_ || state_ == State::over ? 0 : -EAGAIN;
  }
  const std::size_t most = std::min(asked, received_.size());
  const std::size_t size = piece_of(most);
  scatter(received_.view().substr(0, size), parts, count);
  if (only_peek) return static_cast<Answer>(size);
  received_.remove(size);
  if (size < most) tell(EPOLLIN);  // a short read says that there is no more: now there is again
  if (const Ptr other = peer()) is_unix() ? other->room_opened() : other->push_out();
  return static_cast<Answer>(size);
}

SimObject::Answer SimStream::put(const iovec* parts, std::size_t count) {
  if (error_ != 0) return -std::exchange(error_, 0);
  if (state_ == State::fresh || state_ == State::listening) return -ENOTCONN;
  if (state_ == State::over || writing_shut_) return -EPIPE;
  const Ptr other = peer();
  if (is_unix() && state_ == State::connected && (!other || other->is_closed_)) return -EPIPE;
  const std::size_t asked = bytes_in(parts, count);
  if (asked == 0) return 0;
  const std::size_t room = state_ == State::connected ? room_to_send() : 0;
  const bool is_atomic = is_pipe_ && asked <= kPipeAtomic;
  if (room == 0 || (is_atomic && room < asked)) {
    writer_waits_ = true;
    return -EAGAIN;
  }
  const std::size_t most = std::min(asked, room);
  const std::size_t size = is_atomic ? most : piece_of(most);
  const std::string bytes = gather(parts, count, size);
  if (is_unix()) {
    other->received_.append(bytes);
    other->tell(EPOLLIN);
  } else {
    unsent_.append(bytes);
  }
  if (size < most) tell(EPOLLOUT);
  else if (size < asked) writer_waits_ = true;
  push_out();
  return static_cast<Answer>(size);
}

std::size_t SimStream::room_to_send() const noexcept {
  std::size_t most = send_max_;
  std::size_t used = unsent_.size() + unacknowledged_;
  if (is_unix()) {
    const Ptr other = peer();
    most = other ? other->receive_max_ : 0;
    used = other ? other->received_.size() : 0;
  }
  return used < most ? most - used : 0;
}

void SimStream::room_opened() {
  if (!writer_waits_ || !finds_room_to_send()) return;
  writer_waits_ = false;
  tell(EPOLLOUT);
}

// Whoever finds no room here waits for it. Of a pipe, as much as is written in one piece.
bool SimStream::finds_room_to_send() noexcept {
  const bool has = room_to_send() >= (is_pipe_ ? kPipeAtomic : 1);
  if (!has) writer_waits_ = true;
  return has;
}

short SimStream::poll() {
  if (state_ == State::listening) return pending_.empty() ? short{0} : short{EPOLLIN};
  if (state_ == State::connecting) return 0;
  if (state_ == State::fresh) return EPOLLOUT | EPOLLHUP;
  const bool is_over = state_ == State::over;
  const Ptr other = peer();
  const bool is_broken = is_over || (is_unix() && (!other || other->is_closed_));
  unsigned events = 0;
  if (!received_.empty() || end_received_ || (reading_shut_ && !is_pipe_) || error_ != 0 || is_over)
    events |= EPOLLIN;
  if (end_received_) events |= EPOLLRDHUP;
  if (is_broken || (writing_shut_ && !is_pipe_) || (!writing_shut_ && finds_room_to_send()))
    events |= EPOLLOUT;
  if (error_ != 0 || (is_pipe_ && is_broken && reading_shut_)) events |= EPOLLERR;
  if (is_broken || (end_received_ && end_wanted_)) events |= EPOLLHUP;
  return static_cast<short>(events);
}

// ── on the way ──────────────────────────────────────────────────────────────────────────────────

void SimStream::push_out() {
  if (is_unix() || state_ != State::connected || is_stalled_) return;
  const Ptr other = peer();
  while (departed_ < unsent_.size()) {
    std::size_t window = kSegmentMax;
    if (other) {
      const std::size_t used = other->received_.size() + departed_;
      if (used >= other->receive_max_) break;
      window = std::min(window, other->receive_max_ - used);
    }
    depart(piece_of(std::min(window, unsent_.size() - departed_)), false);
  }
  if (end_wanted_ && !end_departed_ && departed_ == unsent_.size()) depart(0, true);
}

void SimStream::depart(std::size_t bytes, bool is_end) {
  departed_ += bytes;
  end_departed_ = end_departed_ || is_end;
  constexpr std::size_t kHeaders = 40;
  last_arrival_ =
      std::max(last_arrival_, fabric_.arrival(host, remote_host_, bytes + kHeaders));
  fabric_.events.at(last_arrival_, [&fabric = fabric_, id = id, epoch = epoch_, bytes, is_end] {
    const Ptr self = fabric.find<SimStream>(id);
    if (self && self->epoch_ == epoch) self->arrive(bytes, is_end);
  });
}

void SimStream::arrive(std::size_t bytes, bool is_end) {
  if (!can_reach_peer()) return stall();
  if (fabric_.events.chance(fabric_.link(host, remote_host_).reset_probability))
    return break_connection();
  const Ptr other = peer();
  if (!other || other->state_ == State::over || (other->is_closed_ && bytes > 0)) {
    if (other && is_end) end_arrived_ = true;
    // Nobody is there any more: the other host says so.
    if (other && other->is_closed_ && bytes > 0) other->fail(ECONNRESET);
    const Duration back = fabric_.latency(remote_host_, host);
    return fabric_.events.after(back, [&fabric = fabric_, id = id] {
      const Ptr self = fabric.find<SimStream>(id);
      if (self && fabric.is_open(self->remote_host_, self->host)) self->fail(ECONNRESET);
    });
  }
  other->established();
  other->hear();
  if (!other->reading_shut_) other->received_.append(unsent_.view().substr(0, bytes));
  unsent_.remove(bytes);
  departed_ -= bytes;
  if (is_end) {
    end_arrived_ = other->end_received_ = true;
    other->tell(EPOLLIN | EPOLLRDHUP);
    leave_if_over();
    other->leave_if_over();
    return;
  }
  other->tell(EPOLLIN);
  acknowledge(bytes);
  push_out();
}

// The bytes have arrived, and we need not keep them, if we hear of it.
void SimStream::acknowledge(std::size_t bytes) {
  if (fabric_.is_open(remote_host_, host)) {
    hear();
    return room_opened();
  }
  if (unacknowledged_ == 0 && !is_stalled_) hope_for_answer();
  unacknowledged_ += bytes;
}

void SimStream::stall() {
  ++epoch_;
  departed_ = 0;
  end_departed_ = end_arrived_;
  if (unacknowledged_ == 0) hope_for_answer();
  is_stalled_ = true;
}

void SimStream::hope_for_answer() {
  fabric_.events.after(fabric_.silence_max, [&fabric = fabric_, id = id, silence = ++silences_] {
    const Ptr self = fabric.find<SimStream>(id);
    if (self && (self->is_stalled_ || self->unacknowledged_ > 0) && self->silences_ == silence)
      self->fail(ETIMEDOUT);
  });
}

void SimStream::ways_changed() {
  if (state_ == State::connecting && is_request_held_ && can_reach_peer()) {
    is_request_held_ = false;
    send_request();
  }
  mind_silence();
  if (!is_stalled_ && unacknowledged_ == 0) return;
  if (!can_reach_peer() || !fabric_.is_open(remote_host_, host)) return;
  is_stalled_ = false;
  unacknowledged_ = 0;
  room_opened();
  push_out();
}

bool SimStream::is_cut_off() const noexcept {
  return state_ == State::connected && !is_unix() &&
         (!can_reach_peer() || !fabric_.is_open(remote_host_, host));
}

// ── ending ──────────────────────────────────────────────────────────────────────────────────────

SimObject::Answer SimStream::shutdown(int how) {
  if (is_pipe_) return -ENOTSOCK;
  if (state_ == State::listening) {
    tell(EPOLLIN | EPOLLHUP);
    state_ = State::over;
    return 0;
  }
  if (state_ != State::connected) return -ENOTCONN;
  if (how == SHUT_RD || how == SHUT_RDWR) {
    reading_shut_ = true;
    tell(EPOLLIN | EPOLLRDHUP);
  }
  if (how == SHUT_WR || how == SHUT_RDWR) {
    writing_shut_ = true;
    tell(EPOLLOUT);
    end_sending();
  }
  return how < SHUT_RD || how > SHUT_RDWR ? -EINVAL : 0;
}

void SimStream::end_sending() {
  if (end_wanted_) return;
  end_wanted_ = true;
  closed_first_ = !end_received_;
  if (!is_unix()) return push_out();
  if (const Ptr other = peer()) {
    other->end_received_ = true;
    other->tell(EPOLLIN | EPOLLRDHUP);
  }
}

void SimStream::close() {
  is_closed_ = true;
  const State before = state_;
  if (before == State::listening) {
    for (const ObjectId one : std::exchange(pending_, {}))
      if (const Ptr other = fabric_.find<SimStream>(one)) other->close();
    for (const ObjectId one : std::exchange(waiting_, {}))
      if (const Ptr other = fabric_.find<SimStream>(one)) other->fail(ECONNREFUSED);
  }
  if (before != State::connected) return leave(false);
  if (is_unix()) {
    if (const Ptr other = peer()) other->other_end_closed(!received_.empty());
    return leave(false);
  }
  linger patience{};
  socklen_t length = sizeof patience;
  static_cast<void>(get_option(SOL_SOCKET, SO_LINGER, &patience, length));
  const bool is_abrupt = patience.l_onoff != 0 && patience.l_linger == 0;
  if (is_abrupt || !received_.empty()) {
    send_reset();
    return leave(false);
  }
  writing_shut_ = true;
  end_sending();
  leave_if_over();
}

void SimStream::other_end_closed(bool unread) {
  end_received_ = true;
  if (unread && !is_pipe_) error_ = ECONNRESET;
  tell(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP);
}

void SimStream::send_reset() {
  fabric_.events.after(fabric_.latency(host, remote_host_),
                       [&fabric = fabric_, from = host, other = peer_] {
                         const Ptr to = fabric.find<SimStream>(other);
                         if (to && fabric.is_open(from, to->host)) to->fail(ECONNRESET);
                       });
}

void SimStream::break_connection() {
  const Ptr other = peer();
  fail(ECONNRESET);
  if (other) other->fail(ECONNRESET);
}

void SimStream::fail(int error) {
  if (state_ == State::over || state_ == State::listening) return;
  state_ = State::over;
  error_ = error;
  ++epoch_;
  departed_ = unacknowledged_ = 0;
  unsent_.clear();
  is_stalled_ = writer_waits_ = false;
  release_address(false);
  tell(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP);
  if (is_closed_) leave(false);
}

void SimStream::leave_if_over() {
  if (is_closed_ && end_arrived_ && end_received_) leave(closed_first_);
}

void SimStream::leave(bool port_rests) {
  state_ = State::over;
  ++epoch_;
  release_address(port_rests);
  fabric_.drop(id);
}

void SimStream::vanish() {
  is_closed_ = true;
  leave(false);
}

}  // namespace weft::engine
