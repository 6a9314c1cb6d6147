#include <weft/net.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <net/if.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_workers;

TEST(Udp, DatagramsComeWithTheirSender) {
  const auto talk = [] {
    for (const Endpoint& at : {Endpoint{"127.0.0.1", 0}, Endpoint{"::1", 0}}) {
      SCOPED_TRACE(to_string(at));
      const auto a = UdpSocket::bind(at).value();
      const auto b = UdpSocket::bind(at).value();
      EXPECT_TRUE(a.send_to(bytes_of("one"), at.with_port(b.port())));
      EXPECT_TRUE(a.send_to(bytes_of(""), at.with_port(b.port())));
      EXPECT_TRUE(a.send_to(bytes_of("three"), at.with_port(b.port())));
      std::array<std::byte, 16> buffer{};
      const Datagram one = b.recv_from(buffer).value();
      EXPECT_EQ(text_of(one.bytes), "one");
      EXPECT_EQ(one.from, a.local_endpoint().value());
      EXPECT_FALSE(one.truncated);
      EXPECT_TRUE(b.recv_from(buffer).value().bytes.empty()) << "a datagram of no bytes is one";
      EXPECT_EQ(text_of(b.recv(buffer).value()), "three");
    }
  };
  in_every_world(talk);
  BlockingIo{}.run(talk);
}

TEST(Udp, WhatDoesNotFitIsLostAndTold) {
  in_every_world([] {
    const auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    const auto b = UdpSocket::bind({"127.0.0.1", 0}).value();
    const Endpoint to{"127.0.0.1", b.port()};
    EXPECT_TRUE(a.send_to(bytes_of("too long"), to));
    EXPECT_TRUE(a.send_to(bytes_of("exact"), to));
    EXPECT_TRUE(a.send_to(bytes_of("gone"), to));
    EXPECT_TRUE(a.send_to(bytes_of("last"), to));
    std::array<std::byte, 5> buffer{};
    const Datagram cut = b.recv_from(buffer).value();
    EXPECT_EQ(text_of(cut.bytes), "too l");
    EXPECT_TRUE(cut.truncated);
    EXPECT_FALSE(b.recv_from(buffer).value().truncated);
    EXPECT_TRUE(b.recv_from({}).value().truncated) << "no room: it is taken all the same";
    EXPECT_EQ(text_of(b.recv_from(buffer).value().bytes), "last");
    const std::vector<std::byte> huge(70'000);
    EXPECT_EQ(a.send_to(huge, to).error(), std::errc::message_size);
  });
}

TEST(Udp, ConnectedSocketsHearOnlyTheirPeer) {
  in_every_world([] {
    const auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    const auto b = UdpSocket::bind({"127.0.0.1", 0}).value();
    const auto stranger = UdpSocket::bind({"127.0.0.1", 0}).value();
    EXPECT_EQ(a.send(bytes_of("x")).error(), std::errc::destination_address_required);
    EXPECT_TRUE(a.connect({"127.0.0.1", b.port()}));
    EXPECT_TRUE(b.connect({"127.0.0.1", a.port()}));
    EXPECT_EQ(a.peer_endpoint().value(), b.local_endpoint().value());
    EXPECT_TRUE(stranger.send_to(bytes_of("boo"), {"127.0.0.1", b.port()}));
    EXPECT_TRUE(a.send(bytes_of("it's me")));
    std::array<std::byte, 16> buffer{};
    EXPECT_EQ(text_of(b.recv(buffer).value()), "it's me");
  });
}

TEST(Udp, ARefusalIsToldToConnectedSockets) {
  in_every_world([] {
    const auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    std::uint16_t nobody = 0;
    { nobody = UdpSocket::bind({"127.0.0.1", 0}).value().port(); }
    EXPECT_TRUE(a.connect({"127.0.0.1", nobody}));
    EXPECT_TRUE(a.send(bytes_of("hello?")));
    std::array<std::byte, 16> buffer{};
    EXPECT_EQ(a.recv(buffer).error(), std::errc::connection_refused);
  });
}

TEST(Udp, FromAnyIpv6AddressIpv4IsReached) {
  in_every_world([] {
    const auto both = UdpSocket::bind({"::", 0}).value();
    const auto four = UdpSocket::bind({"127.0.0.1", 0}).value();
    EXPECT_TRUE(both.send_to(bytes_of("x"), {"127.0.0.1", four.port()}));
    std::array<std::byte, 4> buffer{};
    const Datagram got = four.recv_from(buffer).value();
    EXPECT_EQ(got.from, (Endpoint{"127.0.0.1", both.port()}));
    EXPECT_TRUE(four.send_to(bytes_of("y"), got.from));
    EXPECT_EQ(both.recv_from(buffer).value().from.unmapped(), four.local_endpoint().value());
  });
}

TEST(Udp, Ipv6OnlyReachesNoIpv4AndIsNotReachedByIt) {
  in_every_world([] {
    const auto only = UdpSocket::bind({"::", 0}, {.ipv6_only = true}).value();
    // Its port is still free for the other family; outside, somebody else may have it.
    const bool simulated = testing::simulated();
    const auto four =
        UdpSocket::bind({"127.0.0.1", simulated ? only.port() : std::uint16_t{0}}).value();
    const Endpoint to_four{"127.0.0.1", four.port()};
    EXPECT_EQ(only.send_to(bytes_of("x"), to_four).error(), std::errc::network_unreachable);
    EXPECT_EQ(only.connect(to_four).error(), std::errc::network_unreachable);
    EXPECT_TRUE(four.send_to(bytes_of("to the same port"), to_four));
    const auto six = UdpSocket::bind({"::1", 0}).value();
    EXPECT_TRUE(six.send_to(bytes_of("six"), {"::1", only.port()}));
    std::array<std::byte, 64> buffer{};
    EXPECT_EQ(text_of(only.recv_from(buffer).value().bytes), "six");
    EXPECT_EQ(text_of(four.recv_from(buffer).value().bytes), "to the same port");
    // Of a name's addresses it takes one that it can reach. Outside, there may be none.
    if (!simulated) return;
    EXPECT_TRUE(only.send_to(bytes_of("by name"), {"localhost", six.port()}));
    EXPECT_EQ(text_of(six.recv_from(buffer).value().bytes), "by name");
  });
}

// Several sockets on one port: what comes from one sender goes to one of them, always the same.
TEST(Udp, SocketsOfOnePortShareItsSenders) {
  in_every_world([] {
    constexpr std::size_t kSenders = 40;
    constexpr int kEach = 3;
    const UdpOptions shared{.reuse_port = true};
    const auto one = UdpSocket::bind({"127.0.0.1", 0}, shared).value();
    const Endpoint here{"127.0.0.1", one.port()};
    const auto other = UdpSocket::bind(here, shared).value();
    EXPECT_EQ(UdpSocket::bind(here).error(), std::errc::address_in_use);
    std::vector<UdpSocket> senders;
    for (std::size_t i = 0; i < kSenders; ++i)
      senders.push_back(UdpSocket::bind({"127.0.0.1", 0}).value());
    std::map<std::uint16_t, std::array<int, 2>> heard;  // from whom, and which of the two
    Channel<std::pair<std::size_t, std::uint16_t>> reports{1};
    const auto receive = [&](const UdpSocket& socket, std::size_t which) {
      std::array<std::byte, 8> buffer{};
      while (const auto got = socket.recv_from(buffer))
        if (!reports.tx.send({which, got->from.port()})) return;
    };
    nursery([&](Nursery& n) {
      n.spawn([&] { receive(one, 0); });
      n.spawn([&] { receive(other, 1); });
      for (int time = 0; time < kEach; ++time)
        for (const UdpSocket& sender : senders) {
          EXPECT_TRUE(sender.send_to(bytes_of("x"), here));
          const auto report = reports.rx.recv().value();
          EXPECT_EQ(report.second, sender.port());
          ++heard[report.second][report.first];
        }
      n.cancel();
    });
    std::array<int, 2> senders_of{};
    for (const auto& [port, counts] : heard) {
      EXPECT_TRUE(counts[0] == kEach || counts[1] == kEach) << port;
      ++senders_of[counts[0] == kEach ? 0 : 1];
    }
    EXPECT_EQ(heard.size(), kSenders);
    EXPECT_GT(std::min(senders_of[0], senders_of[1]), 0) << "all to one of them";
  });
}

TEST(Udp, ClosingAndCancellingWakeReceivers) {
  in_every_world([] {
    auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    std::array<std::byte, 4> buffer{};
    EXPECT_FALSE(timeout(1ms, [&] { return a.recv_from(buffer).has_value(); }));
    EXPECT_EQ(select(a.on_readable(), otherwise()), 1U);
    EXPECT_TRUE(a.send_to(bytes_of("me"), a.local_endpoint().value()));
    EXPECT_EQ(select(a.on_readable(), after(1h)), 0U);
    EXPECT_EQ(text_of(a.recv_from(buffer).value().bytes), "me");
    std::error_code error;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::array<std::byte, 4> own{};
        error = a.recv_from(own).error();
      });
      let_others_block();
      EXPECT_TRUE(a.close());
    });
    EXPECT_EQ(error, IoError::closed);
  });
}

TEST(Udp, GroupsAreJoinedAndLeft) {
  on_workers({1U}, [] {
    const std::uint32_t loopback = ::if_nametoindex("lo");
    const Endpoint group{"239.255.7.7", 0};
    const auto hears = UdpSocket::bind({"0.0.0.0", 0}, {.reuse_address = true}).value();
    const auto says = UdpSocket::bind({"127.0.0.1", 0}).value();
    ASSERT_TRUE(hears.join(group, loopback));
    ASSERT_TRUE(says.set_multicast_interface(loopback));
    EXPECT_TRUE(says.set_multicast_loop(true));
    EXPECT_TRUE(says.set_multicast_hops(1));
    EXPECT_TRUE(says.send_to(bytes_of("all"), group.with_port(hears.port())));
    std::array<std::byte, 8> buffer{};
    EXPECT_EQ(text_of(hears.recv(buffer).value()), "all");
    EXPECT_TRUE(hears.leave(group, loopback));
    EXPECT_EQ(hears.leave(group, loopback).error(), std::errc::address_not_available);
    EXPECT_EQ(hears.join({"127.0.0.1", 0}).error(), std::errc::invalid_argument) << "no group";
    EXPECT_EQ(hears.join({"ff02::1", 0}).error(), std::errc::invalid_argument) << "of IPv6";
    const auto six = UdpSocket::bind({"::", 0}).value();
    EXPECT_TRUE(six.join({"ff01::7", 0}, loopback));
    EXPECT_TRUE(six.leave({"ff01::7", 0}, loopback));
    EXPECT_TRUE(six.set_multicast_loop(false));
    EXPECT_TRUE(six.set_multicast_hops(2));
    EXPECT_TRUE(six.set_multicast_interface(loopback));
  });
}

TEST(Udp, BroadcastsMustBeAskedFor) {
  on_workers({1U}, [] {
    const auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    EXPECT_EQ(a.send_to(bytes_of("x"), {"127.255.255.255", 9}).error(),
              std::errc::permission_denied);
    EXPECT_TRUE(a.set_broadcast(true));
    EXPECT_TRUE(a.send_to(bytes_of("x"), {"127.255.255.255", 9}));
  });
}

TEST(Udp, SaysWhatIsWrong) {
  in_every_world([] {
    const auto a = UdpSocket::bind({"127.0.0.1", 0}).value();
    EXPECT_EQ(UdpSocket::bind(a.local_endpoint().value()).error(), std::errc::address_in_use);
    EXPECT_EQ(UdpSocket::bind(Endpoint::unix_socket("@x")).error(),
              std::errc::address_family_not_supported);
    EXPECT_EQ(a.send_to(bytes_of("x"), Endpoint{}).error(), std::errc::invalid_argument);
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(UdpSocket{}.recv_from(buffer).error(), IoError::closed);
    EXPECT_EQ(UdpSocket{}.send(buffer).error(), IoError::closed);
  });
}

}  // namespace
}  // namespace weft::net
