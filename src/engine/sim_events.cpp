#include "sim_events.hpp"

#include "simulation.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/core/wait.hpp>

#include <algorithm>

namespace weft::engine {

// Elsewhere on the generator's cycle than the choices and the program's numbers.
SimEvents::SimEvents(Simulation& simulation) noexcept
    : simulation_(&simulation),
      numbers_(SplitMix::mixed(simulation.choices.plan().seed + 2) ^ 0x3c6e'f372'fe94'f82bU) {}

void SimEvents::leave() noexcept {
  if (!simulation_) return;
  last_now_ = now();
  if (is_armed_) simulation_->timers.disarm(*this);
  is_armed_ = false;
  pending_.clear();
  simulation_ = nullptr;
}

Instant SimEvents::now() const noexcept { return simulation_ ? simulation_->now : last_now_; }

void SimEvents::at(Instant instant, std::function<void()> what) {
  if (!simulation_) return;
  pending_.emplace(std::pair{std::max(instant, now()), made_++}, std::move(what));
  arm_soonest();
}

void SimEvents::arm_soonest() noexcept {
  if (pending_.empty()) return;
  const Instant soonest = pending_.begin()->first.first;
  if (is_armed_ && Timer::when == soonest) return;
  if (is_armed_) simulation_->timers.disarm(*this);
  Timer::when = soonest;
  is_armed_ = true;
  simulation_->timers.arm(*this);
}

// One event at a time: what is due at the same instant comes as a timer of its own, so that the
// order among it and other timers is that of arming.
void SimEvents::fire(Fired& fired) noexcept {
  is_armed_ = false;
  auto next = pending_.extract(pending_.begin());
  Fired* const outer = std::exchange(sink_, &fired);
  next.mapped()();
  sink_ = outer;
  arm_soonest();
}

std::uint64_t SimEvents::random() noexcept {
  const std::uint64_t number = numbers_.next();
  if (simulation_) simulation_->choices.note(number);
  return number;
}

bool SimEvents::chance(double probability) noexcept {
  if (!(probability > 0)) return false;
  if (probability >= 1) return true;
  return static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

std::uint64_t SimEvents::between(std::uint64_t least, std::uint64_t most) noexcept {
  if (most <= least) return least;
  const std::uint64_t span = most - least + 1;
  return span == 0 ? random() : least + random() % span;
}

Duration SimEvents::between(Duration least, Duration most) noexcept {
  if (most <= least) return least;
  const auto span = static_cast<std::uint64_t>((most - least).count());
  return least + Duration{static_cast<Duration::rep>(between(std::uint64_t{0}, span))};
}

void SimEvents::tell(Watched::Key key, std::uint32_t events) noexcept {
  if (key != 0) Watched::tell(key, events, sink_->woken);
}

void SimEvents::Call::deal_with_fired() noexcept {
  events_.sink_ = nullptr;
  if (!fired_.woken.empty()) resume_all(std::move(fired_.woken));
  CancelScope::tell(fired_.hooks);
}

}  // namespace weft::engine
