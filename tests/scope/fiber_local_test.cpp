#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;

template <class F>
void on_both_engines(F f) {
  FiberIo{{.workers = 4}}.run(f);
  for (std::uint64_t seed = 0; seed < 20; ++seed) SimIo{{.seed = seed}}.run(f);
  testing::on_blocking(f);
}

TEST(FiberLocal, ChildrenInheritWhatWasSetWhenTheyWereSpawned) {
  on_both_engines([] {
    fiber_local<std::string> name{"initial"};
    EXPECT_EQ(*name, "initial");
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(*name, "initial"); });
      name.set("first");
      n.spawn([&] {
        this_fiber::yield();
        EXPECT_EQ(*name, "first");
        nursery([&](Nursery& inner) {
          inner.spawn([&] { EXPECT_EQ(name->size(), 5U) << "grandchildren, too"; });
        });
      });
      name.set("second");
      n.spawn([&] { EXPECT_EQ(name.get(), "second"); });
    });
    EXPECT_EQ(*name, "second");
  });
}

TEST(FiberLocal, NobodyElseSeesWhatAFiberSets) {
  on_both_engines([] {
    fiber_local<int> number{1};
    number.set(2);
    nursery([&](Nursery& n) {
      for (int i = 10; i < 20; ++i) {
        n.spawn([&, i] {
          EXPECT_EQ(*number, 2);
          number.set(i);
          for (int turn = 0; turn < 5; ++turn) {
            this_fiber::yield();
            EXPECT_EQ(*number, i);
          }
        });
      }
    });
    EXPECT_EQ(*number, 2);
  });
}

TEST(FiberLocal, SeveralVariablesAreIndependent) {
  on_both_engines([] {
    fiber_local<int> a{1}, b{2};
    fiber_local<std::string> c{"3"};
    b.set(20);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        a.set(10);
        c.set("30");
        EXPECT_EQ(std::to_string(*a) + std::to_string(*b) + *c, "102030");
      });
    });
    EXPECT_EQ(std::to_string(*a) + std::to_string(*b) + *c, "1203");
  });
}

TEST(FiberLocal, WithRestores) {
  on_both_engines([] {
    fiber_local<int> number{1}, other{5};
    EXPECT_EQ(number.with(2, [&] { return *number; }), 2);
    EXPECT_EQ(*number, 1);
    number.set(3);
    EXPECT_THROW(number.with(4,
                             [&] {
                               other.set(6);
                               EXPECT_EQ(*number, 4);
                               throw std::runtime_error{"out"};
                             }),
                 std::runtime_error);
    EXPECT_EQ(*number, 3);
    EXPECT_EQ(*other, 5) << "what was set inside is gone, too";
  });
}

TEST(FiberLocal, BoxedAndLargeClosuresInherit) {
  on_both_engines([] {
    fiber_local<int> number{0};
    number.set(7);
    nursery([&](Nursery& n) {
      std::array<char, 100> large{};
      std::array<char, 150> boxed{};
      large.fill('x');
      boxed.fill('y');
      n.spawn([&number] { EXPECT_EQ(*number, 7); });
      n.spawn([&number, large] { EXPECT_EQ(*number + (large[99] == 'x'), 8); });
      n.spawn([&number, boxed] { EXPECT_EQ(*number + (boxed[149] == 'y'), 8); });
    });
  });
}

struct Counted {
  explicit Counted(std::atomic<int>& alive_in) : alive(&alive_in) { ++*alive; }
  Counted(const Counted& other) : alive(other.alive) { ++*alive; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive; }
  std::atomic<int>* alive;
};

TEST(FiberLocal, ValuesDieWithTheLastFiberThatHasThem) {
  on_both_engines([] {
    std::atomic<int> alive{0};
    fiber_local<std::shared_ptr<Counted>> value;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        value.set(std::make_shared<Counted>(alive));
        nursery([&](Nursery& n) {
          for (int i = 0; i < 10; ++i) n.spawn([&] { EXPECT_EQ(alive, 1); });
          value.set(nullptr);
          EXPECT_GE(alive, 0);
        });
        EXPECT_EQ(alive, 0) << "the children have ended";
        value.set(std::make_shared<Counted>(alive));
      });
    });
    EXPECT_EQ(alive, 0) << "the fiber that had it has ended";
  });
}

TEST(FiberLocal, ChildrenThatNeverRunGiveItBack) {
  on_both_engines([] {
    std::atomic<int> alive{0};
    fiber_local<std::shared_ptr<Counted>> value;
    value.with(std::make_shared<Counted>(alive), [&] {
      nursery([&](Nursery& n) {
        n.cancel();
        for (int i = 0; i < 10; ++i) EXPECT_THROW(n.spawn([] {}), NurseryClosed);
      });
      CancelScope* outer = nullptr;
      EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
        outer = &scope;
        nursery([&](Nursery& n) {
          for (int i = 0; i < 10; ++i) n.spawn([] {});
          outer->cancel();
        });
        this_fiber::checkpoint();
      }));
    });
    EXPECT_EQ(alive, 0);
  });
}

TEST(FiberLocal, ThreadsHaveTheirOwnAndRunInherits) {
  fiber_local<int> number{1};
  std::atomic<int> alive{0};
  fiber_local<std::shared_ptr<Counted>> value;
  number.set(2);
  std::thread{[&] {
    EXPECT_EQ(*number, 1) << "threads inherit nothing";
    value.set(std::make_shared<Counted>(alive));
  }}.join();
  EXPECT_EQ(alive, 0) << "a thread's values end with it";
  FiberIo{{.workers = 2}}.run([&] {
    EXPECT_EQ(*number, 2);
    number.set(3);
    SimIo{}.run([&] { EXPECT_EQ(*number, 3) << "an engine inside an engine"; });
  });
  SimIo{}.run([&] { EXPECT_EQ(*number, 2); });
  EXPECT_EQ(*number, 2);
}

TEST(FiberLocal, AVariableAtTheSamePlaceIsAnotherVariable) {
  SimIo{}.run([] {
    for (int i = 0; i < 3; ++i) {
      fiber_local<int> number{-1};
      EXPECT_EQ(*number, -1);
      number.set(i);
    }
  });
}

TEST(FiberLocal, ManyFibersShareOneValue) {
  FiberIo{{.workers = 4}}.run([] {
    fiber_local<std::vector<int>> list;
    list.set({1, 2, 3});
    std::atomic<int> sum{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2'000; ++i) {
        n.spawn([&, i] {
          if (i % 3 == 0) list.set({i});
          this_fiber::yield();
          sum += static_cast<int>(list->size());
        });
      }
    });
    EXPECT_EQ(sum, 667 * 1 + 1'333 * 3);
  });
}

TEST(Path, NamesTheWayFromTheRoot) {
  on_both_engines([] {
    EXPECT_EQ(this_fiber::path(), "main");
    nursery([](Nursery& n) {
      n.spawn("server", [] {
        nursery([](Nursery& inner) {
          inner.spawn(Name{std::string{"connection 7"}},
                      [] { EXPECT_EQ(this_fiber::path(), "main/server/connection 7"); });
          inner.spawn([] {
            EXPECT_EQ(this_fiber::path(), "main/server/#" + std::to_string(this_fiber::id()));
          });
        });
      });
    });
  });
}

TEST(Path, AnOwnerMayRenameItselfMeanwhile) {
  FiberIo{{.workers = 4}}.run([] {
    std::atomic<bool> done{false};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i) {
        n.spawn("reader", [&] {
          while (!done) {
            const std::string path = this_fiber::path();
            EXPECT_TRUE(path.starts_with("main") || path.starts_with("owner ")) << path;
            EXPECT_TRUE(path.ends_with("/reader")) << path;
            this_fiber::yield();
          }
        });
      }
      for (int i = 0; i < 500; ++i) {
        this_fiber::set_name(Name{"owner " + std::to_string(i)});
        this_fiber::yield();
      }
      done = true;
    });
  });
}

}  // namespace
}  // namespace weft
