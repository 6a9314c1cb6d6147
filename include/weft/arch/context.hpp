// The context switch: three words saved, everything else declared clobbered.
//
// The compiler, not we, saves what is live across a switch, usually little: 1.9 ns against 3.2 for
// a routine that saves six registers. The statement is inlined into the operation that parks,
// because a `ret` executed after a switch is mispredicted: the return predictor still holds the
// other fiber's callers. It contains no push and no call, so the red zone is safe.
//
// Two words travel along in registers: who left, and what is to be done for it now that its stack
// is quiet. The clobber list follows the including file's target flags.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::arch {

// Where a fiber goes on. The assembly below knows this layout.
struct Context {
  void* stack_pointer = nullptr;
  void* frame_pointer = nullptr;
  void* resume_at = nullptr;  // null: never ran
};
static_assert(sizeof(Context) == 3 * sizeof(void*));

// What the far side learns: the words given to the switch that brought us here.
struct Arrival {
  void* who;
  std::uintptr_t how;
};

using Entry = void (*)(void* who, std::uintptr_t how);

// The first instruction of every fiber.
extern "C" void weft_context_entry();

// Prepares `context` to call `entry(who, how)` on the stack that ends at `top` (16-byte aligned).
// `entry` never returns. A backtrace ends there.
inline void make_context(Context& context, void* top, Entry entry) noexcept {
  auto** slot = static_cast<void**>(top) - 2;  // keeps the stack 16-byte aligned at the call
  slot[0] = reinterpret_cast<void*>(entry);
  slot[1] = nullptr;
  context = {slot, nullptr, reinterpret_cast<void*>(&weft_context_entry)};
}

// Whether returns of the calling thread are checked against a shadow stack, which a switch would
// leave behind. No operation on processors and in threads without one.
inline bool has_shadow_stack() noexcept {
#if defined(__x86_64__)
  std::uintptr_t pointer = 0;
  asm volatile("rdsspq %0" : "+r"(pointer));
  return pointer != 0;
#else
  register std::uintptr_t features asm("x16") = 1;
  asm volatile("hint #40" : "+r"(features));  // chkfeat: clears the bit of a feature that is on
  return features == 0;
#endif
}

#if defined(__x86_64__)

#define WEFT_CLOBBERED_VECTORS                                                                \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",     \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)",   \
      "st(5)", "st(6)", "st(7)"
#if defined(__AVX512F__)
#define WEFT_CLOBBERED_MORE                                                                   \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",  \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4",      \
      "k5", "k6", "k7"
#else
#define WEFT_CLOBBERED_MORE
#endif
#if defined(__clang__)
// Where a frame has over-aligned locals and alloca, clang reaches them through rbx, and does not
// save it around a statement that clobbers it. Beyond the red zone, since signals may come.
#define WEFT_BASE_SAVED "leaq -136(%%rsp), %%rsp\n\tmovq %%rbx, (%%rsp)\n\t"
#define WEFT_BASE_RESTORED "\n\tmovq (%%rsp), %%rbx\n\tleaq 136(%%rsp), %%rsp"
#define WEFT_CLOBBERED_BASE
#else
#define WEFT_BASE_SAVED
#define WEFT_BASE_RESTORED
#define WEFT_CLOBBERED_BASE "rbx",
#endif

// Saves this point in `from` and goes on at `to`. Returns when somebody switches back to `from`.
[[gnu::always_inline]] inline Arrival switch_context(Context& from, const Context& to, void* who,
                                                     std::uintptr_t how) noexcept {
  Context* save = &from;
  const Context* load = &to;
  asm volatile(
      WEFT_BASE_SAVED
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, 0(%[save])\n\t"
      "movq %%rbp, 8(%[save])\n\t"
      "movq %%rax, 16(%[save])\n\t"
      "movq 0(%[load]), %%rsp\n\t"
      "movq 8(%[load]), %%rbp\n\t"
      "jmpq *16(%[load])\n"
      "1:\n\t"
      "endbr64" WEFT_BASE_RESTORED
      : "+D"(who), "+S"(how), [save] "+d"(save), [load] "+c"(load)
      :
      : "rax", WEFT_CLOBBERED_BASE "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
        "memory", "cc",
        WEFT_CLOBBERED_VECTORS WEFT_CLOBBERED_MORE);
  return {who, how};
}

// Goes on at `to` and never comes back.
[[noreturn, gnu::always_inline]] inline void jump_context(const Context& to, void* who,
                                                          std::uintptr_t how) noexcept {
  const Context* load = &to;
  asm volatile(
      "movq 0(%[load]), %%rsp\n\t"
      "movq 8(%[load]), %%rbp\n\t"
      "jmpq *16(%[load])"
      :
      : "D"(who), "S"(how), [load] "c"(load)
      : "memory");
  __builtin_unreachable();
}

#undef WEFT_CLOBBERED_VECTORS
#undef WEFT_CLOBBERED_MORE
#undef WEFT_CLOBBERED_BASE
#undef WEFT_BASE_SAVED
#undef WEFT_BASE_RESTORED

#elif defined(__aarch64__)

#if defined(__ARM_FEATURE_SVE)
#define WEFT_CLOBBERED_MORE                                                                   \
  , "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",    \
      "p14", "p15", "ffr"
#else
#define WEFT_CLOBBERED_MORE
#endif
#if defined(__clang__)
#define WEFT_BASE_SAVED "str x19, [sp, #-16]!\n\t"
#define WEFT_BASE_RESTORED "\n\tldr x19, [sp], #16"
#define WEFT_CLOBBERED_BASE
#else
#define WEFT_BASE_SAVED
#define WEFT_BASE_RESTORED
#define WEFT_CLOBBERED_BASE "x19",
#endif

// Saves this point in `from` and goes on at `to`. Returns when somebody switches back to `from`.
[[gnu::always_inline]] inline Arrival switch_context(Context& from, const Context& to, void* who,
                                                     std::uintptr_t how) noexcept {
  register void* who_ asm("x0") = who;
  register std::uintptr_t how_ asm("x1") = how;
  register Context* save asm("x2") = &from;
  register const Context* load asm("x3") = &to;
  asm volatile(
      WEFT_BASE_SAVED
      "adr x9, 1f\n\t"
      "mov x10, sp\n\t"
      "stp x10, x29, [%[save]]\n\t"
      "str x9, [%[save], #16]\n\t"
      "ldp x10, x29, [%[load]]\n\t"
      "ldr x9, [%[load], #16]\n\t"
      "mov sp, x10\n\t"
      "br x9\n"
      "1:\n\t"
      "hint #36" WEFT_BASE_RESTORED  // bti j
      : "+r"(who_), "+r"(how_), [save] "+r"(save), [load] "+r"(load)
      :
      : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
        "x18", WEFT_CLOBBERED_BASE "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
        "x30", "v0",
        "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
        "v28", "v29", "v30", "v31", "memory", "cc" WEFT_CLOBBERED_MORE);
  return {who_, how_};
}

// Goes on at `to` and never comes back.
[[noreturn, gnu::always_inline]] inline void jump_context(const Context& to, void* who,
                                                          std::uintptr_t how) noexcept {
  register void* who_ asm("x0") = who;
  register std::uintptr_t how_ asm("x1") = how;
  register const Context* load asm("x3") = &to;
  asm volatile(
      "ldp x10, x29, [%[load]]\n\t"
      "ldr x9, [%[load], #16]\n\t"
      "mov sp, x10\n\t"
      "br x9"
      :
      : "r"(who_), "r"(how_), [load] "r"(load)
      : "x9", "x10", "memory");
  __builtin_unreachable();
}

#undef WEFT_CLOBBERED_MORE
#undef WEFT_CLOBBERED_BASE
#undef WEFT_BASE_SAVED
#undef WEFT_BASE_RESTORED

#else
#error "weft runs on x86-64 and aarch64"
#endif

}  // namespace weft::arch
