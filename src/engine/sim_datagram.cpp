#include "sim_datagram.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::engine {
namespace {

constexpr std::size_t kBytesMax = 65507;  // of a datagram over IPv4
constexpr std::size_t kOverhead = 256;    // what one counts for in a buffer besides its bytes

}  // namespace

SimObject::Answer SimDatagram::connect(const SimAddress& address) {
  const Answer target = host_of(address);
  if (target < 0) return target;
  if (const Answer answer = bind_for(address); answer < 0) return answer;
  remote_ = address;
  return 0;
}

SimObject::Answer SimDatagram::shutdown(int how) {
  if (!remote_) return -ENOTCONN;
  reading_shut_ = reading_shut_ || how != SHUT_WR;
  writing_shut_ = writing_shut_ || how != SHUT_RD;
  tell(EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  return 0;
}

SimObject::Answer SimDatagram::peer_address(SocketAddress& address) {
  if (!remote_) return -ENOTCONN;
  remote_->print(address);
  return 0;
}

SimObject::Answer SimDatagram::receive(msghdr& message, int flags) {
  if (error_ != 0) return -std::exchange(error_, 0);
  if (received_.empty()) return reading_shut_ ? 0 : -EAGAIN;
  const bool only_peeks = (flags & MSG_PEEK) != 0;
  const Datagram next = received_.front();
  if (!only_peeks) {
    received_.pop_front();
    received_bytes_ -= next.bytes.size() + kOverhead;
    for (const ObjectId writer : std::exchange(writers_, {}))
      if (const auto one = fabric_.find<SimDatagram>(writer)) one->tell(EPOLLOUT);
  }
  if (message.msg_name) {
    SocketAddress from;
    next.from.print(from);
    std::memcpy(message.msg_name, &from.storage, std::min(message.msg_namelen, from.length));
    message.msg_namelen = from.length;
  }
  const std::size_t room = bytes_in(message.msg_iov, message.msg_iovlen);
  scatter(next.bytes, message.msg_iov, message.msg_iovlen);
  message.msg_controllen = 0;
  message.msg_flags = next.bytes.size() > room ? MSG_TRUNC : 0;
  const bool tells_all = (flags & MSG_TRUNC) != 0;
  return static_cast<Answer>(tells_all ? next.bytes.size() : std::min(room, next.bytes.size()));
}

SimObject::Answer SimDatagram::send(const msghdr& message, int) {
  if (error_ != 0) return -std::exchange(error_, 0);
  if (writing_shut_) return -EPIPE;
  if (message.msg_controllen != 0) return -EOPNOTSUPP;
  const std::size_t size = bytes_in(message.msg_iov, message.msg_iovlen);
  if (size > kBytesMax) return -EMSGSIZE;
  std::string bytes = gather(message.msg_iov, message.msg_iovlen, size);
  if (!message.msg_name) return remote_ ? send_to(*remote_, std::move(bytes)) : -EDESTADDRREQ;
  SimAddress to;
  const Answer answer =
      SimAddress::parse(static_cast<const sockaddr*>(message.msg_name), message.msg_namelen, to);
  return answer < 0 ? answer : send_to(to, std::move(bytes));
}

SimObject::Answer SimDatagram::read(const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);  // which receive() only reads
  message.msg_iovlen = static_cast<std::size_t>(std::max(count, 0));
  return receive(message, 0);
}

SimObject::Answer SimDatagram::write(const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(std::max(count, 0));
  return send(message, 0);
}

SimObject::Answer SimDatagram::send_to(const SimAddress& to, std::string bytes) {
  const Answer target = host_of(to);
  if (target < 0) return target;
  if (is_unix()) return hand_over(to, std::move(bytes));
  if (to.port == 0) return -EINVAL;
  const SimAddress before = local_;
  if (const Answer answer = bind_for(to); answer < 0) return answer;
  const auto size = static_cast<Answer>(bytes.size());
  travel(static_cast<HostId>(target), to, std::move(bytes));
  // Only connect() binds a socket to one of its host's addresses for good.
  if (!remote_ && before.scope == SimAddress::Scope::any) local_.scope = before.scope;
  return size;
}

SimObject::Answer SimDatagram::hand_over(const SimAddress& to, std::string bytes) {
  const SimHostState& on = fabric_.host(host);
  const auto at = on.names.find({transport_, to.path});
  const auto other = at == on.names.end() ? nullptr : fabric_.find<SimDatagram>(at->second);
  if (!other) return on.disk.find(to.path) ? -ECONNREFUSED : -ENOENT;
  if (!other->has_room(bytes.size())) {
    other->writers_.push_back(id);
    return -EAGAIN;
  }
  const auto size = static_cast<Answer>(bytes.size());
  other->arrive({local_, std::move(bytes)});
  return size;
}

void SimDatagram::travel(HostId to_host, const SimAddress& to, std::string bytes) {
  SimEvents& events = fabric_.events;
  const SimLink& link = fabric_.link(host, to_host);
  if (!fabric_.is_open(host, to_host) || events.chance(link.loss)) return;
  const int copies = events.chance(link.duplication) ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    Instant when = fabric_.arrival(host, to_host, bytes.size());
    Instant& last = last_arrivals_[to_host];
    if (events.chance(link.reordering))
      when = saturating_add(when, events.between(Duration{1}, link.latency.most * 10));
    else when = last = std::max(last, when);
    events.at(when, [&fabric = fabric_, sender = id, from_host = host, to_host, from = local_, to,
                     bytes] {
      if (!fabric.is_open(from_host, to_host)) return;
      const ObjectId at = fabric.at_port(to_host, Transport::datagram, to,
                                         {from_host, from.port});
      if (const auto other = fabric.find<SimDatagram>(at)) return other->arrive({from, bytes});
      const auto self = fabric.find<SimDatagram>(sender);
      if (!self || !self->remote_ || !fabric.is_open(to_host, from_host)) return;
      self->error_ = ECONNREFUSED;
      self->tell(EPOLLIN | EPOLLOUT | EPOLLERR);
    });
  }
}

void SimDatagram::arrive(Datagram datagram) {
  if (!has_room(datagram.bytes.size()) || reading_shut_) return;
  if (remote_ && !is_unix() && !is_from_remote(datagram.from)) return;
  received_bytes_ += datagram.bytes.size() + kOverhead;
  datagram.from.mapped =
      datagram.from.mapped || (family_ == AF_INET6 && datagram.from.family == AF_INET);
  datagram.from.family = family_;
  received_.push_back(std::move(datagram));
  tell(EPOLLIN);
}

// A connected socket hears nobody else. What is no host's own address is the host itself.
bool SimDatagram::is_from_remote(const SimAddress& from) const noexcept {
  const auto host_at = [&](const SimAddress& address) {
    return address.scope == SimAddress::Scope::host ? address.host : host;
  };
  return remote_->port == from.port && host_at(*remote_) == host_at(from);
}

bool SimDatagram::has_room(std::size_t bytes) const noexcept {
  return received_.empty() || received_bytes_ + bytes + kOverhead <= receive_max_;
}

short SimDatagram::poll() {
  unsigned events = EPOLLOUT;
  if (!received_.empty() || error_ != 0 || reading_shut_) events |= EPOLLIN;
  if (error_ != 0) events |= EPOLLERR;
  return static_cast<short>(events);
}

void SimDatagram::close() {
  for (const ObjectId writer : std::exchange(writers_, {}))
    if (const auto one = fabric_.find<SimDatagram>(writer)) one->tell(EPOLLOUT);
  release_address(false);
  fabric_.drop(id);
}

}  // namespace weft::engine
