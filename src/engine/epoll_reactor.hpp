// EpollReactor: readiness from epoll(7), edge-triggered, each descriptor registered once.
//
// One set for all workers. Whoever keeps watch sleeps in it, so that an event wakes one thread and
// no more; the others look at it between fibers.
#pragma once

#include "poller.hpp"

#include <memory>

namespace weft::engine {

class EpollReactor final : public Poller {
 public:
  // Null: no descriptors are left for it.
  static std::shared_ptr<EpollReactor> make() noexcept;
  ~EpollReactor() override;

  [[nodiscard]] Kernel& kernel() noexcept override { return kernel_; }
  Kernel::Answer watch(Watched& record) noexcept override;
  void forget(Watched& record) noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return "epoll"; }

  bool hear(unsigned place, FiberList& woken) noexcept override;
  bool hear_all(FiberList& woken) noexcept override;
  [[nodiscard]] bool take_bed(unsigned place, bool watching) noexcept override;
  bool sleep(unsigned place, const std::timespec* timeout, FiberList& woken) noexcept override;
  void leave_bed(unsigned place) noexcept override;
  void rouse(unsigned place) noexcept override;

 private:
  static constexpr int kEventsAtOnce = 256;

  EpollReactor(int set, int bell) noexcept;
  bool gather(const std::timespec* timeout, FiberList& woken) noexcept;

  Kernel& kernel_;
  const int set_;
  const int bell_;            // an eventfd; level-triggered, so that it is heard however late
  Atomic<bool> rung_{false};  // and not read since
  Atomic<bool> in_bed_{false};
  Atomic<bool> no_fine_sleep_{false};  // the kernel has no epoll_pwait2(2)
};

}  // namespace weft::engine
