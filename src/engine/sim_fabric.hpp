// SimFabric: the hosts of a simulated world, and the ways between them.
#pragma once

#include "sim_address.hpp"
#include "sim_disk.hpp"
#include "sim_events.hpp"

#include <weft/core/readiness.hpp>
#include <weft/sim_world.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::engine {

class SimFabric;

using ObjectId = std::uint64_t;  // never used again; 0: none

// What a descriptor stands for. Answers as Kernel's calls do.
class SimObject {
 public:
  using Answer = Kernel::Answer;

  SimObject(SimFabric& fabric, HostId on_host) noexcept;
  SimObject(const SimObject&) = delete;
  SimObject& operator=(const SimObject&) = delete;
  virtual ~SimObject() = default;

  virtual Answer bind(const SimAddress&);
  virtual Answer listen(int backlog);
  virtual Answer accept(std::shared_ptr<SimObject>& accepted, SocketAddress& peer);
  virtual Answer connect(const SimAddress&);
  virtual Answer shutdown(int how);
  virtual Answer local_address(SocketAddress&);
  virtual Answer peer_address(SocketAddress&);
  virtual Answer set_option(int level, int name, const void* value, socklen_t length);
  virtual Answer get_option(int level, int name, void* value, socklen_t& length);
  virtual Answer receive(msghdr& message, int flags);
  virtual Answer send(const msghdr& message, int flags);
  virtual Answer read(const iovec* parts, int count);
  virtual Answer write(const iovec* parts, int count);
  [[nodiscard]] virtual short poll() = 0;
  virtual bool is_file() const noexcept { return false; }

  // The descriptor is gone; there is more to do, perhaps, behind the program's back.
  virtual void close() {}
  // The host is gone.
  virtual void vanish() { close(); }
  // Somewhere a way has opened or closed, or a host has come up or gone down.
  virtual void ways_changed() {}

  void tell(std::uint32_t events) noexcept;

  const ObjectId id;
  const HostId host;
  Watched::Key key = 0;  // of who watches the descriptor; 0: nobody

 protected:
  SimFabric& fabric_;
};

// Which socket of a host has which port or name.
struct SimBinding {
  sa_family_t family = AF_INET;
  SimAddress::Scope scope = SimAddress::Scope::any;
  bool v6_only = false;
  bool reuse_port = false;
  ObjectId socket = 0;
};

enum class Transport : std::uint8_t { stream, datagram };

// Where packets come from that belong together.
struct SimFlow {
  HostId host = 0;
  std::uint16_t port = 0;
};

struct SimHostState {
  SimHostState(SimEvents& events, HostId number, std::string called)
      : id(number), name(std::move(called)), disk(events) {
    up.begin({.verb = "wait for host", .name = name, .object = this});
  }

  const HostId id;
  const std::string name;
  bool is_up = true;
  std::uint64_t ends = 0;  // how often its programs were ended
  Duration slowness{};
  std::uint16_t first_port = 32768, last_port = 60999, next_port = 32768;
  std::map<std::pair<Transport, std::uint16_t>, std::vector<SimBinding>> ports;
  std::map<std::uint16_t, Instant> resting_ports;
  std::map<std::pair<Transport, std::string>, ObjectId> names;  // of Unix sockets
  std::size_t descriptors = 0, descriptors_max = 65536;
  SimDiskState disk;
  Readiness up;  // has an edge when the host comes up
};

class SimFabric {
 public:
  explicit SimFabric(SimEvents& of) : events(of) {}

  SimEvents& events;

  // ── hosts ───────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] SimHostState& host(HostId id) { return *hosts_[id]; }
  [[nodiscard]] const SimHostState& host(HostId id) const { return *hosts_[id]; }
  [[nodiscard]] std::size_t hosts() const noexcept { return hosts_.size(); }
  HostId add_host(std::string_view name);
  // Null: there is none.
  [[nodiscard]] SimHostState* find_host(std::string_view name) noexcept;
  // Throws std::invalid_argument.
  [[nodiscard]] std::vector<HostId> named(const SimHosts& hosts);

  // ── ways ────────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] bool is_open(HostId from, HostId to) const noexcept {
    return hosts_[from]->is_up && hosts_[to]->is_up &&
           (from == to || blocked_.find({from, to}) == blocked_.end());
  }
  [[nodiscard]] const SimLink& link(HostId from, HostId to) const noexcept;
  [[nodiscard]] Duration latency(HostId from, HostId to) noexcept;
  // When so many bytes, sent now, have left and passed the link.
  [[nodiscard]] Instant arrival(HostId from, HostId to, std::size_t bytes) noexcept;
  void set_link(HostId from, HostId to, const SimLink& link) { links_[{from, to}] = link; }
  void block(HostId from, HostId to) { blocked_.insert({from, to}); }
  void unblock(HostId from, HostId to) { blocked_.erase({from, to}); }
  void unblock_all() { blocked_.clear(); }
  void ways_changed();

  // ── ports and names ─────────────────────────────────────────────────────────────────────────
  // Fills the port in, if it is 0. -EADDRINUSE; -EADDRNOTAVAIL.
  Kernel::Answer take_port(HostId host, Transport transport, SimAddress& address,
                           SimBinding binding);
  void release_port(HostId host, Transport transport, std::uint16_t port, ObjectId socket,
                    bool rests);
  // Who gets what is sent from `from` to a port of `host`; 0: nobody. Of several that share it
  // (SO_REUSEPORT), those bound to just that address come first, and one flow always goes to one
  // of them, as long as they are the same.
  [[nodiscard]] ObjectId at_port(HostId host, Transport transport, const SimAddress& to,
                                 SimFlow from);

  // ── objects ─────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] ObjectId new_id() noexcept { return ++ids_; }
  void keep(std::shared_ptr<SimObject> object) { objects_[object->id] = std::move(object); }
  void drop(ObjectId id) { objects_.erase(id); }
  // Null: it is gone.
  template <class Kind>
  [[nodiscard]] std::shared_ptr<Kind> find(ObjectId id) const noexcept {
    const auto at = objects_.find(id);
    return at == objects_.end() ? nullptr : std::dynamic_pointer_cast<Kind>(at->second);
  }
  [[nodiscard]] std::vector<std::shared_ptr<SimObject>> objects_of(HostId host) const;
  [[nodiscard]] std::vector<std::shared_ptr<SimObject>> all_objects() const;
  void clear_objects() { objects_.clear(); }

  SimLink default_link{};
  SimLink own_link{.latency = {}};  // of a host to itself
  double reset_by_partition = 0;
  double short_transfers = 0.1;
  Duration port_rest = std::chrono::minutes{1};
  Duration connecting_max = std::chrono::seconds{127};
  Duration silence_max = std::chrono::minutes{15};

 private:
  [[nodiscard]] static bool can_bind(const std::vector<SimBinding>& there,
                                     const SimBinding& binding);
  [[nodiscard]] std::uint16_t free_port(SimHostState& host, Transport transport);

  std::vector<std::unique_ptr<SimHostState>> hosts_;
  std::map<std::pair<HostId, HostId>, SimLink> links_;
  std::map<std::pair<HostId, HostId>, Instant> busy_until_;
  std::set<std::pair<HostId, HostId>> blocked_;
  std::map<ObjectId, std::shared_ptr<SimObject>> objects_;
  ObjectId ids_ = 0;
  std::optional<std::uint64_t> flow_salt_;  // so that worlds share ports out in different ways
};

}  // namespace weft::engine
