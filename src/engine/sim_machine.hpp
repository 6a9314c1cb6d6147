// SimMachine: a simulated world as its simulation sees it: events, hosts, kernel and reactor.
#pragma once

#include "sim_events.hpp"
#include "sim_fabric.hpp"
#include "sim_kernel.hpp"

#include <weft/core/reactor.hpp>
#include <weft/sim_world.hpp>

#include <map>

namespace weft::engine {

class SimMachine final : public Reactor {
 public:
  explicit SimMachine(Simulation& simulation);
  ~SimMachine() override = default;
  // The simulation ends. Descriptors may live on; nothing happens to them any more.
  void leave() noexcept;

  [[nodiscard]] Kernel& kernel() noexcept override { return kernel_; }
  Kernel::Answer watch(Watched& record) noexcept override {
    return kernel_.watch(record.fd, record.key());
  }
  void forget(Watched& record) noexcept override { kernel_.forget(record.fd); }
  [[nodiscard]] std::string_view kind() const noexcept override { return "simulated"; }

  // ── hosts ───────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] SimKernel::Caller here() const noexcept;  // where the running fiber is
  [[nodiscard]] SimHost host(HostId id) noexcept { return SimHost{*this, id}; }
  void enter(HostId id, SimHost::Presence& presence) { presences_[id].push_back(presence); }
  void leave(HostId id, SimHost::Presence& presence) noexcept { presences_[id].remove(presence); }
  void crash(HostId id);
  void kill(HostId id);
  void restart(HostId id);

  // ── the ways between them ───────────────────────────────────────────────────────────────────
  using Group = std::vector<HostId>;
  void block(const Group& from, const Group& to);
  void cut_connections();
  [[nodiscard]] Group all_but(const Group& group) const;
  [[nodiscard]] std::size_t descriptors() const noexcept { return kernel_.descriptors(); }

  SimEvents events;
  SimFabric fabric;
  SimWorld world;

 private:
  void cancel_fibers(HostId id);

  SimKernel kernel_;
  std::map<HostId, List<SimHost::Presence>> presences_;
};

}  // namespace weft::engine
