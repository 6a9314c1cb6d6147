// Context: the explorer's own stack switch.
//
// A controlled thread may be on any stack when it reaches a scheduling point (the code under test
// switches stacks itself), so a context is nothing but the stack pointer of that moment, with every
// callee-saved register pushed below it.
#pragma once

#include <cstddef>

namespace weft::model {

struct Context {
  void* stack_pointer = nullptr;
};

// Leaves the present stack, to be resumed at `save`, and continues where `to` was saved.
void switch_context(Context& save, const Context& to) noexcept;

// A context that, once resumed, calls entry(argument) on the stack ending at `stack_end`. The entry
// must never return.
[[nodiscard]] Context make_context(std::byte* stack_end, void (*entry)(void*),
                                   void* argument) noexcept;

// A guarded stack that lives as long as the process: stacks are reused by every execution.
[[nodiscard]] std::byte* allocate_stack(std::size_t bytes);

}  // namespace weft::model
