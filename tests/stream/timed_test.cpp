// Stages that look at the clock, each through the suite, and what they do at which instant.
#include "stream/stage_suite.hpp"

#include <weft/cancel.hpp>

#include <chrono>
#include <utility>

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using Items = std::vector<Item>;

// ---- the suite ----------------------------------------------------------------------------------

// Longer than any test: all that happens, happens at once.
constexpr auto kAge = 1h;

Items all(Items in) { return in; }
Items first(Items in) {
  in.resize(std::min<std::size_t>(in.size(), 1));
  return in;
}
Items last(Items in) {
  if (!in.empty()) in.erase(in.begin(), in.end() - 1);
  return in;
}
Item digest(const Items& items) {
  int all_of_them = static_cast<int>(items.size());
  for (const Item& v : items) all_of_them = all_of_them * 10 + v.n;
  return Item{all_of_them};
}
// Some of the values, each perhaps several times, in their order.
bool latest_of(const Items& got, const Items& in) {
  auto at = in.begin();
  for (const Item& v : got)
    if ((at = std::find(at, in.end(), v)) == in.end()) return false;
  return got.size() == (in.empty() ? 0U : 5U);
}

INSTANTIATE_TEST_SUITE_P(
    Timed, StageTest,
    ::testing::Values(
        stage_case("chunk", [] { return chunk(3, kAge) | map(digest); },
                   [](Items in) {
                     Items chunks;
                     for (auto at = in.begin(); at != in.end();) {
                       const auto end = at + std::min<std::ptrdiff_t>(3, in.end() - at);
                       chunks.push_back(digest(Items(at, end)));
                       at = end;
                     }
                     return chunks;
                   }),
        stage_case("throttle", [] { return throttle(kAge); }, first).silent(),
        stage_case("throttle+throttle", [] { return throttle(0ns) | throttle(kAge, 1000); }, all),
        stage_case("pace", [] { return pace(1us); }, all),
        stage_case("debounce", [] { return debounce(kAge); }, last).silent(),
        stage_case("sample", [] { return sample(kAge); }, last).silent(),
        stage_case("timeout", [] { return timeout(kAge); }, all),
        stage_case("latch", [] { return latch() | take(5); }).judged_by(latest_of)),
    case_name);

// ---- at which instant ---------------------------------------------------------------------------

// A value and the time, in units of a millisecond: when it is sent, or when it was received.
using At = std::pair<int, int>;
using Arrivals = std::vector<At>;

Instant at(int ms) { return Instant{} + std::chrono::milliseconds{ms}; }
int now_ms() {
  const auto since = Clock::now().time_since_epoch();
  EXPECT_EQ(since % 1ms, 0ns);
  return static_cast<int>(since / 1ms);
}

void send_at(Nursery& n, Sender<int> tx, Arrivals what, int end) {
  n.spawn("producer", [tx = std::move(tx), what = std::move(what), end] {
    for (const auto& [when, value] : what) {
      sleep_until(at(when));
      if (!tx.send(value)) return;
    }
    sleep_until(at(end));
  });
}

// When which values come out of a stage in virtual time; the last one is {when, -1}: the end.
template <class Make>
Arrivals through_time(Make make, Arrivals what, int end) {
  Arrivals got;
  SimIo{}.run([&] {
    nursery([&](Nursery& n) {
      Channel<int> in;
      send_at(n, std::move(in.tx), std::move(what), end);
      for (int v : stream(n, std::move(in.rx)) | make() | out()) got.emplace_back(now_ms(), v);
      got.emplace_back(now_ms(), -1);
    });
  });
  return got;
}
int sum_of(const std::vector<int>& values) {
  int sum = 0;
  for (int v : values) sum += v;
  return sum;
}

TEST(TimedChunk, FullOrOldEnough) {
  const auto make = [] { return chunk(3, 10ms) | map(sum_of); };
  // Full at 2; the next begins at 3 and is 10 old at 13; one more is cut short by the end.
  EXPECT_EQ(through_time(make, {{0, 1}, {1, 10}, {2, 100}, {3, 1}, {8, 10}, {20, 5}}, 25),
            (Arrivals{{2, 111}, {13, 11}, {25, 5}, {25, -1}}));
  EXPECT_EQ(through_time(make, {}, 7), (Arrivals{{7, -1}}));
  // Empty ones are not passed on, however long it takes.
  EXPECT_EQ(through_time(make, {{100, 1}}, 200), (Arrivals{{110, 1}, {200, -1}}));
}

TEST(TimedChunk, WithoutPatience) {
  EXPECT_EQ(through_time([] { return chunk(3, 0ms) | map(sum_of); }, {{0, 1}, {0, 2}, {1, 3}}, 1),
            (Arrivals{{0, 1}, {0, 2}, {1, 3}, {1, -1}}));
}

TEST(Throttle, DropsWhatComesTooSoon) {
  EXPECT_EQ(through_time([] { return throttle(10ms); },
                         {{0, 1}, {1, 2}, {9, 3}, {10, 4}, {11, 5}, {25, 6}}, 30),
            (Arrivals{{0, 1}, {10, 4}, {25, 6}, {30, -1}}));
  EXPECT_EQ(through_time([] { return throttle(10ms, 2); },
                         {{0, 1}, {1, 2}, {9, 3}, {12, 4}, {21, 5}, {22, 6}, {23, 7}}, 30),
            (Arrivals{{0, 1}, {1, 2}, {12, 4}, {21, 5}, {22, 6}, {23, 7}, {30, -1}}));
}

// Who receives slowly does not get two at once.
TEST(Throttle, CountsFromWhenAValueWasTaken) {
  Arrivals got;
  SimIo{}.run([&] {
    nursery([&](Nursery& n) {
      Channel<int> in;
      send_at(n, std::move(in.tx), {{0, 1}, {1, 2}, {29, 3}, {35, 4}}, 50);
      const auto rx = stream(n, std::move(in.rx)) | throttle(10ms) | out();
      sleep_until(at(20));  // the first waits for us, and the second for the first
      for (int v : rx) got.emplace_back(now_ms(), v);
    });
  });
  EXPECT_EQ(got, (Arrivals{{20, 1}, {35, 4}}));
}

TEST(Pace, DelaysWhatComesTooSoon) {
  EXPECT_EQ(through_time([] { return pace(10ms); }, {{0, 1}, {0, 2}, {1, 3}, {50, 4}}, 50),
            (Arrivals{{0, 1}, {10, 2}, {20, 3}, {50, 4}, {50, -1}}));
}

TEST(Pace, HoldsTheSenderBack) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      Channel<int> in;
      const auto rx = stream(n, std::move(in.rx)) | pace(10ms) | out();
      n.spawn([tx = std::move(in.tx)] {
        for (int i = 0; i < 4; ++i) {
          EXPECT_TRUE(tx.send(i));
          EXPECT_EQ(now_ms(), i < 2 ? 0 : (i - 1) * 10);
        }
      });
      EXPECT_EQ(all_of(rx), (std::vector{0, 1, 2, 3}));
      EXPECT_EQ(now_ms(), 30);
    });
  });
}

TEST(Debounce, TheLastOfEachBurst) {
  EXPECT_EQ(through_time([] { return debounce(10ms); },
                         {{0, 1}, {5, 2}, {14, 3}, {30, 4}, {60, 5}, {61, 6}}, 65),
            (Arrivals{{24, 3}, {40, 4}, {65, 6}, {65, -1}}));
  EXPECT_EQ(through_time([] { return debounce(10ms); }, {}, 65), (Arrivals{{65, -1}}));
  EXPECT_EQ(through_time([] { return debounce(10ms); }, {{3, 1}}, 65),
            (Arrivals{{13, 1}, {65, -1}}));
}

TEST(Sample, TheLatestEverySoOften) {
  EXPECT_EQ(through_time([] { return sample(10ms); },
                         {{1, 1}, {4, 2}, {12, 3}, {41, 4}, {49, 5}, {51, 6}}, 55),
            (Arrivals{{10, 2}, {20, 3}, {50, 5}, {55, 6}, {55, -1}}));
  EXPECT_EQ(through_time([] { return sample(10ms); }, {}, 55), (Arrivals{{55, -1}}));
  EXPECT_THROW(static_cast<void>(sample(0ms)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(sample(-1ms)), std::invalid_argument);
}

// One that has nothing to do arms no timer: the clock of an idle program stands still.
TEST(Timed, AnIdleStageHasNoTimer) {
  const auto idle = [] {
    nursery([](Nursery& n) {
      Channel<int> in;
      const auto rx = stream(n, std::move(in.rx)) | chunk(2, 1ms) | flatten() | pace(1ms) |
                      debounce(1ms) | sample(1ms) | throttle(1ms) | latch() | out();
      try {
        Event{}.wait();
      } catch (const Deadlock&) {
        EXPECT_EQ(now_ms(), 0);
        throw;
      }
    });
  };
  EXPECT_THROW(SimIo{}.run(idle), Deadlock);
}

// ---- timeout ------------------------------------------------------------------------------------

TEST(Timeout, FailsTheStreamThatIsSilent) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<int> in{2};
      EXPECT_EQ(in.tx.send_all(std::vector{1, 2}), 2U);
      const auto rx = stream(n, in.rx) | timeout(1ms) | out();
      EXPECT_EQ(rx.recv(), 1);
      EXPECT_EQ(rx.recv(), 2);
      EXPECT_THROW(static_cast<void>(rx.recv()), TimedOut);
    });  // which has not failed
  });
}

TEST(Timeout, CountsFromTheLastValue) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      Channel<int> in;
      send_at(n, std::move(in.tx), {{9, 1}, {18, 2}}, 50);
      const auto rx = stream(n, std::move(in.rx)) | timeout(10ms) | out();
      EXPECT_EQ(rx.recv(), 1);
      EXPECT_EQ(rx.recv(), 2);
      EXPECT_THROW(static_cast<void>(rx.recv()), TimedOut);
      EXPECT_EQ(now_ms(), 28);
    });
  });
}

TEST(Timeout, IsTheEndsErrorToo) {
  on_both_engines([] {
    const auto run = [] {
      nursery([](Nursery& n) {
        Channel<int> in;
        return stream(n, in.rx) | timeout(1ms) | map([](int v) { return v; }) | collect();
      });
    };
    EXPECT_THROW(run(), TimedOut);
  });
}

TEST(Timeout, DoesNotCountWhileNobodyReceives) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      Channel<int> in;
      send_at(n, std::move(in.tx), {{0, 1}, {0, 2}}, 0);
      const auto rx = stream(n, std::move(in.rx)) | timeout(10ms) | out();
      sleep_until(at(100));
      EXPECT_EQ(all_of(rx), (std::vector{1, 2}));
    });
  });
}

// Even without any patience: what is there is taken.
TEST(Timeout, AValueGoesFirst) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      Channel<int> in{2};
      EXPECT_EQ(in.tx.send_all(std::vector{1, 2}), 2U);
      const auto rx = stream(n, std::move(in.rx)) | timeout(0ms) | out();
      EXPECT_EQ(rx.recv(), 1);
      EXPECT_EQ(rx.recv(), 2);
      EXPECT_THROW(static_cast<void>(rx.recv()), TimedOut);
      EXPECT_EQ(timeout(5ms, [] { return 7; }), 7);  // the function of that name is still there
    });
  });
}

// ---- latch --------------------------------------------------------------------------------------

TEST(Latch, TheLatestAgainAndAgain) {
  on_seeds([] {
    nursery([](Nursery& n) {
      Channel<int> in;
      auto rx = stream(n, std::move(in.rx)) | latch() | out();
      settle();
      EXPECT_EQ(rx.try_recv().status(), RecvStatus::empty);  // there is none yet
      for (int v = 1; v <= 3; ++v) {
        EXPECT_TRUE(in.tx.send(v));
        settle();
        for (int again = 0; again < 3; ++again) {
          EXPECT_EQ(rx.recv(), v);
        }
      }
      for (int v = 4; v <= 9; ++v) EXPECT_TRUE(in.tx.send(v));  // though nobody receives
      in.tx.drop();
      settle();
      for (int again = 0; again < 100; ++again) {
        EXPECT_EQ(rx.recv(), 9);
      }
      rx.drop();  // ends it
    });
  });
}

TEST(Latch, OfNothingIsNothing) {
  everywhere([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(stream(n, from_range(std::vector<int>{})) | latch() | count(), 0U);
    });
  });
}

// ---- what passes --------------------------------------------------------------------------------

// Neither copied, made from nothing nor assigned to.
struct Sole {
  explicit Sole(int v) : n(v) {}
  Sole(Sole&&) noexcept = default;
  const int n;
};

TEST(Timed, ValuesThatCanOnlyBeMoved) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto got = stream(n, iota(0, 8)) | map([](int v) { return Sole{v}; }) |
                       timeout(kAge) | throttle(0ns) | pace(1us) | chunk(3, kAge) | flatten() |
                       sample(kAge) | debounce(kAge) | collect();
      ASSERT_EQ(got.size(), 1U);
      EXPECT_EQ(got[0].n, 7);
    });
  });
}

// What a stage holds when its input fails is lost, and so is nothing else.
TEST(Timed, AnErrorWaitsForNobody) {
  SimIo{}.run([] {
    nursery([](Nursery& n) {
      const auto fails = [&n](auto stage) {
        Channel<int> in{1};
        EXPECT_TRUE(in.tx.send(1));
        in.tx.close(std::make_exception_ptr(Boom{}));
        const auto rx = stream(n, std::move(in.rx)) | std::move(stage) | out();
        EXPECT_THROW(static_cast<void>(rx.recv()), Boom);
      };
      fails(chunk(2, 10ms));
      fails(debounce(10ms));
      fails(sample(10ms));
      EXPECT_EQ(now_ms(), 0);
    });
  });
}

// Nobody receives while they hold a value, and wait for an instant.
TEST(Timed, EndsWhileItHoldsAValue) {
  on_seeds([] {
    const auto ends = [](auto stage) {
      nursery([&](Nursery& n) {
        Channel<int> in;
        auto rx = stream(n, std::move(in.rx)) | std::move(stage) | out();
        EXPECT_TRUE(in.tx.send(1));
        settle();
        rx.drop();
        auto gone = in.tx.on_peer_gone();
        wait(gone);
      });
    };
    ends(chunk(2, kAge));
    ends(debounce(kAge));
    ends(sample(kAge));
    ends(latch());
    ends(throttle(0ns) | pace(kAge) | timeout(kAge) | drop(1));
    EXPECT_EQ(now_ms(), 0);
  });
}

}  // namespace
}  // namespace weft::testing
