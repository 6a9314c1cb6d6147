#include <weft/sim_world.hpp>

#include "sim_machine.hpp"
#include "simulation.hpp"

#include <stdexcept>
#include <utility>

namespace weft {

using engine::HostId;
using engine::SimMachine;

// ── the net ─────────────────────────────────────────────────────────────────────────────────────

namespace {

void require_probability(double probability) {
  if (!(probability >= 0 && probability <= 1))
    throw std::invalid_argument{"weft: a probability is between 0 and 1"};
}

void require_failure(int error, double probability) {
  require_probability(probability);
  if (error <= 0) throw std::invalid_argument{"weft: a disk fails with an errno above 0"};
}

void require_sense(const SimLink& link) {
  for (const double one : {link.reset_probability, link.loss, link.duplication, link.reordering})
    require_probability(one);
  if (link.latency.least < Duration{} || link.latency.most < link.latency.least)
    throw std::invalid_argument{"weft: a link's latency is a range that does not begin below 0"};
}

}  // namespace

void SimNet::set_link(const SimHosts& a, const SimHosts& b, const SimLink& link) {
  set_link_one_way(a, b, link);
  set_link_one_way(b, a, link);
}

void SimNet::set_link_one_way(const SimHosts& from, const SimHosts& to, const SimLink& link) {
  require_sense(link);
  const SimMachine::Group targets = machine_->fabric.named(to);
  for (const HostId a : machine_->fabric.named(from))
    for (const HostId b : targets) machine_->fabric.set_link(a, b, link);
}

void SimNet::set_default_link(const SimLink& link) {
  require_sense(link);
  machine_->fabric.default_link = link;
}

void SimNet::slow_down(const SimHosts& hosts, Duration by) {
  if (by < Duration{}) throw std::invalid_argument{"weft: a host is slowed down by less than 0"};
  for (const HostId id : machine_->fabric.named(hosts)) machine_->fabric.host(id).slowness = by;
}

void SimNet::partition(const SimHosts& a, const SimHosts& b) {
  const SimMachine::Group left = machine_->fabric.named(a), right = machine_->fabric.named(b);
  machine_->block(left, right);
  machine_->block(right, left);
  machine_->cut_connections();
}

void SimNet::partition_one_way(const SimHosts& from, const SimHosts& to) {
  machine_->block(machine_->fabric.named(from), machine_->fabric.named(to));
  machine_->cut_connections();
}

void SimNet::isolate(const SimHosts& hosts) {
  const SimMachine::Group alone = machine_->fabric.named(hosts);
  const SimMachine::Group others = machine_->all_but(alone);
  machine_->block(alone, others);
  machine_->block(others, alone);
  machine_->cut_connections();
}

void SimNet::heal() {
  const engine::SimEvents::Call call{machine_->events};
  machine_->fabric.unblock_all();
  machine_->fabric.ways_changed();
}

void SimNet::heal(const SimHosts& a, const SimHosts& b) {
  const SimMachine::Group left = machine_->fabric.named(a), right = machine_->fabric.named(b);
  const engine::SimEvents::Call call{machine_->events};
  for (const HostId one : left)
    for (const HostId other : right) {
      machine_->fabric.unblock(one, other);
      machine_->fabric.unblock(other, one);
    }
  machine_->fabric.ways_changed();
}

void SimNet::set_reset_by_partition(double probability) {
  require_probability(probability);
  machine_->fabric.reset_by_partition = probability;
}

void SimNet::set_short_transfers(double probability) {
  require_probability(probability);
  machine_->fabric.short_transfers = probability;
}

void SimNet::set_ports(const SimHosts& hosts, std::uint16_t first, std::uint16_t last) {
  if (first == 0 || last < first)
    throw std::invalid_argument{"weft: a range of ports begins at 1 at least, and is not empty"};
  for (const HostId id : machine_->fabric.named(hosts)) {
    engine::SimHostState& host = machine_->fabric.host(id);
    host.first_port = host.next_port = first;
    host.last_port = last;
  }
}

void SimNet::set_port_rest(Duration rest) { machine_->fabric.port_rest = rest; }

void SimNet::set_timeouts(Duration connecting, Duration connected) {
  machine_->fabric.connecting_max = connecting;
  machine_->fabric.silence_max = connected;
}

void SimNet::set_descriptors_max(const SimHosts& hosts, std::size_t count) {
  for (const HostId id : machine_->fabric.named(hosts))
    machine_->fabric.host(id).descriptors_max = count;
}

// ── disks ───────────────────────────────────────────────────────────────────────────────────────

void SimDisk::set_capacity(std::uint64_t bytes) {
  machine_->fabric.host(host_).disk.capacity = bytes;
}

void SimDisk::fail_with(int error, double probability) {
  require_failure(error, probability);
  engine::SimDiskState& disk = machine_->fabric.host(host_).disk;
  disk.error = error;
  disk.error_probability = probability;
}

void SimDisk::set_short_transfers(double probability) {
  require_probability(probability);
  machine_->fabric.host(host_).disk.short_transfers = probability;
}

void SimDisk::set_survival(double probability) {
  require_probability(probability);
  machine_->fabric.host(host_).disk.survival = probability;
}

std::optional<std::string> SimDisk::contents(std::string_view path) const {
  const auto file = machine_->fabric.host(host_).disk.find(path);
  if (!file || file->kind != engine::SimFile::Kind::file) return std::nullopt;
  return file->bytes.read(0, static_cast<std::size_t>(file->bytes.size()));
}

std::uint64_t SimDisk::used() const { return machine_->fabric.host(host_).disk.used(); }

// ── hosts ───────────────────────────────────────────────────────────────────────────────────────

const std::string& SimHost::name() const noexcept { return machine_->fabric.host(host_).name; }
std::string SimHost::address() const { return engine::dotted(host_); }
bool SimHost::is_up() const noexcept { return machine_->fabric.host(host_).is_up; }
void SimHost::crash() const { machine_->crash(host_); }
void SimHost::kill() const { machine_->kill(host_); }
void SimHost::restart() const { machine_->restart(host_); }

void SimHost::wait_until_up() const {
  engine::SimHostState& host = machine_->fabric.host(host_);
  for (;;) {
    const Readiness::Edges seen = host.up.edges();
    if (host.is_up) return;
    host.up.wait_after(seen);
  }
}

// ── the script ──────────────────────────────────────────────────────────────────────────────────

SimScript& SimScript::call(std::function<void()> f) {
  machine_->events.at(saturating_add(begin_, at_), std::move(f));
  return *this;
}

// Names are looked up now, so that who misspells one hears of it.
SimScript& SimScript::partition(SimHosts a, SimHosts b) {
  static_cast<void>(machine_->fabric.named(a)), static_cast<void>(machine_->fabric.named(b));
  return call([net = machine_->world.net(), a = std::move(a), b = std::move(b)]() mutable {
    net.partition(a, b);
  });
}

SimScript& SimScript::partition_one_way(SimHosts from, SimHosts to) {
  static_cast<void>(machine_->fabric.named(from)), static_cast<void>(machine_->fabric.named(to));
  return call([net = machine_->world.net(), from = std::move(from), to = std::move(to)]() mutable {
    net.partition_one_way(from, to);
  });
}

SimScript& SimScript::isolate(SimHosts hosts) {
  static_cast<void>(machine_->fabric.named(hosts));
  return call([net = machine_->world.net(), hosts = std::move(hosts)]() mutable {
    net.isolate(hosts);
  });
}

SimScript& SimScript::heal() {
  return call([net = machine_->world.net()]() mutable { net.heal(); });
}

SimScript& SimScript::heal(SimHosts a, SimHosts b) {
  static_cast<void>(machine_->fabric.named(a)), static_cast<void>(machine_->fabric.named(b));
  return call([net = machine_->world.net(), a = std::move(a), b = std::move(b)]() mutable {
    net.heal(a, b);
  });
}

SimScript& SimScript::set_link(SimHosts a, SimHosts b, const SimLink& link) {
  static_cast<void>(machine_->fabric.named(a)), static_cast<void>(machine_->fabric.named(b));
  require_sense(link);
  return call([net = machine_->world.net(), a = std::move(a), b = std::move(b), link]() mutable {
    net.set_link(a, b, link);
  });
}

SimScript& SimScript::slow_down(SimHosts hosts, Duration by) {
  static_cast<void>(machine_->fabric.named(hosts));
  if (by < Duration{}) throw std::invalid_argument{"weft: a host is slowed down by less than 0"};
  return call([net = machine_->world.net(), hosts = std::move(hosts), by]() mutable {
    net.slow_down(hosts, by);
  });
}

SimScript& SimScript::crash(const SimHosts& hosts) {
  for (const HostId id : machine_->fabric.named(hosts))
    call([machine = machine_, id] { machine->crash(id); });
  return *this;
}

SimScript& SimScript::kill(const SimHosts& hosts) {
  for (const HostId id : machine_->fabric.named(hosts))
    call([machine = machine_, id] { machine->kill(id); });
  return *this;
}

SimScript& SimScript::restart(const SimHosts& hosts) {
  for (const HostId id : machine_->fabric.named(hosts))
    call([machine = machine_, id] { machine->restart(id); });
  return *this;
}

SimScript& SimScript::fail_disk(const SimHosts& hosts, int error, double probability) {
  require_failure(error, probability);
  for (const HostId id : machine_->fabric.named(hosts))
    call([disk = machine_->host(id).disk(), error, probability]() mutable {
      disk.fail_with(error, probability);
    });
  return *this;
}

// ── the world ───────────────────────────────────────────────────────────────────────────────────

SimHost SimWorld::host(std::string_view name) {
  return machine_.host(machine_.fabric.add_host(name));
}
SimHost SimWorld::here() const noexcept { return machine_.host(machine_.here().host); }
SimDisk SimWorld::disk(std::string_view host_name) { return host(host_name).disk(); }
SimScript SimWorld::script() { return SimScript{machine_, machine_.events.now()}; }
std::size_t SimWorld::descriptors() const noexcept { return machine_.descriptors(); }

SimWorld& sim_world() {
  auto* const sim = dynamic_cast<SimIo*>(&io());
  if (!sim) throw std::logic_error{"weft::sim_world(): the running engine is not a SimIo"};
  return sim->world();
}

}  // namespace weft
