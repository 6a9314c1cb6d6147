// Steps, each through the suite, and what is their own.
#include "stream/stage_suite.hpp"

#include <weft/inspect.hpp>

#include <ranges>
#include <span>
#include <sstream>

namespace weft::testing {
namespace {

using Items = std::vector<Item>;
using Ints = std::vector<int>;
using Groups = std::vector<Ints>;

bool even(const Item& v) { return v.n % 2 == 0; }
bool below_5(const Item& v) { return v.n < 5; }
Item plus_one(const Item& v) { return Item{v.n + 1}; }
Item plus(const Item& a, const Item& b) { return Item{a.n + b.n}; }
Items only_even(Items in) {
  std::erase_if(in, [](const Item& v) { return !even(v); });
  return in;
}
Items all_plus(Items in, int add) {
  for (Item& v : in) v.n += add;
  return in;
}
const auto boom = [](const Item&) -> Item { throw Boom{}; };
const auto boom_if = [](const Item&) -> bool { throw Boom{}; };
const auto boom_two = [](const Item&, const Item&) -> Item { throw Boom{}; };
const auto boom_same = [](const Item&, const Item&) -> bool { throw Boom{}; };
const auto boom_many = [](const Item&) -> Items { throw Boom{}; };

// One Item that tells how many there were, and what.
Item digest(const Items& items) {
  int all = static_cast<int>(items.size());
  for (const Item& v : items) all = all * 10 + v.n;
  return Item{all};
}
// 7 becomes 7; 8 becomes 8 9; 9 and the like nothing.
Items few(const Item& v) {
  Items all;
  for (int i = 0; i < v.n % 3; ++i) all.push_back(Item{v.n + i});
  return all;
}
Receiver<Item> few_to_receive(const Item& v) {
  Channel<Item> ch{2};
  EXPECT_EQ(ch.tx.send_all(few(v)), static_cast<std::size_t>(v.n % 3));
  return std::move(ch.rx);
}
Items few_of_each(const Items& in) {
  Items all;
  for (const Item& v : in)
    for (Item& w : few(v)) all.push_back(w);
  return all;
}
template <std::size_t kSize>
Items windows_of(const Items& in, bool growing) {
  Items all;
  for (std::size_t end = growing ? 1 : kSize; end <= in.size(); ++end) {
    const std::size_t size = std::min(end, kSize);
    all.push_back(digest(Items(in.begin() + static_cast<std::ptrdiff_t>(end - size),
                               in.begin() + static_cast<std::ptrdiff_t>(end))));
  }
  return all;
}
Items each_once(const Items& in, std::size_t remembered) {
  Items all;
  std::vector<int> seen;
  for (const Item& v : in) {
    if (std::find(seen.begin(), seen.end(), v.n) != seen.end()) continue;
    if (seen.size() == remembered) seen.erase(seen.begin());
    seen.push_back(v.n);
    all.push_back(v);
  }
  return all;
}

// A view of elements that are made when they are read: f(0), f(1), … f(count - 1).
template <class F>
struct Made : std::ranges::view_base {
  struct iterator {
    using iterator_concept = std::input_iterator_tag;
    using value_type = std::remove_cvref_t<std::invoke_result_t<const F&, int>>;
    using difference_type = std::ptrdiff_t;
    decltype(auto) operator*() const { return of->f(at); }
    iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++at; }
    friend bool operator==(const iterator&, const iterator&) = default;
    const Made* of = nullptr;
    int at = 0;
  };
  Made(int n, F by) : count(n), f(std::move(by)) {}
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, count}; }
  int count;
  F f;
};

INSTANTIATE_TEST_SUITE_P(
    Steps, StageTest,
    ::testing::Values(
        stage_case("map", [] { return map(plus_one); }, [](Items in) { return all_plus(in, 1); })
            .throwing([] { return map(boom); }),
        stage_case("where", [] { return where(even); }, only_even)
            .throwing([] { return where(boom_if); }),
        stage_case("tap", [] { return tap([](const Item& v) { EXPECT_LT(v.n, 10); }); },
                   [](Items in) { return in; })
            .throwing([] { return tap(boom); }),
        stage_case("take", [] { return take(2); },
                   [](Items in) {
                     in.resize(std::min<std::size_t>(in.size(), 2));
                     return in;
                   })
            .ends_early(),
        stage_case("take_while",
                   [] { return take_while([](const Item& v) { return v.n != 2; }); },
                   [](Items in) {
                     in.erase(std::find(in.begin(), in.end(), Item{2}), in.end());
                     return in;
                   })
            .ends_early()
            .throwing([] { return take_while(boom_if); }),
        stage_case("drop", [] { return drop(2); },
                   [](Items in) {
                     in.erase(in.begin(), in.begin() + std::min<std::ptrdiff_t>(2, std::ssize(in)));
                     return in;
                   }),
        stage_case("drop_while", [] { return drop_while(below_5); },
                   [](Items in) {
                     in.erase(in.begin(), std::find_if_not(in.begin(), in.end(), below_5));
                     return in;
                   })
            .throwing([] { return drop_while(boom_if); }),
        stage_case("scan", [] { return scan(Item{100}, plus); },
                   [](Items in) {
                     int sum = 100;
                     for (Item& v : in) v.n = sum += v.n;
                     return in;
                   })
            .throwing([] { return scan(Item{}, boom_two); }),
        stage_case("enumerate",
                   [] {
                     return enumerate() | map([](const Indexed<Item>& v) {
                              return Item{static_cast<int>(v.index) * 10 + v.value.n};
                            });
                   },
                   [](Items in) {
                     int index = 0;
                     for (Item& v : in) v.n += 10 * index++;
                     return in;
                   }),
        stage_case("distinct", [] { return distinct(); },
                   [](Items in) { return each_once(in, SIZE_MAX); }),
        stage_case("drop+distinct", [] { return drop(0) | distinct(3); },
                   [](Items in) { return each_once(in, 3); }),
        stage_case("changes", [] { return changes(); },
                   [](Items in) {
                     in.erase(std::unique(in.begin(), in.end()), in.end());
                     return in;
                   })
            .throwing([] { return changes(boom_same); })),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Grouping, StageTest,
    ::testing::Values(
        stage_case("flat_map", [] { return flat_map(few); }, few_of_each)
            .throwing([] { return flat_map(boom_many) | map(plus_one); }),
        stage_case("drop+flat_map", [] { return drop(0) | flat_map(few_to_receive); }, few_of_each),
        stage_case("map+flatten", [] { return map(few) | flatten(); }, few_of_each),
        stage_case("map+flatten+map",
                   [] { return map(few_to_receive) | flatten() | map(plus_one); },
                   [](Items in) { return all_plus(few_of_each(in), 1); }),
        stage_case("chunk", [] { return chunk(3) | map(digest); },
                   [](Items in) {
                     Items all;
                     for (auto at = in.begin(); at != in.end();) {
                       const auto end = at + std::min<std::ptrdiff_t>(3, in.end() - at);
                       all.push_back(digest(Items(at, end)));
                       at = end;
                     }
                     return all;
                   }),
        stage_case("window", [] { return window(2) | map(digest); },
                   [](Items in) { return windows_of<2>(in, false); }),
        stage_case("drop+window",
                   [] { return drop(0) | window(3, Windows::growing) | map(digest); },
                   [](Items in) { return windows_of<3>(in, true); }),
        stage_case("cycle", [] { return cycle() | take(50); },
                   [](Items in) {
                     for (std::size_t i = 0; !in.empty() && in.size() < 50; ++i)
                       in.push_back(Item{in[i]});
                     in.resize(std::min<std::size_t>(in.size(), 50));
                     return in;
                   }),
        stage_case("quantize",
                   [] {
                     return map(&Item::n) | quantize(7) | map([](int v) { return Item{v}; });
                   },
                   [](Items in) {
                     int sum = 0;
                     for (const Item& v : in) sum += v.n;
                     return Items(static_cast<std::size_t>(sum / 7), Item{7});
                   })
            .throwing([] {
              return map(&Item::n) | quantize(7, [](int) { throw Boom{}; }) |
                     map([](int v) { return Item{v}; });
            }),
        stage_case("where+map+map", [] { return where(even) | map(plus_one) | map(plus_one); },
                   [](Items in) { return all_plus(only_even(std::move(in)), 2); })
            .throwing([] { return where(even) | map(plus_one) | map(boom); }),
        stage_case("buffer", [] { return map(plus_one) | buffer(3) | map(plus_one); },
                   [](Items in) { return all_plus(in, 2); })),
    case_name);

// ---- fusion -------------------------------------------------------------------------------------

TEST(Fusion, AdjacentStepsAreOneFiber) {
  const auto run = [](Engine& engine) {
    engine.run([&] {
      nursery([&](Nursery& n) {
        Channel<int> in;
        auto rx = stream(n, std::move(in.rx)) | where([](int v) { return v > 0; }) |
                  map([](int v) { return v + 1; }) | scan(0, std::plus{}) | chunk(2) | flatten() |
                  take(9) | out();
        EXPECT_EQ(n.live(), 1U);
        let_others_block();
        std::ostringstream text;
        dump(engine, text);
        EXPECT_NE(text.str().find("where+map+scan+chunk+flatten+take"), std::string::npos)
            << text.str();
        in.tx.drop();
        EXPECT_EQ(rx.recv(), std::nullopt);
      });
    });
  };
  SimIo sim;
  run(sim);
  FiberIo fibers{{.workers = 1}};  // others might not answer the dump in time
  run(fibers);
}

TEST(Fusion, ASourceIsInTheSameFiber) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto rx = stream(n, iota(1)) | map([](int v) { return v * v; }) | take(3) | out();
      EXPECT_EQ(n.live(), 1U);
      EXPECT_EQ(all_of(rx), (Ints{1, 4, 9}));
    });
  });
}

TEST(Fusion, AStageOfItsOwnSplitsTheFiber) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto rx = stream(n, iota(1)) | take(3) | map(std::negate{}) | pace(Duration{1}) |
                      map(std::negate{}) | drop(1) | out();
      EXPECT_EQ(n.live(), 3U);
      EXPECT_EQ(all_of(rx), (Ints{2, 3}));
    });
  });
}

// ---- teardown -----------------------------------------------------------------------------------

// A step that passes nothing on, and whose source is never silent, finds out by itself.
template <class Make>
void expect_ends_when_nobody_receives(Make make) {
  everywhere([&] {
    nursery([&](Nursery& n) {
      auto rx = make(n) | where([](int) { return false; }) | out();
      if (io().random() % 2 == 0) this_fiber::yield();
      rx.drop();
    });
  });
}
// … and can be cancelled.
template <class Make>
void expect_can_be_cancelled(Make make) {
  everywhere([&] {
    nursery([&](Nursery& n) {
      const auto rx = make(n) | where([](int) { return false; }) | out();
      if (io().random() % 2 == 0) this_fiber::yield();
      n.cancel();
    });
  });
}
template <class Make>
void expect_can_be_stopped(Make make) {
  expect_ends_when_nobody_receives(make);
  expect_can_be_cancelled(make);
}

TEST(SilentSteps, BehindASourceWithoutEnd) {
  expect_can_be_stopped([](Nursery& n) { return stream(n, iota(0)); });
}
TEST(SilentSteps, BehindACycle) {
  expect_can_be_stopped([](Nursery& n) { return stream(n, iota(0, 3)) | cycle(); });
}
TEST(SilentSteps, BehindEndlessParts) {
  expect_can_be_stopped([](Nursery& n) {
    return stream(n, iota(0)) | flat_map([](int) { return Made{1 << 30, std::identity{}}; });
  });
}
TEST(SilentSteps, BehindManyQuanta) {
  expect_can_be_stopped([](Nursery& n) {
    return stream(n, from_range(Ints{1 << 30})) | quantize(1);
  });
}
TEST(SilentSteps, BehindAReceiverThatIsSilent) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<int> inner;
      auto rx = stream(n, from_range(std::vector{inner.rx, inner.rx})) | flatten() | out();
      n.spawn([tx = std::move(inner.tx)] { EXPECT_TRUE(tx.send(1)); });
      EXPECT_EQ(rx.recv(), 1);
      let_others_block();
      rx.drop();
    });
  });
}

// What a step still holds when those behind it have had enough is shown to none of them.
TEST(Steps, NobodySeesAValueAfterTheLastOneWanted) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      Ints seen;
      EXPECT_EQ(stream(n, iota(1, 4)) | cycle() | tap([&](int v) { seen.push_back(v); }) |
                    take(5) | collect(),
                (Ints{1, 2, 3, 1, 2}));
      EXPECT_EQ(seen, (Ints{1, 2, 3, 1, 2}));
      int asked = 0;
      const auto small = [&](const Ints& v) { return ++asked > 0 && v.size() < 2; };
      EXPECT_EQ(stream(n, iota(1, 4)) | chunk(2) | take_while(small) | count(), 0U);
      EXPECT_EQ(asked, 1);
      EXPECT_EQ(stream(n, iota(1)) | take(3) | chunk(2) | take_while([&](const Ints& v) {
                  return ++asked < 0 || v.size() == 7;
                }) | count(),
                0U);
      EXPECT_EQ(asked, 2) << "the last chunk was shown to a step that had had enough";
    });
  });
}

TEST(Steps, NoneIsTaken) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto never = [](int v) -> int { throw std::logic_error{std::to_string(v)}; };
      EXPECT_EQ(stream(n, iota(1)) | map(never) | chunk(2) | take(0) | count(), 0U);
      EXPECT_EQ(stream(n, iota(1)) | cycle() | take(0) | count(), 0U);
    });
  });
}

// ---- what passes --------------------------------------------------------------------------------

TEST(Steps, ValuesThatCannotBeCopied) {
  using Owned = std::unique_ptr<int>;
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto own = [](int v) { return std::make_unique<int>(v); };
      const auto value = [](const Owned& v) { return *v; };
      const auto twice = [](Owned v) {
        std::vector<Owned> both;
        both.push_back(std::make_unique<int>(-*v));
        both.push_back(std::move(v));
        return both;
      };
      EXPECT_EQ(stream(n, iota(0)) | map(own) | drop(1) |
                    drop_while([](const Owned& v) { return *v < 3; }) |
                    take_while([](const Owned& v) { return *v < 6; }) | tap(value) | chunk(2) |
                    flatten() | flat_map(twice) | where([](const Owned& v) { return *v != -4; }) |
                    enumerate(7) |
                    map([](Indexed<Owned> v) {
                      auto& [index, owned] = v;
                      return static_cast<int>(index) * 10 + *owned;
                    }) |
                    collect(),
                (Ints{67, 83, 94, 95, 115}));
    });
  });
}

// Neither made from nothing nor assigned to.
struct Fixed {
  explicit Fixed(int v) : n(v) {}
  friend bool operator==(const Fixed&, const Fixed&) = default;
  const int n;
};
}  // namespace
}  // namespace weft::testing
template <>
struct std::hash<weft::testing::Fixed> {
  std::size_t operator()(const weft::testing::Fixed& v) const noexcept {
    return static_cast<std::size_t>(v.n % 2);  // they collide
  }
};
namespace weft::testing {
namespace {

TEST(Steps, ValuesThatCannotBeAssigned) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto fix = [](int v) { return Fixed{v / 2}; };
      const auto number = [](const Fixed& v) { return v.n; };
      EXPECT_EQ(stream(n, iota(0)) | map(fix) | changes() | chunk(2) | flatten() | window(2) |
                    flatten() | distinct() | take(4) | cycle() | enumerate() | take(6) |
                    map(&Indexed<Fixed>::value) | map(number) | collect(),
                (Ints{0, 1, 2, 3, 0, 1}));
    });
  });
}

TEST(Steps, OfNothing) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto none = [&n] { return stream(n, from_range(Ints{})); };
      EXPECT_EQ(none() | chunk(3) | count(), 0U);
      EXPECT_EQ(none() | window(3) | count(), 0U);
      EXPECT_EQ(none() | cycle() | count(), 0U);
      EXPECT_EQ(none() | distinct() | changes() | drop(1) | enumerate() | count(), 0U);
      EXPECT_EQ(none() | scan(1, std::plus{}) | collect(), Ints{});
      EXPECT_EQ(none() | chunk(3) | flatten() | count(), 0U);
      int rest = -1;
      EXPECT_EQ(none() | quantize(3, [&](int left) { rest = left; }) | count(), 0U);
      EXPECT_EQ(rest, 0);
    });
  });
}

TEST(Steps, WhatCannotBe) {
  EXPECT_THROW(static_cast<void>(chunk(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(window(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(distinct(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(quantize(0)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(quantize(-0.5)), std::invalid_argument);
}

TEST(Chunk, TheLastMayBeShorter) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(stream(n, iota(1, 8)) | chunk(3) | collect(), (Groups{{1, 2, 3}, {4, 5, 6}, {7}}));
      EXPECT_EQ(stream(n, iota(1, 7)) | chunk(3) | collect(), (Groups{{1, 2, 3}, {4, 5, 6}}));
      EXPECT_EQ(stream(n, iota(1, 3)) | chunk(SIZE_MAX) | collect(), (Groups{{1, 2}}));
      // Those behind it finish after it has: of chunks, chunks.
      EXPECT_EQ(stream(n, iota(1, 6)) | chunk(2) | chunk(2) | collect(),
                (std::vector<Groups>{{{1, 2}, {3, 4}}, {{5}}}));
    });
  });
}

TEST(Window, SlidesByOne) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      EXPECT_EQ(stream(n, iota(1, 5)) | window(3) | collect(), (Groups{{1, 2, 3}, {2, 3, 4}}));
      EXPECT_EQ(stream(n, iota(1, 3)) | window(3) | collect(), Groups{});
      EXPECT_EQ(stream(n, iota(1, 5)) | window(3, Windows::growing) | collect(),
                (Groups{{1}, {1, 2}, {1, 2, 3}, {2, 3, 4}}));
    });
  });
}

// What a function returns by reference, or shows in a view, is not its to give away.
TEST(FlatMap, MovesOnlyWhatWasMadeForIt) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const std::string long_text(100, 'x');
      std::vector<std::string> kept{long_text, "y"};
      const auto expect_both = [&](auto f) {
        EXPECT_EQ(stream(n, iota(0, 2)) | flat_map(f) | collect(),
                  (std::vector{long_text, std::string{"y"}, long_text, std::string{"y"}}));
      };
      expect_both([&](int) -> std::vector<std::string>& { return kept; });
      expect_both([&](int) { return std::span{kept}; });
      const auto show = [&](int i) -> std::string& { return kept[static_cast<std::size_t>(i)]; };
      expect_both([&](int) { return Made{2, show}; });
      expect_both([&](int) { return kept; });
      EXPECT_EQ(stream(n, from_range(kept)) | drop(1) | flatten() | collect(),
                (std::vector{'y'}));
      // A view makes its elements when it is read.
      EXPECT_EQ(stream(n, iota(1, 4)) | flat_map([](int v) {
                  return Made{v, [](int w) { return std::make_unique<int>(w); }};
                }) | map([](const std::unique_ptr<int>& v) { return *v; }) | collect(),
                (Ints{0, 0, 1, 0, 1, 2}));
    });
  });
}

// An error of one of the receivers is the stream's, not the step's.
TEST(Flatten, AReceiverFails) {
  everywhere([] {
    nursery([](Nursery& n) {
      Channel<int> good{1};
      Channel<int> bad{1};
      EXPECT_TRUE(good.tx.send(1));
      good.tx.drop();
      EXPECT_TRUE(bad.tx.send(2));
      bad.tx.close(std::make_exception_ptr(Boom{}));
      const auto rx =
          stream(n, from_range(std::vector{good.rx, bad.rx, good.rx})) | flatten() | out();
      EXPECT_EQ(rx.recv(), 1);
      EXPECT_EQ(rx.recv(), 2);
      EXPECT_THROW(static_cast<void>(rx.recv()), Boom);
    });
  });
}

TEST(Distinct, HashedOrInOrder) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const Ints repeating{1, 2, 3, 2, 1, 3};
      EXPECT_EQ(stream(n, from_range(repeating)) | distinct() | collect(), (Ints{1, 2, 3}));
      EXPECT_EQ(stream(n, from_range(repeating)) | distinct(2) | collect(), (Ints{1, 2, 3, 1}));
      EXPECT_EQ(stream(n, from_range(repeating)) | distinct(1) | collect(), repeating);
      const auto pair = [](int v) { return std::pair{v / 2, 0}; };  // has no std::hash
      EXPECT_EQ(stream(n, from_range(repeating)) | map(pair) | distinct() | count(), 2U);
    });
  });
}

TEST(Changes, ByWhatTheFunctionSays) {
  on_both_engines([] {
    nursery([](Nursery& n) {
      const auto near = [](int last, int v) { return v - last < 3; };
      EXPECT_EQ(stream(n, iota(0, 10)) | changes(near) | collect(), (Ints{0, 3, 6, 9}));
    });
  });
}

TEST(Quantize, NothingIsLost) {
  everywhere([] {
    nursery([](Nursery& n) {
      const auto items = random_items(20);
      const std::size_t wanted = io().random() % 3 == 0 ? 2 : SIZE_MAX;
      int in = 0;
      int rest = -1;
      const Ints quanta = stream(n, from_range(items)) | map(&Item::n) |
                          tap([&](int v) { in += v; }) |
                          quantize(4, [&](int left) { rest = left; }) | take(wanted) | collect();
      EXPECT_EQ(in, 4 * static_cast<int>(quanta.size()) + rest);
      if (wanted > 2) {
        EXPECT_LT(rest, 4);
      }
    });
  });
}

}  // namespace
}  // namespace weft::testing
