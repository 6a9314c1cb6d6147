#include <weft/ordered_tasks.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

// A few turns or a little time: tasks overtake each other.
void dawdle(std::uint64_t chance) {
  for (std::uint64_t i = chance % 4; i > 0; --i) this_fiber::yield();
  if (chance % 5 == 0) sleep_for(std::chrono::microseconds{chance / 8 % 50});
}

std::string message_of(const std::runtime_error& error) { return error.what(); }

// ── order ───────────────────────────────────────────────────────────────────────────────────────

// One way of asking, chosen by chance. What comes of it as text.
std::string ask(const OrderedTasks<int>& o, std::uint64_t how) {
  const auto text = [](const std::optional<int>& v) { return v ? std::to_string(*v) : "end"; };
  try {
    switch (how % 5) {
      case 0: return text(o.next());
      case 1:
        for (;;) {
          Received<int> got = o.try_next();
          if (got) return std::to_string(*got);
          if (got.status() == RecvStatus::closed) return "end";
          sleep_for(1us);
        }
      case 2:
        for (;;) {
          Received<int> got = o.next_for(5us);
          if (got) return std::to_string(*got);
          if (got.status() == RecvStatus::closed) return "end";
        }
      case 3: {
        Received<int> got = o.next(no_throw);
        return got ? std::to_string(*got) : "end";
      }
      default:
        for (std::string answer;;) {  // loses often, and loses nothing
          if (select(o.on_next([&](std::optional<int> v) { answer = text(v); }), after(3us)) == 0)
            return answer;
        }
    }
  } catch (const std::runtime_error& error) {
    return message_of(error);
  }
}

TEST(OrderedTasks, AgreeWithTheSequentialOracle) {
  const auto body = [] {
    const std::uint64_t chance = io().random();
    const std::size_t width = chance % 7 + 1;
    const int count = static_cast<int>(chance / 8 % 40);
    std::vector<std::uint64_t> chances(static_cast<std::size_t>(count));
    for (std::uint64_t& each : chances) each = io().random();
    const auto fails = [&](int i) { return chances[static_cast<std::size_t>(i)] % 7 == 0; };
    std::vector<std::string> expected;
    for (int i = 0; i < count; ++i)
      expected.push_back(fails(i) ? "task " + std::to_string(i) : std::to_string(i * i));
    std::vector<std::string> answers;
    std::atomic<std::size_t> running{0};
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, width};
      n.spawn([&, o] {
        for (int i = 0; i < count; ++i) {
          EXPECT_TRUE(o.submit([&, i] {
            EXPECT_LE(++running, width);
            dawdle(chances[static_cast<std::size_t>(i)]);
            --running;
            if (fails(i)) throw std::runtime_error{"task " + std::to_string(i)};
            return i * i;
          }));
          EXPECT_LE(o.size(), width);
        }
        EXPECT_TRUE(o.close());
      });
      for (;;) {
        std::string answer = ask(o, io().random());
        if (answer == "end") break;
        answers.push_back(std::move(answer));
      }
      EXPECT_EQ(o.size(), 0U);
      EXPECT_EQ(ask(o, io().random()), "end") << "and so it stays";
    });
    EXPECT_EQ(answers, expected);
  };
  on_seeds(body, 2 * testing::kSeeds);
  for (int round = 0; round < 10; ++round) on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(OrderedTasks, AStalledTaskHoldsBackLaterOnes) {
  on_both_engines([] {
    Event go;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 4};
      o.submit([&] {
        go.wait();
        return 0;
      });
      for (int i = 1; i < 4; ++i) o.submit([i] { return i; });
      let_others_block();
      EXPECT_EQ(o.try_next().status(), RecvStatus::empty) << "three are done, but not the first";
      EXPECT_EQ(o.next_for(1us).status(), RecvStatus::timed_out);
      EXPECT_EQ(o.size(), 4U);
      go.set();
      for (int i = 0; i < 4; ++i) EXPECT_EQ(o.next(), i);
      EXPECT_EQ(o.try_next().status(), RecvStatus::empty);
      o.close();
      EXPECT_EQ(o.try_next().status(), RecvStatus::closed);
    });
  });
}

TEST(OrderedTasks, SeveralSubmitAndSeveralAsk) {
  everywhere([] {
    std::atomic<int> sum{0}, got{0};
    std::atomic<int> left{3};
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 3};
      for (int who = 0; who < 3; ++who)
        n.spawn([&, o, who] {
          for (int i = 0; i < 10; ++i) EXPECT_TRUE(o.submit([=] { return who * 10 + i; }));
          if (--left == 0) o.close();
        });
      for (int who = 0; who < 2; ++who)
        n.spawn([&, o] {
          for (const int value : o) {
            sum += value;
            ++got;
          }
        });
    });
    EXPECT_EQ(got.load(), 30);
    EXPECT_EQ(sum.load(), 29 * 30 / 2);
  });
}

// ── width ───────────────────────────────────────────────────────────────────────────────────────

TEST(OrderedTasks, InFlightMeansNotYetTaken) {
  on_both_engines([] {
    bool third = false;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 2, "squares"};
      EXPECT_EQ(o.width(), 2U);
      EXPECT_TRUE(o.submit([] { return 1; }));
      EXPECT_TRUE(o.try_submit([] { return 4; }));
      EXPECT_FALSE(o.try_submit([] { return 9; }));
      n.spawn([&, o] {
        EXPECT_TRUE(o.submit([] { return 9; }));
        third = true;
      });
      let_others_block();
      EXPECT_FALSE(third) << "both are done, but nobody has taken them";
      EXPECT_EQ(o.size(), 2U);
      EXPECT_EQ(o.next(), 1);
      let_others_block();
      EXPECT_TRUE(third);
      EXPECT_EQ(o.next(), 4);
      EXPECT_EQ(o.next(), 9);
    });
  });
}

TEST(OrderedTasks, AnArmThatWonAndIsNotAskedKeepsNoPlace) {
  on_both_engines([] {
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 1};
      for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(o.submit([i] { return i; }));
        auto result = o.on_next();
        EXPECT_EQ(select(result), 0U);
      }
      EXPECT_EQ(o.size(), 0U);
      EXPECT_TRUE(o.try_submit([] { return 7; }));
      auto result = o.on_next();
      select(result);
      EXPECT_EQ(result.value(), 7);
      result.renew();
      o.close();
      select(result);
      EXPECT_EQ(result.value(), std::nullopt);
    });
  });
}

TEST(OrderedTasks, RefuseAWidthOfZeroAndAHandleOfNothing) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      EXPECT_THROW(OrderedTasks<int>(n, 0), std::invalid_argument);
      EXPECT_THROW(OrderedTasks<int>(n, SIZE_MAX), std::invalid_argument);
      OrderedTasks<int> o{n, 1};
      const OrderedTasks<int> other = std::move(o);
      EXPECT_FALSE(o);
      EXPECT_TRUE(other);
      EXPECT_THROW(o.submit([] { return 1; }), std::logic_error);
      EXPECT_THROW(o.close(), std::logic_error);
    });
  });
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

TEST(OrderedTasks, CloseTellsWhoWaitsToSubmitAndDrains) {
  on_both_engines([] {
    int refused = 0;
    bool ran = false;
    const auto witness = std::make_shared<int>(0);
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 1};
      EXPECT_TRUE(o.submit([] { return 1; }));
      for (int i = 0; i < 3; ++i)
        n.spawn([&, o] {
          refused += o.submit([&ran, witness] {
            ran = true;
            return *witness;
          })
                         ? 0
                         : 1;
        });
      let_others_block();
      EXPECT_EQ(refused, 0);
      EXPECT_FALSE(o.closed());
      EXPECT_TRUE(o.close());
      EXPECT_FALSE(o.close());
      EXPECT_TRUE(o.closed());
      let_others_block();
      EXPECT_EQ(refused, 3);
      EXPECT_FALSE(o.submit([witness] { return 2; }));
      EXPECT_FALSE(o.try_submit([witness] { return 2; }));
      EXPECT_EQ(o.next(), 1) << "it was submitted before";
      EXPECT_EQ(o.next(), std::nullopt);
      EXPECT_EQ(o.next(), std::nullopt);
    });
    EXPECT_FALSE(ran);
    EXPECT_EQ(witness.use_count(), 1);
  });
}

// Whatever submit() said yes to is delivered; nothing else is.
TEST(OrderedTasks, CloseRacesWithSubmit) {
  const auto body = [] {
    std::atomic<int> accepted{0}, ran{0}, delivered{0};
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 2};
      for (int who = 0; who < 3; ++who)
        n.spawn([&, o] {
          while (o.submit([&] { return ++ran; })) {
            ++accepted;
            dawdle(io().random());
          }
        });
      n.spawn([&, o] {
        for (std::uint64_t i = io().random() % 32; i > 0; --i) this_fiber::yield();
        EXPECT_TRUE(o.close());
      });
      while (o.next()) ++delivered;
    });
    EXPECT_EQ(accepted.load(), delivered.load());
    EXPECT_EQ(accepted.load(), ran.load());
  };
  on_seeds(body);
  for (int round = 0; round < 10; ++round) on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

// The one who drains may let go of the last handle while close() is on its way back.
TEST(OrderedTasks, WhoSeesTheEndMayLeave) {
  everywhere([] {
    nursery([](Nursery& n) {
      auto o = std::make_unique<OrderedTasks<int>>(n, 2);
      const OrderedTasks<int>& shared = *o;
      shared.submit([] { return 1; });
      n.spawn([&shared] { shared.close(); });
      while (shared.next()) {}
      o.reset();
    });
  });
}

struct Counted {
  explicit Counted(std::atomic<int>& alive) : alive_(&alive) { ++alive; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive_; }
  std::atomic<int>* alive_;
};

TEST(OrderedTasks, WithoutHandleTasksRunOnAndResultsAreDisposedOf) {
  everywhere([] {
    std::atomic<int> alive{0}, ran{0};
    Event go;
    nursery([&](Nursery& n) {
      {
        const OrderedTasks<Counted> o{n, 6};
        for (int i = 0; i < 6; ++i)
          o.submit([&, i] {
            if (i > 2) go.wait();
            ++ran;
            return Counted{alive};
          });
        std::optional<Counted> first = o.next();
        EXPECT_TRUE(first);
      }
      go.set();
    });
    EXPECT_EQ(ran.load(), 6);
    EXPECT_EQ(alive.load(), 0);
  });
}

// ── failures ────────────────────────────────────────────────────────────────────────────────────

TEST(OrderedTasks, AFailureBelongsToItsNextAndNotToTheNursery) {
  everywhere([] {
    std::vector<int> got;
    int failures = 0;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 8};
      for (int i = 0; i < 8; ++i)
        o.submit([i]() -> int {
          if (i % 3 == 1) throw std::runtime_error{std::to_string(i)};
          return i;
        });
      o.close();
      for (bool more = true; more;) try {
          for (const int value : o) got.push_back(value);
          more = false;
        } catch (const std::runtime_error& error) {
          EXPECT_EQ(message_of(error), std::to_string(3 * failures++ + 1));
        }
    });
    EXPECT_THAT(got, ElementsAre(0, 2, 3, 5, 6));
    EXPECT_EQ(failures, 3);
  });
}

TEST(OrderedTasks, AFailureLeavesSelectByTheHandlerOrTheValue) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const OrderedTasks<int> o{n, 2};
      o.submit([]() -> int { throw std::runtime_error{"one"}; });
      o.submit([]() -> int { throw std::runtime_error{"two"}; });
      EXPECT_THROW(select(o.on_next([](std::optional<int>) { FAIL(); })), std::runtime_error);
      auto result = o.on_next();
      EXPECT_EQ(select(result), 0U);
      EXPECT_THROW(static_cast<void>(result.value()), std::runtime_error);
      EXPECT_THROW(static_cast<void>(result.value()), std::runtime_error) << "it stays an error";
      EXPECT_EQ(o.size(), 0U);
    });
  });
}

// A spawn that fails is told to who submits, and to nobody else.
TEST(OrderedTasks, ATaskThatCouldNotBeSpawnedIsNoTask) {
  on_both_engines([] {
    nursery(NurseryOptions{.max_spawns = 2}, [](Nursery& n) {
      const OrderedTasks<int> o{n, 3};
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(o.submit([i] { return i; }));
      for (int i = 0; i < 5; ++i) EXPECT_THROW(o.submit([] { return 9; }), BudgetExhausted);
      EXPECT_EQ(o.next(), 0);
      EXPECT_EQ(o.next(), 1);
      EXPECT_EQ(o.try_next().status(), RecvStatus::empty);
      o.close();
      EXPECT_EQ(o.next(), std::nullopt);
    });
  });
}

struct Heavy {
  explicit Heavy(int moves) : moves_left(moves) {}
  Heavy(Heavy&& other) : moves_left(other.moves_left - 1) {
    if (moves_left < 0) throw std::runtime_error{"too heavy"};
  }
  int operator()() { return 5; }
  int moves_left;
};

TEST(OrderedTasks, ATaskThatCannotBeMovedAlongIsNoTask) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const OrderedTasks<int> o{n, 1};
      int thrown = 0;
      for (int moves = 0; moves < 20; ++moves) {
        try {
          o.submit(Heavy{moves});
          EXPECT_EQ(o.next(), 5);
        } catch (const std::runtime_error&) {
          ++thrown;
        }
        EXPECT_EQ(o.size(), 0U);
      }
      EXPECT_GT(thrown, 0);
      EXPECT_LT(thrown, 20);
    });
  });
}

TEST(OrderedTasks, WaitForTheNurserysPlacesToo) {
  everywhere([] {
    nursery(NurseryOptions{.max_live = 1}, [](Nursery& n) {
      const OrderedTasks<int> o{n, 4};
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(o.submit([i] { return i; }));
      for (int i = 0; i < 4; ++i) EXPECT_EQ(o.next(), i);
    });
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

TEST(OrderedTasks, TasksOfACancelledNurseryAreToldAsCancelled) {
  everywhere([] {
    std::optional<OrderedTasks<int>> o;
    std::atomic<int> done{0};
    nursery([&](Nursery& n) {
      o.emplace(n, 5);
      for (int i = 0; i < 5; ++i)
        EXPECT_TRUE(o->submit([&, i] {
          if (i % 2 == 0) Event{}.wait();  // for ever
          ++done;
          return i;
        }));
      o->close();
      n.cancel();
    });
    int values = 0, cancelled = 0;
    for (int i = 0; i < 5; ++i) try {
        EXPECT_EQ(o->next(), i);
        ++values;
      } catch (const ChildCancelled&) {
        ++cancelled;
      }
    EXPECT_EQ(values, done.load());
    EXPECT_GE(cancelled, 3);
    EXPECT_EQ(o->next(), std::nullopt);
  });
}

TEST(OrderedTasks, SubmitToANurseryThatIsClosedThrows) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const OrderedTasks<int> o{n, 1};
      n.close();
      EXPECT_THROW(o.submit([] { return 1; }), NurseryClosed);
      EXPECT_THROW(o.submit([] { return 1; }), NurseryClosed) << "the place is free again";
      o.close();
      EXPECT_EQ(o.next(), std::nullopt);
    });
  });
}

// Mostly too short; now and then long enough for the slowest machine.
std::chrono::microseconds patience() {
  const std::uint64_t chance = io().random();
  return std::chrono::microseconds{chance % 4 == 0 ? 50'000 : chance / 4 % 20};
}

// A wait that is cancelled, times out or loses takes nothing along.
TEST(OrderedTasks, WhoGivesUpLosesNothing) {
  everywhere([] {
    constexpr int kTasks = 20;
    std::vector<int> got;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 2};
      n.spawn([&, o] {
        int submitted = 0;
        while (submitted < kTasks) {
          const auto yes = timeout(patience(), [&] {
            return o.submit([&, submitted] {
              dawdle(io().random());
              return submitted;
            });
          });
          if (yes) ++submitted;
        }
        o.close();
      });
      for (bool more = true; more;)
        timeout(patience(), [&] {
          const std::optional<int> value = o.next();
          if (value) got.push_back(*value);
          else more = false;
        });
    });
    ASSERT_EQ(got.size(), std::size_t{kTasks});
    for (int i = 0; i < kTasks; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
  });
}

TEST(OrderedTasks, WaitsInACancelledScopeThrowOrSaySo) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const OrderedTasks<int> o{n, 2};
      o.submit([] { return 1; });
      let_others_block();
      EXPECT_FALSE(cancel_scope([&](CancelScope& s) {
        s.cancel();
        EXPECT_EQ(o.next(no_throw).status(), RecvStatus::cancelled);
        EXPECT_THROW(static_cast<void>(o.next()), Cancelled);
        EXPECT_THROW(o.submit([] { return 2; }), Cancelled);
        static_cast<void>(o.next());
      }));
      EXPECT_EQ(o.next(), 1) << "it stayed where it was";
    });
  });
}

// ── types ───────────────────────────────────────────────────────────────────────────────────────

struct Brittle {  // its move may throw, and there is no default
  explicit Brittle(int v) : value(v) {}
  Brittle(Brittle&& other) noexcept(false) : value(other.value) {
    if (value < 0) throw std::runtime_error{"broken"};
  }
  int value;
};

TEST(OrderedTasks, CarryWhatCanBeMoved) {
  everywhere([] {
    nursery([](Nursery& n) {
      const OrderedTasks<std::unique_ptr<int>> pointers{n, 2};
      pointers.submit([] { return std::make_unique<int>(3); });
      pointers.submit([p = std::make_unique<int>(4)]() mutable { return std::move(p); });
      EXPECT_EQ(**pointers.next(), 3);
      EXPECT_EQ(**pointers.next(), 4);

      const OrderedTasks<Brittle> brittle{n, 3};
      brittle.submit([] { return Brittle{1}; });
      brittle.submit([] { return Brittle{-1}; });
      brittle.submit([] { return Brittle{2}; });
      EXPECT_EQ(brittle.next()->value, 1);
      EXPECT_THROW(static_cast<void>(brittle.next()), std::runtime_error);
      auto result = brittle.on_next();
      select(result);
      EXPECT_EQ(result.value()->value, 2);

      std::atomic<int> ran{0};
      const OrderedTasks<void> nothing{n, 2};
      nothing.submit([&] { ++ran; });
      nothing.submit([&] { throw std::runtime_error{"no"}; });
      EXPECT_EQ(nothing.next(), std::monostate{});
      EXPECT_EQ(ran.load(), 1);
      EXPECT_THROW(static_cast<void>(nothing.next()), std::runtime_error);

      const OrderedTasks<std::string> text{n, 1};
      text.submit([] { return "converted"; });
      EXPECT_EQ(text.next(), "converted");
    });
  });
}

// ── many ────────────────────────────────────────────────────────────────────────────────────────

TEST(OrderedTasks, ManyTasksOnMoreWorkersThanCores) {
  on_workers({2U, 8U, 16U}, [] {
    constexpr int kTasks = 5000;
    int expected = 0;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 16};
      n.spawn([o] {
        for (int i = 0; i < kTasks; ++i)
          if (!o.submit([i] {
                if (i % 3 == 0) this_fiber::yield();
                return i;
              }))
            return;
        o.close();
      });
      for (const int value : o) EXPECT_EQ(value, expected++);
    });
    EXPECT_EQ(expected, kTasks);
  });
}

// A thread that a fiber of the nursery waits for may use it as well.
TEST(OrderedTasks, AThreadMaySubmitAndAsk) {
  FiberIo{{.workers = 2}}.run([] {
    Event done;
    nursery([&](Nursery& n) {
      const OrderedTasks<int> o{n, 2};
      std::thread thread{[&] {
        for (int i = 0; i < 100; ++i) EXPECT_TRUE(o.submit([i] { return i; }));
        o.close();
        done.set();
      }};
      for (int i = 0; i < 100; ++i) EXPECT_EQ(o.next(), i);
      EXPECT_EQ(o.next(), std::nullopt);
      done.wait();
      thread.join();
    });
  });
}

TEST(OrderedTasks, ADeadlockNamesThem) {
  try {
    SimIo{}.run([] {
      nursery([](Nursery& n) {
        const OrderedTasks<int> o{n, 1, "pages"};
        static_cast<void>(o.next());
      });
    });
    FAIL();
  } catch (const Deadlock& deadlock) {
    EXPECT_THAT(deadlock.what(), ::testing::HasSubstr("pages"));
  }
}

}  // namespace
}  // namespace weft
