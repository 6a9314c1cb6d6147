#include "model_engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace weft {

// Models give their carriers all the frames they need; the pool itself is not part of them.
void FrameCache::refill(std::size_t) { model::check(false, "the model has no frame left"); }
void FrameCache::give_batch(std::size_t, std::uint32_t) noexcept {}
void FrameCache::give_all() noexcept {}

namespace model {
namespace {

constexpr std::size_t kStack = 64 * 1024;

// One execution at a time: stacks are used again by the next.
std::byte* stack_top(std::size_t i) {
  alignas(16) static std::array<std::array<std::byte, kStack>, kFibersMax> stacks;
  return stacks[i].data() + kStack;
}

}  // namespace

ModelEngine::Worker::Worker(Io& io) : strand(base, ground) {
  base.io = &io;
  base.strand = &strand;
  current = &base;
  exceptions = &arch::thread_exception_state();
}

ModelEngine::ModelEngine() { std::iota(stack_of_.begin(), stack_of_.end(), 0U); }

void ModelEngine::fiber(void (*body)(void*), void* argument) {
  struct Body {
    void (*body)(void*);
    void* argument;
    void operator()() && { body(argument); }
  };
  Fiber& fiber = frames_[frames_used_++];
  ::new (fiber.room) Body{body, argument};
  fiber.closure = &ClosureOf<Body>::closure;
  fiber.scope = &home_;
  fiber.io = this;
  fiber.id = frames_used_;
  fiber.word.mark_reborn();
  fiber.word.mark_runnable(Actor::spawner);
  ++live_;
  queue_[queued_++] = &fiber;
}

// As engine/host.cpp does: siblings that end one after another are told to their home in one go.
void ModelEngine::run_fiber(void* who, std::uintptr_t how) {
  Fiber* self = &Fiber::current();
  arrive(*self, {who, how});
  Ground& ground = self->strand->ground;
  auto& engine = static_cast<ModelEngine&>(*static_cast<Io*>(self->io));
  for (std::size_t untold = 1;; ++untold) {
    Home& home = static_cast<Home&>(*self->scope);
    run_closure(*self);
    Fiber* const next = engine.adopt(home, Departure::finish);
    if (!next || next->strand) {
      if (next && home.children_ended_for_owner(untold)) leave_for_ever(*self, *next);
      home.children_ended(untold);  // and it may be gone
      leave_for_ever(*self, next ? *next : engine.successor(*self, Departure::finish));
    }
    std::swap(engine.stack_of_[static_cast<std::size_t>(self - engine.frames_.data())],
              engine.stack_of_[static_cast<std::size_t>(next - engine.frames_.data())]);
    Strand* const strand = self->strand;
    recycle_frame(*self, Carrier::here());
    next->strand = ::new (strand) Strand{*next, ground};
    Carrier::here().current = next;
    self = next;
  }
}

void ModelEngine::work() {
  Worker worker{*this};
  // Some of the frames that no fiber uses yet are this worker's to spawn with.
  {
    const Locked locked{lock_};
    worker.index = workers_++;
    for (int i = 0; i < 3 && frames_used_ < kFibersMax; ++i)
      worker.frames.give(frames_[frames_used_++]);
  }
  thread_slot() = &worker;
  while (Fiber* const fiber = pop()) {
    if (!fiber->strand) {
      const std::size_t i = stack_of_[static_cast<std::size_t>(fiber - frames_.data())];
      fiber->strand = ::new (stack_top(i) - 256) Strand{*fiber, grounds_[i]};
      grounds_[i].stack = reinterpret_cast<arch::Stack*>(&grounds_[i]);  // not a thread's own
      arch::make_context(fiber->context, fiber->strand, &run_fiber);
    }
    switch_fibers(worker, worker.base, *fiber, Departure::none);
  }
  thread_slot() = nullptr;
}

void ModelEngine::start(Fiber& fiber) {
  fiber.id = static_cast<FiberId>(&fiber - frames_.data()) + 1;
  push(fiber);
}

Fiber& ModelEngine::successor(Fiber& self, Departure how) noexcept {
  if (how == Departure::park && self.word.verdict() != Verdict::none()) return self;
  return here().base;
}

void ModelEngine::departed(Fiber& fiber, Departure how) noexcept {
  if (how == Departure::finish) return recycle_frame(fiber, here());
  fiber.word.mark_runnable(Actor::worker);
  push(fiber);
}

void ModelEngine::resume(FiberList fibers) noexcept {
  while (Fiber* const fiber = fibers.pop_front()) push(*fiber);
}

void ModelEngine::push(Fiber& fiber) {
  put(fiber);
  changes_.fetch_add(1, std::memory_order_release);
  Sync::wake(changes_, 1);
}

Fiber* ModelEngine::pop() {
  for (;;) {
    // Not a load, which could be old: the queue is not what is explored here.
    const std::uint32_t seen = changes_.fetch_add(0, std::memory_order_acquire);
    bool over = false;
    Fiber* const fiber = take(over);
    if (fiber || over) return fiber;
    Sync::sleep(changes_, seen);
  }
}

void ModelEngine::put(Fiber& fiber) {
  const Locked locked{lock_};
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(queued_);
  check(std::find(queue_.begin(), end, &fiber) == end, "F4: a fiber is in the queue already");
  queue_[queued_++] = &fiber;
}

Fiber* ModelEngine::take(bool& over) {
  const Locked locked{lock_};
  over = live_ == 0;
  if (queued_ == 0) return nullptr;
  Fiber* const first = queue_[0];
  std::move(queue_.begin() + 1, queue_.begin() + static_cast<std::ptrdiff_t>(queued_),
            queue_.begin());
  --queued_;
  return first;
}

Fiber* ModelEngine::take_unborn(const CancelScope& home) {
  const Locked locked{lock_};
  Fiber* const newest = queued_ == 0 ? nullptr : queue_[queued_ - 1];
  if (!newest || newest->strand || newest->scope != &home) return nullptr;
  --queued_;
  return newest;
}

Fiber* ModelEngine::take_owner(const Home& home) {
  const Locked locked{lock_};
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(queued_);
  const auto at = std::find(queue_.begin(), end, home.owner());
  if (at == end) return nullptr;
  Fiber* const owner = *at;
  std::move(at + 1, end, at);
  --queued_;
  return owner;
}

void ModelEngine::fiber_ended() {
  {
    const Locked locked{lock_};
    if (--live_ != 0) return;
  }
  changes_.fetch_add(1, std::memory_order_release);
  Sync::wake(changes_, 8);
}

}  // namespace model
}  // namespace weft
