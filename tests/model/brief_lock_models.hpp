// What the models of the lock and its mutants have in common.
#pragma once

#include <weft/base/biased_lock.hpp>
#include <weft/base/brief_lock.hpp>
#include <weft/base/kept_lock.hpp>

#include "explorer/explore.hpp"
#include "model_sync.hpp"

namespace weft::model {

// The lock's back-off gives up after six rounds; the model must be able to get past it.
inline constexpr unsigned kBackOffRounds = 6;

// `threads` threads add one to plain data, `rounds` times each.
template <class Policy, unsigned kThreads, int kRounds, template <class> class AnyLock = BriefLock>
void adders(Program& p) {
  struct State {
    AnyLock<Policy> lock;
    ModelSync::Var<int> sum{0};
  };
  auto& s = p.make<State>();
  name(&s.lock, "lock");
  name(&s.sum, "sum");
  constexpr const char* kNames[] = {"one", "two", "three"};
  for (unsigned i = 0; i < kThreads; ++i)
    p.thread(kNames[i], [&s] {
      for (int round = 0; round < kRounds; ++round) {
        s.lock.lock();
        s.sum.write(s.sum.read() + 1);
        s.lock.unlock();
      }
    });
  p.at_end([&s] { check(s.sum.read() == kRounds * int{kThreads}, "every addition counts"); });
}

// The same, with a lock that comes to favour the first, at its second look. It takes the lock
// `kRegular` times; the others end that.
template <class Policy, unsigned kThreads, int kRegular, int kRounds = 1>
void favoured_adders(Program& p) {
  struct State {
    BiasedLock<Policy> lock;
    ModelSync::Var<int> sum{0};
  };
  auto& s = p.make<State>();
  name(&s.lock, "lock");
  name(&s.sum, "sum");
  constexpr const char* kNames[] = {"regular", "two", "three"};
  for (unsigned i = 0; i < kThreads; ++i)
    p.thread(kNames[i], [&s, i] {
      // Of the others, the second is not marked, the third is, and is never favoured all the same.
      LockTaker<Policy> me;
      if (i != 1) me.set_mark(static_cast<std::uint16_t>(i + 1), i == 0 ? 1 : 100);
      for (int round = 0; round < (i == 0 ? kRegular : kRounds); ++round) {
        s.lock.lock(me);
        s.sum.write(s.sum.read() + 1);
        s.lock.unlock(me);
      }
    });
  p.at_end([&s] {
    check(s.sum.read() == kRegular + kRounds * (int{kThreads} - 1), "every addition counts");
  });
}

// One who is favoured by two locks leaves the one and enters the other, while somebody waits for
// the first of these to happen.
template <class Policy>
void from_lock_to_lock(Program& p) {
  struct State {
    BiasedLock<Policy> first, second;
    ModelSync::Var<int> sum{0};
  };
  auto& s = p.make<State>();
  name(&s.first, "first");
  name(&s.second, "second");
  name(&s.sum, "sum");
  p.thread("regular", [&s] {
    LockTaker<Policy> me{1, 1};
    const auto take = [&](BiasedLock<Policy>& lock) {
      lock.lock(me);
      if (&lock == &s.first) s.sum.write(s.sum.read() + 1);
      lock.unlock(me);
    };
    for (int i = 0; i < 2; ++i) take(s.second);
    for (int i = 0; i < 3; ++i) take(s.first);
    take(s.second);
  });
  p.thread("two", [&s] {
    LockTaker<Policy> me;
    s.first.lock(me);
    s.sum.write(s.sum.read() + 1);
    s.first.unlock(me);
  });
  p.at_end([&s] { check(s.sum.read() == 4, "every addition counts"); });
}

// Two who become favoured in turn.
template <class Policy, int kRounds>
void favoured_in_turn(Program& p) {
  struct State {
    BiasedLock<Policy> lock;
    ModelSync::Var<int> sum{0};
  };
  auto& s = p.make<State>();
  name(&s.lock, "lock");
  name(&s.sum, "sum");
  for (const std::uint16_t mark : std::initializer_list<std::uint16_t>{1, 2})
    p.thread(mark == 1 ? "one" : "two", [&s, mark] {
      LockTaker<Policy> me{mark, 1};
      for (int round = 0; round < kRounds; ++round) {
        s.lock.lock(me);
        s.sum.write(s.sum.read() + 1);
        s.lock.unlock(me);
      }
    });
  p.at_end([&s] { check(s.sum.read() == 2 * kRounds, "every addition counts"); });
}

}  // namespace weft::model
