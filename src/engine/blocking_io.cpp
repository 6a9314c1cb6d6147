#include <weft/blocking_io.hpp>

#include "in_place.hpp"

#include <weft/core/thread.hpp>

#include <stdexcept>

namespace weft {

BlockingIo::BlockingIo(const BlockingOptions& options)
    : in_place_(std::make_unique<engine::InPlace>(*this, options)) {
  enlist();
}

BlockingIo::~BlockingIo() { delist(); }

void BlockingIo::run_root(Body body) {
  engine::InPlace& here = *in_place_;
  const engine::Exclusive exclusive{here.busy, "weft::BlockingIo::run()"};
  engine::Root& root = here.root.emplace(here.count);
  const std::byte* const floor = here.floor_here();
  const engine::Mounted mounted{here};
  Fiber& fiber = make_fiber(*this, root, std::move(body), Site{});
  fiber.set_name("main");
  here.count.open();
  here.run(fiber, floor);
  root.rethrow_if_failed();
}

void BlockingIo::start(Fiber& fiber) {
  if (!in_place_->is_here())
    throw std::logic_error{"weft::BlockingIo: a fiber was spawned by another thread or inside "
                           "another engine; only the engine's own fibers can run its children"};
  in_place_->call(fiber);
}

// The fiber never leaves its stack: whatever it comes here for has happened when we return.
Fiber& BlockingIo::successor(Fiber& self, Departure how) noexcept {
  if (how == Departure::park) in_place_->wait(self);
  else in_place_->yield(self);
  return self;
}

void BlockingIo::departed(Fiber&, Departure) noexcept {}  // nobody does

void BlockingIo::resume(FiberList fibers) noexcept {
  while (Fiber* const fiber = fibers.pop_front()) in_place_->resume(*fiber);
}

Instant BlockingIo::now() const noexcept { return monotonic_now(); }
void BlockingIo::arm(Timer& timer) noexcept { in_place_->arm(timer); }
void BlockingIo::disarm(Timer& timer) noexcept { in_place_->timers.disarm(timer); }
std::uint64_t BlockingIo::random() noexcept { return in_place_->chance.next(); }

std::shared_ptr<Reactor> BlockingIo::reactor() noexcept { return in_place_->reactor(); }

void BlockingIo::raise_deadlock() const { throw Deadlock{in_place_->deadlock_report}; }

bool BlockingIo::inspect(Look look, void* at, Duration patience) {
  return in_place_->inspect(look, at, patience);
}

}  // namespace weft
