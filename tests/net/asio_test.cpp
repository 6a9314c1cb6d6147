#include <weft/net/asio.hpp>

#include <weft/blocking.hpp>
#include <weft/cancel.hpp>
#include <weft/net/serve.hpp>
#include <weft/net/tcp.hpp>
#include <weft/nursery.hpp>

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fakes.hpp"

#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::fake_connection;
using testing::FakeStream;
using testing::on_seeds;
using testing::on_workers;
using testing::ScriptedStream;

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

static_assert(beast::is_sync_stream<AsioStream<FakeStream>>::value);
static_assert(beast::is_sync_stream<AsioStream<ScriptedStream>>::value);

TEST(AsioStream, ReadsIntoTheFirstBufferThatHasRoom) {
  ScriptedStream script{.input = "abcdef"};
  AsioStream stream{script};
  std::string one(0, ' ');
  std::string two(4, ' ');
  std::string three(4, ' ');
  const std::array<asio::mutable_buffer, 3> buffers{asio::buffer(one), asio::buffer(two),
                                                    asio::buffer(three)};
  EXPECT_EQ(stream.read_some(buffers), 4U);
  EXPECT_EQ(two, "abcd");
  error_code error = asio::error::fault;
  EXPECT_EQ(stream.read_some(asio::mutable_buffer{}, error), 0U);
  EXPECT_FALSE(error) << "no room is no error, and not the end";
}

TEST(AsioStream, EndsWithEof) {
  ScriptedStream script{.input = "ab"};
  AsioStream stream{script};
  std::string text(5, ' ');
  error_code error;
  EXPECT_EQ(asio::read(stream, asio::buffer(text), error), 2U);
  EXPECT_EQ(error, asio::error::eof);
  EXPECT_THROW((void)stream.read_some(asio::buffer(text)), boost::system::system_error);
}

TEST(AsioStream, WritesAllBuffersOfASequence) {
  ScriptedStream script{.piece = 2};
  AsioStream stream{script};
  const std::array<asio::const_buffer, 3> buffers{asio::buffer("over", 4), asio::const_buffer{},
                                                  asio::buffer(", under", 7)};
  EXPECT_EQ(asio::write(stream, buffers), 11U);
  EXPECT_EQ(script.output, "over, under");
}

TEST(AsioStream, TellsErrorsInBoostsWords) {
  EXPECT_EQ(to_boost(IoError::closed), asio::error::operation_aborted);
  EXPECT_EQ(to_boost(IoError::end_of_stream), asio::error::eof);
  EXPECT_EQ(to_boost(IoError::too_long), asio::error::message_size);
  EXPECT_EQ(to_boost(IoError::no_reactor), boost::system::errc::io_error);
  EXPECT_EQ(to_boost({ECONNRESET, std::system_category()}), asio::error::connection_reset);
  EXPECT_EQ(to_boost(std::make_error_code(std::errc::broken_pipe)), asio::error::broken_pipe);
  ScriptedStream script{.read_error = std::make_error_code(std::errc::connection_reset),
                        .write_error = std::make_error_code(std::errc::broken_pipe)};
  AsioStream stream{script};
  std::string text(5, ' ');
  error_code error;
  EXPECT_EQ(stream.read_some(asio::buffer(text), error), 0U);
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_EQ(stream.write_some(asio::buffer(text), error), 0U);
  EXPECT_EQ(error, asio::error::broken_pipe);
  EXPECT_THROW((void)stream.write_some(asio::buffer(text)), boost::system::system_error);
}

// ── Beast ───────────────────────────────────────────────────────────────────────────────────────

// Answers until the peer asks for no more.
template <class S>
void answer(S& peer) {
  AsioStream stream{peer};
  beast::flat_buffer buffer;
  for (;;) {
    http::request<http::string_body> request;
    error_code error;
    http::read(stream, buffer, request, error);
    if (error == http::error::end_of_stream) return;
    ASSERT_FALSE(error) << error.message();
    http::response<http::string_body> response{http::status::ok, request.version()};
    response.body() = "you asked for " + std::string{request.target()};
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    http::write(stream, response);
    if (!request.keep_alive()) return;
  }
}

template <class S>
std::string ask(S& peer, std::string_view target, bool keep_alive) {
  AsioStream stream{peer};
  http::request<http::empty_body> request{http::verb::get, std::string{target}, 11};
  request.keep_alive(keep_alive);
  http::write(stream, request);
  beast::flat_buffer buffer;
  http::response<http::string_body> response;
  http::read(stream, buffer, response);
  return response.body();
}

TEST(AsioStream, CarriesBeastsRequestsAndResponses) {
  const auto test = [] {
    auto [left, right] = fake_connection();
    FakeStream& client = left;
    FakeStream& server = right;
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { answer(server); });
      EXPECT_EQ(ask(client, "/a", true), "you asked for /a");
      EXPECT_EQ(ask(client, "/b", false), "you asked for /b");
    });
  };
  on_seeds(test, 20);
  on_workers(test);
}

TEST(AsioStream, IsCancelledInsideBeast) {
  const auto test = [] {
    auto [left, right] = fake_connection();
    FakeStream& server = right;
    EXPECT_FALSE(timeout(1ms, [&] { answer(server); }));
    (void)left;
  };
  on_seeds(test, 20);
  on_workers(test);
}

// Beast and Asio's own sockets, on a thread that knows nothing of weft.
std::string ask_by_beast_alone(std::uint16_t port) {
  asio::io_context context;
  beast::tcp_stream stream{context};
  stream.connect(asio::ip::tcp::endpoint{asio::ip::address_v4::loopback(), port});
  std::string heard;
  beast::flat_buffer buffer;
  for (const char* target : {"/a", "/b", "/c"}) {
    http::request<http::empty_body> request{http::verb::get, target, 11};
    request.keep_alive(true);
    http::write(stream, request);
    http::response<http::string_body> response;
    http::read(stream, buffer, response);
    heard += response.body() + "; ";
  }
  return heard;
}

TEST(AsioStream, AServerIsAskedByBeastAlone) {
  on_workers([] {
    TcpListener listener = listen({"127.0.0.1", 0}).value();
    nursery([&](Nursery& n) {
      n.spawn("server", [&] {
        serve(listener, [](TcpStream peer) { answer(peer); }).value();
      });
      const std::uint16_t port = listener.port();
      EXPECT_EQ(blocking([port] { return ask_by_beast_alone(port); }),
                "you asked for /a; you asked for /b; you asked for /c; ");
      listener.close().value();
    });
  });
}

}  // namespace
}  // namespace weft::net
