// par_map through the suite, beside a sequential oracle; sinks; rpc.
#include "stream/stage_suite.hpp"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using Items = std::vector<Item>;

Item plus_one(const Item& v) { return Item{v.n + 1}; }
Items all_plus_one(Items in) {
  for (Item& v : in) ++v.n;
  return in;
}
const auto boom = [](const Item&) -> Item { throw Boom{}; };

// Those that fail beside the first are reported on standard error, which is not to be flooded.
auto boom_once() {
  return [done = std::make_shared<std::atomic<bool>>(false)](const Item& v) {
    if (!done->exchange(true)) throw Boom{};
    return v;
  };
}

// Takes its time, some virtual, some turns.
void dawdle() {
  const std::uint64_t chance = io().random();
  if (simulated()) sleep_for(std::chrono::microseconds{chance % 50});
  else if (chance % 3 == 0) this_fiber::yield();
}
Item slowly_plus_one(const Item& v) {
  dawdle();
  return plus_one(v);
}

INSTANTIATE_TEST_SUITE_P(
    ParMap, StageTest,
    ::testing::Values(
        stage_case("par_map", [] { return par_map(3, slowly_plus_one); }, all_plus_one)
            .throwing([] { return par_map(3, boom); }),
        stage_case("par_map of one", [] { return par_map(1, plus_one); }, all_plus_one),
        stage_case("par_map_unordered", [] { return par_map_unordered(3, slowly_plus_one); },
                   all_plus_one)
            .throwing([] { return par_map_unordered(3, boom_once()); })
            .unordered(),
        stage_case("par_map of par_map",
                   [] {
                     return par_map(2, slowly_plus_one) | where([](const Item&) { return true; }) |
                            par_map(2, [](const Item& v) { return Item{v.n - 1}; });
                   },
                   [](Items in) { return in; })),
    case_name);

class ParMapTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(Item::live, 0) << "values were left behind"; }
};
using SinksTest = ParMapTest;
using RpcTest = ParMapTest;

// Counts those that are inside; never more than the limit.
class Crowd {
 public:
  explicit Crowd(int limit) : limit_(limit) {}
  template <class F>
  auto operator()(F f) {
    const int inside = ++inside_;
    EXPECT_LE(inside, limit_);
    int most = most_;
    while (most < inside && !most_.compare_exchange_weak(most, inside)) {}
    auto result = f();
    --inside_;
    return result;
  }
  [[nodiscard]] int most() const { return most_; }

 private:
  const int limit_;
  std::atomic<int> inside_ = 0;
  std::atomic<int> most_ = 0;
};

void beside_the_oracle(std::size_t width, int values) {
  Crowd crowd{static_cast<int>(width)};
  const auto f = [&crowd](int v) {
    return crowd([v] {
      dawdle();
      return v * 3;
    });
  };
  std::vector<int> expected;
  for (int i = 0; i < values; ++i) expected.push_back(i * 3);
  nursery([&](Nursery& n) {
    EXPECT_EQ(stream(n, iota(0, values)) | par_map(width, f) | collect(), expected);
    auto any = stream(n, iota(0, values)) | par_map_unordered(width, f) | collect();
    std::sort(any.begin(), any.end());
    EXPECT_EQ(any, expected);
  });
}
TEST_F(ParMapTest, AgreesWithASequentialOracle) {
  on_seeds([] {
    beside_the_oracle(1 + io().random() % 6, static_cast<int>(io().random() % 60));
  });
  on_workers({2U, 4U, 16U}, [] {
    for (const std::size_t width : {1U, 2U, 5U, 40U}) beside_the_oracle(width, 500);
  });
}

TEST_F(ParMapTest, WorksOnAllTheWidth) {
  on_seeds([] {
    for (const bool ordered : {true, false}) {
      Crowd crowd{4};
      const auto f = [&crowd](int v) {
        return crowd([v] {
          sleep_for(10ms);
          return v;
        });
      };
      const Instant start = Clock::now();
      nursery([&](Nursery& n) {
        auto s = stream(n, iota(0, 20));
        if (ordered) std::move(s) | par_map(4, f) | drain();
        else std::move(s) | par_map_unordered(4, f) | drain();
      });
      EXPECT_EQ(crowd.most(), 4);
      EXPECT_EQ(Clock::now() - start, 50ms);
    }
  }, 20);
}

// In order, a slow head holds the results behind it back, and in the end the work.
TEST_F(ParMapTest, SlowHead) {
  on_seeds([] {
    constexpr int kValues = 1000;
    std::size_t begun_with_the_head = 0;
    std::size_t begun = 0;
    const auto f = [&](int v) {
      ++begun;
      sleep_for(v == 0 ? 1s : 1ms);
      if (v == 0) begun_with_the_head = begun;
      return v;
    };
    for (const std::size_t ahead : {std::size_t{0}, std::size_t{50}}) {
      begun = 0;
      nursery([&](Nursery& n) {
        const Instant start = Clock::now();
        const auto in_order = stream(n, iota(0, kValues)) | par_map(3, f, ahead) | out();
        EXPECT_EQ(in_order.recv(), 0);
        EXPECT_EQ(Clock::now() - start, 1s);
        EXPECT_EQ(begun_with_the_head, 2 * ahead + 3);
        int next = 1;
        for (const int v : in_order) EXPECT_EQ(v, next++);
        EXPECT_EQ(next, kValues);
      });
    }
    begun = 0;
    nursery([&](Nursery& n) {
      const auto got = stream(n, iota(0, kValues)) | par_map_unordered(3, f) | collect();
      EXPECT_EQ(got.back(), 0) << "the others have passed it";
    });
    EXPECT_EQ(begun_with_the_head, std::size_t{kValues});
  }, 5);
}

// In order: the values before the one that fails, then its error.
TEST_F(ParMapTest, FailsWhereTheValueWouldHaveBeen) {
  everywhere([] {
    std::vector<int> got;
    const auto run = [&] {
      nursery([&](Nursery& n) {
        stream(n, iota(0)) | par_map(4, [](int v) {
          dawdle();
          if (v >= 7) throw Boom{};
          return v;
        }) | for_each([&](int v) { got.push_back(v); });
      });
    };
    EXPECT_THROW(run(), Boom);
    EXPECT_LE(got.size(), 7U);  // the nursery cancels us, too
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<int>(i));
  });
}

// Where nobody is cancelled by it: all of the values before it, and nothing hangs.
TEST_F(ParMapTest, FailsUnderSupervision) {
  everywhere([] {
    const bool ordered = io().random() % 2 == 0;
    const auto run = [&] {
      nursery({.on_error = ErrorPolicy::supervise}, [&](Nursery& n) {
        Channel<int> in;
        n.spawn([tx = std::move(in.tx)] {
          for (int i = 0; i < 8; ++i)
            if (!tx.send(i)) return;
          auto gone = tx.on_peer_gone();
          wait(gone);  // and is silent
        });
        const auto f = [](int v) {
          dawdle();
          if (v == 7) throw Boom{};
          return v;
        };
        auto s = stream(n, std::move(in.rx));
        const auto rx = ordered ? std::move(s) | par_map(3, f) | out()
                                : std::move(s) | par_map_unordered(3, f) | out();
        int received = 0;
        EXPECT_THROW(while (rx.recv()) ++received, Boom);
        if (ordered) {
          EXPECT_EQ(received, 7);
        }
      });
    };
    EXPECT_THROW(run(), Boom);
  });
}

// Every value that came before the input's error is out before it.
TEST_F(ParMapTest, TheInputsErrorIsLast) {
  everywhere([] {
    const bool ordered = io().random() % 2 == 0;
    nursery([&](Nursery& n) {
      Channel<Item> in;
      n.spawn([tx = std::move(in.tx)] {
        for (int i = 0; i < 9; ++i)
          if (!tx.send(Item{i})) return;
        tx.close(std::make_exception_ptr(Boom{}));
      });
      auto s = stream(n, std::move(in.rx));
      const auto rx = ordered ? std::move(s) | par_map(4, slowly_plus_one) | out()
                              : std::move(s) | par_map_unordered(4, slowly_plus_one) | out();
      int received = 0;
      EXPECT_THROW(while (rx.recv()) ++received, Boom);
      EXPECT_EQ(received, 9);
    });
  });
}

TEST_F(ParMapTest, WidthOfZero) {
  EXPECT_THROW(static_cast<void>(par_map(0, plus_one)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(par_map_unordered(0, plus_one)), std::invalid_argument);
}

// ---- sinks --------------------------------------------------------------------------------------

TEST_F(SinksTest, SinkTakesAll) {
  everywhere([] {
    std::atomic<int> sum = 0;
    const auto add = [&sum](const Item& v) { sum += v.n; };
    nursery([&](Nursery& n) {
      Sender<Item> tx = sink<Item>(n, add);
      n.spawn([tx] { EXPECT_TRUE(tx.send(Item{1})); });
      EXPECT_TRUE(tx.send(Item{2}));
      stream(n, iota(3, 5)) | map([](int v) { return Item{v}; }) | sink(add);
      const Sender<Item> more = through<Item>(n, map(plus_one), sink<Item>(n, add));
      EXPECT_TRUE(more.send(Item{4}));
    });
    EXPECT_EQ(sum, 1 + 2 + 3 + 4 + 5);
  });
}

TEST_F(SinksTest, SinkFailsItsNursery) {
  everywhere([] {
    for (const bool by_input : {false, true}) {
      Verdict verdict;
      const auto run = [&] {
        nursery([&](Nursery& n) {
          n.make<Witness>(n, verdict);
          Channel<int> in{1};
          EXPECT_TRUE(in.tx.send(1));
          if (by_input) in.tx.close(std::make_exception_ptr(Boom{}));
          stream(n, std::move(in.rx)) | sink([by_input](int) {
            if (!by_input) throw Boom{};
          });
          auto gone = in.tx.on_peer_gone();
          wait(gone);
        });
      };
      EXPECT_THROW(run(), Boom);
      EXPECT_EQ(verdict.child, "sink");
    }
  });
}

TEST_F(SinksTest, HolesTakeEverything) {
  everywhere([] {
    Item latest{};
    int last = 0;
    nursery([&](Nursery& n) {
      const Sender<Item> hole = sinkhole<Item>(n, latest);
      const Sender<Item> black = blackhole<Item>(n);
      for (int i = 1; i <= 5; ++i) {
        EXPECT_TRUE(hole.send(Item{i}));
        EXPECT_TRUE(black.send(Item{i}));
      }
      stream(n, iota(0, 10)) | sinkhole(last);
      stream(n, iota(0, 10)) | blackhole();
    });
    EXPECT_EQ(latest.n, 5);
    EXPECT_EQ(last, 9);
  });
}

TEST_F(SinksTest, NobodyListensAndNobodySpeaks) {
  on_both_engines([] {
    Sender<Item> tx;
    Receiver<Item> rx;
    nursery([&](Nursery& n) {
      tx = deaf<Item>(n);
      rx = mute<Item>(n);
      EXPECT_EQ(tx.send_for(Item{1}, 1ms), SendStatus::timed_out);
      EXPECT_EQ(rx.recv_for(1ms).status(), RecvStatus::timed_out);
      n.spawn([&] { static_cast<void>(tx.send(Item{1})); });
      n.spawn([&] { static_cast<void>(rx.recv()); });
      let_others_block();
      n.cancel();
    });
    EXPECT_FALSE(tx.send(Item{1}));
    EXPECT_FALSE(rx.recv());
  });
}

// ---- rpc ----------------------------------------------------------------------------------------

TEST_F(RpcTest, EachCallerGetsItsOwnReply) {
  everywhere([] {
    const std::size_t width = 1 + io().random() % 4;
    Crowd crowd{static_cast<int>(width)};
    nursery([&](Nursery& n) {
      const auto server = [&crowd](const Item& v) {
        return crowd([&] { return slowly_plus_one(v); });
      };
      const auto client = rpc<Item, Item>(n, server, width);
      for (int caller = 0; caller < 5; ++caller) {
        n.spawn([client, caller] {
          for (int i = caller * 10; i < caller * 10 + 5; ++i)
            EXPECT_EQ(client.call(Item{i}), Item{i + 1});
        });
      }
    });
  });
}

TEST_F(RpcTest, CallsArePipelinedAndOvertake) {
  on_seeds([] {
    nursery([](Nursery& n) {
      const auto client = rpc<int, int>(n, [](int ms) {
        sleep_for(std::chrono::milliseconds{ms});
        return ms;
      }, 3);
      const Instant start = Clock::now();
      auto slow = client.start(30);
      auto quick = client.start(10);
      EXPECT_EQ(quick.get(), 10);
      EXPECT_EQ(Clock::now() - start, 10ms);
      EXPECT_EQ(slow.get(), 30);
      EXPECT_EQ(Clock::now() - start, 30ms);
    });
  }, 20);
}

TEST_F(RpcTest, AnErrorIsTheCallers) {
  everywhere([] {
    nursery([](Nursery& n) {
      const auto client = rpc<Item, Item>(n, [](const Item& v) {
        if (v.n == 1) throw Boom{};
        return plus_one(v);
      });
      EXPECT_THROW(static_cast<void>(client.call(Item{1})), Boom);
      EXPECT_EQ(client.call(Item{2}), Item{3});
    });
  });
}

TEST_F(RpcTest, AServerThatIsGone) {
  everywhere([] {
    RpcClient<Item, Item> client;
    nursery([&](Nursery& callers) {
      nursery([&](Nursery& n) {
        Event called;
        client = rpc<Item, Item>(n, [&called](const Item& v) {
          called.set();
          Event{}.wait();
          return v;
        });
        for (int i = 0; i < 3; ++i)
          callers.spawn([client] {
            EXPECT_THROW(static_cast<void>(client.call(Item{1})), RpcServerGone);
          });
        called.wait();
        n.cancel();
      });
      EXPECT_THROW(static_cast<void>(client.call(Item{1})), RpcServerGone);
    });
    client.drop();
    // One that gives a request up.
    auto ends = rpc<Item, Item>();
    nursery([&](Nursery& n) {
      n.spawn([rx = std::move(ends.requests)] {
        for (auto request : rx)
          if (request.value.n != 0) static_cast<void>(request.reply(request.value));
      });
      EXPECT_THROW(static_cast<void>(ends.client.call(Item{0})), RpcServerGone);
      EXPECT_EQ(ends.client.call(Item{5}), Item{5});
      ends.client.drop();
    });
  });
}

TEST_F(RpcTest, ACallThatIsCancelledDoesNoHarm) {
  everywhere([] {
    Event go_on;
    nursery([&](Nursery& n) {
      const auto client = rpc<Item, Item>(n, [&go_on](const Item& v) {
        go_on.wait();
        return plus_one(v);
      });
      cancel_scope([&](CancelScope& scope) {
        nursery([&](Nursery& callers) {
          for (int i = 0; i < 3; ++i)
            callers.spawn([client] { static_cast<void>(client.call(Item{1})); });
          let_others_block();
          scope.cancel();
        });
      });
      go_on.set();
      EXPECT_EQ(client.call(Item{7}), Item{8});
    });
  });
}

}  // namespace
}  // namespace weft::testing
