// A context on a stack of its own, and nothing else: what the switch does without an engine.
#pragma once

#include <weft/arch/context.hpp>
#include <weft/arch/sanitizer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft::testing {

// Not owned by a thread: whoever switches to it runs it. Carries neither exceptions nor anything
// else of the C++ runtime from thread to thread.
class BareFiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

  // The calling thread itself.
  BareFiber() noexcept { shadow.begin(true); }

  // Calls `entry(who, how)` when it is first switched to. `entry` begins with begin_bare(), and
  // ends with leave_bare().
  explicit BareFiber(arch::Entry entry) : stack_(std::make_unique_for_overwrite<Stack>()) {
    shadow.describe(stack_->bytes, kStackBytes);
    shadow.begin(false);
    arch::make_context(context, stack_->bytes + kStackBytes, entry);
  }
  BareFiber(const BareFiber&) = delete;
  BareFiber& operator=(const BareFiber&) = delete;
  ~BareFiber() {
    if (stack_) shadow.end();
  }

  [[nodiscard]] bool stands_on(const void* address) const noexcept {
    const auto* const at = static_cast<const std::byte*>(address);
    return stack_ && at >= stack_->bytes && at < stack_->bytes + kStackBytes;
  }

  arch::Context context;
  arch::StackShadow shadow;

 private:
  struct Stack {
    alignas(64) std::byte bytes[kStackBytes];
  };
  std::unique_ptr<Stack> stack_;
};

// Leaves `from`, which runs, for `to`. Returns the word that the switch back to us brought.
[[gnu::always_inline]] inline std::uintptr_t switch_bare(BareFiber& from, BareFiber& to,
                                                         std::uintptr_t how = 0) noexcept {
  from.shadow.leave(to.shadow, false);
  const arch::Arrival arrival = arch::switch_context(from.context, to.context, &from, how);
  from.shadow.arrive(static_cast<BareFiber*>(arrival.who)->shadow);
  return arrival.how;
}

// First thing in an entry function: returns who switched to `self`.
[[gnu::always_inline]] inline BareFiber& begin_bare(BareFiber& self, void* who) noexcept {
  BareFiber& from = *static_cast<BareFiber*>(who);
  self.shadow.arrive(from.shadow);
  return from;
}

// Last thing in an entry function.
[[noreturn, gnu::always_inline]] inline void leave_bare(BareFiber& from, BareFiber& to,
                                                        std::uintptr_t how = 0) noexcept {
  from.shadow.leave(to.shadow, true);
  arch::jump_context(to.context, &from, how);
}

}  // namespace weft::testing
