// Host: a thread that carries an engine's fibers. Gives them stacks, and takes them back.
#pragma once

#include "arch/held_locks.hpp"

#include <weft/arch/overflow.hpp>
#include <weft/arch/stack.hpp>
#include <weft/core/carrier.hpp>
#include <weft/core/closure.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

namespace weft::engine {

// What lies at the top of every fiber's stack, above its first frame.
struct alignas(16) Crown {
  Ground ground;
  Strand strand;
};

// The life of a stack: it runs one fiber after another.
[[noreturn]] void run_fibers(void* who, std::uintptr_t how);

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
  Fiber* prepare(Fiber& fiber) noexcept { return fiber.strand ? &fiber : prepare_unborn(fiber); }
  // Takes back the stack and the frame of a fiber that finished, on the far side.
  void release(Fiber& fiber) noexcept {
    Ground& ground = fiber.strand->ground;
    arch::Stack& stack = *ground.stack;
    ground.shadow.end();
    recycle_frame(fiber, *this);
    stacks_.give(stack);
  }

  [[nodiscard]] arch::StackPool& stacks() noexcept { return *pool_; }

 protected:
  // prepare(), for one that has none.
  [[gnu::always_inline]] Fiber* give_stack(Fiber& fiber) noexcept {
    arch::Stack* const stack = stacks_.take();
    if (!stack) [[unlikely]] {
      fail(fiber);
      return nullptr;
    }
    auto* const crown = reinterpret_cast<Crown*>(stack->top) - 1;
    // Three quarters of a stack must be free for a child to run on it in place.
    ::new (&crown->ground) Ground{stack, stack->limit + stack->bytes() / 4 * 3, {}};
    crown->ground.shadow.describe(stack->limit, stack->bytes());
    crown->ground.shadow.begin(false);
    fiber.strand = ::new (&crown->strand) Strand{fiber, crown->ground};
    arch::make_context(fiber.context, crown, &run_fibers);
    return &fiber;
  }

 private:
  Fiber* prepare_unborn(Fiber& fiber) noexcept;
  [[gnu::cold]] void fail(Fiber& fiber) noexcept;

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
