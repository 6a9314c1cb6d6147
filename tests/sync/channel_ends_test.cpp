// Oneshots, the other side's end as an arm, and ends of no channel.
#include <weft/channel.hpp>

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;
using testing::text_of;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

// ── oneshot ─────────────────────────────────────────────────────────────────────────────────────

TEST(Oneshot, CarriesOneValue) {
  on_every_engine([] {
    Channel<int> ch = oneshot<int>("answer");
    EXPECT_EQ(ch.tx.capacity(), 1U);
    EXPECT_TRUE(ch.tx.send(42)) << "it does not wait";
    EXPECT_TRUE(ch.tx.closed());
    EXPECT_FALSE(ch.tx.send(43));
    EXPECT_EQ(ch.tx.try_send(44), SendStatus::closed);
    EXPECT_FALSE(ch.tx.close());
    EXPECT_EQ(ch.rx.recv(), 42);
    EXPECT_EQ(ch.rx.recv(), std::nullopt);
    EXPECT_EQ(ch.rx.try_recv().status(), RecvStatus::closed);
  });
}

TEST(Oneshot, OfTwoReceiversOneGetsItAndTheOtherSeesTheEnd) {
  on_every_engine([] {
    Channel<int> ch = oneshot<int>();
    std::atomic<int> values{0};
    std::atomic<int> ends{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&, rx = ch.rx] { rx.recv() ? ++values : ++ends; });
      n.spawn([&] { select(ch.rx.on_peer_gone()); });
      let_others_block();
      EXPECT_TRUE(ch.tx.send(1));
    });
    EXPECT_EQ(values.load(), 1);
    EXPECT_EQ(ends.load(), 1);
  });
}

TEST(Oneshot, ADroppedSenderIsAnEnd) {
  on_every_engine([] {
    Channel<int> ch = oneshot<int>();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(ch.rx.recv(), std::nullopt); });
      let_others_block();
      ch.tx.drop();
    });
    Channel<int> deaf = oneshot<int>();
    deaf.rx.drop();
    EXPECT_FALSE(deaf.tx.send(1));
  });
}

// ── the other side as an arm ────────────────────────────────────────────────────────────────────

TEST(PeerGone, TellsTheReceiver) {
  on_every_engine([] {
    for (const bool by_close : {false, true}) {
      Channel<int> ch{1};
      std::atomic<bool> told{false};
      EXPECT_EQ(select_first(ch.rx.on_peer_gone(), otherwise()), 1U);
      nursery([&](Nursery& n) {
        n.spawn([&] {
          select(ch.rx.on_peer_gone([&] { told = true; }));
        });
        EXPECT_TRUE(ch.tx.send(1));
        let_others_block();
        EXPECT_FALSE(told.load());
        if (by_close) ch.tx.close();
        else ch.tx.drop();
      });
      EXPECT_TRUE(told.load());
      EXPECT_EQ(ch.rx.recv(), 1);
      EXPECT_EQ(select_first(ch.rx.on_peer_gone(), otherwise()), 0U);
    }
  });
}

TEST(PeerGone, TellsTheSenderWhenNobodyReceives) {
  on_every_engine([] {
    Channel<int> ch{1};
    std::atomic<bool> told{false};
    Receiver<int> copy = ch.rx;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        select(ch.tx.on_peer_gone([&] { told = true; }));
      });
      let_others_block();
      ch.tx.close();  // not what it waits for
      ch.rx.drop();
      let_others_block();
      EXPECT_FALSE(told.load());
      copy.drop();
    });
    EXPECT_TRUE(told.load());
    EXPECT_EQ(select_first(ch.tx.on_peer_gone(), otherwise()), 0U);
  });
}

// Regression: the arm completed when the count of receivers fell, before sends were refused.
TEST(PeerGone, NoSendSucceedsAfterItCompleted) {
  on_workers({2U, 4U}, [] {
    for (int i = 0; i < 300; ++i) {
      Channel<int> ch{1};
      nursery([&](Nursery& n) {
        n.spawn([rx = std::move(ch.rx)]() mutable { rx.drop(); });
        n.spawn([tx = std::move(ch.tx)] {
          while (select_first(tx.on_peer_gone(), otherwise()) != 0) this_fiber::yield();
          EXPECT_TRUE(tx.closed());
          EXPECT_EQ(tx.try_send(1), SendStatus::closed);
        });
      });
    }
  });
}

// ── ends of no channel ──────────────────────────────────────────────────────────────────────────

template <class F>
void expect_no_channel(F f) {
  EXPECT_THAT(text_of<std::logic_error>(f), HasSubstr("this end of a channel was dropped"));
}

// Regression: close() and those below were noexcept, and ended the program.
TEST(EmptyEnds, ThrowWhateverIsAskedOfThem) {
  const Sender<int> tx;
  const Receiver<int> rx;
  const int value = 1;
  expect_no_channel([&] { static_cast<void>(tx.send(1)); });
  expect_no_channel([&] { static_cast<void>(tx.send(value)); });
  expect_no_channel([&] { static_cast<void>(tx.send(1, no_throw)); });
  expect_no_channel([&] { static_cast<void>(tx.send(value, no_throw)); });
  expect_no_channel([&] { static_cast<void>(tx.try_send(1)); });
  expect_no_channel([&] { static_cast<void>(tx.try_send(value)); });
  expect_no_channel([&] { static_cast<void>(tx.send_for(1, 1s)); });
  expect_no_channel([&] { static_cast<void>(tx.send_for(value, 1s)); });
  expect_no_channel([&] { static_cast<void>(tx.send_all(std::vector{1})); });
  expect_no_channel([&] { static_cast<void>(rx.recv()); });
  expect_no_channel([&] { static_cast<void>(rx.recv(no_throw)); });
  expect_no_channel([&] { static_cast<void>(rx.try_recv()); });
  expect_no_channel([&] { static_cast<void>(rx.recv_for(1s)); });
  expect_no_channel([&] { static_cast<void>(rx.begin()); });
  int out = 0;
  expect_no_channel([&] { rx.recv_many(&out, 1); });
  const auto both = [](const auto& end) {
    expect_no_channel([&] { end.close(); });
    expect_no_channel([&] { end.close(std::make_exception_ptr(1)); });
    expect_no_channel([&] { end.abort(); });
    expect_no_channel([&] { static_cast<void>(end.size()); });
    expect_no_channel([&] { static_cast<void>(end.capacity()); });
    expect_no_channel([&] { static_cast<void>(end.closed()); });
    expect_no_channel([&] { static_cast<void>(end.error()); });
  };
  both(tx);
  both(rx);
  Channel<int> ch;
  const Sender<int> moved = std::move(ch.tx);
  ch.rx.drop();
  both(ch.tx);
  both(ch.rx);
}

TEST(EmptyEnds, AreArmsThatNeverComplete) {
  on_both_engines([] {
    const Sender<int> tx;
    const Receiver<int> rx;
    EXPECT_EQ(select(tx.on_send(1), rx.on_recv(), tx.on_peer_gone(), rx.on_peer_gone(),
                     tx.on_send(1, [](bool) { FAIL(); }), after(1us)),
              5U);
    EXPECT_EQ(select(rx.on_recv(), otherwise()), 1U);
  });
}

}  // namespace
}  // namespace weft
