// The shipped BriefLock under the explorer: mutual exclusion, no lost wake, a lock that the next
// holder may destroy. The mutants here are made in its policy; mutant_test has those of the lock.
#include <gtest/gtest.h>

#include <weft/base/brief_lock.hpp>

#include "brief_lock_models.hpp"
#include "explorer/expect.hpp"

namespace weft::model {
namespace {

void expect_no_fault(const Result& result) {
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_GT(result.sleeps, 0U) << "the contended path was not reached";
}

TEST(BriefLock, TwoThreads) {
  const Result result = explore({.name = "BriefLock, 2 threads", .eager_spins = kBackOffRounds},
                                adders<ModelSync, 2, 1>);
  expect_no_fault(result);
  expect_no_fault(explore({.name = "BriefLock, 2 threads, spurious wakes",
                           .spurious_wakes = true,
                           .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 1>));
}

TEST(BriefLock, TwoThreadsTwice) {
  expect_no_fault(explore({.name = "BriefLock, 2 threads x 2", .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 2>));
}

TEST(BriefLock, ThreeThreads) {
  const Result result = explore({.name = "BriefLock, 3 threads",
                                 .mode = Mode::bound,
                                 .bound = 2,
                                 .eager_spins = kBackOffRounds},
                                adders<ModelSync, 3, 1>);
  expect_no_fault(result);
}

TEST(BriefLock, TryLockNeverWaits) {
  struct State {
    BriefLock<ModelSync> lock;
    ModelSync::Var<int> sum{0};
    ModelSync::Atomic<int> refused{0};
  };
  const Result result = explore({.name = "BriefLock, try_lock"}, [](Program& p) {
    auto& s = p.make<State>();
    for (const char* thread : {"one", "two"})
      p.thread(thread, [&s] {
        if (s.lock.try_lock()) {
          s.sum.write(s.sum.read() + 1);
          s.lock.unlock();
        } else {
          s.refused.fetch_add(1);
        }
      });
    p.at_end([&s] { check(s.sum.read() + s.refused.load() == 2, "each either got it or not"); });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.sleeps, 0U);
}

// unlock() touches the lock last of all: whoever locks next may destroy it, although the previous
// holder may not yet have told the kernel whom to wake.
TEST(BriefLock, TheNextHolderMayDestroyIt) {
  struct Shared {
    BriefLock<ModelSync> lock;
    ModelSync::Var<bool> last{false};
  };
  const Result result =
      explore({.name = "BriefLock, destroyed by the next holder", .eager_spins = kBackOffRounds},
              [](Program& p) {
                Shared* const shared = make<Shared>();
                for (const char* thread : {"one", "two"})
                  p.thread(thread, [shared] {
                    shared->lock.lock();
                    const bool last = shared->last.read();
                    shared->last.write(true);
                    shared->lock.unlock();
                    if (last) destroy(shared);
                  });
              });
  expect_no_fault(result);
}

TEST(KeptLock, TwoThreads) {
  expect_no_fault(explore({.name = "KeptLock, 2 threads", .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 1, KeptLock>));
  expect_no_fault(explore({.name = "KeptLock, 2 threads, spurious wakes",
                           .spurious_wakes = true,
                           .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 1, KeptLock>));
}

TEST(KeptLock, TwoThreadsTwice) {
  expect_no_fault(explore({.name = "KeptLock, 2 threads x 2",
                           .mode = Mode::bound,
                           .bound = 3,
                           .eager_spins = kBackOffRounds},
                          adders<ModelSync, 2, 2, KeptLock>));
}

TEST(KeptLock, ThreeThreads) {
  expect_no_fault(explore({.name = "KeptLock, 3 threads",
                           .mode = Mode::bound,
                           .bound = 2,
                           .eager_spins = kBackOffRounds},
                          adders<ModelSync, 3, 1, KeptLock>));
}

// Who waits there spins or sleeps as at a KeptLock, whose models have that: here it only spins.
void expect_favours_end_well(const Options& options, void (*program)(Program&)) {
  const Result result = explore(options, program);
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
}

TEST(BiasedLock, SomebodyElseComesOnce) {
  expect_favours_end_well({.name = "BiasedLock, somebody else comes once"},
                          favoured_adders<ModelSync, 2, 4>);
}

TEST(BiasedLock, SomebodyElseComesAgain) {
  expect_favours_end_well(
      {.name = "BiasedLock, somebody else comes again", .mode = Mode::bound, .bound = 2},
      favoured_adders<ModelSync, 2, 5, 2>);
}

TEST(BiasedLock, TwoOthersCome) {
  expect_favours_end_well({.name = "BiasedLock, two others come", .mode = Mode::bound, .bound = 1},
                          favoured_adders<ModelSync, 3, 3>);
}

TEST(BiasedLock, FromLockToLock) {
  expect_favours_end_well({.name = "BiasedLock, from lock to lock"}, from_lock_to_lock<ModelSync>);
}

TEST(BiasedLock, FavouredInTurn) {
  expect_favours_end_well({.name = "BiasedLock, favoured in turn", .mode = Mode::bound, .bound = 2},
                          favoured_in_turn<ModelSync, 3>);
}

// ---- mutants by policy --------------------------------------------------------------------------

struct DeafSync : ModelSync {
  template <class T>
  static void wake(const Atomic<T>&, unsigned) noexcept {}
};

// Turns every order of a read-modify-write that matches kFrom into relaxed.
template <std::memory_order kFrom>
struct WeakenedSync : ModelSync {
  template <class T>
  class Atomic : public ModelSync::Atomic<T> {
    using Base = ModelSync::Atomic<T>;
    static constexpr std::memory_order weaken(std::memory_order order) noexcept {
      return order == kFrom ? std::memory_order_relaxed : order;
    }

   public:
    using Base::Base;
    T exchange(T value, std::memory_order order) noexcept {
      return Base::exchange(value, weaken(order));
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order success,
                                 std::memory_order failure) noexcept {
      return Base::compare_exchange_strong(expected, value, weaken(success), failure);
    }
  };
};

TEST(BriefLockMutants, AnUnlockThatWakesNobodyIsNoticed) {
  const Options options{.name = "BriefLock without wake", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(expect_bug(options, adders<DeafSync, 2, 1>, Failure::deadlock));
}

TEST(BriefLockMutants, WeakerOrdersAreNoticed) {
  const Options unlocking{.name = "BriefLock, relaxed unlock", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(
      expect_bug(unlocking, adders<WeakenedSync<std::memory_order_release>, 2, 1>, Failure::race));
  const Options locking{.name = "BriefLock, relaxed lock", .eager_spins = kBackOffRounds};
  EXPECT_TRUE(
      expect_bug(locking, adders<WeakenedSync<std::memory_order_acquire>, 2, 1>, Failure::race));
}

}  // namespace
}  // namespace weft::model
