#include <weft/once.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

TEST(Once, RunsOnceWithItsArguments) {
  Once once;
  int value = 0;
  EXPECT_FALSE(once.done());
  once.call([](int& to, int what) { to = what; }, value, 7);
  EXPECT_TRUE(once.done());
  once.call([&] { value = 8; });
  EXPECT_TRUE(once.call(no_throw, [&] { value = 9; }));
  EXPECT_EQ(value, 7);
  Once other;
  EXPECT_TRUE(other.call(no_throw, [&] { value = 10; }));
  EXPECT_EQ(value, 10);
}

TEST(Once, TheOthersWaitUntilItIsDone) {
  const auto body = [] {
    Once once;
    int runs = 0;  // plain: done() orders it
    std::atomic<int> returned{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 8; ++i)
        n.spawn([&] {
          once.call([&] {
            this_fiber::yield();
            ++runs;
            this_fiber::yield();
            EXPECT_EQ(returned.load(), 0);
          });
          ++returned;
          EXPECT_EQ(runs, 1);
        });
    });
    EXPECT_EQ(returned.load(), 8);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Once, AnExceptionLetsTheNextTry) {
  const auto body = [] {
    Once once;
    std::atomic<int> tries{0}, thrown{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i)
        n.spawn([&] {
          try {
            once.call([&] {
              this_fiber::yield();
              if (++tries < 4) throw 1;
            });
          } catch (int) {
            ++thrown;
          }
        });
    });
    EXPECT_TRUE(once.done());
    EXPECT_EQ(tries.load(), 4);
    EXPECT_EQ(thrown.load(), 3);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U, 16U}, body);
  testing::on_blocking(body);
}

TEST(Once, WaitingIsACancelPoint) {
  on_both_engines([] {
    Once once;
    Event go;
    CancelScope scope{Fiber::current().scope};
    int ended = 0;
    bool late = false;
    nursery([&](Nursery& n) {
      n.spawn([&] { once.call([&] { go.wait(); }); });
      let_others_block();
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        EXPECT_THROW(once.call([&] { late = true; }), Cancelled);
        EXPECT_FALSE(once.call(no_throw, [&] { late = true; }));
        ++ended;
      });
      let_others_block();
      scope.cancel();
      let_others_block();
      EXPECT_EQ(ended, 1);
      go.set();
      let_others_block();
      n.spawn([&] {
        const Entered entered{Fiber::current(), scope};
        once.call([&] { late = true; });  // it is done: nothing to wait for
        ++ended;
      });
    });
    EXPECT_EQ(ended, 2);
    EXPECT_FALSE(late);
  });
}

TEST(Once, ARunThatIsCancelledLetsTheNextTry) {
  on_both_engines([] {
    Once once;
    bool ran = false;
    EXPECT_FALSE(timeout(1ms, [&] { once.call([] { sleep_for(1h); }); }));
    EXPECT_FALSE(once.done());
    once.call([&] { ran = true; });
    EXPECT_TRUE(ran);
  });
}

TEST(Once, CancelledWaitersLoseNoTurn) {
  const auto body = [] {
    Once once;
    std::atomic<int> tries{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 6; ++i)
        n.spawn([&] {
          while (!once.done()) {
            try {
              static_cast<void>(timeout(1us, [&] {
                once.call([&] {
                  this_fiber::yield();
                  if (++tries < 8) throw 1;
                });
              }));
            } catch (int) {
            }
            this_fiber::yield();
          }
        });
    });
    EXPECT_GE(tries.load(), 8);
  };
  on_seeds(body);
  on_workers({1U, 2U, 4U}, body);
  // Not in place: on a slow machine the microsecond is over at each yield, and nobody else tries.
}

TEST(Once, ACallFromInsideIsReported) {
  on_both_engines([] {
    Once once;
    EXPECT_THROW(once.call([&] { once.call([] {}); }), std::system_error);
    EXPECT_FALSE(once.done());
  });
}

TEST(Once, AmongThreads) {
  Once once;
  int runs = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      once.call([&] { ++runs; });
      EXPECT_EQ(runs, 1);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Once, IsNamedInReportsWithWhoRunsIt) {
  const std::string text = testing::text_of<Deadlock>([] {
    SimIo{}.run([] {
      Once once{"config"};
      Event never;
      nursery([&](Nursery& n) {
        n.spawn("loader", [&] { once.call([&] { never.wait(); }); });
        settle();
        n.spawn("user", [&] { once.call([] {}); });
      });
    });
  });
  EXPECT_THAT(text, HasSubstr("\"user\" on once (held by #2 \"loader\") \"config\""));
}

}  // namespace
}  // namespace weft
