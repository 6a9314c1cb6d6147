#include <weft/csp.hpp>

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft::csp {
namespace {

using namespace std::chrono_literals;
using testing::everywhere;
using testing::expect_no_timer_left;
using testing::on_both_engines;
using testing::on_seeds;
using testing::on_workers;
using Numbers = std::vector<int>;

static_assert(std::is_convertible_v<Sender<int>, writer<int>>);
static_assert(std::is_convertible_v<writer<int>, Sender<int>>);
static_assert(std::is_convertible_v<Receiver<int>, reader<int>>);
static_assert(std::is_convertible_v<reader<int>, Receiver<int>>);
static_assert(!std::is_convertible_v<reader<int>, bool>);
static_assert(std::is_nothrow_move_constructible_v<action> &&
              !std::is_copy_constructible_v<action>);
static_assert(std::is_nothrow_destructible_v<action>,
              "only what is written alone waits in the end");
static_assert(!std::is_move_constructible_v<decltype(writer<int>{} << 1)>);

// How many there are.
struct Counted {
  explicit Counted(int v = 0) : value(v) { ++live; }
  Counted(const Counted& other) : value(other.value) { ++live; }
  Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++live; }
  Counted& operator=(const Counted&) = default;
  Counted& operator=(Counted&& other) noexcept {
    value = std::exchange(other.value, -1);
    return *this;
  }
  ~Counted() { --live; }
  int value;
  static inline std::atomic<int> live{0};
};

Numbers all_of(const reader<int>& r) {
  Numbers got;
  for (const int v : r) got.push_back(v);
  return got;
}
reader<int> counting(int from, int to) {
  return spawn_producer<int>([=](writer<int> w) {
    for (int i = from; i < to && w << i; ++i) {
    }
  });
}

// ── ends ────────────────────────────────────────────────────────────────────────────────────────

TEST(Csp, PlusIsTheWriterAndMinusTheReader) {
  everywhere([] {
    channel<int> ch;
    spawn([w = +ch] { w << 1; });  // a copy
    int x = 0;
    EXPECT_TRUE(-ch >> x);
    EXPECT_EQ(x, 1);
    EXPECT_TRUE(+ch && -ch) << "both are still here";
    spawn([w = ++ch] { w << 2; });  // moved
    EXPECT_FALSE(+ch);
    reader<int> r = --ch;
    EXPECT_FALSE(-ch);
    EXPECT_EQ(r.read(), 2);
    EXPECT_FALSE(r >> x) << "the last writer has gone with its microthread";
    EXPECT_EQ(x, 1) << "nothing came, nothing is assigned";
    EXPECT_THROW(static_cast<void>(r.read()), microthread_error);
    EXPECT_THROW(static_cast<void>(reader<int>{}.read()), microthread_error);
  });
}

TEST(Csp, NullEndsAreGivenChannels) {
  on_both_engines([] {
    writer<int> w;
    reader<int> r;
    EXPECT_FALSE(w || r);
    const reader<int> of_w = --w;
    const writer<int> to_r = ++r;
    EXPECT_THROW(--w, microthread_error);
    EXPECT_THROW(++r, microthread_error);
    spawn([w] { w << 7; });
    spawn([to_r] { to_r << 8; });
    EXPECT_EQ(of_w.read(), 7);
    EXPECT_EQ(r.read(), 8);
    writer<std::string> words;
    reader<std::string> heard;
    make_channel(words, heard);
    spawn([words = std::move(words)] { words << "a"; });
    EXPECT_EQ(heard.read(), "a");
    channel<> pair;
    const writer<> copy = +pair;
    EXPECT_EQ(copy, +pair);
    pair.release();
    EXPECT_FALSE(+pair || -pair);
    EXPECT_FALSE(copy << poke) << "its reader was released";
  });
}

TEST(Csp, DeadAndNullEndsAnswerFalse) {
  on_both_engines([] {
    int x = 3;
    EXPECT_FALSE(writer<int>::dead() << 1);
    EXPECT_FALSE(reader<int>::dead() >> x);
    EXPECT_FALSE(writer<int>{} << 1);
    EXPECT_FALSE(reader<int>{} >> x);
    EXPECT_FALSE(~writer<int>::dead());
    EXPECT_FALSE(~writer<int>{});
    writer<int>::dead() << 1;  // statements
    reader<int>::dead() >> x;
    ~reader<int>::dead();
    EXPECT_EQ(x, 3);
  });
}

TEST(Csp, EndsAreWeftsEnds) {
  everywhere([] {
    Channel<int> plain{2};
    writer<int> w = plain.tx;
    reader<int> r = std::move(plain.rx);
    plain.tx.drop();
    EXPECT_TRUE(w << 1);
    EXPECT_TRUE(w.send(2));
    EXPECT_EQ(w.try_send(3), SendStatus::full);
    std::optional<int> got;
    EXPECT_EQ(weft::select(r.on_recv([&](std::optional<int> v) { got = v; })), 0U);
    EXPECT_EQ(got, 1);
    const Sender<int> back = std::move(w);
    EXPECT_TRUE(back.close(std::make_exception_ptr(std::domain_error{"over"})));
    int x = 0;
    EXPECT_TRUE(r >> x);
    EXPECT_EQ(x, 2);
    EXPECT_THROW(r >> x, std::domain_error) << "as every receive of that channel";
    EXPECT_THROW(alt(r >> x), std::domain_error);
    channel<int> both{Channel<int>{1}};
    EXPECT_TRUE(both << 4);
    EXPECT_TRUE(both >> x);
    EXPECT_EQ(x, 4);
  });
}

// ── operations ──────────────────────────────────────────────────────────────────────────────────

TEST(Csp, AStatementHappensWhenItEnds) {
  everywhere([] {
    channel<std::unique_ptr<int>> ch;
    spawn([w = ++ch] {
      w << std::make_unique<int>(1);
      const bool second = bool(w << std::make_unique<int>(2));
      EXPECT_TRUE(second);
      EXPECT_FALSE(w << std::make_unique<int>(3));
    });
    reader<std::unique_ptr<int>> r = --ch;
    std::unique_ptr<int> x;
    r >> x;
    EXPECT_EQ(*x, 1);
    std::shared_ptr<int> y;  // what it can be assigned to
    r >> y;
    EXPECT_EQ(*y, 2);
    r = {};
  });
}

TEST(Csp, ANamedSendHappensOnceAtMost) {
  on_both_engines([] {
    const channel<std::string> ch{Channel<std::string>{3}};
    const channel<int> idle;
    auto alone = ch << "alone";
    EXPECT_TRUE(alone);
    EXPECT_FALSE(alone);
    EXPECT_EQ(alt(alone), 0);
    auto chosen = ch << "chosen";
    EXPECT_EQ(alt(idle << 1, chosen), 2);
    EXPECT_FALSE(chosen);
    EXPECT_EQ(alt(chosen), 0);
    ch << "third";
    auto late = ch << "late";
    auto kept = ch << "kept";
    EXPECT_EQ(prialt(late, kept, ~skip), -3) << "full";
    for (const char* word : {"alone", "chosen", "third"}) EXPECT_EQ((-ch).read(), word);
    EXPECT_TRUE(late) << "it has lost, and lost nothing";
    const action list[] = {std::move(kept)};
    EXPECT_EQ(alt(list), 1);
    EXPECT_EQ((-ch).read(), "late");
    EXPECT_EQ((-ch).read(), "kept");
    EXPECT_EQ((-ch).size(), 0U);
  });
}

int fail() { throw std::runtime_error{"before the alt"}; }

TEST(Csp, AnOperationDoesNotHappenIfItsExpressionFails) {
  on_both_engines([] {
    const channel<int> ch{Channel<int>{4}};
    EXPECT_THROW(alt(ch << 1, ch << fail()), std::runtime_error);
    EXPECT_EQ((-ch).size(), 0U);
    struct Farewell {
      const channel<int>& to;
      ~Farewell() { to << 9; }  // but one that is made while an exception unwinds does
    };
    EXPECT_THROW(
        {
          const Farewell farewell{ch};
          fail();
        },
        std::runtime_error);
    EXPECT_EQ((-ch).read(), 9);
  });
}

TEST(Csp, PokesAndUnwantedValues) {
  everywhere([] {
    channel<> signal;
    spawn([w = ++signal] { w << poke; });
    poke_t p;
    EXPECT_TRUE(-signal >> p);
    const reader<int> r = counting(0, 3);
    r >> poke;
    r >> nullptr;
    EXPECT_EQ(r.read(), 2);
  });
}

TEST(Csp, CancellationLeavesAStatement) {
  on_both_engines([] {
    const channel<int> ch{Channel<int>{1}};
    ch << 1;
    EXPECT_FALSE(timeout(1ms, [&] {
      ch << 2;
      ADD_FAILURE() << "there was no room";
    }));
    EXPECT_EQ((-ch).read(), 1);
    EXPECT_EQ((-ch).size(), 0U) << "nothing has moved";
  });
}

// ── alt ─────────────────────────────────────────────────────────────────────────────────────────

TEST(CspAlt, TheResultIsAPlaceOrADeath) {
  on_both_engines([] {
    for (const bool fair : {true, false}) {
      const auto choose = [fair](auto&&... ops) { return fair ? alt(ops...) : prialt(ops...); };
      const channel<int> idle;
      const channel<int> ready{Channel<int>{1}};
      const writer<int> no_reader = writer<int>::dead();
      const reader<int> no_writer = reader<int>::dead();
      int x = -1;
      int y = -1;
      EXPECT_EQ(choose(idle >> y, ready << 5), 2);
      EXPECT_EQ(choose(ready >> x, idle >> y), 1);
      EXPECT_EQ(x, 5);
      EXPECT_EQ(choose(idle >> y, idle << 1, no_reader << 1), -3);
      EXPECT_EQ(choose(idle >> y, no_writer >> x), -2);
      EXPECT_EQ(choose(~no_reader, idle >> y), -1);
      EXPECT_EQ(choose(~no_writer), -1);
      EXPECT_EQ(choose(writer<int>{} << 1, reader<int>{} >> x, ~reader<int>{}, action{}), 0);
      EXPECT_EQ(choose(reader<int>{} >> y, no_writer >> x, action{}), -2) << "null ones count";
      EXPECT_EQ(x, 5);
      EXPECT_EQ(y, -1) << "values move for the winner alone";
    }
    EXPECT_EQ(alt(std::vector<action>{}), 0);
  });
}

TEST(CspAlt, WaitsForValuesAndDeaths) {
  everywhere([] {
    // AltDead of that library's tests: a server that is killed by the death of a channel.
    channel<int> up;
    channel<int> down;
    channel<> die;
    auto served = spawn([in = --up, out = ++down, stop = --die] {
      for (int n = 0;;) switch (alt(in >> n, ~stop)) {
          case 1: out << n + 1; break;
          case -2: return;
          default: ADD_FAILURE(); return;
        }
    });
    writer<int> w = ++up;
    for (int i = 0; i < 5; ++i) {
      w << i;
      EXPECT_EQ((-down).read(), i + 1);
    }
    (+die).drop();
    join(served);
    EXPECT_FALSE(w << 1);
    EXPECT_EQ(alt(~w), -1);
    EXPECT_EQ(alt(~-down), -1);
  });
}

TEST(CspAlt, IsFairAndPrialtIsNot) {
  on_workers({1U}, [] {
    const channel<int> a{Channel<int>{1}};
    const channel<int> b{Channel<int>{1}};
    a << 1;
    b << 1;
    int by_chance = 0;
    int by_order = 0;
    int x = 0;
    for (int i = 0; i < 2000; ++i) {
      const int won = alt(a >> x, b >> x);
      by_chance += won == 1;
      (won == 1 ? a : b) << 1;
      by_order += prialt(a >> x, b >> x) == 1;
      a << 1;
    }
    EXPECT_EQ(by_order, 2000);
    EXPECT_GT(by_chance, 700);
    EXPECT_LT(by_chance, 1300);
  });
}

TEST(CspAlt, SkipMakesItNotWait) {
  on_both_engines([] {
    const channel<int> ch{Channel<int>{1}};
    int x = 0;
    EXPECT_EQ(prialt(ch >> x, ~skip), -2);
    ch << 3;
    EXPECT_EQ(prialt(ch << 4, ~skip), -2);
    EXPECT_EQ(prialt(ch >> x, ~skip), 1);
    EXPECT_EQ(x, 3);
    EXPECT_EQ(prialt(ch >> x, skip >> poke), -2);
    const reader<> dead = skip;
    EXPECT_FALSE(dead >> poke);
  });
}

TEST(CspAlt, ListsAndNullActions) {
  everywhere([] {
    channel<int> up;
    channel<int> down;
    auto asked = spawn([in = --up] { EXPECT_EQ(in.read(), 42); });
    spawn([out = ++down] { out << 11; });
    int n = 0;
    auto actions = action_list(+up << 42, action(), -down >> n);
    for (int i = 0; i < 2; ++i) {
      const int which = i == 0 ? alt(actions) : prialt(actions);
      ASSERT_TRUE(which == 1 || which == 3) << which;
      EXPECT_EQ(n, which == 3 ? 11 : n);
      actions[static_cast<std::size_t>(which - 1)] = {};
    }
    EXPECT_EQ(alt(actions), 0) << "nothing is left";
    join(asked);
  });
}

TEST(CspAlt, AListIsUsedAgainAndAgain) {
  everywhere([] {
    std::vector<reader<int>> inputs;
    Numbers into(20);
    std::vector<action> list;
    for (std::size_t i = 0; i < into.size(); ++i) {
      inputs.push_back(counting(static_cast<int>(i) * 10, static_cast<int>(i) * 10 + 3));
      list.push_back(inputs[i] >> into[i]);
    }
    int sum = 0;
    std::size_t ended = 0;
    while (const int which = alt(list)) {
      const auto at = static_cast<std::size_t>(which > 0 ? which : -which) - 1;
      if (which > 0)
        sum += into[at];
      else
        ++ended, list[at] = {};
    }
    EXPECT_EQ(ended, 20U);
    EXPECT_EQ(sum, 3 * 10 * 190 + 20 * 3);
  });
}

TEST(CspAlt, KeptSends) {
  on_both_engines([] {
    const channel<std::string> words{Channel<std::string>{2}};
    const channel<std::unique_ptr<int>> owned{Channel<std::unique_ptr<int>>{2}};
    const channel<int> idle;
    action send[] = {words << "again", action{}};
    EXPECT_EQ(alt(send), 1);
    EXPECT_EQ(prialt(send, 2), 1);
    EXPECT_EQ((-words).read() + (-words).read(), "againagain") << "a copy each time";
    action once = owned << std::make_unique<int>(4);
    int x = 0;
    EXPECT_EQ(prialt(idle >> x, once), 2);
    EXPECT_EQ(alt(once), 0) << "what cannot be copied is sent once";
    EXPECT_FALSE(once);
    EXPECT_EQ(*(-owned).read(), 4);
    action gone = ~(+idle);
    EXPECT_FALSE(gone.empty());
    EXPECT_EQ(prialt(gone, ~skip), -2);
    action late = owned << std::make_unique<int>(5);
    { action dropped = owned << std::make_unique<int>(6); }  // never asked: it does not happen
    EXPECT_EQ((-owned).size(), 0U);
    owned << nullptr;
    owned << nullptr;
    EXPECT_EQ(prialt(late, ~skip), -2) << "full: it loses, and loses nothing";
    EXPECT_EQ((-owned).read(), nullptr);
    EXPECT_TRUE(late);
    EXPECT_EQ((-owned).read(), nullptr);
    EXPECT_EQ(*(-owned).read(), 5);
  });
}

TEST(CspAlt, AKeptReceiveOutlivesAMoveOfItsReader) {
  on_both_engines([] {
    reader<int> r = counting(0, 2);
    int x = -1;
    action receive = r >> x;
    const reader<int> moved = std::move(r);
    EXPECT_EQ(alt(receive), 1);
    EXPECT_TRUE(receive);
    EXPECT_EQ(x, 1);
    EXPECT_EQ(alt(receive), -1);
    EXPECT_EQ(alt(receive), -1) << "dead it stays";
  });
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

TEST(CspTime, AfterAndSleep) {
  on_seeds([] {
    const time_point start = now();
    const channel<int> idle;
    int x = 0;
    EXPECT_EQ(alt(idle >> x, after(20ms) >> poke), 2);
    EXPECT_EQ(now() - start, 20ms);
    const reader<> slow = after(30ms);
    const reader<> fast = after(5ms);
    EXPECT_EQ(alt(slow >> poke, fast >> nullptr), 2);
    EXPECT_FALSE(fast >> poke) << "one poke, then the end";
    sleep(5ms);
    sleep_until(start + 35ms);
    slow.read();
    EXPECT_EQ(now() - start, 50ms) << "counted from the call, not from the read";
  });
}

TEST(CspTime, ADroppedTimerIsGone) {
  on_seeds([] {
    run([] {
      const channel<int> ch;
      auto sender = spawn([w = +ch] { w << 1; });
      int x = 0;
      EXPECT_EQ(alt(ch >> x, after(1h) >> poke), 1);
      const reader<time_point> ticks = tick(1h);
    });
    expect_no_timer_left();
  });
}

TEST(CspTime, TicksDoNotDrift) {
  on_seeds([] {
    const time_point start = now();
    const reader<time_point> ticks = tick(10ms);
    for (int k = 1; k <= 30; ++k) {
      EXPECT_EQ(ticks.read(), start + k * 10ms);
      if (k % 3 == 0) sleep(7ms);
      if (k == 10) sleep(35ms);  // what was missed comes at once
      EXPECT_GE(now(), start + k * 10ms);
    }
    EXPECT_EQ(now(), start + 307ms);
    EXPECT_THROW(static_cast<void>(tick(0ms)), std::invalid_argument);
  });
}

TEST(CspTime, TimersRunOnRealClocks) {
  on_workers([] {
    const time_point start = now();
    const reader<time_point> ticks = tick(1ms);
    time_point at;
    for (int k = 1; k <= 3; ++k) EXPECT_TRUE(ticks >> at);
    EXPECT_GE(now() - start, 3ms);
    after(1ms) >> poke;
    EXPECT_GE(now() - start, 4ms);
  });
}

// ── microthreads ────────────────────────────────────────────────────────────────────────────────

TEST(CspSpawn, RunWaitsForWhatItsFunctionSpawned) {
  const auto program = [] {
    std::atomic<int> ended{0};
    for (int i = 0; i < 3; ++i) {
      run([&ended] {
        spawn([&ended] {
          sleep(1ms);
          spawn([&ended] {
            yield();
            ++ended;
          });
        });
      });
    }
    EXPECT_EQ(ended, 3);
  };
  everywhere(program);
  EXPECT_THROW(spawn([] {}), std::logic_error) << "not inside an engine";
}

TEST(CspSpawn, TheFirstOnesSiblingsAreTheRoots) {
  for (const unsigned workers : {1U, 2U, 4U}) {
    std::atomic<int> ended{0};
    FiberIo io{{.workers = workers}};
    for (int i = 0; i < 3; ++i)
      io.run([&] {
        for (int k = 0; k < 100; ++k)
          spawn([&ended] {
            yield();
            ++ended;
          });
      });
    EXPECT_EQ(ended, 300) << "run() waits for them";
    EXPECT_THROW(io.run([] { spawn([] { throw std::domain_error{"root"}; }); }), std::domain_error);
  }
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SimIo io{{.seed = seed}};
    int ended = 0;
    io.run([&] {
      nursery([&](Nursery&) {  // a sibling of this fiber, not a child
        spawn([&ended] {
          sleep(1s);
          ++ended;
        });
      });
      EXPECT_EQ(ended, 0);
    });
    EXPECT_EQ(ended, 1);
    EXPECT_THROW(io.run([] {
      spawn([] { throw std::domain_error{"root"}; });
      Event{}.wait();  // is cancelled
    }),
                 std::domain_error);
  }
}

TEST(CspSpawn, InANurseryThatTakesNoMore) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      n.spawn([&n] {
        n.close();
        EXPECT_THROW(spawn([] {}), NurseryClosed);
      });
    });
    nursery([](Nursery& n) {
      n.spawn([&n] {
        n.cancel();
        spawn([] {});
        ADD_FAILURE() << "cancelled: not a failure, and it goes no further";
      });
    });
    EXPECT_THROW(nursery({.max_spawns = 2},
                         [](Nursery& n) {
                           n.spawn([] {
                             spawn([] {});
                             spawn([] {});
                           });
                         }),
                 BudgetExhausted);
  });
}

TEST(CspSpawn, ExceptionsGoToWhoJoins) {
  everywhere([] {
    std::atomic<bool> gone{false};
    run([&] {
      const auto good = spawn([] {});
      join(good);
      join(good);
      channel<int> ch;
      const auto bad = spawn([w = ++ch] {
        w << 1;
        throw std::domain_error{"bad"};
      });
      EXPECT_EQ(all_of(--ch), Numbers{1}) << "the ends are dropped before";
      EXPECT_THROW(join(bad), std::domain_error);
      join(bad);  // once
      std::exception_ptr error;
      const auto other = spawn([] { throw 5; });
      EXPECT_EQ(alt(other >> error, after(1h) >> poke), 1);
      EXPECT_THROW(std::rethrow_exception(error), int);
      gone = true;
    });
    EXPECT_TRUE(gone);
  });
}

TEST(CspSpawn, AnExceptionNobodyJoinsForFailsTheNursery) {
  everywhere([] {
    EXPECT_THROW(run([] { spawn([] { throw std::domain_error{"alone"}; }); }), std::domain_error);
    EXPECT_THROW(run([] {
                   auto held = spawn([] { throw std::domain_error{"given up"}; });
                   yield();
                   held = {};
                   Event{}.wait();  // fail-fast cancels us
                 }),
                 std::domain_error);
    // Of two, the second is cancelled: its join returns, as after any end.
    EXPECT_THROW(run([] {
                   const auto waits = spawn([] { Event{}.wait(); });
                   spawn([] { throw std::domain_error{"first"}; });
                   join(waits);
                 }),
                 std::domain_error);
  });
}

TEST(CspSpawn, ProducersConsumersAndFilters) {
  everywhere([] {
    run([] {
      const channel<int, std::string> text =
          spawn_filter<int, std::string>([](reader<int> in, writer<std::string> out) {
            for (const int v : in)
              if (!(out << std::to_string(v))) return;
          });
      channel<int> twice = spawn_filter<int>([](auto in, auto out) {
        for (int v = 0; prialt(~out, in >> v) > 0 && out << 2 * v;) {
        }
      });
      channel<std::string> result;
      const writer<std::string> sink =
          spawn_consumer<std::string>([w = ++result](reader<std::string> r) {
            const std::string first = r.read();
            w << first + r.read();
          });
      spawn([from = --twice, to = +text] {
        for (const int v : from) to << v;
      });
      spawn((-text).stream_to(sink));
      (+twice) << 1;
      (+twice) << 2;
      EXPECT_EQ((-result).read(), "24");
    });
  });
}

TEST(CspSpawn, RangesThrowWhatTheirProducerDid) {
  everywhere([] {
    const range<int> numbers = spawn_range<int>([](writer<int> w) {
      for (int i = 1; i <= 5; ++i) w << i;
      throw std::domain_error{"five are enough"};
    });
    int sum = 0;
    EXPECT_THROW(for (const int v : numbers) sum += v, std::domain_error);
    EXPECT_EQ(sum, 15);
    sum = 0;
    for (const int v : range{counting(0, 4)}) sum += v;
    EXPECT_EQ(sum, 6);
    for (const int v : spawn_range<int>([](auto&& w) { w << 7; })) sum += v;
    EXPECT_EQ(sum, 13);
  });
}

// ── programs ────────────────────────────────────────────────────────────────────────────────────

TEST(CspPrograms, SieveIsTornDownFromBelow) {
  everywhere([] {
    run([] {
      reader<int> numbers = spawn_producer<int>([](writer<int> w) {
        for (int i = 2; w << i; ++i) {
        }
      });
      Numbers primes;
      while (primes.size() < 10) {
        const int prime = numbers.read();
        primes.push_back(prime);
        numbers = spawn_producer<int>([prime, in = std::move(numbers)](writer<int> out) {
          for (int v = 0; prialt(~out, in >> v) > 0;)
            if (v % prime != 0 && !(out << v)) return;
        });
      }
      EXPECT_EQ(primes, (Numbers{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}));
    });  // ends, though the source is endless
  });
}

TEST(CspPrograms, CombinatorsInThreeForms) {
  everywhere([] {
    const auto odd = [](int v) { return v % 2 != 0; };
    const auto text = [](int v) { return std::to_string(v); };
    run([&] {  // behind a reader
      reader<int> r = spawn_where(counting(0, 100), odd);
      r = spawn_map<int>(std::move(r), [](int v) { return v * v; });
      r = spawn_buffer(std::move(r), 4);
      reader<std::string> words = spawn_map<int, std::string>(std::move(r), text);
      EXPECT_EQ(words.read(), "1");
      EXPECT_EQ(words.read(), "9");
    });  // dropped: all of them have ended
    run([&] {  // in front of a writer
      channel<std::string> result;
      writer<int> w = spawn_map<int>(++result, text);
      w = spawn_where(std::move(w), odd);
      w = spawn_buffer(spawn_map(std::move(w), [](int v) { return v + 10; }));
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(w << i);
      w = {};
      EXPECT_EQ((-result).read(), "11");
      EXPECT_EQ((-result).read(), "13");
      EXPECT_FALSE(-result >> nullptr) << "and the end comes through";
    });
    run([&] {  // alone
      channel<int, std::string> words = spawn_map<int>(text);
      channel<int> odds = spawn_where<int>(odd);
      const channel<int> room = spawn_buffer<int>(2);
      spawn((--odds).stream_to(++words));
      +room << 4;
      +room << 5;
      ++odds << (-room).read() + (-room).read();
      EXPECT_EQ((-words).read(), "9");
      EXPECT_FALSE(-words >> nullptr);
      const reader<int> few = spawn_stages(counting(0, 9), where(odd) | take(2));
      EXPECT_EQ(all_of(few), (Numbers{1, 3}));
    });
    EXPECT_THROW(run([] {
                   const reader<int> r = spawn_map(counting(0, 3), [](int v) {
                     return v < 2 ? v : throw std::domain_error{"not two"};
                   });
                   EXPECT_EQ(r.read(), 0);
                   EXPECT_EQ(r.read(), 1);
                   r.read();  // throws it, or Cancelled if the nursery has failed before
                   ADD_FAILURE();
                 }),
                 std::domain_error);
  });
}

TEST(CspPrograms, ATreeOutAndBackLosesNothing) {
  everywhere([] {
    // From one channel to eight, and back to one.
    constexpr int kMessages = 40;
    writer<int> in;
    reader<int> out;
    {
      const reader<int> first = --in;
      const writer<int> last = ++out;
      for (int i = 0; i < 8; ++i) {
        channel<int> middle;
        spawn(first.stream_to(++middle));
        spawn((--middle).stream_to(last));
      }
    }
    spawn([w = std::move(in)] {
      for (int i = 0; i < kMessages; ++i) w << i;
    });
    std::vector<int> seen(kMessages);
    for (const int v : out) ++seen[static_cast<std::size_t>(v)];
    EXPECT_EQ(seen, Numbers(kMessages, 1));
  });
}

TEST(CspPrograms, NothingIsLeftBehind) {
  everywhere([] {
    run([] {
      channel<Counted> first;
      channel<Counted> second;
      spawn((-first).stream_to(+second));
      spawn([w = ++first] {
        for (int i = 0; w << Counted{i}; ++i) {
        }
      });
      first.release();
      reader<Counted> r = --second;
      second.release();
      Counted last;
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(r >> last);
      EXPECT_EQ(last.value, 4);
      action kept = r >> last;
      const writer<Counted> dead = writer<Counted>::dead();
      const auto list = action_list(dead << Counted{1}, std::move(kept));
      EXPECT_EQ(prialt(list), -1);
      EXPECT_EQ(prialt(list), -1) << "dead it stays";
    });
    EXPECT_EQ(Counted::live, 0);
  });
}

TEST(CspRpc, OneAtATime) {
  everywhere([] {
    run([] {
      channel<std::tuple<int, int>> requests;
      channel<int> replies;
      auto server = spawn(rpc_server(--requests, ++replies, [](int a, int b) {
        if (b == 0) throw std::domain_error{"divided by zero"};
        return a / b;
      }));
      const auto divide = rpc_client(++requests, --replies);
      EXPECT_EQ(divide(21, 3), 7);
      EXPECT_EQ(divide(9, 2), 4);
      EXPECT_THROW(divide(1, 0), microthread_error);
      EXPECT_THROW(divide(1, 1), microthread_error) << "the server is dead";
      EXPECT_THROW(join(server), std::domain_error);

      channel<std::tuple<>> knock;
      channel<> done;
      auto door = spawn(rpc_server(--knock, ++done, [count = 0]() mutable { ++count; }));
      {
        const auto call = rpc_client(++knock, --done);
        for (int i = 0; i < 3; ++i) call();
      }
      join(door);  // ended with its client
    });
  });
}

TEST(CspRpc, Pipelined) {
  everywhere([] {
    run([] {
      channel<std::pair<std::tuple<int>, writer<int>>> requests;
      for (int i = 0; i < 2; ++i) spawn(rpc_server(-requests, [](int n) { return 2 * n + 1; }));
      requests = {++requests, {}};
      {
        const auto client = rpc_client(++requests);
        std::vector<reader<int>> replies;
        for (int i = 0; i < 10; ++i) replies.push_back(client.post(i));
        static_cast<void>(client.post(99));  // nobody waits for it: the servers go on
        for (int i = 9; i >= 0; --i)
          EXPECT_EQ(replies[static_cast<std::size_t>(i)].read(), 2 * i + 1);
        EXPECT_EQ(client(10), 21);
      }
      writer<std::pair<std::tuple<>, writer<>>> ring;
      auto bell = spawn(rpc_server(--ring, [] { throw std::domain_error{"cracked"}; }));
      const auto press = rpc_client(std::move(ring));
      EXPECT_THROW(press(), microthread_error) << "the reply channel died unanswered";
      EXPECT_THROW(join(bell), std::domain_error);
      EXPECT_FALSE(press.post()) << "and now the server is dead";
    });
  });
}

}  // namespace
}  // namespace weft::csp
