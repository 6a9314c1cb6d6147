#include "host.hpp"

#include <weft/core/error.hpp>
#include <weft/core/switch.hpp>

#include <stdexcept>
#include <utility>

namespace weft::engine {

// A finished fiber's stack takes the next unborn one without a switch; only a successor with a
// stack of its own costs one.
//
// Siblings that end here one after another are told to their home in one go: while the next one
// runs, the home cannot end anyway, so nothing is late, and the count is not fought over.
[[noreturn]] void run_fibers(void* who, std::uintptr_t how) {
  Fiber* self = Carrier::of_engine().current;
  arrive(*self, {who, how});
  Ground& ground = self->strand->ground;
  std::size_t untold = 0;
  for (;;) {
    Home& home = static_cast<Home&>(*self->scope);
    Io& io = *self->io;
    run_closure(*self);
    ++untold;
    Fiber* next = io.adopt(home, Departure::finish);
    if (!next || next->strand) {
      self->scope = nullptr;  // tells inspectors that it has ended
      // Our home's owner, in the midst of its block, goes on after us: no need to meet at the word.
      if (next && home.children_ended_for_owner(untold)) leave_for_ever(*self, *next);
      home.children_ended(std::exchange(untold, 0));  // and it may be gone
      if (!next) next = &io.successor(*self, Departure::finish);
      if (next->strand) leave_for_ever(*self, *next);
    }
    Strand* const strand = self->strand;
    Carrier& here = Carrier::of_engine();
    recycle_frame(*self, here);
    next->strand = ::new (strand) Strand{*next, ground};
    here.current = next;
    self = next;
  }
}

namespace {

// For the overflow report: runs in a signal handler.
bool describe_current(arch::OverflowNames& names) noexcept {
  const auto* const here = static_cast<const Carrier*>(arch::thread_slot());
  if (!here || !here->current) return false;
  names = {here->current->id, here->current->name_text};
  return true;
}

}  // namespace

Host::Host(Io& io, std::shared_ptr<arch::StackPool> stacks)
    : pool_(std::move(stacks)), stacks_(*pool_), base_strand_(base_, base_ground_) {
  if (arch::has_shadow_stack())
    throw std::runtime_error{"weft: shadow stacks are on in this process, and weft cannot switch "
                             "them; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off"};
  arch::set_describe_current(&describe_current);
  engine = &io;
  base_.io = &io;
  base_.strand = &base_strand_;
}

void Host::mount() noexcept {
  previous_ = arch::thread_slot();
  exceptions = &arch::thread_exception_state();
  base_ground_ = {};
  base_ground_.shadow.begin(true);
  current = &base_;
  // What the calling thread has set, the root inherits.
  if (auto* const outer = static_cast<const Carrier*>(previous_))
    base_strand_.locals = outer->current->strand->locals;
  arch::set_thread_slot(this);
  signal_stack_.emplace();
  locks_.begin();
}

void Host::unmount() noexcept {
  locks_.end();
  signal_stack_.reset();
  base_strand_.locals = nullptr;  // it was only lent
  arch::set_thread_slot(previous_);
}

Fiber* Host::prepare_unborn(Fiber& fiber) noexcept { return give_stack(fiber); }

void Host::fail(Fiber& fiber) noexcept {
  Home& home = static_cast<Home&>(*fiber.scope);
  std::exception_ptr error;
  try {
    error = std::make_exception_ptr(OutOfStacks{pool_->why()});
  } catch (...) {
    error = std::current_exception();  // no memory to say why: that says it
  }
  home.child_failed(fiber, std::move(error));
  fiber.word.mark_ended(FiberState::cancelled, Actor::worker);
  discard_fiber(fiber);
  home.children_ended(1);
}

}  // namespace weft::engine
