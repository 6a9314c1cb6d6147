#include <weft/net.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_workers;

void echo(const TcpStream& peer) {
  std::array<std::byte, 4096> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    if (!peer.write_all(*got)) return;
  }
}

TEST(Tcp, EchoesAsInTheBook) {
  in_every_world([] {
    auto listener = listen({"127.0.0.1", 0}).value();
    ASSERT_NE(listener.port(), 0);
    std::string answer;
    race(
        [&] {
          nursery([&](Nursery& n) {
            while (auto peer = listener.accept())
              n.spawn([p = std::move(*peer)]() mutable { echo(p); });
          });
        },
        [&] {
          const auto c = connect({"127.0.0.1", listener.port()}).value();
          EXPECT_TRUE(c.write_all(std::as_bytes(std::span{"over, under", 11})));
          answer = read_text(c, 11);
        });
    EXPECT_EQ(answer, "over, under");
  });
}

TEST(Tcp, OneFiberCanDoBothEnds) {
  const auto talk = [] {
    for (const Endpoint& at : {Endpoint{"127.0.0.1", 0}, Endpoint{"::1", 0}}) {
      SCOPED_TRACE(to_string(at));
      const Ends ends = connected(at);
      EXPECT_TRUE(ends.client.write_all("hello"));
      EXPECT_EQ(read_text(ends.server, 5), "hello");
      EXPECT_EQ(ends.client.peer_endpoint().value(), ends.server.local_endpoint().value());
      EXPECT_EQ(ends.client.local_endpoint().value(), ends.server.peer_endpoint().value());
    }
  };
  in_every_world(talk);
  BlockingIo{}.run(talk);
}

TEST(Tcp, AListenerOnAnyIpv6AddressTakesIpv4AsWell) {
  in_every_world([] {
    auto listener = listen({"::", 0}).value();
    auto client = connect({"127.0.0.1", listener.port()}).value();
    Endpoint from;
    auto server = listener.accept(from).value();
    EXPECT_EQ(from.unmapped(), client.local_endpoint().value());
    EXPECT_EQ(from.kind(), Endpoint::Kind::ipv6);
    auto only = listen({"::", 0}, {.ipv6_only = true}).value();
    EXPECT_EQ(connect({"127.0.0.1", only.port()}).error(), std::errc::connection_refused);
    EXPECT_TRUE(connect({"::1", only.port()}));
  });
}

TEST(Tcp, HalfAConnectionGoesOn) {
  in_every_world([] {
    const Ends ends = connected();
    EXPECT_TRUE(ends.client.write_all("last words"));
    EXPECT_TRUE(ends.client.shutdown_write());
    std::array<std::byte, 16> buffer{};
    EXPECT_EQ(text_of(ends.server.read_up_to(buffer).value()), "last words");
    EXPECT_TRUE(ends.server.read_some(buffer).value().empty()) << "the end stays the end";
    EXPECT_TRUE(ends.server.write_all("understood"));
    EXPECT_EQ(read_text(ends.client, 10), "understood");
    EXPECT_EQ(ends.client.write_all("more").error(), std::errc::broken_pipe);
  });
}

TEST(Tcp, ReadExactlyWantsAll) {
  in_every_world([] {
    const Ends ends = connected();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (const char* const part : {"ab", "cd", "ef", "gh"}) {
          EXPECT_TRUE(ends.client.write_all(part));
          let_others_block();
        }
        EXPECT_TRUE(ends.client.shutdown_write());
      });
      std::array<std::byte, 6> buffer{};
      EXPECT_TRUE(ends.server.read_exactly(buffer));
      EXPECT_EQ(text_of(buffer), "abcdef");
      EXPECT_EQ(ends.server.read_exactly(buffer).error(), IoError::end_of_stream);
      EXPECT_EQ(text_of(std::span{buffer}.first(2)), "gh") << "what there was";
    });
  });
}

TEST(Tcp, BuffersOfNoBytesAskForNothing) {
  in_every_world([] {
    Ends ends = connected();
    const std::span<std::byte> none;
    EXPECT_TRUE(ends.client.read_some(none).value().empty());
    EXPECT_TRUE(ends.client.read_exactly(none));
    EXPECT_EQ(ends.client.write_some(none).value(), 0U);
    EXPECT_TRUE(ends.client.write_all(none));
    const std::array<std::span<std::byte>, 2> parts{};
    const std::array<std::span<const std::byte>, 2> const_parts{};
    EXPECT_EQ(ends.client.readv(parts).value(), 0U);
    EXPECT_EQ(ends.client.writev(const_parts).value(), 0U);
    EXPECT_TRUE(ends.client.writev_all(const_parts));
    EXPECT_TRUE(ends.client.close());
    EXPECT_EQ(ends.client.read_some(none).error(), IoError::closed);
    EXPECT_EQ(ends.client.write_all(none).error(), IoError::closed);
    timeout(0ms, [&] {
      EXPECT_THROW((void)ends.server.read_some(none), Cancelled) << "a cancel point all the same";
    });
  });
}

TEST(Tcp, MegabytesArriveWholeThroughSmallBuffers) {
  in_every_world([] {
    const Ends ends = connected();
    EXPECT_TRUE(ends.client.set_send_buffer(8192));
    const std::vector<std::byte> sent = pattern(3'000'000);
    std::vector<std::byte> got;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(ends.client.write_all(sent));
        EXPECT_TRUE(ends.client.shutdown_write());
      });
      std::vector<std::byte> buffer(10'007);
      while (auto some = ends.server.read_some(buffer)) {
        if (some->empty()) break;
        got.insert(got.end(), some->begin(), some->end());
      }
    });
    EXPECT_TRUE(got == sent);
  });
}

TEST(Tcp, ManyPartsAreOneStream) {
  in_every_world([] {
    const Ends ends = connected();
    EXPECT_TRUE(ends.client.set_send_buffer(8192));
    const std::vector<std::byte> sent = pattern(1'000'000, 7);
    std::vector<std::span<const std::byte>> parts;  // of 0, 1, 2, … bytes
    for (std::size_t at = 0, size = 0; at < sent.size(); at += size, ++size)
      parts.push_back(std::span{sent}.subspan(at, std::min(size, sent.size() - at)));
    std::vector<std::byte> got(sent.size());
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(ends.client.writev_all(parts)); });
      for (std::size_t at = 0; at < got.size();) {
        const std::span<std::byte> rest = std::span{got}.subspan(at);
        const std::size_t first = std::min<std::size_t>(rest.size(), 100);
        const std::array<std::span<std::byte>, 3> into{rest.first(first), std::span<std::byte>{},
                                                       rest.subspan(first)};
        const std::size_t some = ends.server.readv(into).value();
        ASSERT_NE(some, 0U);
        at += some;
      }
    });
    EXPECT_TRUE(got == sent);
  });
}

TEST(Tcp, WritingToAPeerThatIsGoneIsAnErrorAndNoSignal) {
  in_every_world([] {
    Ends ends = connected();
    EXPECT_TRUE(ends.server.set_linger(0s)) << "so that it is reset";
    EXPECT_TRUE(ends.server.close());
    const std::vector<std::byte> much = pattern(65536);
    Result<void> written;
    while (written) written = ends.client.write_all(much);
    EXPECT_TRUE(written.error() == std::errc::broken_pipe ||
                written.error() == std::errc::connection_reset)
        << written.error().message();
  });
}

TEST(Tcp, OptionsAreSetAndRead) {
  on_workers({1U}, [] {
    const Ends ends = connected();
    for (const TcpStream* const end : {&ends.client, &ends.server}) {
      int no_delay = 0;
      socklen_t length = sizeof no_delay;
      ASSERT_EQ(::getsockopt(end->native_handle(), 6, 1, &no_delay, &length), 0);
      EXPECT_NE(no_delay, 0) << "Nagle's algorithm is off by default";
      EXPECT_TRUE(end->set_no_delay(false));
      ASSERT_EQ(::getsockopt(end->native_handle(), 6, 1, &no_delay, &length), 0);
      EXPECT_EQ(no_delay, 0);
    }
    EXPECT_TRUE(ends.client.set_keepalive(Keepalive{.idle = 5s, .interval = 1s, .probes = 2}));
    EXPECT_TRUE(ends.client.set_keepalive(std::nullopt));
    EXPECT_FALSE(ends.client.set_keepalive(Keepalive{.idle = -1s}));
    EXPECT_TRUE(ends.client.set_linger(std::nullopt));
    EXPECT_TRUE(ends.client.set_send_buffer(32768));
    EXPECT_GE(ends.client.send_buffer().value(), 32768U);
    EXPECT_TRUE(ends.client.set_receive_buffer(32768));
    EXPECT_GE(ends.client.receive_buffer().value(), 32768U);
  });
}

TEST(Tcp, ArmsTellWhenThereIsSomething) {
  in_every_world([] {
    const Ends ends = connected();
    auto readable = ends.server.on_readable();
    EXPECT_EQ(select(readable, otherwise()), 1U) << "nothing yet";
    EXPECT_EQ(select(ends.client.on_writable(), after(1h)), 0U);
    nursery([&](Nursery& n) {
      n.spawn([&] {
        let_others_block();
        EXPECT_TRUE(ends.client.write_all("x"));
      });
      bool told = false;
      EXPECT_EQ(select(after(1h), ends.server.on_readable([&] { told = true; })), 1U);
      EXPECT_TRUE(told);
    });
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(ends.server.read_some(buffer).value().size(), 1U) << "the arm took nothing";
    EXPECT_EQ(select(ends.server.on_readable(), otherwise()), 1U);
  });
}

TEST(Tcp, TwoHundredConnectionsAtOnce) {
  in_every_world([] {
    constexpr int kConnections = 200;
    auto listener = listen({"127.0.0.1", 0}).value();
    std::atomic<int> content{0};
    race(
        [&] {
          nursery([&](Nursery& n) {
            while (auto peer = listener.accept())
              n.spawn([p = std::move(*peer)]() mutable { echo(p); });
          });
        },
        [&] {
          nursery([&](Nursery& n) {
            for (int i = 0; i < kConnections; ++i)
              n.spawn([&, i] {
                const auto c = connect({"127.0.0.1", listener.port()}).value();
                for (int round = 0; round < 5; ++round) {
                  const std::string said = std::to_string(i) + "/" + std::to_string(round);
                  std::vector<std::byte> heard(said.size());
                  if (!c.write_all(said) || !c.read_exactly(heard)) return;
                  if (text_of(heard) != said) return;
                }
                content.fetch_add(1);
              });
          });
        });
    EXPECT_EQ(content.load(), kConnections);
  });
}

TEST(Tcp, HandlesMoveAndAreClosedOnce) {
  in_every_world([] {
    Ends ends = connected();
    EXPECT_FALSE(TcpStream{});
    EXPECT_FALSE(TcpListener{});
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(TcpStream{}.read_some(buffer).error(), IoError::closed);
    EXPECT_EQ(TcpListener{}.accept().error(), IoError::closed);
    EXPECT_EQ(TcpStream{}.local_endpoint().error(), IoError::closed);
    TcpStream moved = std::move(ends.client);
    EXPECT_TRUE(moved);
    EXPECT_TRUE(moved.write_all("x"));
    moved = TcpStream{};
    EXPECT_EQ(ends.server.read_some(buffer).value().size(), 1U);
    EXPECT_TRUE(ends.server.read_some(buffer).value().empty());
    EXPECT_TRUE(ends.server.close());
    EXPECT_TRUE(ends.server.close()) << "idempotent";
  });
}

TEST(Tcp, ListeningSaysWhatIsWrong) {
  on_workers({1U}, [] {
    auto first = listen({"127.0.0.1", 0}).value();
    EXPECT_EQ(listen(first.local_endpoint()).error(), std::errc::address_in_use);
    EXPECT_EQ(listen(Endpoint::unix_socket("@x")).error(), std::errc::address_family_not_supported);
    EXPECT_EQ(listen({"203.0.113.1", 0}).error(), std::errc::address_not_available);
    EXPECT_EQ(listen(Endpoint{}).error(), std::errc::invalid_argument);
    auto shared = listen({"127.0.0.1", 0}, {.reuse_port = true}).value();
    EXPECT_TRUE(listen(shared.local_endpoint(), {.reuse_port = true}));
  });
}

// Says its number to everybody who connects.
void number_everybody(const TcpListener& listener, char number) {
  while (const auto peer = listener.accept())
    EXPECT_TRUE(peer->write_all(std::string_view{&number, 1}));
}

TEST(Tcp, ListenersOfOnePortShareItsConnections) {
  in_every_world([] {
    const ListenOptions shared{.reuse_port = true};
    std::array<TcpListener, 3> listeners{listen({"127.0.0.1", 0}, shared).value()};
    const Endpoint here = listeners[0].local_endpoint();
    for (std::size_t i : {1U, 2U}) listeners[i] = listen(here, shared).value();
    EXPECT_EQ(listen(here).error(), std::errc::address_in_use);
    const auto who_answers = [&] {
      return static_cast<std::size_t>(read_text(connect(here).value(), 1)[0] - '0');
    };
    std::array<int, 3> answers{};
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < listeners.size(); ++i)
        n.spawn([&, i] { number_everybody(listeners[i], static_cast<char>('0' + i)); });
      for (int i = 0; i < 100; ++i) ++answers.at(who_answers());
      EXPECT_GT(*std::min_element(answers.begin(), answers.end()), 0);
      EXPECT_TRUE(listeners[1].close());  // the others take over
      for (int i = 0; i < 20; ++i) EXPECT_NE(who_answers(), 1U);
      n.cancel();
    });
  });
}

TEST(Tcp, OfTwoListenersTheOneForJustThisAddressIsMeant) {
  in_every_world([] {
    const ListenOptions shared{.reuse_port = true};
    const auto for_any = listen({"0.0.0.0", 0}, shared).value();
    const Endpoint here{"127.0.0.1", for_any.port()};
    const auto for_this = listen(here, shared).value();
    nursery([&](Nursery& n) {
      n.spawn([&] { number_everybody(for_any, '0'); });
      n.spawn([&] { number_everybody(for_this, '1'); });
      for (int i = 0; i < 20; ++i) EXPECT_EQ(read_text(connect(here).value(), 1), "1");
      n.cancel();
    });
  });
}

}  // namespace
}  // namespace weft::net
