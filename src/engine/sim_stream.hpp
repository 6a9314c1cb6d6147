// SimStream: one end of a simulated connection, or of a pipe, or a listener.
//
// What the program has written waits in `unsent_` until it has arrived. Its first `departed_` bytes
// are on their way, as events that carry `epoch_`: when one of them finds the way closed, they are
// all void, and begin again from the first when the way opens. So bytes arrive once and in order.
// Between sockets of one host that have no address but a name, and in pipes, bytes take no time.
#pragma once

#include "sim_bytes.hpp"
#include "sim_socket.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace weft::engine {

class SimStream final : public SimSocket {
 public:
  using Ptr = std::shared_ptr<SimStream>;

  SimStream(SimFabric& fabric, HostId on_host, sa_family_t family) noexcept
      : SimSocket(fabric, on_host, family, Transport::stream) {}
  // As of socketpair(2): connected with each other, without names.
  static std::pair<Ptr, Ptr> make_pair(SimFabric& fabric, HostId on_host);
  // The end to read from, and the end to write to.
  static std::pair<Ptr, Ptr> make_pipe(SimFabric& fabric, HostId on_host);

  Answer listen(int backlog) override;
  Answer accept(std::shared_ptr<SimObject>& accepted, SocketAddress& peer) override;
  Answer connect(const SimAddress& address) override;
  Answer shutdown(int how) override;
  Answer local_address(SocketAddress& address) override;
  Answer peer_address(SocketAddress& address) override;
  Answer set_option(int level, int name, const void* value, socklen_t length) override;
  Answer receive(msghdr& message, int flags) override;
  Answer send(const msghdr& message, int flags) override;
  Answer read(const iovec* parts, int count) override;
  Answer write(const iovec* parts, int count) override;
  [[nodiscard]] short poll() override;

  void close() override;
  void vanish() override;
  void ways_changed() override;

  // Something on the way has broken the connection, for both ends.
  void break_connection();
  // Whether it leads to another host, and the way is closed.
  [[nodiscard]] bool is_cut_off() const noexcept;

 private:
  enum class State : std::uint8_t { fresh, listening, connecting, connected, over };

  [[nodiscard]] bool is_listening() const noexcept override { return state_ == State::listening; }
  [[nodiscard]] Ptr peer() const noexcept { return fabric_.find<SimStream>(peer_); }

  // ── making connections ──────────────────────────────────────────────────────────────────────
  Answer connect_here();
  void send_request();
  void request_arrives();
  void request_is_answered(int error);
  [[nodiscard]] bool has_room() const noexcept { return pending_.size() < backlog_; }
  Ptr make_other_end(SimStream& listener);
  void admit_waiting();
  void established() noexcept;

  // ── carrying bytes ──────────────────────────────────────────────────────────────────────────
  Answer take(const iovec* parts, std::size_t count, bool only_peek);
  Answer put(const iovec* parts, std::size_t count);
  [[nodiscard]] std::size_t room_to_send() const noexcept;
  [[nodiscard]] bool finds_room_to_send() noexcept;
  void room_opened();
  void push_out();
  void depart(std::size_t bytes, bool is_end);
  void arrive(std::size_t bytes, bool is_end);
  void acknowledge(std::size_t bytes);
  void stall();
  void hope_for_answer();
  [[nodiscard]] bool can_reach_peer() const noexcept {
    return fabric_.is_open(host, remote_host_);
  }

  // ── keeping alive: see sim_keepalive.cpp ────────────────────────────────────────────────────
  void hear();  // something has come from the peer
  [[nodiscard]] int fate_of_probes() const noexcept;
  void mind_silence();
  void silence_ends();

  // ── ending ──────────────────────────────────────────────────────────────────────────────────
  void end_sending();
  void other_end_closed(bool unread);
  void send_reset();
  void fail(int error);
  void leave_if_over();
  void leave(bool port_rests);

  State state_ = State::fresh;
  SimAddress remote_{};
  HostId remote_host_ = 0;
  ObjectId peer_ = 0;
  bool is_pipe_ = false;
  bool is_closed_ = false;  // by the program
  bool closed_first_ = false;

  // As a listener:
  std::deque<ObjectId> pending_;  // made, and not accepted
  std::deque<ObjectId> waiting_;  // Unix sockets for which there was no room
  std::size_t backlog_ = 0;
  bool is_request_held_ = false;  // as who connects: until a way opens

  ByteQueue unsent_;
  std::size_t departed_ = 0;
  std::size_t unacknowledged_ = 0;  // arrived, but the answer has no way back
  bool end_wanted_ = false, end_departed_ = false, end_arrived_ = false;
  bool writer_waits_ = false;
  bool is_stalled_ = false;
  std::uint64_t epoch_ = 0;
  std::uint64_t silences_ = 0;
  Instant last_arrival_{};
  Instant heard_{};           // when something last came from the peer
  int silence_ = 0;           // what a silence that goes on will come to; 0: there is none
  std::uint64_t minded_ = 0;  // which event of it counts

  ByteQueue received_;
  bool end_received_ = false;
  bool reading_shut_ = false, writing_shut_ = false;
};

}  // namespace weft::engine
