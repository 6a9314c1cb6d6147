// How connections are made: a request travels to the listener's host, and the answer back.
#include "sim_stream.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

namespace weft::engine {

using Scope = SimAddress::Scope;

SimObject::Answer SimStream::listen(int backlog) {
  if (state_ == State::connecting || state_ == State::connected) return -EINVAL;
  if (!is_bound_) {
    if (is_unix()) return -EINVAL;
    const Answer answer = fabric_.take_port(host, transport_, local_, binding());
    if (answer < 0) return -EADDRINUSE;
    is_bound_ = true;
  }
  constexpr int kBacklogMax = 4096;
  backlog_ = static_cast<std::size_t>(std::clamp(backlog, 0, kBacklogMax)) + 1;
  state_ = State::listening;
  return 0;
}

SimObject::Answer SimStream::accept(std::shared_ptr<SimObject>& accepted, SocketAddress& peer) {
  if (state_ != State::listening) return -EINVAL;
  while (!pending_.empty()) {
    const Ptr next = fabric_.find<SimStream>(pending_.front());
    pending_.pop_front();
    admit_waiting();
    if (!next) continue;
    next->remote_.print(peer);
    accepted = next;
    return 0;
  }
  return -EAGAIN;
}

SimObject::Answer SimStream::connect(const SimAddress& address) {
  if (state_ == State::connected) return -EISCONN;
  if (state_ == State::connecting) return -EALREADY;
  if (state_ != State::fresh) return -EINVAL;
  const Answer target = host_of(address);
  if (target < 0) return target;
  remote_ = address;
  if (remote_.scope == Scope::any) remote_.scope = Scope::loopback;
  remote_host_ = static_cast<HostId>(target);
  if (is_unix()) return connect_here();
  if (const Answer answer = bind_for(remote_); answer < 0) return answer;
  state_ = State::connecting;
  fabric_.events.after(fabric_.connecting_max, [&fabric = fabric_, id = id] {
    if (const Ptr self = fabric.find<SimStream>(id); self && self->state_ == State::connecting)
      self->fail(ETIMEDOUT);
  });
  send_request();
  return -EINPROGRESS;
}

// To a name: at once.
SimObject::Answer SimStream::connect_here() {
  const SimHostState& on = fabric_.host(host);
  const auto at = on.names.find({transport_, remote_.path});
  const Ptr listener =
      at == on.names.end() ? nullptr : fabric_.find<SimStream>(at->second);
  if (!listener || !listener->is_listening()) {
    const bool is_there = remote_.path.empty() || remote_.path.front() == '\0' ||
                          on.disk.find(remote_.path);
    return is_there ? -ECONNREFUSED : -ENOENT;
  }
  if (!listener->has_room()) {
    state_ = State::connecting;
    listener->waiting_.push_back(id);
    return -EINPROGRESS;
  }
  make_other_end(*listener);
  state_ = State::connected;
  return 0;
}

void SimStream::admit_waiting() {
  while (has_room() && !waiting_.empty()) {
    const Ptr next = fabric_.find<SimStream>(waiting_.front());
    waiting_.pop_front();
    if (!next || next->state_ != State::connecting) continue;
    next->make_other_end(*this);
    next->established();
  }
}

// The other end of our connection, which waits to be accepted.
SimStream::Ptr SimStream::make_other_end(SimStream& listener) {
  const auto other = std::make_shared<SimStream>(fabric_, remote_host_, listener.family_);
  other->state_ = State::connected;
  other->inherit_from(listener);
  other->local_ = remote_;
  other->remote_ = local_;
  // Seen through a listener for both families, an IPv4 peer has a mapped address.
  for (SimAddress* const one : {&other->local_, &other->remote_}) {
    one->mapped = one->mapped || (listener.family_ == AF_INET6 && one->family == AF_INET);
    if (listener.family_ == AF_INET) one->mapped = false;
    one->family = listener.family_;
  }
  other->remote_host_ = host;
  other->peer_ = id;
  peer_ = other->id;
  fabric_.keep(other);
  other->hear();
  listener.pending_.push_back(other->id);
  listener.tell(EPOLLIN);
  return other;
}

void SimStream::send_request() {
  if (!can_reach_peer()) {
    is_request_held_ = true;
    return;
  }
  fabric_.events.after(fabric_.latency(host, remote_host_), [&fabric = fabric_, id = id] {
    if (const Ptr self = fabric.find<SimStream>(id)) self->request_arrives();
  });
}

void SimStream::request_arrives() {
  if (state_ != State::connecting) return;
  if (!can_reach_peer()) {
    is_request_held_ = true;
    return;
  }
  int error = 0;
  if (peer_ == 0) {  // else it is the answer that was lost
    const Ptr listener =
        fabric_.find<SimStream>(fabric_.at_port(remote_host_, transport_, remote_, flow()));
    if (!listener || !listener->is_listening()) {
      error = ECONNREFUSED;
    } else if (!listener->has_room()) {
      constexpr Duration kAgain = std::chrono::seconds{1};
      fabric_.events.after(kAgain, [&fabric = fabric_, id = id] {
        if (const Ptr self = fabric.find<SimStream>(id); self && self->state_ == State::connecting)
          self->send_request();
      });
      return;
    } else {
      make_other_end(*listener);
    }
  }
  fabric_.events.after(
      fabric_.latency(remote_host_, host), [&fabric = fabric_, id = id, other = peer_, error] {
        if (const Ptr self = fabric.find<SimStream>(id)) return self->request_is_answered(error);
        if (const Ptr orphan = fabric.find<SimStream>(other)) orphan->fail(ECONNRESET);
      });
}

void SimStream::request_is_answered(int error) {
  if (state_ != State::connecting) return;
  if (!fabric_.is_open(remote_host_, host)) is_request_held_ = true;
  else if (error != 0) fail(error);
  else established();
}

void SimStream::established() noexcept {
  if (state_ != State::connecting) return;
  state_ = State::connected;
  is_request_held_ = false;
  hear();
  tell(EPOLLOUT);
}

std::pair<SimStream::Ptr, SimStream::Ptr> SimStream::make_pair(SimFabric& fabric, HostId on_host) {
  const auto one = std::make_shared<SimStream>(fabric, on_host, AF_UNIX);
  const auto other = std::make_shared<SimStream>(fabric, on_host, AF_UNIX);
  for (SimStream* const end : {one.get(), other.get()}) {
    end->state_ = State::connected;
    end->remote_.family = AF_UNIX;
    end->remote_host_ = on_host;
  }
  one->peer_ = other->id;
  other->peer_ = one->id;
  return {one, other};
}

std::pair<SimStream::Ptr, SimStream::Ptr> SimStream::make_pipe(SimFabric& fabric, HostId on_host) {
  auto [reader, writer] = make_pair(fabric, on_host);
  for (SimStream* const end : {reader.get(), writer.get()}) {
    end->is_pipe_ = true;
    end->receive_max_ = std::size_t{64} << 10;
  }
  reader->writing_shut_ = true;
  writer->reading_shut_ = true;
  return {std::move(reader), std::move(writer)};
}

SimObject::Answer SimStream::local_address(SocketAddress& address) {
  return is_pipe_ ? -ENOTSOCK : SimSocket::local_address(address);
}

SimObject::Answer SimStream::peer_address(SocketAddress& address) {
  if (is_pipe_) return -ENOTSOCK;
  if (state_ != State::connected) return -ENOTCONN;
  remote_.print(address);
  return 0;
}

}  // namespace weft::engine
