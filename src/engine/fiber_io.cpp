#include <weft/engine.hpp>

#include "worker.hpp"

#include <weft/core/thread.hpp>

#include <stdexcept>
#include <string>

namespace weft {
namespace {

const Options& validated(const Options& options) {
  if (options.workers > 1)
    throw std::invalid_argument{"weft::Options::workers is " + std::to_string(options.workers) +
                                ", but this version runs fibers on one worker; use 0 or 1"};
  return options;
}

}  // namespace

FiberIo::FiberIo(const Options& options)
    : worker_(std::make_unique<engine::Worker>(*this, validated(options))) {
  enlist();
}

FiberIo::~FiberIo() { delist(); }

void FiberIo::run_root(Body body) {
  const engine::Exclusive exclusive{worker_->busy, "weft::FiberIo::run()"};
  engine::Root& root = worker_->root.emplace(worker_->count);
  const engine::Mounted mounted{*worker_};
  Fiber& fiber = make_fiber(*this, root, std::move(body));
  fiber.set_name("main");
  worker_->count.open();
  worker_->run(fiber);
  root.rethrow_if_failed();
}

Home* FiberIo::admit() noexcept { return worker_->count.admit() ? &*worker_->root : nullptr; }

void FiberIo::deliver(Fiber& fiber) noexcept { worker_->send(fiber); }

void FiberIo::dismiss() noexcept { worker_->dismiss(); }

void FiberIo::start(Fiber& fiber) {
  if (worker_->is_here()) worker_->start(fiber);
  else worker_->send(fiber);
}

Fiber& FiberIo::successor(Fiber& self, Departure how) noexcept {
  if (how == Departure::yield) return worker_->turn(self);
  // A verdict latched while we published: why leave at all.
  if (how == Departure::park && self.word.verdict() != Verdict::none()) return self;
  return worker_->successor(how);
}

void FiberIo::departed(Fiber& fiber, Departure how) noexcept {
  if (how == Departure::yield) {
    fiber.word.mark_runnable(Actor::worker);
    worker_->requeue(fiber);
  } else {
    worker_->release(fiber);
  }
}

void FiberIo::resume(FiberList fibers) noexcept {
  const bool here = worker_->is_here();
  Fiber* const first = fibers.pop_front();
  if (here && fibers.empty()) return worker_->resume(*first);
  for (Fiber* fiber = first; fiber; fiber = fibers.pop_front()) {
    if (here) worker_->requeue(*fiber);
    else worker_->send(*fiber);
  }
}

Fiber* FiberIo::adopt(CancelScope& home) noexcept { return worker_->adopt(home); }

Instant FiberIo::now() const noexcept { return monotonic_now(); }
void FiberIo::arm(Timer& timer) noexcept { worker_->timers.arm(timer); }
void FiberIo::disarm(Timer& timer) noexcept { worker_->timers.disarm(timer); }

bool FiberIo::inspect(Look look, void* at) {
  if (!worker_->count.over() && !worker_->is_here()) return worker_->answer({look, at});
  look(worker_->is_here() ? worker_->current : nullptr, at);
  return true;
}

void FiberIo::raise_deadlock() const { throw Deadlock{worker_->deadlock_report}; }

}  // namespace weft
