// The first instruction of every fiber.
//
// A fresh context resumes here with `who` and `how` in the argument registers and the entry
// function on top of its stack. The call frame information says that there is no caller: gdb, perf
// and the exception unwinder stop here instead of guessing.
#include <weft/arch/context.hpp>

#if defined(__x86_64__)
asm(R"(
  .text
  .p2align 4
  .globl weft_context_entry
  .type weft_context_entry, @function
weft_context_entry:
  .cfi_startproc
  .cfi_undefined rip
  endbr64
  callq *(%rsp)
  ud2
  .cfi_endproc
  .size weft_context_entry, .-weft_context_entry
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .p2align 4
  .globl weft_context_entry
  .type weft_context_entry, @function
weft_context_entry:
  .cfi_startproc
  .cfi_undefined x30
  hint #38
  ldr x9, [sp]
  blr x9
  brk #1
  .cfi_endproc
  .size weft_context_entry, .-weft_context_entry
)");
#endif
