#include "explorer/context.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// The floating-point control words are left alone: the explorer runs every controlled thread on one
// OS thread, and no model changes the rounding mode.
extern "C" void weft_model_switch(void** save, void* load) noexcept;
extern "C" void weft_model_entry() noexcept;

#if defined(__x86_64__)
// A saved stack, from the stack pointer up: r15 r14 r13 r12 rbx rbp, return address.
asm(R"(
.pushsection .text
.globl weft_model_switch
.hidden weft_model_switch
.type weft_model_switch, @function
weft_model_switch:
  .cfi_startproc
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size weft_model_switch, .-weft_model_switch

.globl weft_model_entry
.hidden weft_model_entry
.type weft_model_entry, @function
weft_model_entry:
  .cfi_startproc
  .cfi_undefined rip
  endbr64
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
.size weft_model_entry, .-weft_model_entry
.popsection
)");
#elif defined(__aarch64__)
// A saved stack, from the stack pointer up: x19..x30, d8..d15.
asm(R"(
.pushsection .text
.globl weft_model_switch
.hidden weft_model_switch
.type weft_model_switch, %function
weft_model_switch:
  .cfi_startproc
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .cfi_endproc
.size weft_model_switch, .-weft_model_switch

.globl weft_model_entry
.hidden weft_model_entry
.type weft_model_entry, %function
weft_model_entry:
  .cfi_startproc
  .cfi_undefined x30
  mov x0, x19
  blr x20
  brk #0
  .cfi_endproc
.size weft_model_entry, .-weft_model_entry
.popsection
)");
#else
#error "the explorer knows how to switch stacks on x86-64 and aarch64 only"
#endif

namespace weft::model {

void switch_context(Context& save, const Context& to) noexcept {
  weft_model_switch(&save.stack_pointer, to.stack_pointer);
}

Context make_context(std::byte* stack_end, void (*entry)(void*), void* argument) noexcept {
  auto* const top = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(stack_end) & ~15UL);
  auto* const go = reinterpret_cast<void*>(&weft_model_entry);
  auto* const function = reinterpret_cast<void*>(entry);
#if defined(__x86_64__)
  // The return leaves the stack pointer at `top`, aligned as a call instruction expects it.
  void** const frame = top - 7;
  frame[0] = frame[1] = nullptr;  // r15 r14
  frame[2] = function;            // r13
  frame[3] = argument;            // r12
  frame[4] = frame[5] = nullptr;  // rbx rbp
  frame[6] = go;
#else
  void** const frame = top - 20;
  for (int i = 0; i < 20; ++i) frame[i] = nullptr;
  frame[0] = argument;  // x19
  frame[1] = function;  // x20
  frame[11] = go;       // x30
#endif
  return {frame};
}

std::byte* allocate_stack(std::size_t bytes) {
  constexpr std::size_t kGuardBytes = 64 * 1024;
  void* const memory = mmap(nullptr, bytes + kGuardBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    std::fputs("explorer: no memory for a thread's stack\n", stderr);
    std::abort();
  }
  return static_cast<std::byte*>(memory) + kGuardBytes + bytes;
}

}  // namespace weft::model
