// SimSocket: what stream and datagram sockets of a simulated world have in common.
#pragma once

#include "sim_fabric.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace weft::engine {

class SimSocket : public SimObject {
 public:
  SimSocket(SimFabric& fabric, HostId on_host, sa_family_t family, Transport transport) noexcept
      : SimObject(fabric, on_host), family_(family), transport_(transport) {
    local_.family = family;
  }

  Answer bind(const SimAddress& address) override;
  Answer local_address(SocketAddress& address) override;
  Answer set_option(int level, int name, const void* value, socklen_t length) override;
  Answer get_option(int level, int name, void* value, socklen_t& length) override;

 protected:
  [[nodiscard]] bool is_unix() const noexcept { return family_ == AF_UNIX; }
  [[nodiscard]] int option(int level, int name) const noexcept;
  [[nodiscard]] bool is_v6_only() const noexcept;
  // The options and buffers of `other`, as an accepted socket has its listener's.
  void inherit_from(const SimSocket& other);
  // How a port is taken, and what names those who send from it.
  [[nodiscard]] SimBinding binding() const noexcept;
  [[nodiscard]] SimFlow flow() const noexcept { return {host, local_.port}; }
  // A port, if there is none yet, for what goes to `to`.
  Answer bind_for(const SimAddress& to);
  // Which host `to` is one of; -ENETUNREACH, -EHOSTUNREACH, -EAFNOSUPPORT.
  Answer host_of(const SimAddress& to) const;
  void release_address(bool rests);
  // A piece of at most `most`, which is at least 1; by chance less.
  [[nodiscard]] std::size_t piece_of(std::size_t most) noexcept;
  [[nodiscard]] virtual bool is_listening() const noexcept { return false; }

  const sa_family_t family_;
  const Transport transport_;
  SimAddress local_{};
  bool is_bound_ = false;
  bool is_chosen_for_us_ = false;  // the port is one of those that rest
  int error_ = 0;                  // SO_ERROR
  std::size_t receive_max_ = std::size_t{128} << 10;
  std::size_t send_max_ = std::size_t{64} << 10;

 private:
  std::map<std::pair<int, int>, std::string> options_;
};

}  // namespace weft::engine
