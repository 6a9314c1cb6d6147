#include <weft/this_fiber.hpp>

#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using ::testing::ElementsAre;
using testing::on_both_engines;

TEST(ThisFiber, IdsAreUniqueWithinTheEnginesLife) {
  FiberIo io{{.workers = 1}};
  std::set<FiberId> ids;
  int fibers = 0;
  for (int run = 0; run < 3; ++run)
    io.run([&] {
      ids.insert(this_fiber::id());
      ++fibers;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 100; ++i)
          n.spawn([&] {
            const FiberId before = this_fiber::id();
            this_fiber::yield();
            EXPECT_EQ(this_fiber::id(), before);
            ids.insert(before);
            ++fibers;
          });
      });
    });
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(fibers));
  EXPECT_FALSE(ids.contains(0));
}

TEST(ThisFiber, YieldLetsEveryOtherReadyFiberRunFirst) {
  FiberIo{{.workers = 1}}.run([] {
    Event start;
    std::string order;
    nursery([&](Nursery& n) {
      for (const char who : {'a', 'b', 'c'}) {
        n.spawn([&start, &order, who] {
          start.wait();
          for (int i = 0; i < 3; ++i) {
            order.push_back(who);
            this_fiber::yield();
          }
        });
        this_fiber::yield();  // it waits before the next is spawned
      }
      start.set();
    });
    EXPECT_EQ(order, "abcabcabc");
  });
}

TEST(ThisFiber, YieldReturnsAtOnceWhenAlone) {
  on_both_engines([] {
    for (int i = 0; i < 1'000; ++i) this_fiber::yield();
    SUCCEED();
  });
}

// Each call needs its frame until the one below has returned, or it would become a loop.
[[gnu::noinline]] std::size_t remaining_below(std::size_t bytes, volatile unsigned char* above) {
  volatile unsigned char frame[4096];
  frame[0] = above ? above[0] : 0;
  const std::size_t below = bytes <= sizeof frame ? this_fiber::stack_remaining()
                                                  : remaining_below(bytes - sizeof frame, frame);
  return below + frame[0];
}

TEST(ThisFiber, StackRemainingShrinksWithDepth) {
  FiberIo io{{.stack_bytes = 512 * 1024}};
  io.run([] {
    const std::size_t here = this_fiber::stack_remaining();
    EXPECT_GT(here, 400U * 1024);
    EXPECT_LE(here, 520U * 1024);
    EXPECT_LT(remaining_below(64 * 1024, nullptr), here - 60U * 1024);
    nursery([](Nursery& n) {
      n.spawn([] {
        EXPECT_GT(this_fiber::stack_remaining(), 300U * 1024) << "in place or not";
        EXPECT_LE(this_fiber::stack_remaining(), 520U * 1024);
      });
    });
  });
}

TEST(ThisFiber, CancelledTellsWithoutThrowing) {
  on_both_engines([] {
    std::vector<bool> seen;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   seen.push_back(this_fiber::cancelled());
                   n.spawn([] { throw std::runtime_error{"child"}; });
                   try {
                     for (int i = 0; i < 1'000; ++i) this_fiber::yield();
                   } catch (const Cancelled&) {
                   }
                   seen.push_back(this_fiber::cancelled());
                 }),
                 std::runtime_error);
    seen.push_back(this_fiber::cancelled());
    EXPECT_THAT(seen, ElementsAre(false, true, false));
  });
}

}  // namespace
}  // namespace weft
