#include "sim_machine.hpp"

#include "sim_stream.hpp"

#include <weft/fiber_local.hpp>

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// On which host a fiber is, in which world.
struct Place {
  const engine::SimMachine* machine = nullptr;
  engine::HostId host = 0;
  std::uint64_t ends = 0;  // of the host, when we came
};

fiber_local<Place>& place() {
  static auto* const kept = new fiber_local<Place>;  // fibers may end late
  return *kept;
}

}  // namespace

SimHost::Presence::Presence(const SimHost& host, Fiber& self)
    : host_(host), scope_(self.scope), is_up_(host.is_up()) {
  host_.machine_->enter(host_.host_, *this);
}

SimHost::Presence::~Presence() { host_.machine_->leave(host_.host_, *this); }

SimHost::Presence::Here::Here(const Presence& presence) : before_(current_locals()) {
  if (Locals* const before = current_locals()) before->keep();
  engine::SimMachine* const machine = presence.host_.machine_;
  const engine::HostId host = presence.host_.host_;
  place().set({machine, host, machine->fabric.host(host).ends});
}

SimHost::Presence::Here::~Here() {
  if (Locals* const inner = std::exchange(current_locals(), static_cast<Locals*>(before_)))
    inner->release();
}

namespace engine {

SimMachine::SimMachine(Simulation& simulation)
    : events(simulation),
      fabric(events),
      world(*this),
      kernel_(fabric, [this] { return here(); }) {
  fabric.add_host("localhost");
}

void SimMachine::leave() noexcept {
  events.leave();
  fabric.clear_objects();
}

SimKernel::Caller SimMachine::here() const noexcept {
  const Place& at = place().get();
  const HostId id = at.machine == this ? at.host : 0;
  const SimHostState& on = fabric.host(id);
  return {id, on.is_up && (at.machine != this || at.ends == on.ends)};
}

void SimMachine::cancel_fibers(HostId id) {
  List<SimHost::Presence>& list = presences_[id];
  for (SimHost::Presence* one = list.front(); one; one = list.after(*one))
    one->end(events.fired());
}

void SimMachine::crash(HostId id) {
  SimHostState& on = fabric.host(id);
  if (!on.is_up) return;
  const SimEvents::Call call{events};
  on.is_up = false;
  ++on.ends;
  cancel_fibers(id);  // first: who waits for a descriptor hears of this, and not of its end
  kernel_.end_host(id, true);
  on.disk.crash();
  fabric.ways_changed();
}

void SimMachine::kill(HostId id) {
  SimHostState& on = fabric.host(id);
  if (!on.is_up) return;
  const SimEvents::Call call{events};
  ++on.ends;
  cancel_fibers(id);
  kernel_.end_host(id, false);
}

void SimMachine::restart(HostId id) {
  SimHostState& on = fabric.host(id);
  if (on.is_up) return;
  const SimEvents::Call call{events};
  on.is_up = true;
  on.up.tell(events.fired().woken);
  fabric.ways_changed();
}

void SimMachine::block(const Group& from, const Group& to) {
  for (const HostId a : from)
    for (const HostId b : to)
      if (a != b) fabric.block(a, b);
}

void SimMachine::cut_connections() {
  const SimEvents::Call call{events};
  for (const auto& object : fabric.all_objects())
    if (auto* const stream = dynamic_cast<SimStream*>(object.get());
        stream && stream->is_cut_off() && events.chance(fabric.reset_by_partition))
      stream->break_connection();
  fabric.ways_changed();
}

SimMachine::Group SimMachine::all_but(const Group& group) const {
  Group others;
  for (HostId id = 0; id < fabric.hosts(); ++id)
    if (std::ranges::find(group, id) == group.end()) others.push_back(id);
  return others;
}

}  // namespace engine
}  // namespace weft
