// Tripwire: says which simulated fiber asks the real world for the time, or waits for it.
#pragma once

#include "arch/tripwire.hpp"
#include "host.hpp"

#include <weft/base/intrusive_list.hpp>
#include <weft/sim.hpp>

#include <set>
#include <string>
#include <vector>

namespace weft::engine {

// Over a simulated run, from construction to destruction. Does nothing in builds without.
class [[nodiscard]] Tripwire final : public arch::Tripwire {
 public:
  explicit Tripwire(Host& host) noexcept : host_(host) {
    if constexpr (arch::kHasTripwire) begin();
  }
  ~Tripwire() {
    if constexpr (arch::kHasTripwire) end();
  }

  // The simulated fiber that runs on this thread; null: the simulation itself, or another engine
  // inside one of its fibers, does.
  [[nodiscard]] const Fiber* fiber() noexcept {
    const Fiber* const current = host_.current;
    return host_.is_here() && current != &host_.base() ? current : nullptr;
  }

  List<RealWorld> real_worlds;

 private:
  void tell(const arch::Tripped& tripped) noexcept override;
  [[gnu::cold]] void report(const Fiber& self, const arch::Tripped& tripped);
  [[nodiscard]] bool is_meant(const Fiber& self) const noexcept;
  bool is_news(const arch::Backtrace& trace);

  Host& host_;
  std::set<std::vector<void*>> seen_;  // by a few frames
  std::set<const void*> places_;       // that have been told
};

}  // namespace weft::engine
