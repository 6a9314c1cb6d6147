// BlockingIo: the same fibers with no scheduler at all.
//
// One thread, the caller of run(), and the real clock. spawn() is a plain call of the child, on the
// spawner's stack, and returns when the child has ended; a wait blocks the thread. So a program
// runs in the order in which it is written, a debugger's backtrace shows who spawned whom, and a
// profile is that of a sequential program.
//
// What it cannot do is let one fiber wait for another that has not had its turn. A child that waits
// for what only its spawner or a later sibling can bring finds nobody to bring it; that ends in a
// Deadlock that names the wait, not in a hang. docs/engines.md says which programs run.
#pragma once

#include <weft/engine.hpp>

#include <memory>
#include <string_view>

namespace weft {

namespace engine {
class InPlace;
}

struct BlockingOptions {
  // A wait that no timer can end, in which nothing else can run. `report` and `automatic` are for
  // programs whose other threads wake fibers.
  OnDeadlock on_deadlock = OnDeadlock::raise;
};

// Children run on the stack of the thread that called run(), however deep they are spawned. When
// that is nearly used up, the next child fails with OutOfStacks, and does not run.
class BlockingIo final : public Engine {
 public:
  BlockingIo() : BlockingIo(BlockingOptions{}) {}
  explicit BlockingIo(const BlockingOptions& options);
  ~BlockingIo();

  // ── Io ──────────────────────────────────────────────────────────────────────────────────────

  // Runs the fiber, and returns when it has ended. On the engine's own thread only; elsewhere, and
  // inside another engine that one of our fibers runs, throws std::logic_error.
  void start(Fiber& fiber) override;
  Fiber& successor(Fiber& self, Departure how) noexcept override;
  void departed(Fiber& fiber, Departure how) noexcept override;
  void resume(FiberList fibers) noexcept override;  // from any thread
  [[nodiscard]] Instant now() const noexcept override;
  void arm(Timer& timer) noexcept override;     // from any thread
  void disarm(Timer& timer) noexcept override;  // the same
  [[nodiscard]] std::uint64_t random() noexcept override;
  [[nodiscard]] std::shared_ptr<Reactor> reactor() noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return "BlockingIo"; }
  [[noreturn]] void raise_deadlock() const override;
  bool inspect(Look look, void* at, Duration patience) override;

 private:
  void run_root(Body body) override;

  std::unique_ptr<engine::InPlace> in_place_;
};

}  // namespace weft
