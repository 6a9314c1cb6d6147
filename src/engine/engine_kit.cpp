#include <weft/engine_kit.hpp>

#include "host.hpp"
#include "root.hpp"

#include <optional>

namespace weft {

struct EngineThread::Parts : engine::Host {
  Parts(Io& io, std::size_t stack_bytes)
      : Host(io, std::make_shared<arch::StackPool>(
                     arch::StackOptions{.stack_bytes = stack_bytes})) {}

  engine::RootCount count;
  Atomic<bool> busy{false};  // a call of run() is under way
  std::unique_ptr<engine::Exclusive> exclusive;  // while it is
  std::optional<engine::Root> root;
};

EngineThread::EngineThread(Engine& engine, std::size_t stack_bytes)
    : engine_(engine), parts_(std::make_unique<Parts>(engine, stack_bytes)) {}

EngineThread::~EngineThread() = default;

void EngineThread::enter() {
  parts_->exclusive = std::make_unique<engine::Exclusive>(parts_->busy, "weft::Engine::run()");
  parts_->root.emplace(parts_->count);
  parts_->mount();
}

void EngineThread::leave() noexcept {
  parts_->unmount();
  parts_->exclusive.reset();
}

Home& EngineThread::home() noexcept { return *parts_->root; }

void EngineThread::begin(Fiber& root) {
  parts_->count.open();
  try {
    engine_.start(root);
  } catch (...) {
    discard_fiber(root);
    parts_->count.leave(1);
    throw;
  }
}

void EngineThread::throw_failure() const { parts_->root->rethrow_if_failed(); }

bool EngineThread::over() const noexcept { return parts_->count.over(); }
bool EngineThread::is_here() const noexcept { return parts_->is_here(); }
Fiber& EngineThread::base() noexcept { return parts_->base(); }

const Fiber* EngineThread::running() const noexcept {
  const Fiber* const current = parts_->current;
  return over() || current == &parts_->base() ? nullptr : current;
}

Fiber* EngineThread::prepare(Fiber& fiber) noexcept { return parts_->prepare(fiber); }
void EngineThread::release(Fiber& fiber) noexcept { parts_->release(fiber); }
void EngineThread::note_time(Instant now) noexcept { parts_->coarse_now = now; }

}  // namespace weft
