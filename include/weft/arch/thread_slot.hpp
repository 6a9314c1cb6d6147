// One pointer per OS thread, read in a way no compiler may remember across a switch.
//
// A fiber that parks may go on under another thread. Compilers assume that a thread-local variable
// keeps its address within a function, and keep that address in a register across the switch; with
// -fPIC all of ours do. A volatile asm statement is executed where it stands, every time.
#pragma once

#if defined(WEFT_MODEL)
#include "model_sync.hpp"
#endif

namespace weft::arch {

#if defined(WEFT_MODEL)

inline void* thread_slot() noexcept { return model::thread_slot(); }
inline void set_thread_slot(void* value) noexcept { model::thread_slot() = value; }

#else

extern "C" {
extern thread_local constinit void* weft_thread_slot [[gnu::tls_model("initial-exec")]];
}

[[gnu::always_inline]] inline void* thread_slot() noexcept {
  void* value;
#if defined(__x86_64__)
  asm volatile(
      "movq weft_thread_slot@gottpoff(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(value));
#elif defined(__aarch64__)
  void* offset;
  asm volatile(
      "adrp %1, :gottprel:weft_thread_slot\n\t"
      "ldr %1, [%1, :gottprel_lo12:weft_thread_slot]\n\t"
      "mrs %0, tpidr_el0\n\t"
      "ldr %0, [%0, %1]"
      : "=&r"(value), "=&r"(offset));
#endif
  return value;
}

// Only ever called on a thread's own stack, when it starts or stops carrying fibers.
void set_thread_slot(void* value) noexcept;

// Calls `destroy(object)` when the calling thread ends. The last call before that counts.
void at_thread_exit(void (*destroy)(void*), void* object);

#endif

}  // namespace weft::arch
