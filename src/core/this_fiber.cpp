#include <weft/this_fiber.hpp>

#include <weft/arch/stack.hpp>
#include <weft/core/cancel_scope.hpp>

namespace weft::this_fiber {

bool cancelled() noexcept {
  const CancelScope* const scope = Fiber::current().scope;
  return scope && scope->cancelled();
}

bool stopping() noexcept {
  const CancelScope* const scope = Fiber::current().scope;
  return scope && scope->asked_to_stop();
}

std::string path() {
  std::string path;
  for (const Fiber* fiber = &Fiber::current(); fiber;) {
    std::string name = fiber->copy_name();
    if (name.empty()) name = "#" + std::to_string(fiber->id);
    path = path.empty() ? std::move(name) : std::move(name) + "/" + path;
    // Our owner waits for us, and so on: all of them live.
    const auto* const home = static_cast<const Home*>(fiber->strand->home);
    fiber = home ? home->owner() : nullptr;
  }
  return path;
}

std::size_t stack_remaining() noexcept {
  const arch::Stack* const stack = Fiber::current().strand->ground.stack;
  if (!stack) return 0;
  const auto* const here = static_cast<const std::byte*>(__builtin_frame_address(0));
  return static_cast<std::size_t>(here - stack->limit);
}

}  // namespace weft::this_fiber
