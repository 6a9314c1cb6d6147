#include "sim_fabric.hpp"

#include <algorithm>
#include <cerrno>
#include <stdexcept>

namespace weft::engine {

// ── objects ─────────────────────────────────────────────────────────────────────────────────────

SimObject::SimObject(SimFabric& fabric, HostId on_host) noexcept
    : id(fabric.new_id()), host(on_host), fabric_(fabric) {}

void SimObject::tell(std::uint32_t events) noexcept { fabric_.events.tell(key, events); }

SimObject::Answer SimObject::bind(const SimAddress&) { return -ENOTSOCK; }
SimObject::Answer SimObject::listen(int) { return -ENOTSOCK; }
SimObject::Answer SimObject::accept(std::shared_ptr<SimObject>&, SocketAddress&) {
  return -ENOTSOCK;
}
SimObject::Answer SimObject::connect(const SimAddress&) { return -ENOTSOCK; }
SimObject::Answer SimObject::shutdown(int) { return -ENOTSOCK; }
SimObject::Answer SimObject::local_address(SocketAddress&) { return -ENOTSOCK; }
SimObject::Answer SimObject::peer_address(SocketAddress&) { return -ENOTSOCK; }
SimObject::Answer SimObject::set_option(int, int, const void*, socklen_t) { return -ENOTSOCK; }
SimObject::Answer SimObject::get_option(int, int, void*, socklen_t&) { return -ENOTSOCK; }
SimObject::Answer SimObject::receive(msghdr&, int) { return -ENOTSOCK; }
SimObject::Answer SimObject::send(const msghdr&, int) { return -ENOTSOCK; }
SimObject::Answer SimObject::read(const iovec*, int) { return -EINVAL; }
SimObject::Answer SimObject::write(const iovec*, int) { return -EINVAL; }

std::vector<std::shared_ptr<SimObject>> SimFabric::objects_of(HostId host) const {
  std::vector<std::shared_ptr<SimObject>> found;
  for (const auto& [id, object] : objects_)
    if (object->host == host) found.push_back(object);
  return found;
}

std::vector<std::shared_ptr<SimObject>> SimFabric::all_objects() const {
  std::vector<std::shared_ptr<SimObject>> all;
  for (const auto& [id, object] : objects_) all.push_back(object);
  return all;
}

// ── hosts ───────────────────────────────────────────────────────────────────────────────────────

HostId SimFabric::add_host(std::string_view name) {
  if (const SimHostState* const known = find_host(name)) return known->id;
  constexpr std::size_t kHostsMax = 65534;  // that have an address
  if (name.empty() || hosts_.size() >= kHostsMax)
    throw std::invalid_argument{name.empty() ? "weft: a simulated host needs a name"
                                             : "weft: too many simulated hosts"};
  const auto id = static_cast<HostId>(hosts_.size());
  hosts_.push_back(std::make_unique<SimHostState>(events, id, std::string{name}));
  return id;
}

SimHostState* SimFabric::find_host(std::string_view name) noexcept {
  const auto at = std::ranges::find_if(hosts_, [&](const auto& one) { return one->name == name; });
  return at == hosts_.end() ? nullptr : at->get();
}

std::vector<HostId> SimFabric::named(const SimHosts& hosts) {
  std::vector<HostId> ids;
  for (const std::string& name : hosts.names()) {
    const SimHostState* const found = find_host(name);
    if (!found)
      throw std::invalid_argument{"weft: there is no simulated host \"" + name +
                                  "\"; SimWorld::host() makes one"};
    ids.push_back(found->id);
  }
  return ids;
}

// ── ways ────────────────────────────────────────────────────────────────────────────────────────

const SimLink& SimFabric::link(HostId from, HostId to) const noexcept {
  const auto at = links_.find({from, to});
  if (at != links_.end()) return at->second;
  return from == to ? own_link : default_link;
}

Duration SimFabric::latency(HostId from, HostId to) noexcept {
  const SimLink& way = link(from, to);
  const Duration travel = events.between(way.latency.least, way.latency.most);
  return from == to ? travel : travel + hosts_[from]->slowness + hosts_[to]->slowness;
}

Instant SimFabric::arrival(HostId from, HostId to, std::size_t bytes) noexcept {
  const std::uint64_t bandwidth = link(from, to).bandwidth;
  Instant left = events.now();
  if (bandwidth != 0) {
    Instant& busy_until = busy_until_[{from, to}];
    const double seconds = static_cast<double>(bytes) / static_cast<double>(bandwidth);
    busy_until = saturating_add(std::max(busy_until, left),
                                to_duration(std::chrono::duration<double>{seconds}));
    left = busy_until;
  }
  return saturating_add(left, latency(from, to));
}

void SimFabric::ways_changed() {
  for (const auto& object : all_objects()) object->ways_changed();
}

// ── ports ───────────────────────────────────────────────────────────────────────────────────────

namespace {

using Scope = SimAddress::Scope;

bool overlap(const SimBinding& a, const SimBinding& b) noexcept {
  const bool same_address = a.scope == b.scope || a.scope == Scope::any || b.scope == Scope::any;
  if (a.family == b.family) return same_address;
  const SimBinding& six = a.family == AF_INET6 ? a : b;
  return same_address && six.scope == Scope::any && !six.v6_only;
}

}  // namespace

bool SimFabric::can_bind(const std::vector<SimBinding>& there, const SimBinding& binding) {
  return std::ranges::none_of(there, [&](const SimBinding& other) {
    return overlap(other, binding) && !(other.reuse_port && binding.reuse_port);
  });
}

std::uint16_t SimFabric::free_port(SimHostState& on, Transport transport) {
  std::erase_if(on.resting_ports, [&](const auto& one) { return one.second <= events.now(); });
  const int count = on.last_port - on.first_port + 1;
  for (int tries = 0; tries < count; ++tries) {
    if (on.next_port < on.first_port || on.next_port > on.last_port) on.next_port = on.first_port;
    const std::uint16_t port = on.next_port++;
    if (!on.ports.contains({transport, port}) && !on.resting_ports.contains(port)) return port;
  }
  return 0;
}

Kernel::Answer SimFabric::take_port(HostId id, Transport transport, SimAddress& address,
                                    SimBinding binding) {
  SimHostState& on = host(id);
  binding.family = address.family;
  binding.scope = address.scope;
  if (address.port == 0) {
    address.port = free_port(on, transport);
    if (address.port == 0) return -EADDRNOTAVAIL;
  }
  std::vector<SimBinding>& there = on.ports[{transport, address.port}];
  if (!can_bind(there, binding)) return -EADDRINUSE;
  there.push_back(binding);
  return 0;
}

void SimFabric::release_port(HostId id, Transport transport, std::uint16_t port, ObjectId socket,
                             bool rests) {
  SimHostState& on = host(id);
  const auto at = on.ports.find({transport, port});
  if (at == on.ports.end()) return;
  std::erase_if(at->second, [&](const SimBinding& one) { return one.socket == socket; });
  if (!at->second.empty()) return;
  on.ports.erase(at);
  if (rests) on.resting_ports[port] = saturating_add(events.now(), port_rest);
}

ObjectId SimFabric::at_port(HostId id, Transport transport, const SimAddress& to, SimFlow from) {
  const SimHostState& on = host(id);
  const auto at = on.ports.find({transport, to.port});
  if (at == on.ports.end()) return 0;
  const sa_family_t family = to.mapped ? sa_family_t{AF_INET} : to.family;
  std::vector<ObjectId> fitting;
  int best = 0;
  for (const SimBinding& one : at->second) {
    const bool scope_fits = one.scope == Scope::any || one.scope == to.scope;
    const bool family_fits = one.family == family || (one.family == AF_INET6 && !one.v6_only &&
                                                      one.scope == Scope::any);
    if (!scope_fits || !family_fits) continue;
    const int closeness = (one.scope == to.scope ? 2 : 0) + (one.family == family ? 1 : 0);
    if (closeness > best) fitting.clear();
    best = std::max(best, closeness);
    if (closeness == best) fitting.push_back(one.socket);
  }
  if (fitting.size() < 2) return fitting.empty() ? 0 : fitting.front();
  if (!flow_salt_) flow_salt_ = events.random();
  const std::uint64_t flow = std::uint64_t{from.host} << 16 | from.port;
  return fitting[SplitMix::mixed(*flow_salt_ + flow * SplitMix::kStep) % fitting.size()];
}

}  // namespace weft::engine
