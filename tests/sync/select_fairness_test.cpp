// Among the arms that are ready each wins as often as any other. The seeds are fixed: a bound of
// five standard deviations either holds always or never.
#include <weft/select.hpp>

#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using Counts = std::vector<std::size_t>;

constexpr std::size_t kSelects = 12'000;  // or half of it
constexpr auto kIgnore = [](std::optional<int>) {};

// That the arms `ready` share the wins evenly, and the others have none.
void expect_even(const Counts& counts, const std::vector<std::size_t>& ready) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0UL));
  EXPECT_GE(all, 5000) << "too few to tell";
  const double share = 1.0 / static_cast<double>(ready.size());
  const double expected = all * share;
  const double sigma = std::sqrt(all * share * (1 - share));
  std::size_t of_ready = 0;
  double chi_square = 0;
  for (const std::size_t arm : ready) {
    const auto wins = static_cast<double>(counts[arm]);
    EXPECT_NEAR(wins, expected, 5 * sigma) << "arm " << arm;
    chi_square += (wins - expected) * (wins - expected) / expected;
    of_ready += counts[arm];
  }
  EXPECT_EQ(static_cast<double>(of_ready), all) << "others have won";
  // Its mean is the degrees of freedom, its variance twice that.
  const auto freedom = static_cast<double>(ready.size() - 1);
  EXPECT_LE(chi_square, freedom + 6 * std::sqrt(2 * freedom));
}

// Counts who wins `kSelects` times in simulation. Each seed is a schedule of its own.
void count_on_seeds(std::size_t arms, const std::vector<std::size_t>& ready,
                    const std::function<void(const std::function<void(std::size_t)>&)>& program) {
  for (const std::uint64_t seed : {1U, 20U, 300U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Counts counts(arms, 0);
    SimIo{{.seed = seed}}.run([&] { program([&](std::size_t winner) { ++counts.at(winner); }); });
    expect_even(counts, ready);
  }
}

TEST(SelectFairness, TwoReadyReceives) {
  count_on_seeds(2, {0, 1}, [](const auto& won) {
    Channel<int> a{1};
    Channel<int> b{1};
    for (std::size_t i = 0; i < kSelects; ++i) {
      static_cast<void>(a.tx.try_send(1));
      static_cast<void>(b.tx.try_send(1));
      won(select(a.rx.on_recv(), b.rx.on_recv()));
    }
  });
}

TEST(SelectFairness, ThreeOfDifferentKinds) {
  count_on_seeds(3, {0, 1, 2}, [](const auto& won) {
    Channel<int> in{1};
    Channel<int> out{1};
    Event event;
    event.set();
    for (std::size_t i = 0; i < kSelects; ++i) {
      static_cast<void>(in.tx.try_send(1));
      static_cast<void>(out.rx.try_recv());
      won(select(in.rx.on_recv(), out.tx.on_send(1), event.on_set()));
    }
  });
}

TEST(SelectFairness, FourReadyEvents) {
  count_on_seeds(4, {0, 1, 2, 3}, [](const auto& won) {
    Event event;
    event.set();
    for (std::size_t i = 0; i < kSelects; ++i)
      won(select(event.on_set(), event.on_set(), event.on_set(), event.on_set()));
  });
}

TEST(SelectFairness, EightClosedChannels) {
  count_on_seeds(8, {0, 1, 2, 3, 4, 5, 6, 7}, [](const auto& won) {
    Channel<int> ch;
    ch.tx.close();
    const Receiver<int>& rx = ch.rx;
    for (std::size_t i = 0; i < kSelects; ++i)
      won(select(rx.on_recv(), rx.on_recv(), rx.on_recv(), rx.on_recv(), rx.on_recv(),
                 rx.on_recv(), rx.on_recv(), rx.on_recv()));
  });
}

// A draw of where to begin would give an arm the wins of those before it that are not ready.
TEST(SelectFairness, SomeOfFourReady) {
  const std::vector<std::vector<std::size_t>> subsets{{0, 1}, {1, 2},    {0, 3},    {2, 3},
                                                      {0, 2}, {0, 1, 3}, {1, 2, 3}, {3}};
  for (const auto& ready : subsets) {
    SCOPED_TRACE(::testing::PrintToString(ready));
    count_on_seeds(4, ready, [&](const auto& won) {
      std::vector<Event> events(4);
      for (const std::size_t arm : ready) events[arm].set();
      for (std::size_t i = 0; i < kSelects / 2; ++i)
        won(select(events[0].on_set(), events[1].on_set(), events[2].on_set(),
                   events[3].on_set()));
    });
  }
}

TEST(SelectFairness, SomeReadyAndOtherwise) {
  count_on_seeds(5, {1, 2}, [](const auto& won) {
    Event ready;
    Event never;
    ready.set();
    for (std::size_t i = 0; i < kSelects; ++i)
      won(select(otherwise(), ready.on_set(), ready.on_set(), never.on_set(), never.on_set()));
  });
}

TEST(SelectFairness, DisabledArmsHaveNoShare) {
  count_on_seeds(4, {1, 3}, [](const auto& won) {
    const Receiver<int> none;
    Event ready;
    ready.set();
    for (std::size_t i = 0; i < kSelects; ++i)
      won(select(none.on_recv(), ready.on_set(), none.on_recv(), ready.on_set()));
  });
}

TEST(SelectFairness, ASet) {
  count_on_seeds(6, {0, 2, 5}, [](const auto& won) {
    Channel<int> none;
    Event ready;
    ready.set();
    auto a = ready.on_set();
    auto b = ready.on_set();
    auto c = ready.on_set();
    SelectSet set;
    set.add(a);
    set.recv(none.rx, kIgnore);
    set.add(b);
    set.recv(none.rx, kIgnore);
    set.recv(Receiver<int>{}, kIgnore);
    set.add(c);
    for (std::size_t i = 0; i < kSelects; ++i) won(set.wait());
  });
}

TEST(SelectFairness, AHundredInASet) {
  std::vector<std::size_t> ready(100);
  std::iota(ready.begin(), ready.end(), 0U);
  count_on_seeds(100, ready, [](const auto& won) {
    std::vector<Event> events(100);
    SelectSet set;
    struct Wait final : Event::Wait {
      using Event::Wait::Wait;
    };
    std::deque<Wait> waits;
    for (Event& event : events) {
      event.set();
      set.add(waits.emplace_back(event));
    }
    for (std::size_t i = 0; i < kSelects; ++i) won(set.wait());
  });
}

TEST(SelectFairness, WinsDoNotDependOnTheLastOne) {
  count_on_seeds(4, {0, 1, 2, 3}, [](const auto& won) {
    Event event;
    event.set();
    std::size_t last = select(event.on_set(), event.on_set());
    for (std::size_t i = 0; i < kSelects; ++i) {
      const std::size_t next = select(event.on_set(), event.on_set());
      won(2 * last + next);
      last = next;
    }
  });
}

// Producers that wait: nobody is starved, whichever order they came in.
TEST(SelectFairness, ParkedSenders) {
  count_on_seeds(2, {0, 1}, [](const auto& won) {
    Channel<int> a;
    Channel<int> b;
    nursery([&](Nursery& n) {
      const auto produce = [](const Sender<int>& tx) {
        while (tx.send(1)) {}
      };
      for (int i = 0; i < 3; ++i) n.spawn([produce, tx = a.tx] { produce(tx); });
      for (int i = 0; i < 3; ++i) n.spawn([produce, tx = b.tx] { produce(tx); });
      for (std::size_t i = 0; i < kSelects; ++i) {
        if (i % 2 == 0) settle();  // all six wait again
        const std::size_t winner = select(a.rx.on_recv(), b.rx.on_recv());
        if (i % 2 == 0) won(winner);
      }
      a.rx.drop();
      b.rx.drop();
    });
  });
}

TEST(SelectFairness, OnRealWorkersToo) {
  Counts counts(4, 0);
  FiberIo{{.workers = 2}}.run([&] {
    Event event;
    Event never;
    event.set();
    for (std::size_t i = 0; i < kSelects; ++i)
      ++counts[select(event.on_set(), never.on_set(), event.on_set(), event.on_set())];
  });
  // No fixed seed here: a bound that chance does not reach in a lifetime.
  EXPECT_EQ(counts[1], 0U);
  for (const std::size_t arm : {0U, 2U, 3U})
    EXPECT_NEAR(static_cast<double>(counts[arm]), kSelects / 3.0, kSelects / 20.0);
}

TEST(SelectFairness, SelectFirstTakesTheFirstThatIsReady) {
  SimIo{{.seed = 5}}.run([] {
    Event never;
    Event ready;
    ready.set();
    auto a = never.on_set();
    auto b = ready.on_set();
    auto c = ready.on_set();
    SelectSet set;
    set.add(a);
    set.add(b);
    set.add(c);
    for (std::size_t i = 0; i < kSelects; ++i) {
      ASSERT_EQ(select_first(ready.on_set(), ready.on_set(), ready.on_set()), 0U);
      ASSERT_EQ(select_first(never.on_set(), ready.on_set(), ready.on_set(), otherwise()), 1U);
      ASSERT_EQ(set.wait_first(), 1U);
    }
  });
}

TEST(SelectFairness, TheSeedDecides) {
  const auto winners = [](std::uint64_t seed) {
    Counts chosen;
    SimIo{{.seed = seed}}.run([&] {
      Event ready;
      ready.set();
      for (int i = 0; i < 100; ++i)
        chosen.push_back(select(ready.on_set(), ready.on_set(), ready.on_set()));
    });
    return chosen;
  };
  EXPECT_EQ(winners(3), winners(3));
  EXPECT_NE(winners(3), winners(4));
}

}  // namespace
}  // namespace weft
