#include <weft/core/name.hpp>

#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

namespace weft {
namespace {

TEST(Name, ALiteralIsAPointerAndAStringIsACopy) {
  static constexpr const char* kText = "warp";
  const Name literal{"weft"};
  EXPECT_EQ(literal.view(), "weft");
  std::string text{kText};
  const Name owned{text};
  text = "changed";
  EXPECT_EQ(owned.view(), "warp");
  const Name viewed{std::string_view{"a part of it"}.substr(0, 6)};
  EXPECT_EQ(viewed.view(), "a part");
  EXPECT_STREQ(viewed.c_str(), "a part");
}

TEST(Name, NoneIsEmpty) {
  const Name none, literal{""}, owned{std::string{}}, some{"x"};
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(literal.empty());
  EXPECT_TRUE(owned.empty());
  EXPECT_FALSE(some.empty());
  EXPECT_STREQ(none.c_str(), "");
}

TEST(Name, CopiesAreIndependentAndMovesLeaveNothing) {
  Name a{std::string{"first"}};
  Name b{a};
  EXPECT_EQ(b.view(), "first");
  EXPECT_NE(a.c_str(), b.c_str());
  Name c{std::move(a)};
  EXPECT_EQ(c.view(), "first");
  EXPECT_TRUE(a.empty());
  b = Name{std::string{"second"}};
  c = b;
  EXPECT_EQ(c.view(), "second");
  c = Name{"literal"};
  EXPECT_EQ(c.view(), "literal");
  const Name& same = c;
  c = same;
  EXPECT_EQ(c.view(), "literal");
}

TEST(Name, ReleaseTellsWhoMustDelete) {
  bool owned = true;
  Name literal{"literal"};
  const char* text = std::move(literal).release(owned);
  EXPECT_FALSE(owned);
  EXPECT_STREQ(text, "literal");
  Name heap{std::string{"heap"}};
  text = std::move(heap).release(owned);
  EXPECT_TRUE(owned);
  EXPECT_STREQ(text, "heap");
  delete[] text;
}

TEST(Name, FibersNurseriesAndSpawnOptionsTakeBothKinds) {
  FiberIo io{{.workers = 4}};
  io.run([] {
    EXPECT_EQ(this_fiber::name(), "main");
    nursery({.name = "the nursery"}, [](Nursery& n) {
      EXPECT_EQ(n.name(), "the nursery");
      n.spawn([] { EXPECT_EQ(this_fiber::name(), ""); });
      n.spawn("literal", [] { EXPECT_EQ(this_fiber::name(), "literal"); });
      n.spawn(std::string{"string"}, [] {
        this_fiber::yield();
        EXPECT_EQ(this_fiber::name(), "string");
      });
      n.spawn(SpawnOptions{.name = "by options"},
              [] { EXPECT_EQ(this_fiber::name(), "by options"); });
      n.spawn({.name = std::string{"options, owned"}},
              [] { EXPECT_EQ(this_fiber::name(), "options, owned"); });
    });
    nursery([](Nursery& n) { EXPECT_EQ(n.name(), ""); });
  });
}

TEST(Name, SetNameReplacesWhateverWasThere) {
  FiberIo io{{.workers = 4}};
  io.run([] {
    nursery([](Nursery& n) {
      n.spawn(std::string(1'000, 'x'), [] {
        EXPECT_EQ(this_fiber::name().size(), 1'000U);
        this_fiber::set_name("short");
        EXPECT_EQ(this_fiber::name(), "short");
        this_fiber::set_name(std::string{"owned"});
        this_fiber::set_name(std::string{"owned again"});
        EXPECT_EQ(this_fiber::name(), "owned again");
        this_fiber::set_name({});
        EXPECT_EQ(this_fiber::name(), "");
      });
    });
  });
}

TEST(Name, ARecycledFrameHasLostIts) {
  FiberIo io{{.workers = 4}};
  io.run([] {
    for (int i = 0; i < 100; ++i)
      nursery([&](Nursery& n) {
        if (i % 2 == 0) n.spawn(std::string{"named"}, [] { this_fiber::yield(); });
        else n.spawn([] { EXPECT_EQ(this_fiber::name(), ""); });
      });
  });
}

}  // namespace
}  // namespace weft
