#include <weft/net/buffered.hpp>

#include <weft/cancel.hpp>
#include <weft/core/spec.hpp>
#include <weft/nursery.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "fakes.hpp"

#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::bytes_of;
using testing::fake_connection;
using testing::FakeStream;
using testing::on_seeds;
using testing::on_workers;
using testing::ScriptedStream;
using testing::text_in;

using Piece = std::optional<std::string>;

Piece copy_of(const std::optional<std::string_view>& piece) {
  return piece ? Piece{*piece} : Piece{};
}

static_assert(Readable<ScriptedStream> && Writable<ScriptedStream> && !Duplex<ScriptedStream>);
static_assert(Duplex<FakeStream>);
static_assert(Readable<BufferedReader<ScriptedStream>>);
static_assert(Writable<BufferedWriter<ScriptedStream>>);

// ── lines ───────────────────────────────────────────────────────────────────────────────────────

std::vector<std::string> lines_by_getline(const std::string& text, LineEnd line_end) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const bool ended = !in.eof();
    if (line_end == LineEnd::lf_or_crlf && ended && line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

template <class S>
std::vector<std::string> all_lines(BufferedReader<S>& reader) {
  std::vector<std::string> lines;
  while (const auto line = reader.read_line().value()) lines.emplace_back(*line);
  return lines;
}

TEST(BufferedReader, ReadsTheLinesThatGetlineReads) {
  std::mt19937 random{7};
  const std::string_view letters = "ab\r\n\n";
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (std::size_t left = random() % 40; left > 0; --left)
      text += letters[random() % letters.size()];
    for (const LineEnd line_end : {LineEnd::lf_or_crlf, LineEnd::lf})
      for (const std::size_t piece : {1U, 2U, 3U, 5U, 100U})
        for (const std::size_t buffer : {0U, 1U, 2U, 7U, 64U}) {
          ScriptedStream stream{.input = text, .piece = piece};
          BufferedReader reader{stream, {.buffer_bytes = buffer, .line_end = line_end}};
          ASSERT_EQ(all_lines(reader), lines_by_getline(text, line_end)) << text;
        }
  }
}

TEST(BufferedReader, TellsAnEmptyLineFromTheEnd) {
  ScriptedStream stream{.input = "\n\r\nlast"};
  BufferedReader reader{stream};
  EXPECT_EQ(copy_of(*reader.read_line()), "");
  EXPECT_EQ(copy_of(*reader.read_line()), "");
  EXPECT_EQ(copy_of(*reader.read_line()), "last");
  EXPECT_EQ(copy_of(*reader.read_line()), std::nullopt);
  EXPECT_EQ(copy_of(*reader.read_line()), std::nullopt);
}

TEST(BufferedReader, LimitsTheTextOfALineHoweverItIsCutUp) {
  for (std::size_t length = 0; length < 7; ++length)
    for (std::size_t limit = 0; limit < 7; ++limit)
      for (const std::string_view end : {"\n", "\r\n", ""})
        for (std::size_t piece = 1; piece < 10; ++piece) {
          const std::string text(length, 'x');
          if (text.empty() && end.empty()) continue;
          ScriptedStream stream{.input = text + std::string{end}, .piece = piece};
          BufferedReader reader{stream, {.buffer_bytes = 2}};
          SCOPED_TRACE(text + "|" + std::to_string(limit) + "|" + std::to_string(piece));
          const auto line = reader.read_line(limit);
          if (length <= limit) {
            ASSERT_TRUE(line);
            EXPECT_EQ(copy_of(*line), text);
          } else {
            EXPECT_EQ(line.error(), IoError::too_long);
            EXPECT_EQ(copy_of(*reader.read_line(100)), text) << "nothing may be lost";
          }
          EXPECT_EQ(copy_of(*reader.read_line()), std::nullopt);
        }
}

TEST(BufferedReader, HoldsALineThatIsTooLongToALimitOfMemory) {
  ScriptedStream stream{.input = std::string(1'000'000, 'x')};
  BufferedReader reader{stream, {.line_bytes_max = 1000}};
  EXPECT_EQ(reader.read_line().error(), IoError::too_long);
  EXPECT_LE(reader.buffered().size(), 16'384U);
  EXPECT_EQ(reader.read_line().error(), IoError::too_long) << "and says so again";
}

// ── other pieces ────────────────────────────────────────────────────────────────────────────────

TEST(BufferedReader, SplitsAtADelimiterHoweverItIsCutUp) {
  std::mt19937 random{8};
  for (const std::string_view delimiter : {"a", "ab", "aab", "abab", "aaaa"})
    for (int round = 0; round < 60; ++round) {
      std::string text;
      for (std::size_t left = random() % 30; left > 0; --left) text += "ab"[random() % 2];
      for (std::size_t piece = 1; piece < 6; ++piece) {
        ScriptedStream stream{.input = text, .piece = piece};
        BufferedReader reader{stream, {.buffer_bytes = 3}};
        std::string_view rest = text;
        for (std::size_t at; (at = rest.find(delimiter)) != rest.npos;) {
          ASSERT_EQ(copy_of(*reader.read_until(delimiter)), rest.substr(0, at)) << text;
          rest.remove_prefix(at + delimiter.size());
        }
        const auto last = reader.read_until(delimiter);
        if (rest.empty()) {
          ASSERT_TRUE(last);
          EXPECT_EQ(copy_of(*last), std::nullopt);
        } else {
          EXPECT_EQ(last.error(), IoError::end_of_stream);
          EXPECT_EQ(text_in(reader.buffered()), rest) << "still there";
        }
      }
    }
}

TEST(BufferedReader, LimitsWhatComesBeforeADelimiter) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    ScriptedStream stream{.input = "1234--567--", .piece = piece};
    BufferedReader reader{stream, {.buffer_bytes = 1}};
    EXPECT_EQ(reader.read_until("--", 3).error(), IoError::too_long);
    EXPECT_EQ(copy_of(*reader.read_until("--", 4)), "1234");
    EXPECT_EQ(copy_of(*reader.read_until("--", 3)), "567");
  }
  ScriptedStream stream{.input = "x"};
  BufferedReader reader{stream};
  EXPECT_EQ(reader.read_until("").error(), std::errc::invalid_argument);
}

TEST(BufferedReader, ReadsExactlyWhatIsAskedFor) {
  for (std::size_t piece = 1; piece < 9; ++piece)
    for (const std::size_t buffer : {1U, 4U, 100U}) {
      ScriptedStream stream{.input = "line\n0123456789abcdefghij", .piece = piece};
      BufferedReader reader{stream, {.buffer_bytes = buffer}};
      EXPECT_EQ(copy_of(*reader.read_line()), "line");
      std::vector<std::byte> some(10);
      ASSERT_TRUE(reader.read_exactly(some));
      EXPECT_EQ(text_in(some), "0123456789");
      std::vector<std::byte> many(11);
      EXPECT_EQ(reader.read_exactly(many).error(), IoError::end_of_stream);
      EXPECT_EQ(text_in(reader.buffered()), "abcdefghij") << "what there was is still there";
      ASSERT_TRUE(reader.read_exactly({}));
      some.resize(3);
      ASSERT_TRUE(reader.read_exactly(some));
      EXPECT_EQ(text_in(some), "abc");
      EXPECT_EQ(copy_of(*reader.read_line()), "defghij");
    }
}

TEST(BufferedReader, ReadsSomeFromTheBufferFirst) {
  ScriptedStream stream{.input = "head\nbody"};
  BufferedReader reader{stream};
  EXPECT_EQ(copy_of(*reader.read_line()), "head");
  std::vector<std::byte> room(3);
  EXPECT_EQ(text_in(*reader.read_some(room)), "bod");
  EXPECT_EQ(text_in(*reader.read_some(room)), "y");
  EXPECT_THAT(*reader.read_some(room), IsEmpty());
  EXPECT_THAT(*reader.read_some({}), IsEmpty());
}

TEST(BufferedReader, ReadsALotWithoutItsBuffer) {
  ScriptedStream stream{.input = std::string(5000, 'x')};
  BufferedReader reader{stream, {.buffer_bytes = 100}};
  std::vector<std::byte> room(5000);
  ASSERT_TRUE(reader.read_exactly(room));
  EXPECT_EQ(stream.reads, 1U);
  EXPECT_THAT(reader.buffered(), IsEmpty());
}

TEST(BufferedReader, PeeksWithoutTaking) {
  ScriptedStream stream{.input = "GET / HTTP", .piece = 2};
  BufferedReader reader{stream, {.buffer_bytes = 2}};
  EXPECT_EQ(text_in(reader.peek()->first(1)), "G");
  EXPECT_EQ(text_in(reader.peek(4)->first(4)), "GET ");
  reader.consume(4);
  EXPECT_EQ(text_in(*reader.peek(100)), "/ HTTP") << "fewer: the end";
  reader.consume(100);
  EXPECT_THAT(*reader.peek(), IsEmpty());
}

TEST(BufferedReader, KeepsWhatItHasWhenTheStreamFails) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    const std::error_code reset = std::make_error_code(std::errc::connection_reset);
    ScriptedStream stream{.input = "all\nhalf a line", .piece = piece, .read_error = reset};
    BufferedReader reader{stream, {.buffer_bytes = 4}};
    EXPECT_EQ(copy_of(*reader.read_line()), "all");
    EXPECT_EQ(reader.read_line().error(), reset);
    std::vector<std::byte> room(20);
    EXPECT_EQ(reader.read_exactly(room).error(), reset);
    EXPECT_EQ(reader.peek(20).error(), reset);
    EXPECT_EQ(text_in(reader.buffered()), "half a line");
  }
}

TEST(BufferedReader, LosesNothingByCancellation) {
  const auto test = [] {
    auto [left, right] = fake_connection();
    FakeStream& ours = left;
    FakeStream& theirs = right;
    BufferedReader reader{ours, {.buffer_bytes = 4}};
    Event half_sent;
    Event cancelled;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (const std::string_view part : {"li", "ne", " o"})
          ASSERT_TRUE(theirs.write_all(bytes_of(part)));
        half_sent.set();
        cancelled.wait();
        ASSERT_TRUE(theirs.write_all(bytes_of("ne\nrest")));
        ASSERT_TRUE(theirs.shutdown_write());
      });
      half_sent.wait();
      const auto line = timeout(1ms, [&] { return copy_of(reader.read_line().value()); });
      EXPECT_EQ(line, std::nullopt);
      std::vector<std::byte> room(9);
      const auto filled = timeout(1ms, [&] { return reader.read_exactly(room).has_value(); });
      EXPECT_EQ(filled, std::nullopt);
      EXPECT_EQ(text_in(reader.buffered()), "line o");
      cancelled.set();
      EXPECT_EQ(copy_of(*reader.read_line()), "line one");
      EXPECT_EQ(copy_of(*reader.read_line()), "rest");
      EXPECT_EQ(copy_of(*reader.read_line()), std::nullopt);
    });
  };
  on_seeds(test);
  on_workers(test);
}

// ── writing ─────────────────────────────────────────────────────────────────────────────────────

TEST(BufferedWriter, SendsSmallWritesTogether) {
  ScriptedStream stream;
  BufferedWriter writer{stream, {.buffer_bytes = 100}};
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(writer.write("0123456789"));
  EXPECT_EQ(stream.writes, 0U);
  ASSERT_TRUE(writer.write("x"));
  EXPECT_EQ(stream.writes, 1U);
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(stream.writes, 2U);
  EXPECT_EQ(stream.output.size(), 101U);
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(stream.writes, 2U) << "there is nothing to send";
}

TEST(BufferedWriter, SendsALotWithoutItsBuffer) {
  ScriptedStream stream;
  BufferedWriter writer{stream, {.buffer_bytes = 10}};
  ASSERT_TRUE(writer.write(std::string(1000, 'x')));
  EXPECT_EQ(stream.writes, 1U);
}

TEST(BufferedWriter, WritesTheSameWhateverTheSizes) {
  std::mt19937 random{9};
  for (int round = 0; round < 300; ++round) {
    ScriptedStream stream{.piece = 1 + random() % 20};
    BufferedWriter writer{stream, {.buffer_bytes = random() % 20}};
    std::string all;
    for (int i = 0; i < 20; ++i) {
      const std::string part(random() % 30, static_cast<char>('a' + i));
      all += part;
      ASSERT_TRUE(writer.write(part));
      if (random() % 5 == 0) writer.flush().value();
      ASSERT_EQ(stream.output + text_in(writer.buffered()), all);
    }
    ASSERT_TRUE(writer.flush());
    EXPECT_EQ(stream.output, all);
  }
}

TEST(BufferedWriter, PrintsTextsAndNumbers) {
  ScriptedStream stream;
  BufferedWriter writer{stream};
  const std::string name = "weft";
  ASSERT_TRUE(writer.print("id ", 7, ' ', -8L, ' ', name, ' ', 2.5, '\n'));
  ASSERT_TRUE(writer.print_line(std::string_view{"end"}, 18'446'744'073'709'551'615U));
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(stream.output, "id 7 -8 weft 2.5\nend18446744073709551615\n");
}

TEST(BufferedWriter, TellsOfAFailureAndStopsThere) {
  const std::error_code pipe = std::make_error_code(std::errc::broken_pipe);
  ScriptedStream stream{.write_error = pipe};
  BufferedWriter writer{stream, {.buffer_bytes = 4}};
  EXPECT_EQ(writer.print("ab", "cdef", "never").error(), pipe);
  EXPECT_EQ(text_in(writer.buffered()), "abcd");
  EXPECT_EQ(writer.flush().error(), pipe);
  stream.write_error = {};
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(stream.output, "abcd");
}

TEST(BufferedWriter, GoesOnWhereACancelledFlushStopped) {
  const auto test = [] {
    auto [left, right] = fake_connection(1);
    FakeStream& ours = left;
    FakeStream& theirs = right;
    BufferedWriter writer{ours};
    ASSERT_TRUE(ours.write_all(bytes_of("fills the channel. ")));
    ASSERT_TRUE(writer.write("sent once"));
    EXPECT_FALSE(timeout(1ms, [&] { ASSERT_TRUE(writer.flush()); }));
    EXPECT_EQ(text_in(writer.buffered()), "sent once");
    std::string got;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::vector<std::byte> room(100);
        while (got.size() < 28) got += text_in(theirs.read_some(room).value());
      });
      ASSERT_TRUE(writer.flush());
    });
    EXPECT_EQ(got, "fills the channel. sent once");
  };
  on_seeds(test);
  on_workers(test);
}

TEST(BufferedWriter, ComplainsAboutBytesThatNobodySent) {
  ScriptedStream stream;
  const auto complaint = [&](const auto& f) {
    ::testing::internal::CaptureStderr();
    f();
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string forgotten = complaint([&] { (void)BufferedWriter{stream}.write("1234567"); });
  EXPECT_THAT(forgotten,
              HasSubstr(spec::kSpecAssert ? "with 7 bytes that were never sent" : ""));
  EXPECT_EQ(stream.output, "") << "a destructor does not wait";
  EXPECT_EQ(complaint([&] {
              BufferedWriter writer{stream};
              (void)writer.write("12");
              EXPECT_EQ(text_in(writer.release()), "12");
            }),
            "");
  EXPECT_EQ(complaint([&] {
              EXPECT_THROW(
                  {
                    BufferedWriter writer{stream};
                    (void)writer.write("12");
                    throw std::runtime_error{"unwinding"};
                  },
                  std::runtime_error);
            }),
            "");
  stream.write_error = std::make_error_code(std::errc::broken_pipe);
  EXPECT_EQ(complaint([&] {
              BufferedWriter writer{stream};
              (void)writer.write("12");
              EXPECT_FALSE(writer.flush());
            }),
            "");
}

}  // namespace
}  // namespace weft::net
