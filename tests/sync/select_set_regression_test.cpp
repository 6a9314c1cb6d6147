// What SelectSet got wrong once.
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using testing::on_both_engines;

// The handler, and what it has captured, was destroyed while it ran.
TEST(SelectSetRegression, AHandlerMayRemoveItsOwnArm) {
  on_both_engines([] {
    Channel<int> channel{4};
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(channel.tx.send(i));
    SelectSet set;
    std::vector<int> got;
    std::size_t index = SelectSet::npos;
    const auto alive = std::make_shared<int>(7);
    index = set.recv(channel.rx, [&, kept = alive](std::optional<int> value) {
      set.remove(index);
      EXPECT_EQ(kept.use_count(), 2) << "this handler is gone";
      got.push_back(value.value_or(0) + *kept);
    });
    EXPECT_EQ(set.wait(), index);
    EXPECT_EQ(got, std::vector{8});
    EXPECT_EQ(alive.use_count(), 1) << "the handler went when it had returned";
    EXPECT_EQ(set.wait(), SelectSet::npos);
    EXPECT_EQ(channel.rx.try_recv().value(), 2) << "the channel is untouched";
  });
}

TEST(SelectSetRegression, ARemovedArmGivesUpItsEndWhenTheHandlerReturns) {
  on_both_engines([] {
    Channel<int> channel{1};
    ASSERT_TRUE(channel.tx.send(1));
    SelectSet set;
    std::size_t index = SelectSet::npos;
    index = set.recv(std::move(channel.rx), [&](std::optional<int>) {
      set.remove(index);
      throw std::runtime_error{"all the same"};
    });
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_TRUE(channel.tx.closed()) << "nobody receives any more";
    EXPECT_EQ(set.enabled(), 0U);
  });
}

// A handler may wait for its own set, and its value is its own meanwhile.
TEST(SelectSetRegression, AHandlerMayWait) {
  on_both_engines([] {
    Channel<int> channel{2};
    ASSERT_TRUE(channel.tx.send(1));
    ASSERT_TRUE(channel.tx.send(2));
    SelectSet set;
    std::vector<int> got;
    set.recv(channel.rx, [&](const std::optional<int>& value) {
      if (got.empty()) {
        got.push_back(0);
        set.wait();
      }
      got.push_back(value.value());
    });
    set.wait();
    EXPECT_EQ(got, (std::vector{0, 2, 1}));
  });
}

// A copy that threw left the arm with the value that was moved away.
struct Fragile {
  explicit Fragile(int v) : value(v) {}
  Fragile(const Fragile& other) : value(other.value) {
    if (copies_left == 0) throw std::runtime_error{"no more copies"};
    --copies_left;
  }
  Fragile(Fragile&& other) noexcept : value(std::exchange(other.value, 0)) {}
  Fragile& operator=(const Fragile&) = default;
  Fragile& operator=(Fragile&& other) noexcept {
    value = std::exchange(other.value, 0);
    return *this;
  }
  ~Fragile() = default;
  int value;
  static inline int copies_left = 0;
};

TEST(SelectSetRegression, ACopyThatThrowsSendsNothing) {
  on_both_engines([] {
    Channel<Fragile> channel{4};
    SelectSet set;
    int handled = 0;
    Fragile::copies_left = 1;
    set.send(channel.tx, Fragile{5}, [&](bool sent) {
      EXPECT_TRUE(sent);
      ++handled;
    });
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(handled, 1) << "the first copy was sent";
    EXPECT_THROW(set.wait(), std::runtime_error);
    EXPECT_EQ(handled, 1);
    EXPECT_EQ(channel.rx.size(), 1U);
    Fragile::copies_left = 1;
    EXPECT_EQ(set.wait(), 0U);
    EXPECT_EQ(channel.rx.recv()->value, 5);
    EXPECT_EQ(channel.rx.recv()->value, 5);
  });
}

// A full buffer that drops what is new was taken for the end.
TEST(SelectSetRegression, AFullChannelIsNotAClosedOne) {
  on_both_engines([] {
    Channel<int> channel{{.capacity = 1, .overflow = Overflow::drop_new}};
    SelectSet set;
    std::vector<bool> answers;
    set.send(channel.tx, 1, [&](bool sent) { answers.push_back(sent); });
    set.wait();
    set.wait();
    EXPECT_EQ(set.enabled(), 1U);
    EXPECT_TRUE(channel.rx.recv());
    set.wait();
    EXPECT_EQ(answers, (std::vector{true, false, true}));
    channel.tx.close();
    set.wait();
    EXPECT_EQ(set.enabled(), 0U);
    EXPECT_EQ(set.wait(), SelectSet::npos);
  });
}

}  // namespace
}  // namespace weft
