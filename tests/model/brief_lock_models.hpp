// What the models of the lock and its mutants have in common.
#pragma once

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

}  // namespace weft::model
