#include <weft/select.hpp>

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::expect_no_timer_left;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;
using testing::simulated;
using testing::text_of;

template <class T>
concept CanBeSelected = requires(T&& arm) { weft::select(std::forward<T>(arm)); };
static_assert(!CanBeSelected<int>);
static_assert(!CanBeSelected<Receiver<int>>, "a receiver is no arm; its on_recv() is");
static_assert(CanBeSelected<RecvArm<int>>);
static_assert(CanBeSelected<RecvArm<int>&>);
static_assert(!std::is_move_constructible_v<RecvArm<int>> &&
              !std::is_copy_constructible_v<SendArm<int>>);

// A full channel of one value.
Channel<int> holding(int value) {
  Channel<int> ch{1};
  EXPECT_EQ(ch.tx.try_send(value), SendStatus::ok);
  return ch;
}

// ── one arm of each kind ────────────────────────────────────────────────────────────────────────

TEST(Select, ReceivesByIndex) {
  on_both_engines([] {
    Channel<int> empty;
    Channel<int> ready = holding(7);
    auto a = empty.rx.on_recv();
    auto b = ready.rx.on_recv();
    EXPECT_EQ(select(a, b), 1U);
    EXPECT_EQ(b.value(), 7);
    EXPECT_EQ(a.value(), std::nullopt);
    EXPECT_EQ(ready.rx.size(), 0U);
  });
}

TEST(Select, ReceivesIntoAHandlerAndReturnsTheIndex) {
  on_both_engines([] {
    Channel<int> empty;
    Channel<int> ready = holding(7);
    std::optional<int> got;
    bool other = false;
    EXPECT_EQ(select(empty.rx.on_recv([&](std::optional<int>) { other = true; }),
                     ready.rx.on_recv([&](std::optional<int> v) { got = v; })),
              1U);
    EXPECT_EQ(got, 7);
    EXPECT_FALSE(other);
  });
}

TEST(Select, SendsByIndexAndIntoAHandler) {
  on_both_engines([] {
    Channel<int> full = holding(1);
    Channel<int> free{2};
    auto a = full.tx.on_send(2);
    auto b = free.tx.on_send(3);
    EXPECT_EQ(select(a, b), 1U);
    EXPECT_TRUE(b.sent());
    EXPECT_FALSE(a.sent());
    EXPECT_EQ(a.value(), 2) << "the loser keeps its value";
    bool sent = false;
    EXPECT_EQ(select(full.tx.on_send(4), free.tx.on_send(5, [&](bool s) { sent = s; })), 1U);
    EXPECT_TRUE(sent);
    EXPECT_EQ(free.rx.recv(), 3);
    EXPECT_EQ(free.rx.recv(), 5);
    EXPECT_EQ(full.rx.recv(), 1);
    EXPECT_EQ(full.rx.size(), 0U);
  });
}

TEST(Select, NamedOperationsAndTemporariesMix) {
  on_both_engines([] {
    Channel<int> ready = holding(7);
    Event never;
    auto quote = ready.rx.on_recv();
    EXPECT_EQ(select(never.on_set(), quote, after(1h)), 1U);
    EXPECT_EQ(quote.value(), 7);
  });
}

TEST(Select, ATimerWinsWhenNothingElseComes) {
  SimIo{}.run([] {
    Channel<int> ch;
    const Instant start = Clock::now();
    bool late = false;
    EXPECT_EQ(select(ch.rx.on_recv(), after(50ms), after(40ms, [&] { late = true; })), 2U);
    EXPECT_TRUE(late);
    EXPECT_EQ(Clock::now() - start, 40ms);
    expect_no_timer_left();
  });
}

TEST(Select, AnEventWins) {
  on_both_engines([] {
    Channel<int> ch;
    Event event;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        bool seen = false;
        EXPECT_EQ(select(ch.rx.on_recv(), event.on_set([&] { seen = true; })), 1U);
        EXPECT_TRUE(seen);
      });
      let_others_block();
      event.set();
    });
    EXPECT_EQ(select(ch.rx.on_recv(), event.on_set()), 1U) << "it stays set";
  });
}

TEST(Select, AFutureWins) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      Event go;
      Future<int> answer = n.async([&] {
        go.wait();
        return 42;
      });
      EXPECT_EQ(select(ch.rx.on_recv(), answer.on_ready(), otherwise()), 2U);
      go.set();
      bool ready = false;
      EXPECT_EQ(select(ch.rx.on_recv(), answer.on_ready([&] { ready = true; })), 1U);
      EXPECT_TRUE(ready);
      EXPECT_EQ(answer.get(), 42);
    });
  });
}

TEST(Select, TheOtherSidesEndWins) {
  on_both_engines([] {
    Channel<int> a;
    Channel<int> b;
    nursery([&](Nursery& n) {
      n.spawn([&, tx = std::move(a.tx)] {
        let_others_block();
        static_cast<void>(tx);
      });
      EXPECT_EQ(select(a.rx.on_peer_gone(), b.tx.on_peer_gone()), 0U);
    });
    b.rx.drop();
    int gone = 0;
    EXPECT_EQ(select(b.tx.on_peer_gone([&] { ++gone; })), 0U);
    EXPECT_EQ(select(a.rx.on_peer_gone([&] { ++gone; })), 0U);
    EXPECT_EQ(gone, 2);
  });
}

TEST(Select, AClosedChannelHasNoSendersForItsReceivers) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(select(ch.rx.on_peer_gone(), ch.tx.on_peer_gone()), 0U); });
      let_others_block();
      ch.tx.close();
    });
  });
}

TEST(Select, OtherwiseWinsOnlyIfNothingElseCan) {
  on_both_engines([] {
    Channel<int> ch{1};
    int idle = 0;
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(select(otherwise([&] { ++idle; }), ch.rx.on_recv()), 0U);
      EXPECT_EQ(ch.tx.try_send(i), SendStatus::ok);
      EXPECT_EQ(select(otherwise([&] { ++idle; }), ch.rx.on_recv()), 1U);
      EXPECT_EQ(select_first(otherwise(), ch.rx.on_recv()), 0U);
      EXPECT_EQ(ch.tx.try_send(i), SendStatus::ok);
      EXPECT_EQ(select_first(otherwise(), ch.rx.on_recv()), 1U) << "it is last in any order";
    }
    EXPECT_EQ(idle, 20);
    EXPECT_EQ(select(otherwise()), 0U);
  });
}

// Does something in the middle of a select, when its turn comes to be tried; never wins.
class Meddler final : public Waitable {
 public:
  explicit Meddler(std::function<void()> meddle) : meddle_(std::move(meddle)) {}
  bool try_complete() override {
    if (meddle_) std::exchange(meddle_, nullptr)();
    return false;
  }
  bool publish() noexcept override { return true; }
  void unpublish() noexcept override {}
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "meddling"}; }

 private:
  std::function<void()> meddle_;
};

// Each arm was looked at while the value was in the other.
TEST(Select, OtherwiseWinsOnlyIfNoArmWasReadyAtOneMoment) {
  on_both_engines([] {
    Channel<int> a{1};
    Channel<int> b{1};
    EXPECT_TRUE(a.tx.send(1));
    Meddler meddler{[&] {
      EXPECT_EQ(b.tx.try_send(2), SendStatus::ok);
      EXPECT_TRUE(a.rx.try_recv());
    }};
    EXPECT_EQ(select_first(b.rx.on_recv(), otherwise(), meddler, a.rx.on_recv()), 0U);
    EXPECT_EQ(b.rx.size(), 0U);
    EXPECT_EQ(select_first(b.rx.on_recv(), otherwise(), meddler, a.rx.on_recv()), 1U);
  });
}

TEST(Select, OtherwiseDoesNotLetOthersRun) {
  on_both_engines([] {
    Channel<int> a;
    Channel<int> b;
    int others = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] { ++others; });
      for (int i = 0; i < 10; ++i)
        EXPECT_EQ(select(a.rx.on_recv(), b.rx.on_recv(), a.tx.on_send(1), otherwise()), 3U);
      EXPECT_EQ(others, 0);
    });
  });
}

TEST(Select, OtherwiseLeavesNoTimerAndNoWaiter) {
  SimIo{}.run([] {
    Channel<int> ch;
    EXPECT_EQ(select(ch.rx.on_recv(), ch.tx.on_send(1), after(1s), otherwise()), 3U);
    EXPECT_EQ(ch.tx.try_send(2), SendStatus::full);
    EXPECT_EQ(ch.rx.try_recv().status(), RecvStatus::empty);
    expect_no_timer_left();
  });
}

TEST(Select, AllKindsInOneEachWinsInTurn) {
  on_both_engines([] {
    for (std::size_t kind = 0; kind < 7; ++kind) {
      Channel<int> in;
      Channel<int> out;
      Channel<int> left;
      Channel<int> right;
      Event event;
      Event finish;
      nursery([&](Nursery& n) {
        Future<int> future = n.async([&] {
          finish.wait();
          return 1;
        });
        n.spawn([&] {
          let_others_block();
          switch (kind) {
            case 0: EXPECT_TRUE(in.tx.send(5)); break;
            case 1: EXPECT_EQ(out.rx.recv(), 6); break;
            case 2: event.set(); break;
            case 3: finish.set(); break;
            case 4: left.tx.drop(); break;
            case 5: right.rx.drop(); break;
            default: break;  // time passes
          }
        });
        auto recv = in.rx.on_recv();
        auto send = out.tx.on_send(6);
        EXPECT_EQ(select(recv, send, event.on_set(), future.on_ready(), left.rx.on_peer_gone(),
                         right.tx.on_peer_gone(), after(kind == 6 ? 1ms : 1h)),
                  kind);
        EXPECT_EQ(recv.value(), kind == 0 ? std::optional{5} : std::nullopt);
        EXPECT_EQ(send.sent(), kind == 1);
        finish.set();
      });
      if (simulated()) expect_no_timer_left();
    }
  });
}

// ── losers lose nothing ─────────────────────────────────────────────────────────────────────────

TEST(Select, LosersTakeNothing) {
  on_both_engines([] {
    Channel<int> a = holding(1);
    Channel<int> b = holding(2);
    Channel<int> c{1};
    const std::size_t winner = select(a.rx.on_recv(), b.rx.on_recv(), c.tx.on_send(3));
    EXPECT_EQ(a.rx.size(), winner == 0 ? 0U : 1U);
    EXPECT_EQ(b.rx.size(), winner == 1 ? 0U : 1U);
    EXPECT_EQ(c.rx.size(), winner == 2 ? 1U : 0U);
  });
}

TEST(Select, AnArmThatLostEntersAnother) {
  on_both_engines([] {
    Channel<int> slow{1};
    Channel<int> fast{4};
    auto slow_value = slow.rx.on_recv();
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(fast.tx.try_send(i), SendStatus::ok);
      auto fast_value = fast.rx.on_recv();
      EXPECT_EQ(select(slow_value, fast_value), 1U);
      EXPECT_EQ(fast_value.value(), i);
    }
    EXPECT_EQ(slow.tx.try_send(9), SendStatus::ok);
    EXPECT_EQ(select(slow_value, fast.rx.on_recv()), 0U);
    EXPECT_EQ(slow_value.value(), 9);
  });
}

TEST(Select, AnArmThatLostWhileParkedEntersAnother) {
  on_both_engines([] {
    Channel<std::unique_ptr<int>> boxes;
    Event nudge;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto send = boxes.tx.on_send(std::make_unique<int>(3));
        EXPECT_EQ(select(send, nudge.on_set()), 1U);
        ASSERT_NE(send.value(), nullptr) << "move-only, and still here";
        EXPECT_EQ(*send.value(), 3);
        EXPECT_EQ(select(send, after(1h)), 0U);
        EXPECT_TRUE(send.sent());
      });
      let_others_block();
      nudge.set();
      let_others_block();
      const auto got = boxes.rx.recv();
      ASSERT_TRUE(got && *got);
      EXPECT_EQ(**got, 3);
    });
  });
}

TEST(Select, TheTimerThatLostIsDisarmed) {
  SimIo{}.run([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto quiet = after(1h);
        for (int i = 0; i < 3; ++i) EXPECT_EQ(select(ch.rx.on_recv(), quiet), 0U);
      });
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(ch.tx.send(i));
    });
    expect_no_timer_left();
  });
}

TEST(Select, TheTimerThatLostStillCountsFromItsBeginning) {
  SimIo{}.run([] {
    Channel<int> ch = holding(1);
    const Instant start = Clock::now();
    auto deadline = after(10ms);
    EXPECT_EQ(select(ch.rx.on_recv(), deadline), 0U);
    sleep_for(4ms);
    EXPECT_EQ(select(ch.rx.on_recv(), deadline), 1U);
    EXPECT_EQ(Clock::now() - start, 10ms);
  });
}

TEST(Select, HandedOverWhileParked) {
  on_both_engines([] {
    Channel<int> in;
    Channel<int> out;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto recv = in.rx.on_recv();
        EXPECT_EQ(select(recv, out.tx.on_send(1)), 0U);
        EXPECT_EQ(recv.value(), 5);
        EXPECT_EQ(select(in.rx.on_recv(), out.tx.on_send(2)), 1U);
      });
      EXPECT_TRUE(in.tx.send(5));
      EXPECT_EQ(out.rx.recv(), 2);
    });
    EXPECT_EQ(out.rx.try_recv().status(), RecvStatus::empty);
  });
}

TEST(Select, MoveOnlyValuesArriveOnce) {
  on_both_engines([] {
    Channel<std::unique_ptr<int>> a{1};
    Channel<std::unique_ptr<int>> b{1};
    auto to_a = a.tx.on_send(std::make_unique<int>(1));
    auto to_b = b.tx.on_send(std::make_unique<int>(2));
    const bool first = select(to_a, to_b) == 0;
    EXPECT_EQ(to_a.value() == nullptr, first);
    EXPECT_EQ(to_b.value() == nullptr, !first);
    std::unique_ptr<int> got;
    select(a.rx.on_recv([&](std::optional<std::unique_ptr<int>> v) { got = std::move(*v); }),
           b.rx.on_recv([&](std::optional<std::unique_ptr<int>> v) { got = std::move(*v); }));
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(*got, first ? 1 : 2);
  });
}

struct Keep {
  std::optional<int>* slot;
  void operator()(std::optional<int> v) const { *slot = v; }
};

TEST(Select, ArmsOfOneTypeRunTheirOwnHandlers) {
  const auto body = [] {
    for (const std::size_t capacity : {1U, 0U})
      for (std::size_t chosen = 0; chosen < 4; ++chosen) {
        std::array<std::optional<Channel<int>>, 4> ch;
        for (auto& each : ch) each.emplace(capacity);
        std::array<std::optional<int>, 4> got;
        const auto arm = [&](std::size_t i) { return ch[i]->rx.on_recv(Keep{&got[i]}); };
        nursery([&](Nursery& n) {
          if (capacity == 1) EXPECT_TRUE(ch[chosen]->tx.send(7));
          else n.spawn([&] { EXPECT_TRUE(ch[chosen]->tx.send(7)); });  // finds it parked
          EXPECT_EQ(select(arm(0), arm(1), arm(2), arm(3)), chosen);
        });
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i].has_value(), i == chosen);
      }
  };
  on_seeds(body);
  on_workers(body);
}

TEST(Select, AReceiveWithAHandlerByName) {
  const auto body = [] {
    Channel<int> ch;
    Channel<int> silent;
    std::vector<std::optional<int>> got;
    auto recv = ch.rx.on_recv([&](std::optional<int> v) { got.push_back(v); });
    nursery([&](Nursery& n) {
      n.spawn([tx = std::move(ch.tx)] {
        EXPECT_TRUE(tx.send(1));
        this_fiber::yield();
        EXPECT_TRUE(tx.send(2));
        tx.close(std::make_exception_ptr(std::runtime_error{"torn"}));
      });
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(select(silent.rx.on_recv(), recv), 1U);
        recv.renew();
      }
    });
    EXPECT_THROW(select(silent.rx.on_recv(), recv), std::runtime_error);
    EXPECT_EQ(got, (std::vector<std::optional<int>>{1, 2}));
  };
  on_seeds(body);
  on_workers(body);
}

// A move that throws when it is told to. Such values travel in boxes.
struct Fragile {
  explicit Fragile(int v) : value(v) {}
  Fragile(Fragile&& other) : value(other.value) {
    if (other.breaks) throw std::runtime_error{"broken"};
    other.value = 0;
  }
  Fragile& operator=(Fragile&&) = delete;
  int value;
  bool breaks = false;
};

TEST(Select, ValuesWhoseMoveThrows) {
  on_both_engines([] {
    Channel<Fragile> ch{1};
    auto send = ch.tx.on_send(Fragile{4});
    EXPECT_EQ(select(send, ch.rx.on_recv()), 0U);
    auto loser = ch.tx.on_send(Fragile{5});
    auto recv = ch.rx.on_recv();
    EXPECT_EQ(select(loser, recv), 1U);
    EXPECT_EQ(recv.value()->value, 4);
    EXPECT_EQ(loser.value().value, 5);
    loser.value().breaks = true;
    EXPECT_EQ(select(loser), 0U) << "the box moves, not the value";
    auto broken = ch.rx.on_recv();
    EXPECT_EQ(select(broken), 0U);
    EXPECT_THROW(static_cast<void>(broken.value()), std::runtime_error);
  });
}

// ── one channel in several arms ─────────────────────────────────────────────────────────────────

TEST(Select, OneChannelInSeveralArms) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        int sum = 0;
        for (int i = 0; i < 30; ++i) {
          auto a = ch.rx.on_recv();
          auto b = ch.rx.on_recv();
          auto c = ch.rx.on_recv();
          const std::size_t winner = select(a, b, c);
          EXPECT_EQ((a.value() ? 1 : 0) + (b.value() ? 1 : 0) + (c.value() ? 1 : 0), 1);
          sum += *(winner == 0 ? a : winner == 1 ? b : c).value();
        }
        EXPECT_EQ(sum, 30 * 29 / 2);
      });
      for (int i = 0; i < 30; ++i) EXPECT_TRUE(ch.tx.send(i));
    });
  });
}

TEST(Select, ASendAndAReceiveOnOneChannelDoNotMeet) {
  SimIo{}.run([] {
    Channel<int> ch;
    EXPECT_EQ(select(ch.tx.on_send(1), ch.rx.on_recv(), after(1ms)), 2U);
    EXPECT_EQ(select(ch.rx.on_recv(), ch.tx.on_send(1), after(1ms)), 2U);
    EXPECT_EQ(select_first(ch.rx.on_recv(), ch.tx.on_send(1), otherwise()), 2U);
    EXPECT_THROW(select(ch.rx.on_recv(), ch.tx.on_send(1)), Deadlock);
  });
}

TEST(Select, ASendAndAReceiveOnOneChannelMeetOthers) {
  on_both_engines([] {
    Channel<int> ch;
    for (int i = 0; i < 10; ++i) {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          auto recv = ch.rx.on_recv();
          EXPECT_EQ(select(ch.tx.on_send(1), recv), 1U);
          EXPECT_EQ(recv.value(), 2);
        });
        let_others_block();
        EXPECT_TRUE(ch.tx.send(2));
      });
      nursery([&](Nursery& n) {
        n.spawn([&] { EXPECT_EQ(select(ch.tx.on_send(1), ch.rx.on_recv()), 0U); });
        let_others_block();
        EXPECT_EQ(ch.rx.recv(), 1);
      });
    }
  });
}

TEST(Select, TwoThatBothSendAndReceiveOnOneChannelMeetEachOther) {
  const auto program = [] {
    Channel<int> ch;
    std::atomic<int> sent = 0;
    std::atomic<int> received = 0;
    nursery([&](Nursery& n) {
      for (int who = 0; who < 2; ++who)
        n.spawn([&] {
          for (int i = 0; i < 50; ++i)
            select(ch.tx.on_send(1, [&](bool) { ++sent; }),
                   ch.rx.on_recv([&](std::optional<int>) { ++received; }));
        });
    });
    EXPECT_EQ(sent, 50);
    EXPECT_EQ(received, 50);
  };
  on_seeds(program, 50);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

TEST(Select, OnABufferedChannelASendAndAReceiveTakeTurns) {
  on_both_engines([] {
    Channel<int> ch{1};
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_EQ(select(ch.tx.on_send(1), ch.rx.on_recv()), i % 2) << "full or empty";
  });
}

// ── disabled arms ───────────────────────────────────────────────────────────────────────────────

TEST(Select, EndsOfNoChannelNeverWin) {
  SimIo{}.run([] {
    const Sender<int> no_sender;
    const Receiver<int> no_receiver;
    Channel<int> dropped = holding(1);
    dropped.rx.drop();
    dropped.tx.drop();
    Channel<int> ch = holding(7);
    for (int i = 0; i < 50; ++i) {
      const std::size_t winner =
          select(no_sender.on_send(1), no_receiver.on_recv(), no_sender.on_peer_gone(),
                 no_receiver.on_peer_gone(), dropped.rx.on_recv(), dropped.tx.on_send(2),
                 ch.rx.on_recv());
      EXPECT_EQ(winner, 6U);
      EXPECT_EQ(ch.tx.try_send(7), SendStatus::ok);
    }
    EXPECT_EQ(select(no_sender.on_send(1), no_receiver.on_recv(), otherwise()), 2U);
    EXPECT_EQ(select(no_sender.on_send(1), no_receiver.on_recv(), after(1ms)), 2U);
    expect_no_timer_left();
  });
}

TEST(Select, OnlyDisabledArmsAreADeadlock) {
  const auto program = [] {
    select(Sender<int>{}.on_send(1), Receiver<int>{}.on_recv(), Sender<int>{}.on_peer_gone());
  };
  EXPECT_THAT(text_of<Deadlock>([&] { SimIo{}.run(program); }),
              AllOf(HasSubstr("1 fiber waits"), HasSubstr("channel send"),
                    HasSubstr("channel recv"), HasSubstr("channel receivers gone")));
  EXPECT_THAT(text_of<Deadlock>([&] {
                FiberIo{{.workers = 2, .on_deadlock = OnDeadlock::raise}}.run(program);
              }),
              HasSubstr("1 fiber waits"));
}

TEST(Select, ADeadlockNamesEveryArm) {
  const std::string text = text_of<Deadlock>([] {
    SimIo{}.run([] {
      Channel<int> ch{ChannelOptions<int>{.name = "orders"}};
      Event event{"stop"};
      select_first(ch.rx.on_recv(), event.on_set(), ch.rx.on_peer_gone());
    });
  });
  EXPECT_THAT(text, HasSubstr("channel recv \"orders\" (1 sender live) or event wait \"stop\" or "
                              "channel senders gone \"orders\" (1 sender live)"));
}

// ── closed channels ─────────────────────────────────────────────────────────────────────────────

TEST(Select, AClosedChannelWinsWithEmpty) {
  on_both_engines([] {
    Channel<int> ch = holding(1);
    ch.tx.close();
    auto last = ch.rx.on_recv();
    EXPECT_EQ(select(last), 0U);
    EXPECT_EQ(last.value(), 1) << "what was admitted comes first";
    for (int i = 0; i < 3; ++i) {
      auto end = ch.rx.on_recv();
      EXPECT_EQ(select(end, Receiver<int>{}.on_recv()), 0U);
      EXPECT_EQ(end.value(), std::nullopt);
    }
    auto send = ch.tx.on_send(8);
    EXPECT_EQ(select(send), 0U);
    EXPECT_FALSE(send.sent());
    EXPECT_EQ(send.value(), 8);
    bool sent = true;
    select(ch.tx.on_send(9, [&](bool s) { sent = s; }));
    EXPECT_FALSE(sent);
  });
}

TEST(Select, ACloseWakesIt) {
  on_both_engines([] {
    Channel<int> ch;
    Channel<int> other;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        bool ended = false;
        EXPECT_EQ(select(other.rx.on_recv(), ch.rx.on_recv([&](std::optional<int> v) {
          ended = !v;
        })),
                  1U);
        EXPECT_TRUE(ended);
      });
      let_others_block();
      ch.tx.close();
    });
  });
}

TEST(Select, TheLastReceiversEndWakesASend) {
  on_both_engines([] {
    Channel<int> ch;
    Channel<int> other;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto send = ch.tx.on_send(5);
        EXPECT_EQ(select(other.rx.on_recv(), send), 1U);
        EXPECT_FALSE(send.sent());
        EXPECT_EQ(send.value(), 5);
      });
      let_others_block();
      ch.rx.drop();
    });
  });
}

TEST(Select, AnErrorIsThrownByValueAndBeforeTheHandler) {
  on_both_engines([] {
    Channel<int> ch = holding(1);
    ch.tx.close(std::make_exception_ptr(std::runtime_error{"feed lost"}));
    auto drained = ch.rx.on_recv();
    EXPECT_EQ(select(drained), 0U);
    EXPECT_EQ(drained.value(), 1);
    auto end = ch.rx.on_recv();
    EXPECT_EQ(select(end), 0U) << "select itself does not throw it";
    EXPECT_EQ(text_of<std::runtime_error>([&] { static_cast<void>(end.value()); }), "feed lost");
    EXPECT_THROW(static_cast<void>(end.value()), std::runtime_error) << "again";
    bool ran = false;
    EXPECT_THROW(select(ch.rx.on_recv([&](std::optional<int>) { ran = true; })),
                 std::runtime_error);
    EXPECT_FALSE(ran);
  });
}

TEST(Select, AnAbortWakesBothSides) {
  on_both_engines([] {
    Channel<int> ch;
    Channel<int> out = holding(0);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto recv = ch.rx.on_recv();
        EXPECT_EQ(select(recv, Receiver<int>{}.on_recv()), 0U);
        EXPECT_THROW(static_cast<void>(recv.value()), std::runtime_error);
      });
      n.spawn([&] {
        auto send = out.tx.on_send(1);
        EXPECT_EQ(select(send, Receiver<int>{}.on_recv()), 0U);
        EXPECT_FALSE(send.sent());
        EXPECT_EQ(send.value(), 1);
      });
      let_others_block();
      ch.tx.abort(std::make_exception_ptr(std::runtime_error{"stop"}));
      out.rx.abort();
    });
  });
}

TEST(Select, DropNewAndDropOldNeverWait) {
  on_both_engines([] {
    Channel<int> newest{ChannelOptions<int>{.capacity = 1, .overflow = Overflow::drop_old}};
    Channel<int> oldest{ChannelOptions<int>{.capacity = 1, .overflow = Overflow::drop_new}};
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(select(newest.tx.on_send(i)), 0U);
      auto send = oldest.tx.on_send(i);
      EXPECT_EQ(select(send), 0U);
      EXPECT_EQ(send.sent(), i == 0);
      if (i > 0) {
        EXPECT_EQ(send.value(), i);
      }
    }
    EXPECT_EQ(newest.rx.recv(), 2);
    EXPECT_EQ(oldest.rx.recv(), 0);
  });
}

// ── handlers ────────────────────────────────────────────────────────────────────────────────────

TEST(Select, AHandlersExceptionPasses) {
  on_both_engines([] {
    Channel<int> ch = holding(1);
    EXPECT_THROW(select(ch.rx.on_recv([](std::optional<int>) { throw std::logic_error{"no"}; }),
                        after(1h)),
                 std::logic_error);
    EXPECT_EQ(ch.rx.size(), 0U) << "it was received";
    if (simulated()) expect_no_timer_left();
  });
}

TEST(Select, AHandlerMaySelectAndWait) {
  on_both_engines([] {
    Channel<int> a = holding(1);
    Channel<int> b = holding(2);
    int sum = 0;
    select(a.rx.on_recv([&](std::optional<int> v) {
      sum += *v;
      this_fiber::yield();
      select(b.rx.on_recv([&](std::optional<int> w) { sum += *w; }), a.rx.on_recv());
    }));
    EXPECT_EQ(sum, 3);
  });
}

TEST(Select, AHandlerRunsAfterTheOthersAreWithdrawn) {
  on_both_engines([] {
    Channel<int> a = holding(1);
    Channel<int> b;
    select(a.rx.on_recv([&](std::optional<int>) {
             EXPECT_EQ(b.tx.try_send(1), SendStatus::full) << "nobody receives any more";
           }),
           b.rx.on_recv());
  });
}

// ── cancellation and time-outs ──────────────────────────────────────────────────────────────────

TEST(Select, InACancelledScopeItThrowsAlthoughReady) {
  on_both_engines([] {
    Channel<int> ch = holding(1);
    Channel<int> out{1};
    const bool finished = cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      EXPECT_THROW(select(ch.rx.on_recv(), out.tx.on_send(1)), Cancelled);
      EXPECT_THROW(select_first(ch.rx.on_recv()), Cancelled);
      EXPECT_THROW(select(ch.rx.on_recv(), otherwise()), Cancelled);
      EXPECT_THROW(select(otherwise()), Cancelled);
      SelectSet set;
      set.recv(ch.rx, [](std::optional<int>) { ADD_FAILURE(); });
      EXPECT_THROW(set.wait(), Cancelled);
      this_fiber::checkpoint();
    });
    EXPECT_FALSE(finished);
    EXPECT_EQ(ch.rx.size(), 1U);
    EXPECT_EQ(out.rx.size(), 0U);
  });
}

TEST(Select, CancelledWhileParkedNothingIsLost) {
  on_both_engines([] {
    Channel<int> in;
    Channel<int> out;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        auto send = out.tx.on_send(4);
        auto recv = in.rx.on_recv();
        EXPECT_THROW(select(recv, send, after(1h)), Cancelled);
        EXPECT_EQ(send.value(), 4);
        EXPECT_FALSE(send.sent());
        EXPECT_FALSE(recv.value());
      });
      let_others_block();
      n.cancel();
    });
    EXPECT_EQ(in.tx.try_send(1), SendStatus::full);
    EXPECT_EQ(out.rx.try_recv().status(), RecvStatus::empty);
    if (simulated()) expect_no_timer_left();
  });
}

TEST(Select, ATimeoutAroundIt) {
  SimIo{}.run([] {
    Channel<int> ch;
    const Instant start = Clock::now();
    EXPECT_FALSE(timeout(5ms, [&] { select(ch.rx.on_recv(), after(1h)); }));
    EXPECT_EQ(Clock::now() - start, 5ms);
    EXPECT_EQ(timeout(5ms, [&] { return select(ch.rx.on_recv(), after(1ms)); }), 1U);
    expect_no_timer_left();
  });
}

TEST(Select, ShieldedItIsNotCancelled) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        shielded([&] {
          auto recv = ch.rx.on_recv();
          EXPECT_EQ(select(recv, Receiver<int>{}.on_recv()), 0U);
          EXPECT_EQ(recv.value(), 3);
        });
        EXPECT_THROW(select(ch.rx.on_recv()), Cancelled);
      });
      n.spawn([&] {
        shielded([&] {
          let_others_block();
          EXPECT_TRUE(ch.tx.send(3));
        });
      });
      let_others_block();
      n.cancel();
    });
  });
}

TEST(Select, ACancelAndAHandOffAtOnceLoseNothing) {
  const auto program = [] {
    for (int round = 0; round < 20; ++round) {
      Channel<int> ch;
      std::atomic<int> received = 0;
      std::atomic<bool> sent = false;
      nursery([&](Nursery& outer) {
        outer.spawn([&] {
          nursery([&](Nursery& n) {
            n.spawn([&] {
              select(ch.rx.on_recv([&](std::optional<int> v) { received += v.value_or(0); }),
                     after(1h));
            });
            n.spawn([&] { n.cancel(); });
          });
          ch.rx.drop();
        });
        sent = ch.tx.send(1);
      });
      EXPECT_EQ(received, sent ? 1 : 0);
    }
  };
  on_seeds(program, 50);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// ── many arms ───────────────────────────────────────────────────────────────────────────────────

template <std::size_t... I>
std::size_t select_with(const Receiver<int>& none, RecvArm<int>& last, std::index_sequence<I...>) {
  return select(((void)I, none.on_recv())..., last);
}

TEST(Select, SixtyFourArmsInOneCall) {
  on_both_engines([] {
    Channel<int> ch = holding(1);
    auto last = ch.rx.on_recv();
    EXPECT_EQ(select_with(Receiver<int>{}, last, std::make_index_sequence<63>{}), 63U);
    EXPECT_EQ(last.value(), 1);
  });
}

TEST(Select, AThousandArmsAndAnyOfThemWins) {
  SimIo{{.stack_bytes = 512 * 1024}}.run([] {
    constexpr std::size_t kArms = 1000;
    std::vector<Channel<int>> channels;
    for (std::size_t i = 0; i < kArms; ++i) channels.emplace_back();
    Event event;
    SelectSet set;
    std::size_t seen = kArms;
    for (std::size_t i = 0; i < kArms; ++i) {
      if (i % 2 == 0) set.recv(channels[i].rx, [&, i](std::optional<int>) { seen = i; });
      else set.send(channels[i].tx, 1, [&, i](bool) { seen = i; });
    }
    for (const std::size_t winner : {std::size_t{0}, std::size_t{1}, std::size_t{498},
                                     std::size_t{998}, std::size_t{999}}) {
      nursery([&](Nursery& n) {
        n.spawn([&] { EXPECT_EQ(set.wait(), winner); });
        settle();
        if (winner % 2 == 0) {
          EXPECT_TRUE(channels[winner].tx.send(1));
        } else {
          EXPECT_EQ(channels[winner].rx.recv(), 1);
        }
      });
      EXPECT_EQ(seen, winner);
    }
    set.remove(999);
    const std::size_t alarm = set.after(1ms, [] {});
    EXPECT_EQ(alarm, 1000U);
    EXPECT_EQ(set.enabled(), 1000U);
    EXPECT_EQ(set.wait(), alarm);
    set.remove(alarm);
    auto on_set = event.on_set();
    const std::size_t eventual = set.add(on_set);
    event.set();
    EXPECT_EQ(set.wait(), eventual);
    expect_no_timer_left();
  });
}

TEST(Select, MoreArmsThanTheWordHoldsAreRefused) {
  SimIo{}.run([] {
    Channel<int> ch = holding(1);
    Channel<int> none;
    SelectSet set;
    set.recv(ch.rx, [](std::optional<int>) {});
    for (int i = 0; i < 1023; ++i) set.recv(none.rx, [](std::optional<int>) {});
    EXPECT_EQ(set.wait(), 0U) << "1024 are not too many";
    EXPECT_EQ(ch.tx.try_send(1), SendStatus::ok);
    const std::size_t extra = set.recv(none.rx, [](std::optional<int>) {});
    EXPECT_EQ(text_of<std::invalid_argument>([&] { set.wait(); }),
              "weft::select(): at most 1024 arms, not 1025");
    EXPECT_EQ(ch.rx.size(), 1U);
    set.remove(extra);
    EXPECT_EQ(set.wait(), 0U) << "it stays usable";
  });
}

// ── threads and workers ─────────────────────────────────────────────────────────────────────────

TEST(Select, FromAPlainThread) {
  Channel<int> in;
  Channel<int> out;
  Channel<int> quiet;
  std::thread thread{[&] {
    for (int i = 0; i < 100; ++i) {
      auto recv = in.rx.on_recv();
      EXPECT_EQ(select(recv, quiet.rx.on_recv(), after(1h)), 0U);
      EXPECT_EQ(select(out.tx.on_send(*recv.value() * 2), quiet.rx.on_recv()), 0U);
    }
    EXPECT_EQ(select(quiet.rx.on_recv(), after(1ms)), 1U);
    EXPECT_EQ(select(quiet.rx.on_recv(), otherwise()), 1U);
  }};
  FiberIo{{.workers = 2}}.run([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(select(in.tx.on_send(i), quiet.rx.on_recv()), 0U);
      auto recv = out.rx.on_recv();
      EXPECT_EQ(select(recv, quiet.rx.on_recv()), 0U);
      EXPECT_EQ(recv.value(), 2 * i);
    }
  });
  thread.join();
}

TEST(Select, BetweenTwoThreads) {
  Channel<int> a;
  Channel<int> b;
  const auto side = [&](int& sum) {
    for (int i = 0; i < 500; ++i)
      select(a.tx.on_send(1, [&](bool) { --sum; }), b.rx.on_recv([&](std::optional<int> v) {
        sum += *v;
      }));
  };
  const auto opposite = [&](int& sum) {
    for (int i = 0; i < 500; ++i)
      select(b.tx.on_send(1, [&](bool) { --sum; }), a.rx.on_recv([&](std::optional<int> v) {
        sum += *v;
      }));
  };
  int sum_a = 0;
  int sum_b = 0;
  std::thread thread{[&] { side(sum_a); }};
  opposite(sum_b);
  thread.join();
  EXPECT_EQ(sum_a + sum_b, 0);
}

// Every select meets one of the other side: what goes out comes in, whoever meets whom.
void facing_each_other(int pairs, int rounds) {
  Channel<int> there;
  Channel<int> back;
  std::atomic<long> sent = 0;
  std::atomic<long> received = 0;
  std::atomic<int> count_sent = 0;
  std::atomic<int> count_received = 0;
  const auto side = [&](const Channel<int>& out, const Channel<int>& in, int seed) {
    for (int i = 0; i < rounds; ++i)
      select(out.tx.on_send(seed + i,
                            [&](bool) {
                              sent += seed + i;
                              ++count_sent;
                            }),
             in.rx.on_recv([&](std::optional<int> v) {
               received += *v;
               ++count_received;
             }));
  };
  nursery([&](Nursery& n) {
    for (int p = 0; p < pairs; ++p) {
      n.spawn([&, p] { side(there, back, 1000 * p); });
      n.spawn([&, p] { side(back, there, -500 * p); });
    }
  });
  EXPECT_EQ(sent, received);
  EXPECT_EQ(count_sent, pairs * rounds);
  EXPECT_EQ(count_received, pairs * rounds);
}

TEST(Select, TwoFacingEachOther) {
  on_seeds([] { facing_each_other(1, 30); }, 50);
  on_workers({1U, 2U, 4U, 16U}, [] { facing_each_other(1, 2000); });
}

TEST(Select, ManyFacingEachOther) {
  on_seeds([] { facing_each_other(4, 10); }, 30);
  on_workers({1U, 2U, 4U, 16U}, [] { facing_each_other(8, 250); });
}

TEST(Select, ARingOfSelectsConservesItsTokens) {
  const auto program = [] {
    constexpr int kFibers = 6;
    constexpr int kRounds = 200;
    std::vector<Channel<int>> ring;
    for (int i = 0; i < kFibers; ++i) ring.emplace_back(2);
    std::atomic<long> in = 0;
    std::atomic<long> out = 0;
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < kFibers; ++i)
        n.spawn([&, i] {
          Channel<int>& left = ring[i];
          Channel<int>& right = ring[(i + 1) % kFibers];
          for (int r = 0; r < kRounds; ++r)
            select(right.tx.on_send(r, [&](bool) { in += r; }),
                   left.rx.on_recv([&](std::optional<int> v) { out += *v; }),
                   otherwise([] { this_fiber::yield(); }));
        });
    });
    for (Channel<int>& ch : ring) {
      ch.tx.close();
      for (const int v : ch.rx) out += v;
    }
    EXPECT_EQ(in, out);
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

}  // namespace
}  // namespace weft
