#include <weft/core/closure.hpp>

#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/frames.hpp>

namespace weft {
namespace {

using testing::frames_in_use;
using testing::on_both_engines;

// ── sizes ───────────────────────────────────────────────────────────────────────────────────────

struct Results {
  int runs = 0;
  int wrong = 0;
  FrameSize frame = FrameSize::small;
};

// A closure of exactly `kBytes` bytes, filled with a pattern that it checks when it runs.
template <std::size_t kBytes>
struct Sized {
  static_assert(kBytes > sizeof(void*));
  explicit Sized(Results& results_in) : results(&results_in) {
    for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned char>(i * 7);
  }
  void operator()() {
    ++results->runs;
    results->frame = static_cast<FrameSize>(Fiber::current().size_class);
    for (std::size_t i = 0; i < pattern.size(); ++i)
      results->wrong += pattern[i] != static_cast<unsigned char>(i * 7);
  }
  Results* results;
  std::array<unsigned char, kBytes - sizeof(void*)> pattern;
};

template <std::size_t kBytes>
void expect_size(FrameSize expected) {
  SCOPED_TRACE(kBytes);
  Results results;
  nursery([&](Nursery& n) {
    for (int i = 0; i < 10; ++i) n.spawn(Sized<kBytes>{results});
  });
  EXPECT_EQ(results.runs, 10);
  EXPECT_EQ(results.wrong, 0);
  EXPECT_EQ(results.frame, expected);
}

TEST(Closure, EverySizeFindsItsPlace) {
  static_assert(sizeof(Sized<32>) == 32 && sizeof(Sized<4096>) == 4096);
  static_assert(kFits<Sized<152>> && !kFits<Sized<160>>);
  on_both_engines([] {
    expect_size<16>(FrameSize::small);
    expect_size<32>(FrameSize::small);
    expect_size<40>(FrameSize::large);
    expect_size<152>(FrameSize::large);
    expect_size<160>(FrameSize::small);  // boxed: the frame holds a pointer
    expect_size<4096>(FrameSize::small);
  });
}

// Sizes that no alignment hides: bytes only.
template <std::size_t kBytes>
struct Bytes {
  void operator()() const {
    int wrong = 0;
    for (std::size_t i = 0; i < kBytes; ++i) wrong += bytes[i] != static_cast<unsigned char>(i);
    EXPECT_EQ(wrong, 0) << kBytes;
  }
  std::array<unsigned char, kBytes> bytes{};
};

template <std::size_t kBytes>
void spawn_bytes(Nursery& n) {
  static_assert(sizeof(Bytes<kBytes>) == kBytes);
  Bytes<kBytes> closure;
  for (std::size_t i = 0; i < kBytes; ++i) closure.bytes[i] = static_cast<unsigned char>(i);
  n.spawn(closure);
}

TEST(Closure, SizesBesideEachLimit) {
  static_assert(kFits<Bytes<152>> && !kFits<Bytes<153>>);
  on_both_engines([] {
    nursery([](Nursery& n) {
      spawn_bytes<1>(n);
      spawn_bytes<31>(n);
      spawn_bytes<32>(n);
      spawn_bytes<33>(n);
      spawn_bytes<151>(n);
      spawn_bytes<152>(n);
      spawn_bytes<153>(n);
      spawn_bytes<4096>(n);
    });
  });
}

TEST(Closure, AnEmptyOneAndAPlainFunction) {
  on_both_engines([] {
    static int runs;
    runs = 0;
    nursery([](Nursery& n) {
      n.spawn([] { ++runs; });
      n.spawn(+[] { ++runs; });
    });
    EXPECT_EQ(runs, 2);
  });
}

template <std::size_t kAlign>
struct alignas(kAlign) Aligned {
  explicit Aligned(int& right_in) : right(&right_in) {}
  void operator()() const {
    *right += reinterpret_cast<std::uintptr_t>(this) % kAlign == 0 ? 1 : 0;
  }
  int* right;
};

TEST(Closure, OverAlignedCapturesAreAligned) {
  on_both_engines([] {
    int right = 0;
    nursery([&](Nursery& n) {
      n.spawn(Aligned<16>{right});
      n.spawn(Aligned<32>{right});
      n.spawn(Aligned<64>{right});
      n.spawn(Aligned<128>{right});
      n.spawn(Aligned<4096>{right});
    });
    EXPECT_EQ(right, 5);
  });
}

// ── life and death ──────────────────────────────────────────────────────────────────────────────

TEST(Closure, MoveOnlyCaptures) {
  on_both_engines([] {
    int sum = 0;
    nursery([&](Nursery& n) {
      n.spawn([&sum, p = std::make_unique<int>(5)] { sum += *p; });
      n.spawn([&sum, p = std::make_unique<int>(7), pad = std::array<char, 100>{}] {
        sum += *p + pad[0];
      });
      n.spawn([&sum, p = std::make_unique<int>(11), pad = std::array<char, 1'000>{}] {
        sum += *p + pad[0];
      });
    });
    EXPECT_EQ(sum, 23);
  });
}

struct OnlyAsRvalue {
  int& calls;
  void operator()() && { ++calls; }
};

TEST(Closure, IsCalledOnceAsAnRvalue) {
  on_both_engines([] {
    int calls = 0;
    nursery([&](Nursery& n) { n.spawn(OnlyAsRvalue{calls}); });
    EXPECT_EQ(calls, 1);
  });
}

// Counts how many of it are alive.
struct Counted {
  explicit Counted(int& alive_in) : alive(&alive_in) { ++*alive; }
  Counted(const Counted& other) : alive(other.alive) { ++*alive; }
  Counted(Counted&& other) noexcept : alive(other.alive) { ++*alive; }
  ~Counted() { --*alive; }
  Counted& operator=(const Counted&) = delete;
  int* alive;
};

template <std::size_t kPad>
struct Padded {
  explicit Padded(int& alive) : counted(alive) {}
  void operator()() const { this_fiber::yield(); }
  Counted counted;
  std::array<char, kPad> pad{};
};

TEST(Closure, IsDestroyedBeforeAnybodyLearnsOfTheEnd) {
  on_both_engines([] {
    int alive = 0;
    for (int round = 0; round < 50; ++round) {
      nursery([&](Nursery& n) {
        n.spawn([c = Counted{alive}] {});
        n.spawn([c = Counted{alive}] { this_fiber::yield(); });
        n.spawn(Padded<100>{alive});
        n.spawn(Padded<500>{alive});
      });
      EXPECT_EQ(alive, 0) << "the join has returned: no capture lives";
    }
  });
}

TEST(Closure, IsDestroyedWhenItThrows) {
  on_both_engines([] {
    int alive = 0;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.spawn([c = Counted{alive}] { throw std::runtime_error{"thrown"}; });
                 }),
                 std::runtime_error);
    EXPECT_EQ(alive, 0);
  });
}

template <std::size_t kPad>
struct ThrowsWhenMoved {
  explicit ThrowsWhenMoved(int& alive) : counted(alive) {}
  ThrowsWhenMoved(ThrowsWhenMoved&& other) : counted(other.counted), moves(other.moves + 1) {
    if (moves == 1) throw std::runtime_error{"the move into the frame"};
  }
  void operator()() const { ADD_FAILURE() << "it was never spawned"; }
  Counted counted;
  int moves = 0;
  std::array<char, kPad> pad{};
};

template <std::size_t kPad>
void expect_nothing_spawned() {
  SCOPED_TRACE(kPad);
  int alive = 0;
  int others = 0;
  const std::uint64_t frames = frames_in_use();
  nursery([&](Nursery& n) {
    n.spawn([&] { ++others; });
    EXPECT_THROW(n.spawn(ThrowsWhenMoved<kPad>{alive}), std::runtime_error);
    EXPECT_THROW(n.spawn("named", ThrowsWhenMoved<kPad>{alive}), std::runtime_error);
    EXPECT_THROW(n.spawn(std::string{"owned name"}, ThrowsWhenMoved<kPad>{alive}),
                 std::runtime_error);
    n.spawn([&] { ++others; });
  });
  EXPECT_EQ(others, 2);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(frames_in_use(), frames) << "the frame was given back";
}

TEST(Closure, IfItsMoveThrowsNothingWasSpawned) {
  on_both_engines([] {
    expect_nothing_spawned<1>();
    expect_nothing_spawned<100>();
    expect_nothing_spawned<1'000>();
  });
}

TEST(Closure, RunTakesAReferenceAndCopiesNothing) {
  struct Pinned {
    Pinned() = default;
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    int operator()() { return ++calls; }
    int calls = 0;
  } pinned;
  FiberIo io;
  EXPECT_EQ(io.run(pinned), 1);
  EXPECT_EQ(io.run(pinned), 2);
  SimIo sim;
  EXPECT_EQ(sim.run(pinned), 3);
}

}  // namespace
}  // namespace weft
