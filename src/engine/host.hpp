// Host: a thread that carries an engine's fibers. Gives them stacks, and takes them back.
#pragma once

#include "arch/held_locks.hpp"

#include <weft/arch/overflow.hpp>
#include <weft/arch/stack.hpp>
#include <weft/core/carrier.hpp>

#include <cstddef>
#include <memory>
#include <optional>

namespace weft::engine {

// The thread's own stack, where the engine looks for work, is the fiber `base`.
class Host : public Carrier {
 public:
  Host(Io& io, std::shared_ptr<arch::StackPool> stacks);

  // Between these two the calling thread carries our fibers. Engines nest.
  void mount() noexcept;
  void unmount() noexcept;

  [[nodiscard]] Fiber& base() noexcept { return base_; }
  [[nodiscard]] bool is_here() const noexcept { return arch::thread_slot() == this; }

  // `fiber`, with a stack if it had none. Null: none is to be had; the fiber has failed with
  // OutOfStacks, and its home has been told.
  Fiber* prepare(Fiber& fiber) noexcept {
    return fiber.strand ? &fiber : give_stack(fiber);
  }
  // Takes back the stack and the frame of a fiber that finished, on the far side.
  void release(Fiber& fiber) noexcept;

  [[nodiscard]] arch::StackPool& stacks() noexcept { return *pool_; }

 private:
  Fiber* give_stack(Fiber& fiber) noexcept;
  void fail(Fiber& fiber) noexcept;

  arch::OverflowHandler overflow_;
  std::optional<arch::SignalStack> signal_stack_;  // while mounted
  const std::shared_ptr<arch::StackPool> pool_;
  arch::StackCache stacks_;
  Fiber base_;
  Ground base_ground_;
  Strand base_strand_;
  void* previous_ = nullptr;
  arch::LockWatch locks_;  // while mounted
};

// Mounted from construction to destruction.
class [[nodiscard]] Mounted {
 public:
  explicit Mounted(Host& host) noexcept : host_(host) { host_.mount(); }
  ~Mounted() { host_.unmount(); }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

 private:
  Host& host_;
};

}  // namespace weft::engine
