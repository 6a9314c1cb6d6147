// Nursery::close_after(): a channel that ends with the children.
#include <weft/channel.hpp>

#include <weft/cancel.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using ::testing::ElementsAre;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;

template <class T>
concept CanCloseAfter = requires(Nursery& n, T end) { n.close_after(std::move(end)); };
static_assert(CanCloseAfter<Sender<int>> && CanCloseAfter<Receiver<int>>);
static_assert(!CanCloseAfter<int>);

TEST(CloseAfter, ReceiversOutsideSeeTheEndWhenTheChildrenHaveEnded) {
  everywhere([] {
    constexpr int kChildren = 4;
    Channel<int> ch;  // its sender stays here, and would keep the channel open
    std::atomic<int> ended = 0;
    int sum = 0;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        for (const int v : ch.rx) sum += v;
        EXPECT_EQ(ended, kChildren) << "the end came after the last child";
      });
      nursery([&](Nursery& n) {
        n.close_after(ch.tx);
        for (int i = 0; i < kChildren; ++i)
          n.spawn([&, i] {
            EXPECT_TRUE(ch.tx.send(i + 1));
            ++ended;
          });
      });
      EXPECT_TRUE(ch.tx.closed());
      EXPECT_FALSE(ch.tx.send(9));
    });
    EXPECT_EQ(sum, 10);
  });
}

TEST(CloseAfter, WhatIsBufferedIsStillReceived) {
  on_both_engines([] {
    Channel<int> ch{4};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(ch.tx.send(i));
      });
      n.close_after(ch.tx);
      EXPECT_FALSE(ch.tx.closed()) << "not before the barrier";
    });
    std::vector<int> got;
    for (const int v : ch.rx) got.push_back(v);
    EXPECT_THAT(got, ElementsAre(0, 1, 2));
  });
}

TEST(CloseAfter, WhenTheNurseryIsCancelled) {
  everywhere([] {
    Channel<int> ch;
    std::atomic<bool> unwound = false;
    nursery([&](Nursery& outer) {
      outer.spawn([&] {
        EXPECT_EQ(ch.rx.recv(), std::nullopt);
        EXPECT_TRUE(unwound);
      });
      nursery([&](Nursery& n) {
        n.close_after(ch.tx);
        Event never;
        n.spawn([&] { n.cancel(); });
        try {
          never.wait();
        } catch (...) {
          unwound = true;
          throw;
        }
      });
    });
  });
}

TEST(CloseAfter, WhenAChildFails) {
  everywhere([] {
    Channel<int> ch;
    nursery([&](Nursery& outer) {
      outer.spawn([&] { EXPECT_EQ(ch.rx.recv(), std::nullopt) << "the end, not the error"; });
      EXPECT_THROW(nursery([&](Nursery& n) {
                     n.close_after(ch.tx);
                     n.spawn([] { throw std::runtime_error{"child"}; });
                   }),
                   std::runtime_error);
      EXPECT_TRUE(ch.tx.closed());
    });
  });
}

TEST(CloseAfter, WhenTheBodyFails) {
  on_both_engines([] {
    Channel<int> ch;
    EXPECT_THROW(nursery([&](Nursery& n) {
                   n.close_after(ch.tx);
                   throw std::runtime_error{"body"};
                 }),
                 std::runtime_error);
    EXPECT_EQ(ch.rx.recv(), std::nullopt);
  });
}

TEST(CloseAfter, WhenATimeoutEndsTheNursery) {
  SimIo{}.run([] {
    Channel<int> ch;
    EXPECT_FALSE(timeout(std::chrono::milliseconds{1}, [&] {
      nursery([&](Nursery& n) {
        n.close_after(ch.tx);
        n.spawn([&] { static_cast<void>(ch.tx.send(1)); });
      });
    }));
    EXPECT_EQ(ch.rx.recv(), std::nullopt) << "the send was cancelled: nothing was admitted";
  });
}

TEST(CloseAfter, CalledByAChild) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) { n.spawn([&] { n.close_after(ch.tx); }); });
    EXPECT_TRUE(ch.tx.closed());
  });
}

TEST(CloseAfter, ClosesOnceAndKeepsAnEarlierError) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.close_after(ch.tx);
      n.close_after(ch.tx);
      ch.tx.close(std::make_exception_ptr(std::runtime_error{"earlier"}));
    });
    EXPECT_THROW(static_cast<void>(ch.rx.recv()), std::runtime_error);
  });
}

TEST(CloseAfter, SeveralChannelsAndEitherEnd) {
  on_both_engines([] {
    Channel<int> a;
    Channel<std::vector<int>> b{1};
    nursery([&](Nursery& n) {
      n.close_after(a.tx);
      n.close_after(b.rx);
      n.close_after(Sender<int>{});  // of no channel
    });
    EXPECT_TRUE(a.rx.closed());
    EXPECT_TRUE(b.tx.closed());
  });
}

TEST(CloseAfter, GivesItsEndAway) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.close_after(std::move(ch.tx));
      EXPECT_FALSE(ch.tx);
      EXPECT_FALSE(ch.rx.closed());
    });
    EXPECT_EQ(ch.rx.recv(), std::nullopt);
  });
}

TEST(CloseAfter, TheArenaIsStillThereInOrderOfMaking) {
  on_both_engines([] {
    Channel<int> ch;
    struct Watcher {
      explicit Watcher(const Sender<int>& s) : tx(s) {}
      ~Watcher() { EXPECT_TRUE(tx.closed()) << "made before: destroyed after"; }
      Sender<int> tx;
    };
    nursery([&](Nursery& n) {
      n.make<Watcher>(ch.tx);
      n.close_after(ch.tx);
    });
  });
}

}  // namespace
}  // namespace weft
