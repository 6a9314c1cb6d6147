// Everything a compiler may keep in a register, across every kind of switch.
//
// Built many times, with other optimisation levels and target flags each time. Two fibers fill
// registers with values of their own and switch to each other: by the bare switch and by yield().
// Exit code 0: all values survived; 1: not, and which; 77: this CPU lacks what the build needs.
#include "bare_fiber.hpp"

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>

#include <alloca.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif
#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#endif

// ── callee-saved registers, as the ABI sees them ────────────────────────────────────────────────
//
// weft_hold_registers(in, out, call, argument): loads every callee-saved register from `in`, calls
// `call(argument)`, and stores them to `out`. What a function that switches must leave unchanged.

#if defined(__x86_64__)
constexpr int kHeld = 6;
asm(R"(
  .text
  .globl weft_hold_registers
  .type weft_hold_registers, @function
weft_hold_registers:
  endbr64
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  pushq %rsi
  movq 0(%rdi), %rbx
  movq 8(%rdi), %rbp
  movq 16(%rdi), %r12
  movq 24(%rdi), %r13
  movq 32(%rdi), %r14
  movq 40(%rdi), %r15
  movq %rcx, %rdi
  callq *%rdx
  popq %rsi
  movq %rbx, 0(%rsi)
  movq %rbp, 8(%rsi)
  movq %r12, 16(%rsi)
  movq %r13, 24(%rsi)
  movq %r14, 32(%rsi)
  movq %r15, 40(%rsi)
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  retq
  .size weft_hold_registers, .-weft_hold_registers
)");
#else
constexpr int kHeld = 11 + 8;
asm(R"(
  .text
  .globl weft_hold_registers
  .type weft_hold_registers, %function
weft_hold_registers:
  hint #34
  stp x29, x30, [sp, #-176]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  str x1, [sp, #160]
  ldp x19, x20, [x0]
  ldp x21, x22, [x0, #16]
  ldp x23, x24, [x0, #32]
  ldp x25, x26, [x0, #48]
  ldp x27, x28, [x0, #64]
  ldr x29, [x0, #80]
  ldp d8, d9, [x0, #88]
  ldp d10, d11, [x0, #104]
  ldp d12, d13, [x0, #120]
  ldp d14, d15, [x0, #136]
  mov x0, x3
  blr x2
  ldr x1, [sp, #160]
  stp x19, x20, [x1]
  stp x21, x22, [x1, #16]
  stp x23, x24, [x1, #32]
  stp x25, x26, [x1, #48]
  stp x27, x28, [x1, #64]
  str x29, [x1, #80]
  stp d8, d9, [x1, #88]
  stp d10, d11, [x1, #104]
  stp d12, d13, [x1, #120]
  stp d14, d15, [x1, #136]
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #176
  ret
  .size weft_hold_registers, .-weft_hold_registers
)");
#endif
extern "C" void weft_hold_registers(const std::uint64_t* in, std::uint64_t* out,
                                    void (*call)(void*), void* argument);

namespace {

using weft::testing::BareFiber;

int failures = 0;
volatile bool finished = false;

// leaf() tells no sanitizer of its switch.
constexpr bool kLeaves = !weft::arch::kAsan && !weft::arch::kTsan;

void expect(bool right, const char* what, const char* how) {
  if (right || ++failures > 3) return;
  std::printf("%s did not survive %s\n", what, how);
}

// ── two ways to let the other side run ──────────────────────────────────────────────────────────

BareFiber* here = nullptr;
BareFiber* there = nullptr;

struct BareSwitch {
  static constexpr const char* kName = "a bare switch";
  [[gnu::always_inline]] static void away() {
    BareFiber* const from = here;
    BareFiber* const to = there;
    here = to;
    there = from;
    weft::testing::switch_bare(*from, *to);
  }
};

struct Yield {
  static constexpr const char* kName = "a yield";
  [[gnu::always_inline]] static void away() { weft::this_fiber::yield(); }
};

// ── all registers that this build knows, filled with rubbish ────────────────────────────────────
//
// By a fiber of its own, just before it switches back: beside a value that is to survive, the list
// of clobbered registers would make the compiler save it, whether or not the switch tells it to.

[[gnu::always_inline]] inline void scribble(std::uint64_t rubbish) {
#if defined(__x86_64__)
  asm volatile(
      "movq %0, %%r8\n\tmovq %0, %%r9\n\tmovq %0, %%r10\n\tmovq %0, %%r11\n\t"
      "movq %0, %%r12\n\tmovq %0, %%r13\n\tmovq %0, %%r14\n\tmovq %0, %%r15\n\t"
      "movq %0, %%rdx\n\tmovq %0, %%rdi\n\tmovq %0, %%rsi\n\tmovq %0, %%rax\n\t"
      "movq %0, %%xmm0\n\tmovq %0, %%xmm1\n\tmovq %0, %%xmm2\n\tmovq %0, %%xmm3\n\t"
      "movq %0, %%xmm4\n\tmovq %0, %%xmm5\n\tmovq %0, %%xmm6\n\tmovq %0, %%xmm7\n\t"
      "movq %0, %%xmm8\n\tmovq %0, %%xmm9\n\tmovq %0, %%xmm10\n\tmovq %0, %%xmm11\n\t"
      "movq %0, %%xmm12\n\tmovq %0, %%xmm13\n\tmovq %0, %%xmm14\n\tmovq %0, %%xmm15"
      :
      : "c"(rubbish)
      : "rax", "rdx", "rdi", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
        "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15");
#if defined(__AVX__)
  asm volatile("vzeroall" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
#if defined(__AVX512BW__)
  asm volatile(
      "kxnorq %%k0, %%k0, %%k0\n\tkxnorq %%k1, %%k1, %%k1\n\tkxnorq %%k2, %%k2, %%k2\n\t"
      "kxnorq %%k3, %%k3, %%k3\n\tkxnorq %%k4, %%k4, %%k4\n\tkxnorq %%k5, %%k5, %%k5\n\t"
      "kxnorq %%k6, %%k6, %%k6\n\tkxnorq %%k7, %%k7, %%k7\n\t"
      "vpbroadcastq %0, %%zmm16\n\tvpbroadcastq %0, %%zmm17\n\tvpbroadcastq %0, %%zmm18\n\t"
      "vpbroadcastq %0, %%zmm19\n\tvpbroadcastq %0, %%zmm20\n\tvpbroadcastq %0, %%zmm21\n\t"
      "vpbroadcastq %0, %%zmm22\n\tvpbroadcastq %0, %%zmm23\n\tvpbroadcastq %0, %%zmm24\n\t"
      "vpbroadcastq %0, %%zmm25\n\tvpbroadcastq %0, %%zmm26\n\tvpbroadcastq %0, %%zmm27\n\t"
      "vpbroadcastq %0, %%zmm28\n\tvpbroadcastq %0, %%zmm29\n\tvpbroadcastq %0, %%zmm30\n\t"
      "vpbroadcastq %0, %%zmm31"
      :
      : "r"(rubbish)
      : "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
        "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",
        "xmm31");
#endif
#else
  asm volatile(
      "mov x4, %0\n\tmov x5, %0\n\tmov x6, %0\n\tmov x7, %0\n\tmov x8, %0\n\tmov x9, %0\n\t"
      "mov x10, %0\n\tmov x11, %0\n\tmov x12, %0\n\tmov x13, %0\n\tmov x14, %0\n\tmov x15, %0\n\t"
      "mov x16, %0\n\tmov x17, %0\n\tmov x20, %0\n\tmov x21, %0\n\tmov x22, %0\n\tmov x23, %0\n\t"
      "mov x24, %0\n\tmov x25, %0\n\tmov x26, %0\n\tmov x27, %0\n\tmov x28, %0\n\t"
      "dup v0.2d, %0\n\tdup v1.2d, %0\n\tdup v2.2d, %0\n\tdup v3.2d, %0\n\tdup v4.2d, %0\n\t"
      "dup v5.2d, %0\n\tdup v6.2d, %0\n\tdup v7.2d, %0\n\tdup v8.2d, %0\n\tdup v9.2d, %0\n\t"
      "dup v10.2d, %0\n\tdup v11.2d, %0\n\tdup v12.2d, %0\n\tdup v13.2d, %0\n\tdup v14.2d, %0\n\t"
      "dup v15.2d, %0\n\tdup v16.2d, %0\n\tdup v17.2d, %0\n\tdup v18.2d, %0\n\tdup v19.2d, %0\n\t"
      "dup v20.2d, %0\n\tdup v21.2d, %0\n\tdup v22.2d, %0\n\tdup v23.2d, %0\n\tdup v24.2d, %0\n\t"
      "dup v25.2d, %0\n\tdup v26.2d, %0\n\tdup v27.2d, %0\n\tdup v28.2d, %0\n\tdup v29.2d, %0\n\t"
      "dup v30.2d, %0\n\tdup v31.2d, %0"
      :
      : "r"(rubbish)
      : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
        "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "v0", "v1", "v2", "v3", "v4",
        "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",
        "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
#if defined(__ARM_FEATURE_SVE)
  asm volatile(
      "pfalse p0.b\n\tpfalse p1.b\n\tpfalse p2.b\n\tpfalse p3.b\n\tpfalse p4.b\n\tpfalse p5.b\n\t"
      "pfalse p6.b\n\tpfalse p7.b\n\tpfalse p8.b\n\tpfalse p9.b\n\tpfalse p10.b\n\t"
      "pfalse p11.b\n\tpfalse p12.b\n\tpfalse p13.b\n\tpfalse p14.b\n\tpfalse p15.b"
      :
      :
      : "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13",
        "p14", "p15");
#endif
#endif
}

// A value that the compiler knows nothing about, and so cannot compute again after the switch.
template <class T>
[[gnu::always_inline]] inline T opaque(T value) {
  asm volatile("" : "+m"(value));
  return value;
}

std::uint64_t mixed(std::uint64_t n) {
  n = (n ^ (n >> 31)) * 0x9e3779b97f4a7c15U;
  return n ^ (n >> 29);
}

// ── the checks; each is entered by two fibers, `salt` tells them apart ──────────────────────────

template <class Away>
[[gnu::noinline]] void away_by_call(void*) {
  Away::away();
}

template <class Away>
[[gnu::noinline]] void callee_saved(std::uint64_t salt) {
  std::uint64_t in[kHeld];
  std::uint64_t out[kHeld] = {};
  for (int i = 0; i < kHeld; ++i) in[i] = mixed(salt + static_cast<unsigned>(i) + 1);
  weft_hold_registers(in, out, &away_by_call<Away>, nullptr);
  expect(std::memcmp(in, out, sizeof in) == 0, "a callee-saved register", Away::kName);
}

template <class Away>
[[gnu::noinline]] void integers(std::uint64_t salt) {
  std::uint64_t v0 = opaque(salt + 1), v1 = opaque(salt + 2), v2 = opaque(salt + 3);
  std::uint64_t v3 = opaque(salt + 4), v4 = opaque(salt + 5), v5 = opaque(salt + 6);
  std::uint64_t v6 = opaque(salt + 7), v7 = opaque(salt + 8), v8 = opaque(salt + 9);
  std::uint64_t v9 = opaque(salt + 10), v10 = opaque(salt + 11), v11 = opaque(salt + 12);
  std::uint64_t v12 = opaque(salt + 13), v13 = opaque(salt + 14), v14 = opaque(salt + 15);
  Away::away();
  expect(v0 == salt + 1 && v1 == salt + 2 && v2 == salt + 3 && v3 == salt + 4 && v4 == salt + 5 &&
             v5 == salt + 6 && v6 == salt + 7 && v7 == salt + 8 && v8 == salt + 9 &&
             v9 == salt + 10 && v10 == salt + 11 && v11 == salt + 12 && v12 == salt + 13 &&
             v13 == salt + 14 && v14 == salt + 15,
         "an integer", Away::kName);
}

template <class Away>
[[gnu::noinline]] void floats(std::uint64_t salt) {
  const auto base = static_cast<double>(salt % 1000);
  double d0 = opaque(base + 1), d1 = opaque(base + 2), d2 = opaque(base + 3);
  double d3 = opaque(base + 4), d4 = opaque(base + 5), d5 = opaque(base + 6);
  double d6 = opaque(base + 7), d7 = opaque(base + 8), d8 = opaque(base + 9);
  float f0 = opaque(static_cast<float>(base) + 0.5F);
  long double x0 = opaque(static_cast<long double>(base) + 0.25L);
  long double x1 = opaque(static_cast<long double>(base) + 0.125L);
  Away::away();
  expect(d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 == 9 * base + 45, "a double", Away::kName);
  expect(f0 == static_cast<float>(base) + 0.5F, "a float", Away::kName);
  expect(x0 - x1 == 0.125L && x1 == static_cast<long double>(base) + 0.125L, "a long double",
         Away::kName);
}

// In a leaf function without calls these may lie below the stack pointer, in the red zone.
[[maybe_unused, gnu::noinline]] std::uint64_t leaf(std::uint64_t salt) {
  volatile std::uint64_t kept[12];
  for (unsigned i = 0; i < 12; ++i) kept[i] = salt + i;
  BareFiber* const from = here;
  BareFiber* const to = there;
  here = to;
  there = from;
  static_cast<void>(weft::arch::switch_context(from->context, to->context, from, 0));
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < 12; ++i) sum += kept[i];
  return sum;
}

// Such a frame has both a moving stack pointer and locals at a fixed alignment, and needs a third
// register to reach them. Compilers treat that register as their own.
template <class Away>
[[gnu::noinline]] void aligned_beside_alloca(std::uint64_t salt) {
  alignas(128) volatile unsigned char fixed[128];
  const std::size_t bytes = opaque<std::size_t>(40 + salt % 7);
  auto* const moving = static_cast<volatile unsigned char*>(alloca(bytes));
  for (std::size_t i = 0; i < 128; ++i) fixed[i] = static_cast<unsigned char>(salt + i);
  for (std::size_t i = 0; i < bytes; ++i) moving[i] = static_cast<unsigned char>(salt - i);
  Away::away();
  unsigned wrong = 0;
  for (std::size_t i = 0; i < 128; ++i) wrong += fixed[i] != static_cast<unsigned char>(salt + i);
  for (std::size_t i = 0; i < bytes; ++i)
    wrong += moving[i] != static_cast<unsigned char>(salt - i);
  expect(wrong == 0, "a frame with alignment and alloca", Away::kName);
  expect(reinterpret_cast<std::uintptr_t>(fixed) % 128 == 0, "the alignment", Away::kName);
}

#if defined(__AVX2__)
template <class Away>
[[gnu::noinline]] void vectors(std::uint64_t salt) {
  const auto base = static_cast<int>(salt % 1000);
  __m256i v0 = opaque(_mm256_set1_epi32(base));
  __m256i v1 = opaque(_mm256_set1_epi32(base + 1));
  __m256d v2 = opaque(_mm256_set1_pd(base + 2.0));
  Away::away();
  alignas(32) int sums[8];
  alignas(32) double doubles[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), _mm256_add_epi32(v0, v1));
  _mm256_store_pd(doubles, v2);
  for (const int sum : sums) expect(sum == 2 * base + 1, "a 256-bit vector", Away::kName);
  for (const double d : doubles) expect(d == base + 2.0, "a 256-bit vector", Away::kName);
}
#endif

#if defined(__AVX512BW__)
template <class Away>
[[gnu::noinline]] void masks(std::uint64_t salt) {
  alignas(64) unsigned char bytes[64];
  for (unsigned i = 0; i < 64; ++i) bytes[i] = (mixed(salt) >> i) & 1U;
  const __m512i ones = opaque(_mm512_set1_epi8(1));
  const __mmask64 m0 = _mm512_cmpeq_epi8_mask(_mm512_load_si512(bytes), ones);
  const __mmask64 m1 = _mm512_cmpneq_epi8_mask(_mm512_load_si512(bytes), ones);
  __m512i v0 = opaque(_mm512_set1_epi8(static_cast<char>(salt % 100)));
  Away::away();
  alignas(64) char out[64];
  _mm512_store_si512(out, _mm512_mask_mov_epi8(_mm512_maskz_mov_epi8(m0, v0), m1, ones));
  for (unsigned i = 0; i < 64; ++i)
    expect(out[i] == (bytes[i] ? static_cast<char>(salt % 100) : 1), "a mask", Away::kName);
}
#endif

#if defined(__ARM_FEATURE_SVE)
template <class Away>
[[gnu::noinline]] void predicates(std::uint64_t salt) {
  std::int32_t numbers[64];
  for (std::int32_t i = 0; i < 64; ++i) numbers[i] = i + 1;
  const svbool_t all = svptrue_b32();
  const auto limit = static_cast<std::int32_t>(salt % 2);
  const svbool_t chosen = svcmpgt_n_s32(all, svld1_s32(all, numbers), limit);
  Away::away();
  std::int64_t wanted = 0;
  for (std::uint64_t i = 0; i < svcntw(); ++i)
    if (numbers[i] > limit) wanted += numbers[i];
  expect(svaddv_s32(chosen, svld1_s32(svptrue_b32(), numbers)) == wanted, "a predicate",
         Away::kName);
}
#endif

constexpr int kRounds = 500;

template <class Away>
void all_checks(std::uint64_t salt) {
  for (int round = 0; round < kRounds; ++round, salt += 1000) {
    callee_saved<Away>(salt);
    integers<Away>(salt);
    floats<Away>(salt);
    aligned_beside_alloca<Away>(salt);
#if defined(__AVX2__)
    vectors<Away>(salt);
#endif
#if defined(__AVX512BW__)
    masks<Away>(salt);
#endif
#if defined(__ARM_FEATURE_SVE)
    predicates<Away>(salt);
#endif
  }
}

[[maybe_unused]] void leaves(std::uint64_t salt) {
  for (int round = 0; round < kRounds; ++round, ++salt)
    expect(leaf(salt) == 12 * salt + 66, "the red zone", "a bare switch");
}

// ── the worlds ──────────────────────────────────────────────────────────────────────────────────

BareFiber* thread_fiber = nullptr;
BareFiber* other_fiber = nullptr;

// Leaves for ever when the thread has one step left.
template <bool kScribbles>
void other_side(void* who, std::uintptr_t) {
  weft::testing::begin_bare(*other_fiber, who);
  if constexpr (kScribbles) {
    for (std::uint64_t n = 1; !finished; ++n) {
      scribble(mixed(n));
      BareSwitch::away();
    }
  } else {
    all_checks<BareSwitch>(7'000'003);
    if constexpr (kLeaves) leaves(7'000'003);
  }
  weft::testing::leave_bare(*other_fiber, *thread_fiber);
}

template <bool kScribbles>
void between_bare_contexts() {
  BareFiber thread;
  BareFiber other{&other_side<kScribbles>};
  thread_fiber = here = &thread;
  other_fiber = there = &other;
  finished = false;
  all_checks<BareSwitch>(1'000'003);
  if constexpr (kLeaves) leaves(1'000'003);
  finished = true;
  BareSwitch::away();
}

void between_fibers() {
  weft::FiberIo{{.workers = 1}}.run([] {
    finished = false;
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] {
        for (std::uint64_t salt = 1; !finished; ++salt) {
          scribble(mixed(salt));
          Yield::away();
        }
      });
      n.spawn([] { all_checks<Yield>(2'000'003); });
      n.spawn([] {
        all_checks<Yield>(3'000'017);
        finished = true;
      });
    });
  });
}

bool supported() {
#if defined(__AVX512BW__)
  if (!__builtin_cpu_supports("avx512bw")) return false;
#endif
#if defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2")) return false;
#endif
  return true;
}

}  // namespace

int main() {
  if (!supported()) {
    std::puts("skipped: this CPU lacks the instructions that this build uses");
    return 77;
  }
  between_bare_contexts<true>();
  between_bare_contexts<false>();
  between_fibers();
  if (failures == 0) std::puts("every value survived every switch");
  return failures == 0 ? 0 : 1;
}
