// Programs for sanitizer_test.py, which builds this file with one checker after another and knows
// what each should say. The argument chooses; an honest program prints "ended" and returns 0.
#include "bare_fiber.hpp"

#include <weft/weft.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using weft::testing::BareFiber;

[[gnu::noinline]] void throw_from(int depth) {
  volatile char room[100];
  for (char volatile& byte : room) byte = static_cast<char>(depth);
  if (depth == 0) throw std::runtime_error{"deep"};
  throw_from(depth - 1);
  room[0] = 1;
}

void throw_and_catch() {
  try {
    throw_from(20);
  } catch (const std::runtime_error&) {
  }
}

// ── bare contexts, with the checkers told of each switch and without ────────────────────────────

struct Bare {
  BareFiber* fiber = nullptr;
  BareFiber* thread = nullptr;
};

template <bool kTold>
[[gnu::always_inline]] inline void leave(BareFiber& from, BareFiber& to, std::uintptr_t how = 0) {
  if constexpr (kTold)
    switch_bare(from, to, how);
  else
    static_cast<void>(weft::arch::switch_context(from.context, to.context, &from, how));
}

template <bool kTold>
void throw_again_and_again(void* who, std::uintptr_t how) {
  const Bare& bare = *reinterpret_cast<Bare*>(how);
  if constexpr (kTold) weft::testing::begin_bare(*bare.fiber, who);
  for (;;) {
    throw_and_catch();
    leave<kTold>(*bare.fiber, *bare.thread);
  }
}

// Exceptions unwind fibers' frames in turn.
template <bool kTold>
void unwind() {
  BareFiber thread;
  BareFiber fiber{&throw_again_and_again<kTold>};
  Bare bare{&fiber, &thread};
  for (int i = 0; i < 10; ++i) {
    leave<kTold>(thread, fiber, reinterpret_cast<std::uintptr_t>(&bare));
    throw_and_catch();
  }
}

template <bool kTold>
[[gnu::noinline]] void descend(const Bare& bare, int depth) {
  if (depth == 0)
    leave<kTold>(*bare.fiber, *bare.thread);
  else
    descend<kTold>(bare, depth - 1);
  asm volatile("" : : : "memory");
}

template <bool kTold>
void stop_deep_inside(void* who, std::uintptr_t how) {
  const Bare& bare = *reinterpret_cast<Bare*>(how);
  if constexpr (kTold) weft::testing::begin_bare(*bare.fiber, who);
  descend<kTold>(bare, 500);
  std::abort();
}

int unguarded = 0;

// A race of the thread's own, while a fiber stands deep inside descend(): that is none of its
// callers, but whoever records calls and returns per thread takes it for one.
template <bool kTold>
void race_beside() {
  BareFiber thread;
  BareFiber fiber{&stop_deep_inside<kTold>};
  Bare bare{&fiber, &thread};
  leave<kTold>(thread, fiber, reinterpret_cast<std::uintptr_t>(&bare));
  // One after the other, since TSan may overlook two at the same instant. relaxed: orders nothing.
  std::atomic<bool> counted{false};
  std::thread other{[&] {
    ++unguarded;
    counted.store(true, std::memory_order_relaxed);
  }};
  while (!counted.load(std::memory_order_relaxed)) std::this_thread::yield();
  ++unguarded;
  other.join();
}

// Fibers that are left for good leave nothing behind.
void abandon() {
  BareFiber thread;
  for (int i = 0; i < 500; ++i) {
    BareFiber fiber{&stop_deep_inside<true>};
    Bare bare{&fiber, &thread};
    leave<true>(thread, fiber, reinterpret_cast<std::uintptr_t>(&bare));
  }
}

// ── weft's fibers ───────────────────────────────────────────────────────────────────────────────

// Parks here and there: in a handler, in a destructor while unwinding, in a nursery in place.
struct Yields {
  ~Yields() { weft::this_fiber::yield(); }
};

void everything(int number) {
  weft::this_fiber::yield();
  try {
    const Yields yields;
    throw_from(20);
  } catch (const std::runtime_error&) {
    weft::this_fiber::yield();
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([] { throw_and_catch(); });
      if (number > 0) n.spawn([=] { everything(number - 1); });
    });
  }
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 3; ++i) n.spawn([] { weft::this_fiber::yield(); });
  });
}

template <class Engine>
void work() {
  Engine engine;
  engine.run([] {
    weft::Event started;
    weft::nursery([&](weft::Nursery& n) {
      n.spawn([&] { started.wait(); });
      for (int i = 0; i < 20; ++i) n.spawn([i] { everything(i % 4); });
      started.set();
    });
  });
}

// Two engines on two threads hand a number back and forth through events.
void work_on_two_threads() {
  weft::Event ping;
  weft::Event pong;
  int number = 0;
  std::thread other{[&] {
    weft::FiberIo{{.workers = 1}}.run([&] {
      for (int i = 0; i < 100; ++i) {
        ping.wait();
        ping.reset();
        ++number;
        pong.set();
      }
    });
  }};
  weft::FiberIo{{.workers = 1}}.run([&] {
    for (int i = 0; i < 100; ++i) {
      ++number;
      ping.set();
      pong.wait();
      pong.reset();
    }
  });
  other.join();
  if (number != 200) std::abort();
}

void all_of_it() {
  work<weft::FiberIo>();
  work<weft::SimIo>();
  work_on_two_threads();
}

// ── planted faults, all in frames of fibers ─────────────────────────────────────────────────────

[[gnu::noinline]] void write_at(volatile char* to, int at) { to[at] = 1; }

void overflow_a_frame() {
  weft::FiberIo{{.workers = 1}}.run([] {
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] {
        weft::this_fiber::yield();
        volatile char room[16];
        write_at(room, 16);
      });
    });
  });
}

[[gnu::noinline]] volatile char* leak_a_local() {
  volatile char room[64];
  for (char volatile& byte : room) byte = 1;
  volatile char* volatile leaked = room;
  weft::this_fiber::yield();
  return leaked;
}

void use_after_return() {
  weft::FiberIo{{.workers = 1}}.run([] {
    weft::nursery([](weft::Nursery& n) {
      n.spawn([] {
        volatile char* const leaked = leak_a_local();
        weft::this_fiber::yield();
        write_at(leaked, 3);
      });
      n.spawn([] { weft::this_fiber::yield(); });
    });
  });
}

std::atomic<int> present{0};

[[gnu::noinline]] void count_without_a_lock() {
  // Once all four are here no lock is taken any more that would order them. relaxed: nor do we.
  present.fetch_add(1, std::memory_order_relaxed);
  while (present.load(std::memory_order_relaxed) < 4) weft::this_fiber::yield();
  for (int i = 0; i < 1000; ++i) {
    ++unguarded;
    weft::this_fiber::yield();
  }
}

void race() {
  const auto run_two = [] {
    weft::FiberIo{{.workers = 1}}.run([] {
      weft::nursery([](weft::Nursery& n) {
        n.spawn(&count_without_a_lock);
        n.spawn(&count_without_a_lock);
      });
    });
  };
  std::thread other{run_two};
  run_two();
  other.join();
}

struct Program {
  std::string_view name;
  void (*run)();
};

constexpr Program kPrograms[] = {
    {"unwind-told", &unwind<true>},
    {"unwind-untold", &unwind<false>},
    {"race-told", &race_beside<true>},
    {"race-untold", &race_beside<false>},
    {"abandon", &abandon},
    {"everything", &all_of_it},
    {"overflow", &overflow_a_frame},
    {"use-after-return", &use_after_return},
    {"race", &race},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Program& program : kPrograms) {
    if (argc != 2 || program.name != argv[1]) continue;
    program.run();
    std::puts("ended");
    return 0;
  }
  std::fputs("usage: sanitizer_victim PROGRAM\n", stderr);
  return 2;
}
