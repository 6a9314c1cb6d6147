// Random programs for the explorer's self-test: a few threads, a few operations each, and the set
// of everything that can come out.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "explorer/explore.hpp"
#include "model_sync.hpp"

namespace weft::model::selftest {

inline constexpr unsigned kLocations = 2;

enum class Op : std::uint8_t {
  load,
  store,
  exchange,
  fence,  // the axioms know these
  compare_exchange,
  locked_add,
  try_lock,
  lock_both,  // the searches are compared with these too
  sleep,
  wake,
  await,
  choose,
};

struct Instruction {
  Op op;
  unsigned location;
  std::uint32_t value;  // written; the expected value of compare_exchange, sleep and await
  std::memory_order order;
};

using Code = std::vector<Instruction>;  // of one thread
using RandomProgram = std::vector<Code>;

// The values read, thread by thread, then the final value of each location.
using Outcomes = std::set<std::vector<std::uint32_t>>;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) noexcept : state_(seed * 0x9E3779B97F4A7C15ULL | 1) {
    for (int i = 0; i < 8; ++i) below(2);
  }
  std::uint32_t below(std::uint32_t limit) noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>((state_ >> 32) % limit);
  }
  template <class T, std::size_t kSize>
  T pick(const T (&from)[kSize]) noexcept {
    return from[below(kSize)];
  }

 private:
  std::uint64_t state_;
};

inline std::memory_order pick_order(Dice& dice, Op op) {
  using enum std::memory_order;
  switch (op) {
    case Op::load:
    case Op::await: return dice.pick({relaxed, acquire, seq_cst, seq_cst});
    case Op::store: return dice.pick({relaxed, release, seq_cst, seq_cst});
    case Op::fence: return dice.pick({acquire, release, acq_rel, seq_cst, seq_cst});
    default: return dice.pick({relaxed, acquire, release, acq_rel, seq_cst});
  }
}

struct Shape {
  unsigned threads;
  unsigned most_instructions;  // per thread
};

// Every stored value is different from all others, so that an outcome names the stores it read.
template <std::size_t kOps>
RandomProgram random_program(std::uint64_t seed, Shape shape, const Op (&ops)[kOps]) {
  Dice dice(seed);
  RandomProgram program(shape.threads);
  std::uint32_t value = 0;
  for (Code& code : program) {
    const unsigned length = 1 + dice.below(shape.most_instructions);
    for (unsigned i = 0; i < length; ++i) {
      const Op op = dice.pick(ops);
      const bool writes = op == Op::store || op == Op::exchange;
      const std::uint32_t expected = value == 0 ? 0 : dice.below(value + 1);
      code.push_back(
          {op, dice.below(kLocations), writes ? ++value : expected, pick_order(dice, op)});
    }
  }
  return program;
}

// The shape of the classic litmus tests: two accesses per thread, often with a fence between, and
// sometimes a thread with a single one. Programs without that shape seldom tell models apart.
inline RandomProgram litmus_program(std::uint64_t seed) {
  Dice dice(seed);
  std::uint32_t value = 0;
  const auto access = [&] {
    const Op op = dice.pick({Op::load, Op::load, Op::store, Op::store, Op::exchange});
    const auto order = dice.below(2) == 0 ? std::memory_order_relaxed : pick_order(dice, op);
    return Instruction{op, dice.below(kLocations), op == Op::load ? 0 : ++value, order};
  };
  RandomProgram program(2 + dice.below(2));
  for (Code& code : program) {
    code.push_back(access());
    if (dice.below(2) == 0) code.push_back({Op::fence, 0, 0, pick_order(dice, Op::fence)});
    code.push_back(access());
  }
  if (dice.below(3) == 0) program.push_back({access()});
  return program;
}

class ProgramState {
 public:
  void run(unsigned thread, const Code& code) {
    for (const Instruction& instruction : code) run(reads_[thread], instruction);
  }

  [[nodiscard]] std::vector<std::uint32_t> outcome() const {
    std::vector<std::uint32_t> all;
    for (const Reads& reads : reads_)
      all.insert(all.end(), reads.values, reads.values + reads.size);
    for (const auto& location : locations_) all.push_back(location.load());
    return all;
  }

 private:
  struct Reads {
    std::uint32_t values[8] = {};
    unsigned size = 0;
    void add(std::uint32_t value) { values[size++] = value; }
  };

  void run(Reads& reads, const Instruction& in) {
    auto& location = locations_[in.location];
    auto& lock = locks_[in.location];
    switch (in.op) {
      case Op::load: reads.add(location.load(in.order)); break;
      case Op::store: location.store(in.value, in.order); break;
      case Op::exchange: reads.add(location.exchange(in.value, in.order)); break;
      case Op::fence: ModelSync::fence(in.order); break;
      case Op::compare_exchange: {
        std::uint32_t seen = in.value;
        const bool swapped = location.compare_exchange_weak(seen, in.value + 100, in.order);
        reads.add(swapped ? 1000 : seen);
        break;
      }
      case Op::locked_add:
        lock.lock();
        location.store(location.load(std::memory_order_relaxed) + 100, std::memory_order_relaxed);
        lock.unlock();
        break;
      case Op::try_lock: {
        const bool locked = lock.try_lock();
        reads.add(locked ? 1 : 0);
        if (locked) lock.unlock();
        break;
      }
      case Op::lock_both:
        locks_[0].lock();
        locks_[1].lock();
        locks_[1].unlock();
        locks_[0].unlock();
        break;
      case Op::sleep: ModelSync::sleep(location, in.value); break;
      case Op::wake: ModelSync::wake(location, 1 + in.value % 2); break;
      case Op::await:
        while (location.load(in.order) == in.value) ModelSync::spin();
        break;
      case Op::choose: reads.add(choose(2)); break;
    }
  }

  ModelSync::Atomic<std::uint32_t> locations_[kLocations];
  ModelSync::Lock locks_[kLocations];
  Reads reads_[4];
};

// Explores the program and collects what comes out.
inline Result outcomes_of(const RandomProgram& program, Options options, Outcomes& outcomes) {
  options.minimise = false;
  options.quiet = true;
  return explore(options, [&](Program& p) {
    auto& state = p.make<ProgramState>();
    for (unsigned i = 0; i < program.size(); ++i)
      p.thread("thread", [&state, &program, i] { state.run(i, program[i]); });
    p.at_end([&state, &outcomes] { outcomes.insert(state.outcome()); });
  });
}

}  // namespace weft::model::selftest
