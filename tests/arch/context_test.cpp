// The switch by itself: words, counts, alignment, where a backtrace ends. What survives in
// registers is the business of registers_victim.cpp, which is built once per set of compiler flags.
#include "bare_fiber.hpp"

#include <weft/weft.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/time.h>
#include <unwind.h>

#include <array>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using weft::arch::Context;
using weft::testing::BareFiber;
using weft::testing::begin_bare;
using weft::testing::leave_bare;
using weft::testing::switch_bare;

static_assert(offsetof(Context, stack_pointer) == 0, "the assembly knows it");
static_assert(offsetof(Context, frame_pointer) == 8);
static_assert(offsetof(Context, resume_at) == 16);

// An entry function gets two words and no more, so what a test's fibers work on is global.
BareFiber* thread = nullptr;
BareFiber* fiber = nullptr;

// ── words ───────────────────────────────────────────────────────────────────────────────────────

constexpr std::uintptr_t kAllBits = 0xfedc'ba98'7654'3210;
constexpr std::uintptr_t kLastWord = 0x8000'0000'0000'0001;
void* first_who = nullptr;
std::uintptr_t first_how = 0;
std::vector<std::uintptr_t> heard;

void listen(void* who, std::uintptr_t how) {
  begin_bare(*fiber, who);
  first_who = who;
  first_how = how;
  for (std::uintptr_t word = 1; word != 0;)
    heard.push_back(word = switch_bare(*fiber, *thread, ~how));
  leave_bare(*fiber, *thread, kLastWord);
}

TEST(Context, WordsArriveAtTheEntryAndAtEveryReturn) {
  BareFiber own;
  BareFiber other{&listen};
  thread = &own;
  fiber = &other;
  heard.clear();
  EXPECT_EQ(switch_bare(own, other, kAllBits), ~kAllBits);
  EXPECT_EQ(first_who, &own);
  EXPECT_EQ(first_how, kAllBits);
  EXPECT_EQ(switch_bare(own, other, 5), ~kAllBits);
  EXPECT_EQ(switch_bare(own, other, std::uintptr_t{1} << 63U), ~kAllBits);
  EXPECT_EQ(switch_bare(own, other, 0), kLastWord) << "who leaves for ever brings a word too";
  EXPECT_THAT(heard, testing::ElementsAre(5U, std::uintptr_t{1} << 63U, 0U));
}

TEST(Context, LeavingForEverSavesNothing) {
  BareFiber own;
  BareFiber other{[](void* who, std::uintptr_t) {
    BareFiber& back = begin_bare(*fiber, who);
    leave_bare(*fiber, back);
  }};
  fiber = &other;
  const Context before = other.context;
  switch_bare(own, other);
  EXPECT_EQ(other.context.stack_pointer, before.stack_pointer);
  EXPECT_EQ(other.context.resume_at, before.resume_at);
}

// ── counts ──────────────────────────────────────────────────────────────────────────────────────

constexpr std::uint64_t kTurns = 5'000'000;  // of each side
std::uint64_t turns = 0;
std::uint64_t out_of_turn = 0;

void take_turns(void* who, std::uintptr_t) {
  begin_bare(*fiber, who);
  for (;;) {
    out_of_turn += turns++ % 2 != 1;
    switch_bare(*fiber, *thread);
  }
}

TEST(Context, TenMillionSwitchesTakeTurns) {
  BareFiber own;
  BareFiber other{&take_turns};
  thread = &own;
  fiber = &other;
  turns = out_of_turn = 0;
  std::uint64_t returned = 0;
  for (std::uint64_t i = 0; i < kTurns; ++i) {
    out_of_turn += turns++ % 2 != 0;
    returned += i;
    switch_bare(own, other);
  }
  EXPECT_EQ(turns, 2 * kTurns);
  EXPECT_EQ(out_of_turn, 0U);
  EXPECT_EQ(returned, kTurns * (kTurns - 1) / 2);
}

constexpr std::size_t kRing = 1000;
std::vector<std::unique_ptr<BareFiber>> ring;
std::vector<unsigned> visits;

void pass_on(void* who, std::uintptr_t at) {
  begin_bare(*ring[at], who);
  for (;;) {
    ++visits[at];
    BareFiber& next = at + 1 == kRing ? *thread : *ring[at + 1];
    switch_bare(*ring[at], next, at + 1);
  }
}

TEST(Context, ThousandContextsPassAWordAround) {
  BareFiber own;
  thread = &own;
  visits.assign(kRing, 0);
  for (std::size_t i = 0; i < kRing; ++i) ring.push_back(std::make_unique<BareFiber>(&pass_on));
  constexpr unsigned kRounds = 20;
  for (unsigned round = 0; round < kRounds; ++round)
    EXPECT_EQ(switch_bare(own, *ring[0], 0), kRing);
  EXPECT_THAT(visits, testing::Each(kRounds));
  ring.clear();
}

TEST(Context, FibersYieldInTurn) {
  constexpr unsigned kYields = 100'000;
  unsigned counts[2] = {};
  unsigned ahead = 0;
  weft::FiberIo{{.workers = 1}}.run([&] {
    weft::nursery([&](weft::Nursery& n) {
      for (unsigned& mine : counts) {
        n.spawn([&] {
          for (unsigned i = 0; i < kYields; ++i) {
            ++mine;
            weft::this_fiber::yield();
            const unsigned theirs = counts[&mine == &counts[0]];
            if (theirs + 1 < mine) ++ahead;
          }
        });
      }
    });
  });
  EXPECT_EQ(counts[0], kYields);
  EXPECT_EQ(counts[1], kYields);
  EXPECT_EQ(ahead, 0U) << "a yield came back before the other fiber had its turn";
}

// ── the first frame ─────────────────────────────────────────────────────────────────────────────

std::uintptr_t misaligned = 1;
std::string formatted;

// An aligned store into the frame, as compilers make it for every vector they spill: they rely on
// the caller for the alignment. A misaligned one traps.
[[gnu::noinline]] std::uintptr_t store_aligned() {
  alignas(16) std::array<unsigned char, 16> room;
#if defined(__x86_64__)
  asm volatile("movaps %%xmm0, %0" : "=m"(room));
#else
  asm volatile("str q0, %0" : "=Q"(room));
#endif
  return reinterpret_cast<std::uintptr_t>(room.data()) % 16;
}

void look_at_frame(void* who, std::uintptr_t) {
  BareFiber& back = begin_bare(*fiber, who);
  misaligned = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16;
  misaligned |= store_aligned();
  std::array<char, 32> text;  // printf saves vector registers by aligned stores when given doubles
  std::snprintf(text.data(), text.size(), "%.2f %.1Lf", 2.25, 0.5L);
  formatted = text.data();
  leave_bare(*fiber, back);
}

TEST(Context, FirstFrameIsAligned) {
  BareFiber own;
  for (std::uintptr_t lower = 0; lower < 128; lower += 16) {
    BareFiber other{&look_at_frame};
    fiber = &other;
    auto* const top = static_cast<std::byte*>(other.context.stack_pointer) + 16;
    weft::arch::make_context(other.context, top - lower, &look_at_frame);
    formatted.clear();
    misaligned = 1;
    switch_bare(own, other);
    EXPECT_EQ(misaligned, 0U) << lower;
    EXPECT_EQ(formatted, "2.25 0.5");
  }
}

// ── unwinding ───────────────────────────────────────────────────────────────────────────────────

struct Trace {
  std::vector<std::uintptr_t> frames;
  _Unwind_Reason_Code end = _URC_NO_REASON;
};
Trace trace;

[[gnu::noinline]] void walk() {
  trace.frames.clear();
  trace.end = _Unwind_Backtrace(
      [](_Unwind_Context* context, void*) {
        // libgcc shows the caller that there is none of as a last frame at 0.
        if (_Unwind_GetIP(context) != 0) trace.frames.push_back(_Unwind_GetIP(context));
        return trace.frames.size() < 100 ? _URC_NO_REASON : _URC_NORMAL_STOP;
      },
      nullptr);
}

[[gnu::noinline]] void walk_from(int depth) {
  if (depth == 0)
    walk();
  else
    walk_from(depth - 1);
  asm volatile("");  // no tail call
}

void trace_twice(void* who, std::uintptr_t) {
  begin_bare(*fiber, who);
  walk_from(10);
  switch_bare(*fiber, *thread);
  walk_from(20);
  leave_bare(*fiber, *thread);
}

TEST(Context, UnwinderReachesTheEntryAndStops) {
  BareFiber own;
  BareFiber other{&trace_twice};
  thread = &own;
  fiber = &other;
  const auto entry = reinterpret_cast<std::uintptr_t>(other.context.resume_at);
  for (const std::size_t depth : {10U, 20U}) {
    switch_bare(own, other);
    EXPECT_EQ(trace.end, _URC_END_OF_STACK);
    ASSERT_GE(trace.frames.size(), depth + 3);  // walk, walk_from 0 to depth, trace_twice
    EXPECT_LE(trace.frames.size(), depth + 6);
    EXPECT_GE(trace.frames.back(), entry);
    EXPECT_LT(trace.frames.back(), entry + 16);
  }
}

std::size_t chain_length = 0;

// For profilers that follow frame pointers; this file is built with them.
[[gnu::noinline]] void follow_frame_pointers(int depth) {
  if (depth > 0) {
    follow_frame_pointers(depth - 1);
    asm volatile("");
    return;
  }
  chain_length = 0;
  for (void** frame = static_cast<void**>(__builtin_frame_address(0)); frame && chain_length < 100;
       frame = static_cast<void**>(*frame))
    ++chain_length;
}

TEST(Context, FramePointersEndAtTheEntry) {
  BareFiber own;
  BareFiber other{[](void* who, std::uintptr_t) {
    BareFiber& back = begin_bare(*fiber, who);
    follow_frame_pointers(10);
    leave_bare(*fiber, back);
  }};
  fiber = &other;
  switch_bare(own, other);
  EXPECT_GE(chain_length, 12U);
  EXPECT_LE(chain_length, 14U);
}

int caught_inside = 0;

[[gnu::noinline]] void throw_from(int depth) {
  if (depth == 0) throw std::runtime_error{"deep"};
  throw_from(depth - 1);
  asm volatile("");
}

TEST(Context, ExceptionIsCaughtInside) {
  BareFiber own;
  BareFiber other{[](void* who, std::uintptr_t) {
    BareFiber& back = begin_bare(*fiber, who);
    for (int depth = 0; depth < 20; ++depth) {
      try {
        throw_from(depth);
      } catch (const std::runtime_error& error) {
        caught_inside += error.what() == std::string{"deep"};
      }
    }
    leave_bare(*fiber, back);
  }};
  fiber = &other;
  caught_inside = 0;
  switch_bare(own, other);
  EXPECT_EQ(caught_inside, 20);
}

void die_of_an_exception() {
  std::set_terminate([] {
    std::fputs("terminate was called\n", stderr);
    std::_Exit(3);
  });
  BareFiber own;
  BareFiber other{[](void* who, std::uintptr_t) {
    begin_bare(*fiber, who);
    throw_from(10);
    std::abort();
  }};
  fiber = &other;
  switch_bare(own, other);
}

TEST(ContextDeathTest, ExceptionThatNobodyCatchesTerminates) {
  EXPECT_EXIT(die_of_an_exception(), testing::ExitedWithCode(3), "terminate was called");
}

// ── the rest of the thread ──────────────────────────────────────────────────────────────────────

volatile sig_atomic_t signals = 0;

// Uses some stack and some registers of whoever is running.
void on_signal(int) {
  volatile double room[256];
  for (int i = 0; i < 256; ++i) room[i] = i * 0.5;
  if (room[255] == 127.5) signals = signals + 1;
}

TEST(Context, SignalsOnAFibersStackDoNoHarm) {
  BareFiber own;
  BareFiber other{&take_turns};
  thread = &own;
  fiber = &other;
  turns = out_of_turn = 0;
  signals = 0;
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 200}, {0, 200}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  std::uint64_t rounds = 0;
  while (signals < 200 && std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 1000; ++i, ++rounds) {
      out_of_turn += turns++ % 2 != 0;
      switch_bare(own, other);
    }
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_GE(signals, 200);
  EXPECT_EQ(turns, 2 * rounds);
  EXPECT_EQ(out_of_turn, 0U);
}

// Where there is one, engines refuse to start: the switch would leave it behind.
TEST(Context, ShadowStackIsOff) { EXPECT_FALSE(weft::arch::has_shadow_stack()); }

// Documented, not wished for: rounding mode and the like belong to the thread, not to the fiber.
TEST(Context, FloatingPointEnvironmentIsNotSaved) {
  int seen_by_other = -1;
  weft::FiberIo{{.workers = 1}}.run([&] {
    weft::nursery([&](weft::Nursery& n) {
      weft::Event changed;
      n.spawn([&] {
        changed.wait();
        seen_by_other = std::fegetround();
        std::fesetround(FE_TONEAREST);
      });
      std::fesetround(FE_UPWARD);
      changed.set();
      weft::this_fiber::yield();
    });
  });
  EXPECT_EQ(seen_by_other, FE_UPWARD);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

}  // namespace
