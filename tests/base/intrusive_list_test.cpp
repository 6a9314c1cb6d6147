#include <weft/base/intrusive_list.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <utility>
#include <vector>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Item : ListNode<Item> {
  explicit Item(int number_in) : number(number_in) {}
  int number;
};

std::vector<int> numbers(const List<Item>& list) {
  std::vector<int> all;
  for (Item* item = list.front(); item; item = list.after(*item)) all.push_back(item->number);
  return all;
}

TEST(List, IsDrainedSomeAtATime) {
  Item a{1}, b{2}, c{3};
  List<Item> list;
  std::vector<int> seen;
  const auto note = [&](Item& item, Item*) { seen.push_back(item.number); };
  EXPECT_TRUE(list.drain(note, 2)) << "empty";
  for (Item* item : {&a, &b, &c}) list.push_back(*item);
  EXPECT_FALSE(list.drain(note, 0));
  EXPECT_FALSE(list.drain(note, 2));
  EXPECT_THAT(seen, ElementsAre(1, 2));
  EXPECT_FALSE(a.is_linked() || b.is_linked());
  EXPECT_THAT(numbers(list), ElementsAre(3));
  list.push_back(a);  // what is left is a list as any other
  list.remove(c);
  list.push_back(c);
  EXPECT_THAT(numbers(list), ElementsAre(1, 3));
  EXPECT_TRUE(list.drain(note, 2)) << "just as many as there are";
  EXPECT_THAT(seen, ElementsAre(1, 2, 1, 3));
  EXPECT_TRUE(list.empty());
}

TEST(List, IsDrainedInOrder) {
  Item a{1}, b{2}, c{3};
  List<Item> list;
  for (Item* item : {&a, &b, &c}) list.push_back(*item);
  std::vector<int> seen;
  list.drain([&](Item& item, Item* next) {
    EXPECT_FALSE(item.is_linked());
    EXPECT_EQ(next, &item == &a ? &b : &item == &b ? &c : nullptr);
    EXPECT_TRUE(!next || next->is_linked());
    seen.push_back(item.number);
  });
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_TRUE(list.empty());
  list.push_back(b);
  EXPECT_THAT(numbers(list), ElementsAre(2));
  list.remove(b);
}

TEST(List, IsFirstInFirstOut) {
  Item a{1}, b{2}, c{3};
  List<Item> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pop_front(), nullptr);
  for (Item* item : {&a, &b, &c}) list.push_back(*item);
  EXPECT_THAT(numbers(list), ElementsAre(1, 2, 3));
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_EQ(list.pop_front(), &b);
  EXPECT_EQ(list.pop_front(), &c);
  EXPECT_TRUE(list.empty());
}

TEST(List, RemovesFromFrontMiddleAndBack) {
  std::deque<Item> items;
  for (int i = 0; i < 5; ++i) items.emplace_back(i);
  List<Item> list;
  for (Item& item : items) list.push_back(item);
  list.remove(items[2]);
  EXPECT_THAT(numbers(list), ElementsAre(0, 1, 3, 4));
  list.remove(items[0]);
  EXPECT_THAT(numbers(list), ElementsAre(1, 3, 4));
  list.remove(items[4]);
  EXPECT_THAT(numbers(list), ElementsAre(1, 3));
  list.push_back(items[2]);
  EXPECT_THAT(numbers(list), ElementsAre(1, 3, 2));
}

TEST(List, RemoveIsIdempotentAndKnowsMembership) {
  Item a{1}, b{2};
  List<Item> list;
  EXPECT_FALSE(a.is_linked());
  list.remove(a);
  list.push_back(a);
  list.push_back(b);
  EXPECT_TRUE(a.is_linked());
  list.remove(a);
  list.remove(a);
  EXPECT_FALSE(a.is_linked());
  EXPECT_THAT(numbers(list), ElementsAre(2));
  EXPECT_EQ(list.pop_front(), &b);
  EXPECT_FALSE(b.is_linked());
}

TEST(List, AgreesWithADequeOverRandomOperations) {
  std::mt19937 random{7};
  std::deque<Item> items;
  for (int i = 0; i < 20; ++i) items.emplace_back(i);
  List<Item> list;
  std::deque<int> expected;
  for (int step = 0; step < 20'000; ++step) {
    Item& item = items[random() % items.size()];
    if (item.is_linked() && random() % 2 == 0) {
      list.remove(item);
      std::erase(expected, item.number);
    } else if (!item.is_linked()) {
      list.push_back(item);
      expected.push_back(item.number);
    } else if (random() % 4 == 0) {
      ASSERT_EQ(list.pop_front()->number, expected.front());
      expected.pop_front();
    }
    ASSERT_EQ(list.empty(), expected.empty());
  }
  EXPECT_EQ(numbers(list), std::vector<int>(expected.begin(), expected.end()));
}

struct Link {
  int number = 0;
  Link* link = nullptr;
};

std::vector<int> drained(Chain<Link> chain) {
  std::vector<int> all;
  while (Link* element = chain.pop_front()) {
    EXPECT_EQ(element->link, nullptr) << "a popped element belongs to no chain";
    all.push_back(element->number);
  }
  return all;
}

TEST(Chain, IsFirstInFirstOut) {
  std::array<Link, 4> links{{{1}, {2}, {3}, {4}}};
  Chain<Link> chain;
  EXPECT_TRUE(chain.empty());
  EXPECT_EQ(chain.pop_front(), nullptr);
  for (Link& link : links) chain.push_back(link);
  EXPECT_FALSE(chain.empty());
  EXPECT_THAT(drained(std::move(chain)), ElementsAre(1, 2, 3, 4));
}

TEST(Chain, OfOneForgetsAnOldLink) {
  Link stale{9};
  Link only{1, &stale};
  EXPECT_THAT(drained(Chain<Link>{only}), ElementsAre(1));
}

TEST(Chain, MovedFromIsEmptyAndUsable) {
  std::array<Link, 3> links{{{1}, {2}, {3}}};
  Chain<Link> chain{links[0]};
  chain.push_back(links[1]);
  Chain<Link> other = std::move(chain);
  EXPECT_TRUE(chain.empty());
  chain.push_back(links[2]);
  EXPECT_THAT(drained(std::move(other)), ElementsAre(1, 2));
  other = std::move(chain);
  EXPECT_THAT(drained(std::move(other)), ElementsAre(3));
  EXPECT_THAT(drained(std::move(chain)), IsEmpty());
}

TEST(Chain, CanBeRefilledAfterItRanEmpty) {
  std::array<Link, 2> links{{{1}, {2}}};
  Chain<Link> chain;
  chain.push_back(links[0]);
  EXPECT_EQ(chain.pop_front(), &links[0]);
  chain.push_back(links[1]);
  chain.push_back(links[0]);
  EXPECT_THAT(drained(std::move(chain)), ElementsAre(2, 1));
}

}  // namespace
}  // namespace weft
