// SimEvents: what is going to happen in a simulated world, and the chance that decides about it.
//
// Everything that takes time is an event in here, and the soonest is a timer of the simulation's:
// so a packet on its way keeps a deadlock from being found, and a world at rest does not. Numbers
// come from the seed, as a stream of their own, so that a program's own numbers stay as they are.
#pragma once

#include <weft/base/splitmix.hpp>
#include <weft/core/reactor.hpp>
#include <weft/core/timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace weft::engine {

class Simulation;

class SimEvents final : private Timer {
 public:
  explicit SimEvents(Simulation& simulation) noexcept;
  ~SimEvents() { leave(); }
  // The simulation ends; what was to happen never does. Idempotent.
  void leave() noexcept;

  [[nodiscard]] Instant now() const noexcept;
  void at(Instant instant, std::function<void()> what);
  void after(Duration delay, std::function<void()> what) {
    at(saturating_add(now(), delay), std::move(what));
  }

  // ── chance ──────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] std::uint64_t random() noexcept;
  // An impossible or a certain thing draws no number.
  [[nodiscard]] bool chance(double probability) noexcept;
  // Both ends included.
  [[nodiscard]] std::uint64_t between(std::uint64_t least, std::uint64_t most) noexcept;
  [[nodiscard]] Duration between(Duration least, Duration most) noexcept;

  // ── whom it wakes ───────────────────────────────────────────────────────────────────────────

  // While one of these lives, whoever is woken is kept back: until the call has left the world in
  // order, since resuming a fiber may be a switch to it. Inside an event it adds nothing.
  class [[nodiscard]] Call {
   public:
    explicit Call(SimEvents& events) noexcept : events_(events), is_outer_(!events.sink_) {
      if (is_outer_) events_.sink_ = &fired_;
    }
    ~Call() {
      if (is_outer_) deal_with_fired();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    void deal_with_fired() noexcept;

    SimEvents& events_;
    Fired fired_;
    const bool is_outer_;
  };
  // Only inside a Call, or an event.
  void tell(Watched::Key key, std::uint32_t events) noexcept;
  [[nodiscard]] Fired& fired() noexcept { return *sink_; }

 private:
  friend class Call;
  void fire(Fired& fired) noexcept override;
  void arm_soonest() noexcept;

  Simulation* simulation_;
  SplitMix numbers_;
  Instant last_now_{};  // when the simulation left
  std::uint64_t made_ = 0;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> pending_;
  Fired* sink_ = nullptr;
  bool is_armed_ = false;
};

}  // namespace weft::engine
