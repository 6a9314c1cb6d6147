#include <weft/net/copy.hpp>

#include <weft/cancel.hpp>
#include <weft/net/buffered.hpp>
#include <weft/nursery.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fakes.hpp"

#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::bytes_of;
using testing::fake_connection;
using testing::FakeStream;
using testing::on_seeds;
using testing::on_workers;
using testing::ScriptedStream;
using testing::text_in;

std::string all_of(FakeStream& stream) {
  std::string text;
  std::vector<std::byte> room(7);
  for (;;) {
    const auto got = stream.read_some(room).value();
    if (got.empty()) return text;
    text += text_in(got);
  }
}

TEST(Copy, CopiesToTheEndWhateverTheSizes) {
  const std::string text = "over, under, over, under";
  for (std::size_t in = 1; in < 10; ++in)
    for (std::size_t out = 1; out < 10; ++out)
      for (const std::size_t buffer : {0U, 1U, 3U, 100U}) {
        ScriptedStream from{.input = text, .piece = in};
        ScriptedStream to{.piece = out};
        EXPECT_EQ(copy(from, to, {.buffer_bytes = buffer}).value(), text.size());
        EXPECT_EQ(to.output, text);
      }
}

TEST(Copy, StopsAtTheLimitAndLeavesTheRest) {
  for (std::uint64_t limit = 0; limit < 12; ++limit)
    for (std::size_t piece = 1; piece < 5; ++piece) {
      ScriptedStream from{.input = "0123456789", .piece = piece};
      ScriptedStream to;
      const std::uint64_t expected = std::min<std::uint64_t>(limit, 10);
      EXPECT_EQ(copy(from, to, {.limit = limit, .buffer_bytes = 4}).value(), expected);
      EXPECT_EQ(to.output + from.input, "0123456789");
      EXPECT_EQ(to.output.size(), expected);
    }
}

TEST(Copy, TellsItsProgress) {
  ScriptedStream from{.input = "0123456789", .piece = 4};
  ScriptedStream to;
  std::vector<std::uint64_t> seen;
  ASSERT_TRUE(copy(from, to, {.progress = [&](std::uint64_t bytes) { seen.push_back(bytes); }}));
  EXPECT_THAT(seen, ElementsAre(4, 8, 10));
}

TEST(Copy, TellsWhichSideFailed) {
  const std::error_code reset = std::make_error_code(std::errc::connection_reset);
  const std::error_code pipe = std::make_error_code(std::errc::broken_pipe);
  ScriptedStream from{.input = "1234", .read_error = reset};
  ScriptedStream to;
  EXPECT_EQ(copy(from, to).error(), reset);
  EXPECT_EQ(to.output, "1234");
  from = {.input = "1234"};
  to = {.write_error = pipe};
  EXPECT_EQ(copy(from, to).error(), pipe);
}

TEST(Copy, TakesBufferedStreams) {
  ScriptedStream from{.input = "head\nbody"};
  ScriptedStream to;
  BufferedReader reader{from};
  BufferedWriter writer{to};
  ASSERT_TRUE(reader.read_line());
  EXPECT_EQ(copy(reader, writer).value(), 4U);
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(to.output, "body");
}

// A client, a proxy and a server, as their streams see each other.
struct Proxied {
  std::pair<FakeStream, FakeStream> front = fake_connection();
  std::pair<FakeStream, FakeStream> behind = fake_connection();
  FakeStream& client = front.first;
  FakeStream& from_client = front.second;
  FakeStream& to_server = behind.first;
  FakeStream& server = behind.second;
};

TEST(CopyBoth, PassesBothWaysAndHalfClosesOn) {
  const auto test = [] {
    Proxied p;
    nursery([&](Nursery& n) {
      n.spawn("server", [&] {
        EXPECT_EQ(all_of(p.server), "request") << "ended, though we have not answered";
        ASSERT_TRUE(p.server.write_all(bytes_of("an answer")));
        ASSERT_TRUE(p.server.shutdown_write());
      });
      n.spawn("client", [&] {
        ASSERT_TRUE(p.client.write_all(bytes_of("request")));
        ASSERT_TRUE(p.client.shutdown_write());
        EXPECT_EQ(all_of(p.client), "an answer");
      });
      const auto copied = copy_both(p.from_client, p.to_server, {.buffer_bytes = 3});
      ASSERT_TRUE(copied);
      EXPECT_EQ(copied->forth, 7U);
      EXPECT_EQ(copied->back, 9U);
    });
  };
  on_seeds(test);
  on_workers(test);
}

TEST(CopyBoth, EndsBothWaysAtTheFirstFailure) {
  const auto test = [] {
    Proxied p;
    p.from_client.write_error = std::make_error_code(std::errc::connection_reset);
    ASSERT_TRUE(p.server.write_all(bytes_of("unasked")));
    // Nobody else writes or closes: the way forth ends only if it is cancelled.
    const auto copied = copy_both(p.from_client, p.to_server);
    EXPECT_EQ(copied.error(), std::errc::connection_reset);
  };
  on_seeds(test);
  on_workers(test);
}

TEST(CopyBoth, IsCancelledAsAWhole) {
  const auto test = [] {
    Proxied p;
    EXPECT_FALSE(timeout(1ms, [&] { (void)copy_both(p.from_client, p.to_server); }));
    ASSERT_TRUE(p.client.write_all(bytes_of("still open")));
  };
  on_seeds(test);
  on_workers(test);
}

}  // namespace
}  // namespace weft::net
