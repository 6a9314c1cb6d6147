#include <weft/engine.hpp>

#include "findings.hpp"
#include "scheduler.hpp"

#include <weft/core/thread.hpp>

namespace weft {

FiberIo::FiberIo(const Options& options)
    : scheduler_(std::make_unique<engine::Scheduler>(*this, resolve(options))) {
  enlist();
}

FiberIo::~FiberIo() { delist(); }

const Options& FiberIo::options() const noexcept { return scheduler_->options; }
Statistics FiberIo::statistics() const noexcept { return scheduler_->sysmon.statistics(); }

engine::Worker* FiberIo::worker_here() const noexcept {
  Carrier* const here = Carrier::if_any();
  return here && here->engine == this ? static_cast<engine::Worker*>(here) : nullptr;
}

namespace {

// On one of our workers, and nowhere else.
engine::Worker& this_worker() noexcept {
  return static_cast<engine::Worker&>(Carrier::of_engine());
}

}  // namespace

void FiberIo::run_root(Body body) {
  scheduler_->run([&](Home& root) -> Fiber& {
    Fiber& fiber = make_fiber(*this, root, std::move(body), Site{});
    fiber.set_name("main");
    return fiber;
  });
}

bool FiberIo::stop() noexcept { return scheduler_->stop(); }

Home* FiberIo::admit() noexcept { return scheduler_->admit(); }
void FiberIo::deliver(Fiber& fiber) noexcept { scheduler_->inject(fiber); }
void FiberIo::dismiss() noexcept { scheduler_->dismiss(); }

// ── Io: called by fibers, on a worker of ours, unless said otherwise ────────────────────────────

void FiberIo::start(Fiber& fiber) {
  if (engine::Worker* const worker = worker_here()) worker->start(fiber);
  else scheduler_->inject(fiber);
}

Fiber& FiberIo::successor(Fiber& self, Departure how) noexcept {
  engine::Worker& worker = this_worker();
  if (how == Departure::park) [[likely]] {
    // A verdict latched while we published: why leave at all.
    if (self.word.verdict() != Verdict::none()) [[unlikely]] return self;
    self.last_worker = worker.number;
  }
  engine::check_held_locks(self, how);
  return how == Departure::yield ? worker.turn(self) : worker.successor(how);
}

void FiberIo::departed(Fiber& fiber, Departure how) noexcept {
  engine::Worker& worker = this_worker();
  if (how == Departure::yield) {
    fiber.word.mark_runnable(Actor::worker);
    worker.requeue(fiber);
  } else {
    worker.release(fiber);
  }
}

void FiberIo::resume(FiberList fibers) noexcept {
  engine::Worker* const worker = worker_here();
  if (!worker) {
    while (Fiber* const fiber = fibers.pop_front()) scheduler_->send(*fiber);
    return;
  }
  if (Fiber* const one = fibers.single()) return worker->resume(*one);
  worker->resume_all(std::move(fibers));
}

void FiberIo::resume_one(Fiber& fiber) noexcept {
  if (engine::Worker* const worker = worker_here()) [[likely]] worker->resume(fiber);
  else scheduler_->send(fiber);
}

Fiber* FiberIo::adopt(CancelScope& home, Departure how) noexcept {
  engine::Worker& worker = this_worker();
  engine::check_held_locks(*worker.current, how);
  return worker.adopt(home, how);
}

Instant FiberIo::now() const noexcept { return monotonic_now(); }
Instant FiberIo::now_or_later() noexcept {
  engine::Worker* const worker = worker_here();
  return worker ? worker->near_clock.now_or_later() : monotonic_now();
}

void FiberIo::arm(Timer& timer) noexcept {
  if (engine::Worker* const worker = worker_here()) return worker->arm(timer);
  engine::Worker& first = scheduler_->worker(0);
  if (first.timers.arm(timer)) first.inbox.nudge();  // it may sleep for longer than that
}
void FiberIo::disarm(Timer& timer) noexcept { engine::SharedTimers::disarm(timer); }

void FiberIo::expect_blocking(bool about_to) noexcept {
  if (engine::Worker* const worker = worker_here()) worker->expect_blocking(about_to);
}

std::shared_ptr<Reactor> FiberIo::reactor() noexcept { return scheduler_->reactor(); }

std::string FiberIo::reactor_report() const { return scheduler_->reactor_report(); }

Offload* FiberIo::offload() noexcept { return &scheduler_->offload; }

std::uint64_t FiberIo::random() noexcept {
  if (engine::Worker* const worker = worker_here()) return worker->chance.next();
  return scheduler_->random_outside();
}

bool FiberIo::inspect(Look look, void* at, Duration patience) {
  return scheduler_->inspect(look, at, patience);
}

void FiberIo::raise_deadlock() const { throw Deadlock{scheduler_->deadlock_report}; }

}  // namespace weft
