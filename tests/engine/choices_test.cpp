#include "engine/choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::size_t> choices(Choices& schedule, std::size_t times, std::size_t of) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < times; ++i) all.push_back(schedule.choose(of));
  return all;
}

Plan from_seed(std::uint64_t seed) { return {.seed = seed}; }

std::string refusal(std::string_view text) {
  try {
    const Choices schedule{Choices::parse(text)};
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Choices, TheSameSeedGivesTheSameChoices) {
  Choices a{from_seed(42)}, b{from_seed(42)};
  EXPECT_EQ(choices(a, 1'000, 7), choices(b, 1'000, 7));
  EXPECT_EQ(a.text(), b.text());
}

TEST(Choices, DifferentSeedsDiffer) {
  std::set<std::vector<std::size_t>> all;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Choices schedule{from_seed(seed)};
    all.insert(choices(schedule, 20, 10));
  }
  EXPECT_EQ(all.size(), 200U);
}

// Fixed for all time: a seed in a bug report must mean the same tomorrow.
TEST(Choices, TheGeneratorIsPartOfTheFormat) {
  Choices schedule{from_seed(1)};
  EXPECT_THAT(choices(schedule, 10, 10), ElementsAre(5, 7, 9, 4, 4, 7, 8, 5, 2, 7));
  EXPECT_EQ(schedule.text(), "w1:1:5.7.9.4x2.7.8.5.2.7");
}

std::vector<std::uint64_t> numbers(Choices& schedule, std::size_t count) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(schedule.random());
  return all;
}

TEST(Choices, TheSeedDecidesTheProgramsNumbers) {
  Choices a{from_seed(42)}, b{from_seed(42)}, c{from_seed(43)};
  const std::vector<std::uint64_t> expected = numbers(a, 100);
  EXPECT_EQ(numbers(b, 100), expected);
  EXPECT_NE(numbers(c, 100), expected);
  EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), 100U);
}

// Fixed for all time, like the choices.
TEST(Choices, TheNumbersArePartOfTheFormat) {
  Choices schedule{from_seed(1)};
  EXPECT_THAT(numbers(schedule, 3), ElementsAre(5042129931100586363U, 3244358103294829500U,
                                                11586861632469050384U));
}

TEST(Choices, ANumberMoreIsNoOtherSchedule) {
  Choices plain{from_seed(5)}, drawing{from_seed(5)};
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 0) static_cast<void>(drawing.random());
    ASSERT_EQ(drawing.choose(6), plain.choose(6));
  }
  EXPECT_EQ(drawing.text(), plain.text());
  EXPECT_NE(drawing.hash(), plain.hash()) << "but it is another run";
}

TEST(Choices, AReplayHasTheNumbersOfItsOriginal) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Choices original{from_seed(seed * 0x123456789abcdefU)};
    std::vector<std::uint64_t> drawn;
    for (std::size_t i = 0; i < 100; ++i) {
      original.choose(2 + i % 3);
      if (i % 5 == 0) drawn.push_back(original.random());
    }
    Choices replayed{Choices::parse(original.text())};
    std::vector<std::uint64_t> again;
    for (std::size_t i = 0; i < 100; ++i) {
      replayed.choose(2 + i % 3);
      if (i % 5 == 0) again.push_back(replayed.random());
    }
    ASSERT_EQ(again, drawn);
    EXPECT_EQ(replayed.text(), original.text());
    EXPECT_EQ(numbers(replayed, 10), numbers(original, 10)) << "and past its end";
  }
}

TEST(Choices, TheNumbersDoNotForetellTheChoices) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Choices chooses{from_seed(seed)}, draws{from_seed(seed)};
    const std::vector<std::size_t> made = choices(chooses, 64, 1U << 30);
    std::set<std::size_t> foretold;
    for (const std::uint64_t number : numbers(draws, 64)) foretold.insert(number >> 34);
    for (const std::size_t choice : made) EXPECT_FALSE(foretold.contains(choice));
  }
}

TEST(Choices, ChoicesAreInRangeAndEvenlySpread) {
  Choices schedule{from_seed(3)};
  std::vector<int> counts(10, 0);
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t choice = schedule.choose(10);
    ASSERT_LT(choice, 10U);
    ++counts[choice];
  }
  for (const int count : counts) {
    EXPECT_GT(count, 9'000);
    EXPECT_LT(count, 11'000);
  }
}

TEST(Choices, AChoiceOfOneIsAStepAndCostsNothing) {
  Choices schedule{from_seed(5)};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(schedule.choose(1), 0U);
  EXPECT_EQ(schedule.steps(), 100U);
  EXPECT_EQ(schedule.text(), "w1:5:");
}

TEST(Choices, TextIsShortForRunsOfEqualChoices) {
  Choices schedule{Choices::parse("w1:abcdef:0x100.1.2x3")};
  choices(schedule, 104, 5);
  EXPECT_EQ(schedule.text(), "w1:abcdef:0x100.1.2x3");
}

TEST(Choices, TextRoundTrips) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Choices original{from_seed(seed * 0x123456789abcdefU)};
    std::mt19937 random{static_cast<std::uint32_t>(seed)};
    std::vector<std::size_t> sizes;
    std::vector<std::size_t> made;
    for (int i = 0; i < 200; ++i) sizes.push_back(1 + random() % 5);
    for (const std::size_t size : sizes) made.push_back(original.choose(size));
    Choices replayed{Choices::parse(original.text())};
    for (std::size_t i = 0; i < sizes.size(); ++i) ASSERT_EQ(replayed.choose(sizes[i]), made[i]);
    EXPECT_EQ(replayed.text(), original.text());
    // Past its end the replay goes on as the original would have.
    EXPECT_EQ(choices(replayed, 50, 9), choices(original, 50, 9));
  }
}

TEST(Choices, AReplayedChoiceThatDoesNotFitIsMadeBySeed) {
  Choices schedule{Choices::parse("w1:7:4.9.0")};
  Choices by_seed{from_seed(7)};
  const std::vector<std::size_t> expected = choices(by_seed, 3, 5);
  EXPECT_EQ(schedule.choose(5), 4U);
  EXPECT_EQ(schedule.choose(5), expected[1]) << "9 is not one of 5";
  EXPECT_EQ(schedule.choose(5), 0U);
}

TEST(Choices, TheHashIsFnvOfTheFacts) {
  Choices schedule{from_seed(0)};
  EXPECT_EQ(schedule.hash(), 0xcbf29ce484222325U);
  schedule.note(0);
  const std::uint64_t zero = schedule.hash();
  schedule.note(1);
  EXPECT_NE(schedule.hash(), zero);
  Choices swapped{from_seed(0)};
  swapped.note(1);
  swapped.note(0);
  EXPECT_NE(swapped.hash(), schedule.hash()) << "order matters";
}

TEST(Choices, TextsThatAreNotSchedulesAreRefusedWithAReason) {
  const auto because = [](const char* reason) {
    return AllOf(HasSubstr("not a schedule"), HasSubstr(reason));
  };
  EXPECT_THAT(refusal("nonsense"), because("w1:"));
  EXPECT_THAT(refusal("w"), because("w1:"));
  EXPECT_THAT(refusal("w2:0:1.2"), because("w1:"));
  EXPECT_THAT(refusal(" w1:0:"), because("w1:"));
  EXPECT_THAT(refusal("w1:"), because("number"));
  EXPECT_THAT(refusal("w1::1"), because("number"));
  EXPECT_THAT(refusal("w1:xyz:1"), because("number"));
  EXPECT_THAT(refusal("w1:-1:1"), because("number"));
  EXPECT_THAT(refusal("w1:11112222333344445:1"), because("number"));
  EXPECT_THAT(refusal("w1:5"), because("':'"));
  EXPECT_THAT(refusal("w1:5;1"), because("':'"));
  EXPECT_THAT(refusal("w1:5:a"), because("number"));
  EXPECT_THAT(refusal("w1:5:1.."), because("number"));
  EXPECT_THAT(refusal("w1:5:1.2."), because("'.'"));
  EXPECT_THAT(refusal("w1:5:1,2"), because("'.'"));
  EXPECT_THAT(refusal("w1:5:1x"), because("number"));
  EXPECT_THAT(refusal("w1:5:1x2x3"), because("'.'"));
  EXPECT_THAT(refusal("w1:5:.1"), because("number"));
  EXPECT_THAT(refusal("w1:5:4294967296"), because("number"));
  EXPECT_THAT(refusal("w1:5:1x4294967295"), because("too long"));
  EXPECT_THAT(refusal(std::string{"w1:5:1\0.2", 9}), because("'.'"));
  EXPECT_EQ(refusal("w1:0:"), "accepted");
  EXPECT_EQ(refusal("w1:ffffffffffffffff:0.1x2.3"), "accepted");
}

std::size_t resident_pages() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident;
}

TEST(Choices, AShortTextDoesNotCostMuchMemory) {
  const std::size_t before = resident_pages();
  std::size_t most = before;
  try {
    Choices schedule{Choices::parse("w1:5:0x200000000")};
    most = resident_pages();
    EXPECT_EQ(schedule.choose(4), 0U) << "it was accepted, so it is followed";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("too long"));
  }
  EXPECT_LT(most - before, 64U * 256) << "64 MiB";
}

TEST(Choices, AHugeTextIsQuotedInPartOnly) {
  EXPECT_LT(refusal(std::string(1'000'000, 'z')).size(), 300U);
}

// A replay string comes from a bug report: whatever it is, the answer is a schedule or a refusal.
TEST(Choices, MutatedTextsAreAcceptedOrRefusedNothingElse) {
  std::mt19937 random{2024};
  constexpr std::string_view kAlphabet = "w1:x.0123456789abcdef-+ \t";
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 5'000; ++round) {
    Choices original{from_seed(random())};
    choices(original, 1 + random() % 30, 2 + random() % 4);
    std::string text = original.text();
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char letter = random() % 8 == 0 ? static_cast<char>(random())
                                            : kAlphabet[random() % kAlphabet.size()];
      switch (random() % 4) {
        case 0: text[at] = letter; break;
        case 1: text.insert(at, 1, letter); break;
        case 2: text.erase(at, 1); break;
        default: text.resize(at + 1); break;
      }
      if (text.empty()) text = "w";
    }
    try {
      Choices schedule{Choices::parse(text)};
      for (int i = 0; i < 50; ++i) ASSERT_LT(schedule.choose(3), 3U);
      const Choices again{Choices::parse(schedule.text())};
      ++accepted;
    } catch (const std::invalid_argument& error) {
      ASSERT_THAT(error.what(), HasSubstr("not a schedule"));
      ++refused;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace weft::engine
