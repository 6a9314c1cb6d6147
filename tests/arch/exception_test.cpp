// M19: a fiber's caught exceptions and its uncaught count are its own, wherever it parks.
//
// Every scenario runs on FiberIo and, in many orders, on SimIo. The first one also runs on bare
// contexts, which carry nothing: there it must go wrong, or it would prove nothing here.
#include "bare_fiber.hpp"

#include <weft/weft.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using weft::Event;
using weft::Nursery;
using weft::nursery;
using weft::this_fiber::yield;

constexpr int kFibers = 50;
constexpr std::uint64_t kSeeds = 51;

// The number that `error` carries, if it carries one.
std::optional<int> number_in(const std::exception_ptr& error) {
  if (!error) return std::nullopt;
  try {
    std::rethrow_exception(error);
  } catch (int number) {
    return number;
  } catch (const std::exception& with_text) {
    return std::stoi(with_text.what());
  }
}

// What the innermost enclosing `catch` caught, by `throw;`.
std::optional<int> rethrown() {
  try {
    throw;
  } catch (int number) {
    return number;
  } catch (const std::exception& with_text) {
    return std::stoi(with_text.what());
  }
}

void expect_no_exception() {
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr);
}

// Runs `scenario` as a root fiber on both engines, on the second in 51 orders.
template <class Scenario>
void on_every_engine(Scenario scenario) {
  {
    SCOPED_TRACE("FiberIo");
    weft::FiberIo engine;
    engine.run(scenario);
    expect_no_exception();
  }
  for (std::uint64_t seed = 0; seed < kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("SimIo, seed " + std::to_string(seed));
    weft::SimIo engine{{.seed = seed}};
    engine.run(scenario);
    expect_no_exception();
  }
}

// ── parked inside catch ─────────────────────────────────────────────────────────────────────────

// Throws, catches, lets everybody else do the same by `park`, and looks what is there to rethrow.
template <class Park>
bool catches_its_own(int number, Park park) {
  try {
    throw number;
  } catch (int caught) {
    park();
    return caught == number && rethrown() == number &&
           number_in(std::current_exception()) == number;
  }
}

TEST(Exceptions, FiftyFibersParkInCatchAndRethrowTheirOwn) {
  on_every_engine([] {
    std::atomic<int> right = 0;
    Event all_parked;
    nursery([&](Nursery& n) {
      for (int i = 0; i < kFibers; ++i)
        n.spawn([&, i] { right += catches_its_own(i, [&] { all_parked.wait(); }); });
      n.spawn([&] {
        for (int i = 0; i < 2 * kFibers; ++i) yield();
        expect_no_exception();
        all_parked.set();
      });
    });
    EXPECT_EQ(right, kFibers);
  });
}

// ── the same without an engine ──────────────────────────────────────────────────────────────────

weft::testing::BareFiber* bare_thread = nullptr;
std::vector<std::unique_ptr<weft::testing::BareFiber>> bare_fibers;
int bare_right = 0;

void bare_catcher(void* who, std::uintptr_t at) {
  weft::testing::BareFiber& self = *bare_fibers[at];
  weft::testing::begin_bare(self, who);
  try {
    throw static_cast<int>(at);
  } catch (int) {
    switch_bare(self, *bare_thread);
    bare_right += rethrown() == static_cast<int>(at);
    switch_bare(self, *bare_thread);  // for good: leaving the handler would crash
    std::abort();
  }
}

// Exits with the number of fibers that rethrew their own exception.
[[noreturn]] void catch_on_bare_contexts() {
  weft::testing::BareFiber thread;
  bare_thread = &thread;
  for (int i = 0; i < kFibers; ++i)
    bare_fibers.push_back(std::make_unique<weft::testing::BareFiber>(&bare_catcher));
  for (int round = 0; round < 2; ++round)
    for (std::uintptr_t i = 0; i < kFibers; ++i) switch_bare(thread, *bare_fibers[i], i);
  ::_exit(bare_right);
}

TEST(ExceptionsDeathTest, BareContextsMixThemUp) {
  // The last one to throw is on top of the thread's list: all of them rethrow that.
  EXPECT_EXIT(catch_on_bare_contexts(), testing::ExitedWithCode(1), "");
}

// ── nested handlers ─────────────────────────────────────────────────────────────────────────────

[[gnu::noinline]] void nest(int depth, int base) {
  try {
    throw base + depth;
  } catch (int) {
    yield();
    if (depth > 0) nest(depth - 1, base);
    EXPECT_EQ(rethrown(), base + depth);
    yield();
    EXPECT_EQ(number_in(std::current_exception()), base + depth);
  }
}

TEST(Exceptions, NestedHandlersKeepTheirOrder) {
  on_every_engine([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 10; ++i) {
        n.spawn([i] {
          nest(i % 5, 1000 * i);
          expect_no_exception();
        });
      }
    });
  });
}

TEST(Exceptions, ThrowingWhileOthersAreParkedInCatchDisturbsNobody) {
  on_every_engine([] {
    Event go_on;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        try {
          throw std::runtime_error{"1"};
        } catch (const std::exception& mine) {
          go_on.wait();
          EXPECT_STREQ(mine.what(), "1");
          EXPECT_EQ(rethrown(), 1);
        }
      });
      n.spawn([&] {
        yield();
        expect_no_exception();
        for (int i = 100; i < 120; ++i) {
          try {
            throw i;
          } catch (int caught) {
            EXPECT_EQ(caught, i);
            if (i == 110) go_on.set();
            if (i % 3 == 0) yield();
            EXPECT_EQ(rethrown(), i);
          }
          expect_no_exception();
        }
        go_on.set();
      });
    });
  });
}

// An exception_ptr is shared: the object outlives the handler and the fiber that caught it.
TEST(Exceptions, PointerIsRethrownByAnotherFiber) {
  on_every_engine([] {
    std::exception_ptr shared;
    nursery([&](Nursery& n) {
      Event there;
      n.spawn([&] {
        try {
          throw std::runtime_error{"7"};
        } catch (...) {
          shared = std::current_exception();
          yield();
        }
      });
    });
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          try {
            throw i + 100;
          } catch (int) {
            yield();
            EXPECT_EQ(number_in(shared), 7);
            EXPECT_EQ(rethrown(), i + 100);
          }
        });
      }
    });
  });
}

// ── parked while unwinding ──────────────────────────────────────────────────────────────────────

// Parks in its destructor, and expects to be unwound by `depth` exceptions before and after.
class ParksInDestructor {
 public:
  ParksInDestructor(int depth, std::atomic<int>& parked) : depth_(depth), parked_(parked) {}
  ParksInDestructor(const ParksInDestructor&) = delete;
  ParksInDestructor& operator=(const ParksInDestructor&) = delete;
  ~ParksInDestructor() {
    ++parked_;
    EXPECT_EQ(std::uncaught_exceptions(), depth_);
    for (int i = 0; i < 3; ++i) yield();
    EXPECT_EQ(std::uncaught_exceptions(), depth_);
  }

 private:
  const int depth_;
  std::atomic<int>& parked_;
};

TEST(Exceptions, FibersParkInDestructorsDuringUnwinding) {
  on_every_engine([] {
    std::atomic<int> parked = 0;
    std::atomic<int> caught = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 10; ++i) {
        n.spawn([&, i] {
          try {
            const ParksInDestructor parks{1, parked};
            throw i;
          } catch (int number) {
            caught += number == i;
            EXPECT_EQ(std::uncaught_exceptions(), 0);
            EXPECT_EQ(rethrown(), i);
          }
        });
        n.spawn([] {
          expect_no_exception();
          yield();
          expect_no_exception();
        });
      }
    });
    EXPECT_EQ(parked, 10);
    EXPECT_EQ(caught, 10);
  });
}

// A destructor that throws and catches for itself while it is being unwound, and parks in between.
class UnwindsWithin {
 public:
  explicit UnwindsWithin(std::atomic<int>& parked) : parked_(parked) {}
  UnwindsWithin(const UnwindsWithin&) = delete;
  UnwindsWithin& operator=(const UnwindsWithin&) = delete;
  ~UnwindsWithin() {
    EXPECT_EQ(std::uncaught_exceptions(), 1);
    try {
      const ParksInDestructor inner{2, parked_};
      throw 5;
    } catch (int five) {
      yield();
      EXPECT_EQ(five, 5);
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      EXPECT_EQ(rethrown(), 5);
    }
    EXPECT_EQ(std::uncaught_exceptions(), 1);
    EXPECT_EQ(std::current_exception(), nullptr);
  }

 private:
  std::atomic<int>& parked_;
};

TEST(Exceptions, UnwindingNests) {
  on_every_engine([] {
    std::atomic<int> parked = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i) {
        n.spawn([&, i] {
          try {
            const UnwindsWithin outer{parked};
            throw i;
          } catch (int number) {
            EXPECT_EQ(number, i);
          }
          expect_no_exception();
        });
      }
    });
    EXPECT_EQ(parked, 8);
  });
}

[[gnu::noinline]] void throw_from(int depth, int number, std::atomic<int>& parked) {
  const ParksInDestructor frame{1, parked};
  if (depth == 0) throw number;
  throw_from(depth - 1, number, parked);
}

TEST(Exceptions, TwentyFramesUnwindWithAParkInEach) {
  on_every_engine([] {
    std::atomic<int> parked = 0;
    std::atomic<int> caught = 0;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.spawn([&, i] {
          try {
            throw_from(19, i, parked);
          } catch (int number) {
            caught += number == i;
          }
        });
      }
    });
    EXPECT_EQ(parked, 5 * 20);
    EXPECT_EQ(caught, 5);
  });
}

// ── nurseries ───────────────────────────────────────────────────────────────────────────────────

bool runs_in_place() { return weft::Fiber::current().strand->beneath != nullptr; }

// A child that is called on its parent's stack is still a fiber with exceptions of its own.
TEST(Exceptions, ChildrenInPlaceHaveTheirOwn) {
  std::atomic<int> in_place = 0;
  const auto scenario = [&] {
    std::atomic<int> right = 0;
    for (int round = 0; round < 5; ++round) {
      nursery([&](Nursery& outer) {
        outer.spawn([&] { right += catches_its_own(1, [] { yield(); }); });
        outer.spawn([&] {
          in_place += runs_in_place();
          const bool own = catches_its_own(2, [&] {
            yield();
            nursery([&](Nursery& inner) {
              inner.spawn([&] {
                expect_no_exception();
                right += catches_its_own(3, [] { yield(); });
              });
            });
          });
          right += own;
        });
      });
      expect_no_exception();
    }
    EXPECT_EQ(right, 15);
  };
  on_every_engine(scenario);
  // Others may have been quicker to take the children. Under ThreadSanitizer every fiber has a
  // stack of its own.
  while (in_place == 0 && !weft::arch::kTsan) weft::FiberIo{}.run(scenario);
}

// A join inside a handler: the children start with a clean slate, and the handler finds its own.
TEST(Exceptions, NurseryInsideAHandler) {
  on_every_engine([] {
    std::atomic<int> right = 0;
    try {
      throw 1;
    } catch (int) {
      nursery([&](Nursery& n) {
        for (int i = 0; i < 5; ++i) {
          n.spawn([&, i] {
            expect_no_exception();
            right += catches_its_own(10 + i, [] { yield(); });
          });
        }
      });
      EXPECT_EQ(rethrown(), 1);
    }
    EXPECT_EQ(right, 5);
    expect_no_exception();
  });
}

TEST(Exceptions, ChildsFailureArrivesInsideAHandler) {
  on_every_engine([] {
    try {
      throw 1;
    } catch (int) {
      try {
        nursery([](Nursery& n) {
          n.spawn([] {
            yield();
            throw 2;
          });
        });
        ADD_FAILURE() << "the failure did not arrive";
      } catch (int number) {
        EXPECT_EQ(number, 2);
        yield();
        EXPECT_EQ(rethrown(), 2);
      }
      EXPECT_EQ(rethrown(), 1);
    }
  });
}

struct NotAStdException {
  std::unique_ptr<int> value;
};

TEST(Exceptions, OfAnyTypeArriveOnce) {
  on_every_engine([] {
    for (int i = 0; i < 3; ++i) {
      try {
        nursery([&](Nursery& n) {
          n.spawn([i] {
            yield();
            if (i == 0) throw "text";
            if (i == 1) throw NotAStdException{std::make_unique<int>(7)};
            throw std::vector<int>{1, 2, 3};
          });
        });
        ADD_FAILURE() << "the failure did not arrive";
      } catch (const char* text) {
        EXPECT_EQ(text, std::string{"text"});
      } catch (const NotAStdException& e) {
        EXPECT_EQ(*e.value, 7);
      } catch (const std::vector<int>& numbers) {
        EXPECT_EQ(numbers.size(), 3U);
      }
      expect_no_exception();
    }
  });
}

// ── engines ─────────────────────────────────────────────────────────────────────────────────────

// The thread's own exceptions wait outside while it runs fibers.
template <class Engine>
void run_inside_a_handler() {
  try {
    throw 1;
  } catch (int) {
    Engine engine;
    std::atomic<int> right = 0;
    engine.run([&] {
      expect_no_exception();
      nursery([&](Nursery& n) {
        for (int i = 0; i < 3; ++i)
          n.spawn([&, i] { right += catches_its_own(10 + i, [] { yield(); }); });
      });
    });
    EXPECT_EQ(right, 3);
    EXPECT_EQ(rethrown(), 1);
    EXPECT_THROW(engine.run([] { throw std::logic_error{"2"}; }), std::logic_error);
    EXPECT_EQ(rethrown(), 1);
  }
  expect_no_exception();
}

TEST(Exceptions, RunInsideAHandler) {
  run_inside_a_handler<weft::FiberIo>();
  run_inside_a_handler<weft::SimIo>();
}

template <class Engine>
struct RunsInDestructor {
  ~RunsInDestructor() {
    EXPECT_EQ(std::uncaught_exceptions(), 1);
    Engine engine;
    engine.run([] {
      expect_no_exception();
      EXPECT_TRUE(catches_its_own(5, [] { yield(); }));
    });
    EXPECT_EQ(std::uncaught_exceptions(), 1);
  }
};

TEST(Exceptions, RunInADestructorDuringUnwinding) {
  try {
    const RunsInDestructor<weft::FiberIo> fibers;
    const RunsInDestructor<weft::SimIo> simulated;
    throw 1;
  } catch (int number) {
    EXPECT_EQ(number, 1);
    EXPECT_EQ(number_in(std::current_exception()), 1);
  }
  expect_no_exception();
}

// An engine inside a fiber of another: each base is a stack with exceptions of its own.
TEST(Exceptions, EnginesNestInsideHandlers) {
  on_every_engine([] {
    nursery([](Nursery& n) {
      for (int i = 0; i < 3; ++i) {
        n.spawn([i] {
          try {
            throw i;
          } catch (int) {
            yield();
            weft::SimIo inner{{.seed = static_cast<std::uint64_t>(i)}};
            const int inside = inner.run([i] {
              expect_no_exception();
              return catches_its_own(100 + i, [] { yield(); }) ? 1 : 0;
            });
            EXPECT_EQ(inside, 1);
            yield();
            EXPECT_EQ(rethrown(), i);
          }
        });
      }
    });
  });
}

// ── all of it at random ─────────────────────────────────────────────────────────────────────────

// Walks through handlers, destructors and parks as its numbers say, and always knows what it should
// find.
class Walker {
 public:
  explicit Walker(std::uint64_t seed) : state_(seed * 2 + 1) {}

  void walk(int depth, std::optional<int> caught, int uncaught) {
    for (int step = 0; step < 3; ++step) {
      check(caught, uncaught);
      if (chance(2)) yield();
      check(caught, uncaught);
      if (depth == 0) continue;
      const int number = static_cast<int>(next() % 100'000);
      const bool in_destructor = chance(2);
      try {
        const Unwound unwound{*this, depth - 1, caught, uncaught + 1, in_destructor};
        throw number;
      } catch (int arrived) {
        EXPECT_EQ(arrived, number);
        walk(depth - 1, number, uncaught);
      }
    }
  }

 private:
  struct Unwound {
    Walker& walker;
    int depth;
    std::optional<int> caught;
    int uncaught;
    bool walks;
    ~Unwound() {
      if (walks)
        walker.walk(depth, caught, uncaught);
      else
        walker.check(caught, uncaught);
    }
  };

  void check(std::optional<int> caught, int uncaught) const {
    EXPECT_EQ(std::uncaught_exceptions(), uncaught);
    EXPECT_EQ(number_in(std::current_exception()), caught);
  }
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return state_ >> 33U;
  }
  bool chance(std::uint64_t one_in) { return next() % one_in == 0; }

  std::uint64_t state_;
};

TEST(Exceptions, RandomWalksFindWhatTheyShould) {
  on_every_engine([] {
    nursery([](Nursery& n) {
      for (std::uint64_t i = 0; i < 6; ++i) n.spawn([i] { Walker{i}.walk(3, std::nullopt, 0); });
    });
  });
}

}  // namespace
