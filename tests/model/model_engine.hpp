// An engine for models: real fibers, the shipped wait and switch, and a run queue that is as plain
// as can be, so that the executions explored are the protocol's and not the scheduler's.
//
// A controlled thread of the explorer is a worker; fibers move freely between workers. Models of
// the scheduler put queues of their own in place of the plain one.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/closure.hpp>
#include <weft/core/switch.hpp>
#include <weft/core/wait.hpp>

#include "explorer/explore.hpp"

#include <array>
#include <cstddef>

namespace weft::model {

inline constexpr std::size_t kFibersMax = 8;

class ModelEngine : public Io {
 public:
  ModelEngine();

  // ── set-up ──────────────────────────────────────────────────────────────────────────────────

  // A fiber that runs `body(argument)`. Its home is the engine itself: the workers stop when the
  // last of these has ended.
  void fiber(void (*body)(void*), void* argument);
  template <class Function>  // a captureless lambda over a State
  void fiber(Function, void* argument) {
    fiber(+[](void* at) { Function{}(at); }, argument);
  }
  // What a worker thread does: `p.thread("worker", [&e] { e.work(); })`.
  void work();

  [[nodiscard]] Fiber& frame(std::size_t i) { return frames_[i]; }
  // When all is over: nobody has kept a frame.
  [[nodiscard]] bool all_frames_free() const {
    for (const Fiber& frame : frames_)
      if (frame.io) return false;
    return true;
  }

  // ── Io ──────────────────────────────────────────────────────────────────────────────────────
  void start(Fiber& fiber) override;
  Fiber& successor(Fiber& self, Departure how) noexcept override;
  void departed(Fiber& fiber, Departure how) noexcept override;
  void resume(FiberList fibers) noexcept override;
  [[nodiscard]] Instant now() const noexcept override { return {}; }
  void arm(Timer&) noexcept override {}
  void disarm(Timer&) noexcept override {}
  [[nodiscard]] std::uint64_t random() noexcept override { return 0; }
  [[nodiscard]] std::string_view kind() const noexcept override { return "ModelEngine"; }

 protected:
  // The queue, as workers see it. take(): `over` if all fibers have ended.
  virtual void put(Fiber& fiber);
  virtual Fiber* take(bool& over);
  // The newest in the plain queue, if it is unborn and of this home.
  Fiber* take_unborn(const CancelScope& home);
  // The home's owner, if it waits its turn in the plain queue.
  Fiber* take_owner(const Home& home);
  [[nodiscard]] unsigned worker_index() { return here().index; }

 private:
  struct Worker : Carrier {
    explicit Worker(Io& io);
    unsigned index = 0;
    Fiber base;
    Ground ground;
    Strand strand;
  };
  class EngineHome final : public Home {
   public:
    explicit EngineHome(ModelEngine& engine) : Home(nullptr, nullptr), engine_(engine) {}
    void child_failed(Fiber&, std::exception_ptr) noexcept override {
      check(false, "an exception left a fiber");
    }
    void child_cancelled() noexcept override {}
    void children_ended(std::size_t) noexcept override { engine_.fiber_ended(); }
    std::string_view name() const noexcept override { return "engine"; }
    NurseryState state() const noexcept override { return NurseryState::open; }

   private:
    ModelEngine& engine_;
  };

  static void run_fiber(void* who, std::uintptr_t how);
  void push(Fiber& fiber);
  Fiber* pop();
  void fiber_ended();
  Worker& here() { return static_cast<Worker&>(Carrier::here()); }

  EngineHome home_{*this};
  std::array<Fiber, kFibersMax> frames_;
  std::array<Ground, kFibersMax> grounds_;
  std::array<std::size_t, kFibersMax> stack_of_;  // which frame runs on which
  std::size_t frames_used_ = 0;
  unsigned workers_ = 0;

  Lock lock_;  // protects the queue
  std::array<Fiber*, kFibersMax> queue_{};
  std::size_t queued_ = 0;
  std::size_t live_ = 0;
  Atomic<std::uint32_t> changes_{0};  // workers sleep on it
};

}  // namespace weft::model
