// SimDatagram: a simulated UDP socket, or a Unix socket for datagrams, which loses none.
#pragma once

#include "sim_bytes.hpp"
#include "sim_socket.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::engine {

class SimDatagram final : public SimSocket {
 public:
  SimDatagram(SimFabric& fabric, HostId on_host, sa_family_t family) noexcept
      : SimSocket(fabric, on_host, family, Transport::datagram) {}

  Answer connect(const SimAddress& address) override;
  Answer shutdown(int how) override;
  Answer peer_address(SocketAddress& address) override;
  Answer receive(msghdr& message, int flags) override;
  Answer send(const msghdr& message, int flags) override;
  Answer read(const iovec* parts, int count) override;
  Answer write(const iovec* parts, int count) override;
  [[nodiscard]] short poll() override;
  void close() override;

 private:
  struct Datagram {
    SimAddress from;
    std::string bytes;
  };

  Answer send_to(const SimAddress& to, std::string bytes);
  Answer hand_over(const SimAddress& to, std::string bytes);  // to a name: at once
  void travel(HostId to_host, const SimAddress& to, std::string bytes);
  void arrive(Datagram datagram);
  [[nodiscard]] bool is_from_remote(const SimAddress& from) const noexcept;
  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept;

  std::optional<SimAddress> remote_;
  std::deque<Datagram> received_;
  std::size_t received_bytes_ = 0;
  std::vector<ObjectId> writers_;  // that found no room here
  std::map<HostId, Instant> last_arrivals_;
  bool reading_shut_ = false, writing_shut_ = false;
};

}  // namespace weft::engine
