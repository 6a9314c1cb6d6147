// Scenarios of Go's test programs for select, on weft's.
#include <weft/select.hpp>

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;

// ── select1: sends to whichever of two takes it, each once; a done one is disabled ──────────────

// How many of the two could be sent to without waiting.
int send_to_both(Sender<int> a, Sender<int> b, int& value) {
  int sent = 0;
  for (bool more = true; more;)
    select(a.on_send(value,
                     [&](bool) {
                       a = {};
                       ++sent;
                       ++value;
                     }),
           b.on_send(value,
                     [&](bool) {
                       b = {};
                       ++sent;
                       ++value;
                     }),
           otherwise([&] { more = false; }));
  return sent;
}

TEST(GoSelect1, EachOfTwoIsSentToOnce) {
  on_both_engines([] {
    Channel<int> a{1};
    Channel<int> b{1};
    int value = 1;
    EXPECT_EQ(send_to_both(a.tx, b.tx, value), 2);
    const int first = *a.rx.recv();
    const int second = *b.rx.recv();
    EXPECT_EQ(first + second, 1 + 2);
    EXPECT_EQ(send_to_both(a.tx, {}, value), 1);
    EXPECT_EQ(send_to_both(a.tx, b.tx, value), 1) << "one is full";
    EXPECT_EQ(a.rx.recv(), 3);
    EXPECT_EQ(b.rx.recv(), 4);
    EXPECT_EQ(send_to_both({}, {}, value), 0);

    Channel<int> c;  // a rendezvous takes it if somebody is there
    EXPECT_EQ(send_to_both(c.tx, {}, value), 0);
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(c.rx.recv(), 5); });
      let_others_block();
      EXPECT_EQ(send_to_both(c.tx, c.tx, value), 1);
    });
  });
}

// ── select2: a channel that never wins collects nothing, however often it is waited for ─────────

TEST(GoSelect2, ALoserLeavesNothingBehind) {
  on_both_engines([] {
    constexpr int kRounds = 2000;
    Channel<int> busy;
    Channel<int> idle;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < kRounds; ++i)
          EXPECT_EQ(select(busy.tx.on_send(i), idle.tx.on_send(i)), 0U);
      });
      for (int i = 0; i < kRounds; ++i) {
        auto got = busy.rx.on_recv();
        EXPECT_EQ(select(got, idle.rx.on_peer_gone()), 0U);
        EXPECT_EQ(got.value(), i);
      }
    });
    EXPECT_EQ(idle.rx.try_recv().status(), RecvStatus::empty);
    EXPECT_EQ(idle.tx.try_send(1), SendStatus::full);
  });
}

// ── select3: what blocks and what does not ──────────────────────────────────────────────────────

bool blocks(const std::function<void()>& f) { return !timeout(1ms, f); }

TEST(GoSelect3, WhatBlocksAndWhatDoesNot) {
  SimIo{}.run([] {
    const auto send = [](const Sender<int>& tx) {
      return [tx] { select(tx.on_send(7)); };
    };
    const auto recv = [](const Receiver<int>& rx) {
      return [rx] { select(rx.on_recv()); };
    };
    EXPECT_TRUE(blocks(send({}))) << "no channel";
    EXPECT_TRUE(blocks(recv({})));
    Channel<int> rendezvous;
    EXPECT_TRUE(blocks(send(rendezvous.tx))) << "nobody there";
    EXPECT_TRUE(blocks(recv(rendezvous.rx)));
    EXPECT_TRUE(blocks([&] { select(rendezvous.rx.on_recv(), rendezvous.tx.on_send(1)); }));
    Channel<int> buffer{1};
    EXPECT_TRUE(blocks(recv(buffer.rx))) << "empty";
    EXPECT_FALSE(blocks(send(buffer.tx)));
    EXPECT_TRUE(blocks(send(buffer.tx))) << "full";
    EXPECT_FALSE(blocks(recv(buffer.rx)));
    Channel<int> closed;
    closed.tx.close();
    EXPECT_FALSE(blocks(recv(closed.rx)));
    EXPECT_FALSE(blocks(recv(closed.rx))) << "again and again";
    EXPECT_FALSE(blocks(send(closed.tx))) << "it fails";
    EXPECT_FALSE(blocks([&] { select(Receiver<int>{}.on_recv(), closed.rx.on_recv()); }));
    EXPECT_FALSE(blocks([&] { select(rendezvous.rx.on_recv(), otherwise()); }));
    EXPECT_FALSE(blocks([&] { select(otherwise()); }));
  });
}

// ── select4: where a value goes is computed only if it came ─────────────────────────────────────

TEST(GoSelect4, OnlyTheWinnersTargetIsComputed) {
  on_both_engines([] {
    Channel<int> ready{1};
    Channel<int> empty{1};
    EXPECT_TRUE(ready.tx.send(42));
    int target = 0;
    int computed = 0;
    const auto where = [&]() -> int& {
      ++computed;
      return target;
    };
    const auto not_here = []() -> int& {
      ADD_FAILURE() << "nothing came";
      static int nowhere = 0;
      return nowhere;
    };
    select(empty.rx.on_recv([&](std::optional<int> v) { not_here() = *v; }),
           ready.rx.on_recv([&](std::optional<int> v) { where() = *v; }));
    EXPECT_EQ(target, 42);
    EXPECT_EQ(computed, 1);
  });
}

// ── select5: each channel and each value is evaluated once, whoever wins ────────────────────────

TEST(GoSelect5, EveryExpressionIsEvaluatedOnce) {
  on_both_engines([] {
    Channel<int> a{100};
    Channel<int> b{100};
    int senders = 0;
    int values = 0;
    int receivers = 0;
    const auto tx = [&]() -> Sender<int>& {
      ++senders;
      return a.tx;
    };
    const auto value = [&] { return ++values; };
    const auto rx = [&]() -> Receiver<int>& {
      ++receivers;
      return b.rx;
    };
    int sent = 0;
    int received = 0;
    for (int i = 1; i <= 50; ++i) {
      EXPECT_TRUE(b.tx.send(i));
      select(tx().on_send(value(), [&](bool) { ++sent; }),
             rx().on_recv([&](std::optional<int>) { ++received; }));
      EXPECT_EQ(senders, i);
      EXPECT_EQ(values, i);
      EXPECT_EQ(receivers, i);
      EXPECT_EQ(sent + received, i);
    }
    EXPECT_EQ(a.rx.size(), static_cast<std::size_t>(sent));
  });
}

// ── select6: a loser that withdraws takes nobody else out of the queue ──────────────────────────

TEST(GoSelect6, WithdrawingDequeuesNobodyElse) {
  const auto program = [] {
    Channel<bool> crowded;
    Channel<bool> winner;
    Channel<bool> report;
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(crowded.rx.recv()); });
      n.spawn([&] {
        EXPECT_EQ(select(crowded.rx.on_recv(), winner.rx.on_recv()), 1U);
        EXPECT_TRUE(report.tx.send(true));
        EXPECT_TRUE(crowded.rx.recv());
      });
      n.spawn([&] { EXPECT_TRUE(winner.tx.send(true)); });
      EXPECT_TRUE(report.rx.recv());
      EXPECT_TRUE(crowded.tx.send(true));
      EXPECT_TRUE(crowded.tx.send(true));
    });
  };
  on_seeds(program);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

// The same from any place in the queue, in front of and behind others.
TEST(GoSelect6, FromAnyPlaceInTheQueue) {
  on_both_engines([] {
    for (int place = 0; place < 4; ++place) {
      Channel<int> crowded;
      Channel<int> winner;
      int woken = 0;
      nursery([&](Nursery& n) {
        for (int i = 0; i < 4; ++i) {
          if (i == place) {
            n.spawn([&] {
              EXPECT_EQ(select(crowded.rx.on_recv(), winner.rx.on_recv(), crowded.rx.on_recv()),
                        1U);
            });
          } else {
            n.spawn([&] {
              EXPECT_TRUE(crowded.rx.recv());
              ++woken;
            });
          }
          let_others_block();
        }
        EXPECT_TRUE(winner.tx.send(1));
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(crowded.tx.send(i));
      });
      EXPECT_EQ(woken, 3);
    }
  });
}

// ── select7: every way of receiving meets every way of sending, whichever comes first ───────────

TEST(GoSelect7, EveryWayOfReceivingMeetsEveryWayOfSending) {
  const std::vector<std::function<void(const Receiver<int>&)>> receives{
      [](const Receiver<int>& rx) { EXPECT_EQ(rx.recv(), 1); },
      [](const Receiver<int>& rx) { EXPECT_EQ(select(rx.on_recv()), 0U); },
      [](const Receiver<int>& rx) {
        EXPECT_EQ(select(rx.on_recv(), Receiver<int>{}.on_recv()), 0U);
      },
      [](const Receiver<int>& rx) {
        Channel<int> other;
        EXPECT_EQ(select(other.rx.on_recv(), rx.on_recv(), other.tx.on_send(2)), 1U);
      }};
  const std::vector<std::function<void(const Sender<int>&)>> sends{
      [](const Sender<int>& tx) { EXPECT_TRUE(tx.send(1)); },
      [](const Sender<int>& tx) { EXPECT_EQ(select(tx.on_send(1)), 0U); },
      [](const Sender<int>& tx) { EXPECT_EQ(select(tx.on_send(1), Sender<int>{}.on_send(2)), 0U); },
      [](const Sender<int>& tx) {
        Channel<int> other;
        EXPECT_EQ(select(other.rx.on_recv(), tx.on_send(1), other.tx.on_send(2)), 1U);
      }};
  on_both_engines([&] {
    for (const auto& receive : receives)
      for (const auto& send : sends)
        for (const bool receiver_first : {true, false}) {
          Channel<int> ch;
          nursery([&](Nursery& n) {
            if (receiver_first) n.spawn([&] { receive(ch.rx); });
            else n.spawn([&] { send(ch.tx); });
            let_others_block();
            if (receiver_first) send(ch.tx);
            else receive(ch.rx);
          });
        }
  });
}

// ── doubleselect: one select sends one value once, although four could take it ──────────────────

TEST(GoDoubleselect, AValueIsSentByOneArmOnly) {
  const auto program = [] {
    constexpr int kValues = 500;
    std::vector<Channel<int>> lanes;
    for (int i = 0; i < 4; ++i) lanes.emplace_back();
    Channel<int> merged;
    std::set<int> seen;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < kValues; ++i)
          select(lanes[0].tx.on_send(i), lanes[1].tx.on_send(i), lanes[2].tx.on_send(i),
                 lanes[3].tx.on_send(i));
        for (Channel<int>& lane : lanes) lane.tx.close();
      });
      for (Channel<int>& lane : lanes)
        n.spawn([&lane, tx = merged.tx] {
          for (const int v : lane.rx) EXPECT_TRUE(tx.send(v));
        });
      merged.tx.drop();
      for (const int v : merged.rx) EXPECT_TRUE(seen.insert(v).second) << v << " came twice";
    });
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kValues));
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

// ── of the runtime's own tests ──────────────────────────────────────────────────────────────────

// A select that waits twice in one queue withdraws both, and leaves who stands between them.
TEST(GoSelectDuplicateChannel, BothPlacesAreGivenUp) {
  on_both_engines([] {
    Channel<int> c;
    Channel<int> d;
    Channel<int> e;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_EQ(select(c.rx.on_recv(), c.rx.on_recv(), d.rx.on_recv()), 2U);
        EXPECT_TRUE(e.tx.send(9));
      });
      let_others_block();
      n.spawn([&] { EXPECT_EQ(c.rx.recv(), 8); });
      let_others_block();
      EXPECT_TRUE(d.tx.send(7));
      EXPECT_EQ(e.rx.recv(), 9);
      EXPECT_TRUE(c.tx.send(8));
    });
  });
}

// Two fibers that send and receive on one channel meet each other, and never themselves.
TEST(GoSelfSelect, NobodyReceivesHisOwnValue) {
  const auto program = [] {
    for (const std::size_t capacity : {0U, 10U}) {
      Channel<int> ch{capacity};
      nursery([&](Nursery& n) {
        for (const int me : {0, 1})
          n.spawn([&, me] {
            const auto check = [&](std::optional<int> v) {
              if (capacity == 0) {
                EXPECT_NE(v, me) << "from myself";
              }
            };
            for (int i = 0; i < 200; ++i) {
              if (me == 0 || i % 2 == 0) select(ch.tx.on_send(me), ch.rx.on_recv(check));
              else select(ch.rx.on_recv(check), ch.tx.on_send(me));
            }
          });
      });
    }
  };
  on_seeds(program, 20);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// Ones and zeros sent by a select are mixed.
TEST(GoPseudoRandomSend, BothValuesAreSent) {
  const auto program = [] {
    constexpr int kCount = 500;
    for (const std::size_t capacity : {0U, 1U, 50U, 500U}) {
      Channel<int> ch{capacity};
      std::vector<int> got;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          for (int i = 0; i < kCount; ++i) {
            this_fiber::yield();
            got.push_back(*ch.rx.recv());
          }
        });
        for (int i = 0; i < kCount; ++i) select(ch.tx.on_send(1), ch.tx.on_send(0));
      });
      const auto ones = std::count(got.begin(), got.end(), 1);
      EXPECT_GT(ones, kCount / 10) << "capacity " << capacity;
      EXPECT_LT(ones, kCount - kCount / 10) << "capacity " << capacity;
    }
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// Two that are always ready are both served, while a third never is.
TEST(GoSelectFairness, BothAreServed) {
  const auto program = [] {
    constexpr int kTrials = 2000;
    Channel<int> first{kTrials + 1};
    Channel<int> second{kTrials + 1};
    for (int i = 0; i <= kTrials; ++i) {
      EXPECT_TRUE(first.tx.send(1));
      EXPECT_TRUE(second.tx.send(2));
    }
    Channel<int> never;
    Channel<int> out;
    Event done;
    int counts[2] = {0, 0};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (bool more = true; more;) {
          int b = 0;
          select(never.rx.on_recv(), first.rx.on_recv([&](std::optional<int> v) { b = *v; }),
                 second.rx.on_recv([&](std::optional<int> v) { b = *v; }));
          select(out.tx.on_send(b), done.on_set([&] { more = false; }));
        }
      });
      for (int i = 0; i < kTrials; ++i) ++counts[*out.rx.recv() - 1];
      done.set();
    });
    const double share = static_cast<double>(counts[0]) / kTrials;
    EXPECT_NEAR(share, 0.5, 0.1) << "nine standard deviations";
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U}, program);
  testing::on_blocking(program);
}

// Single-arm operations and selects over all, on four channels at once.
TEST(GoSelectStress, SelectsAndPlainOperationsOnFourChannels) {
  const auto program = [] {
    constexpr int kEach = 200;
    const std::size_t capacities[] = {0, 0, 2, 3};
    std::vector<Channel<int>> channels;
    for (const std::size_t capacity : capacities) channels.emplace_back(capacity);
    nursery([&](Nursery& n) {
      for (Channel<int>& ch : channels) {
        n.spawn([&ch] {
          for (int i = 0; i < kEach; ++i) EXPECT_TRUE(ch.tx.send(0));
        });
        n.spawn([&ch] {
          for (int i = 0; i < kEach; ++i) EXPECT_EQ(ch.rx.recv(), 0);
        });
      }
      n.spawn([&] {
        std::vector<Sender<int>> tx;
        for (Channel<int>& ch : channels) tx.push_back(ch.tx);
        int counts[4] = {0, 0, 0, 0};
        for (int i = 0; i < 4 * kEach; ++i) {
          const std::size_t k = select(tx[3].on_send(0), tx[2].on_send(0), tx[0].on_send(0),
                                       tx[1].on_send(0));
          const std::size_t which = std::vector<std::size_t>{3, 2, 0, 1}[k];
          if (++counts[which] == kEach) tx[which] = {};
        }
      });
      n.spawn([&] {
        std::vector<Receiver<int>> rx;
        for (Channel<int>& ch : channels) rx.push_back(ch.rx);
        int counts[4] = {0, 0, 0, 0};
        for (int i = 0; i < 4 * kEach; ++i) {
          const std::size_t which =
              select(rx[0].on_recv(), rx[1].on_recv(), rx[2].on_recv(), rx[3].on_recv());
          if (++counts[which] == kEach) rx[which] = {};
        }
      });
    });
    for (Channel<int>& ch : channels) EXPECT_EQ(ch.rx.size(), 0U);
  };
  on_seeds(program, 10);
  on_workers({1U, 2U, 4U, 16U}, program);
  testing::on_blocking(program);
}

// `rounds` times, at once: `poll(i)` on a thread of its own, and `meddle(i)` here.
void at_once(int rounds, const std::function<void(int)>& poll,
             const std::function<void(int)>& meddle) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::thread poller{[&] {
    for (int i = 0; i < rounds; ++i) {
      testing::spin_until([&] { return begun.load(std::memory_order_acquire) > i; });
      poll(i);
      ended.store(i + 1, std::memory_order_release);
    }
  }};
  for (int i = 0; i < rounds; ++i) {
    begun.store(i + 1, std::memory_order_release);
    meddle(i);
    testing::spin_until([&] { return ended.load(std::memory_order_acquire) > i; });
  }
  poller.join();
}

constexpr int kRaces = 1000;

// A value that is there when the channel closes is not overlooked by a select that does not wait.
TEST(GoNonblockRecvRace, AValueIsSeenAlthoughTheChannelCloses) {
  std::vector<Channel<int>> channels;
  for (int i = 0; i < kRaces; ++i) {
    channels.emplace_back(1U);
    EXPECT_TRUE(channels.back().tx.send(1));
  }
  const auto at = [&](int i) -> Channel<int>& { return channels[static_cast<std::size_t>(i)]; };
  at_once(
      kRaces, [&](int i) { EXPECT_EQ(select(at(i).rx.on_recv(), otherwise()), 0U); },
      [&](int i) {
        at(i).tx.close();
        static_cast<void>(at(i).rx.recv());
      });
}

// At any moment one of the two has a value, and so otherwise() never wins: it is not enough to look
// at the arms one after the other.
void race_against_otherwise(std::size_t capacity, void (*refill)(const Sender<int>&)) {
  struct Two {
    explicit Two(std::size_t room) : b(room) { EXPECT_TRUE(a.tx.send(1)); }
    Channel<int> a{1};
    Channel<int> b;
  };
  std::vector<Two> channels;
  for (int i = 0; i < kRaces; ++i) channels.emplace_back(capacity);
  const auto at = [&](int i) -> Two& { return channels[static_cast<std::size_t>(i)]; };
  at_once(
      kRaces,
      [&](int i) {
        EXPECT_NE(select(at(i).a.rx.on_recv(), at(i).b.rx.on_recv(), otherwise()), 2U);
      },
      [&](int i) {
        refill(at(i).b.tx);
        select(at(i).a.rx.on_recv(), otherwise());
      });
}

TEST(GoNonblockSelectRace, OtherwiseLosesToAValueThatMoved) {
  race_against_otherwise(1, [](const Sender<int>& tx) { EXPECT_TRUE(tx.send(1)); });
}

TEST(GoNonblockSelectRace, OtherwiseLosesToAClose) {
  race_against_otherwise(0, [](const Sender<int>& tx) { EXPECT_TRUE(tx.close()); });
}

}  // namespace
}  // namespace weft
