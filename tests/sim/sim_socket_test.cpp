// What the options of simulated sockets come to, and what the kernel copies to them by itself.
#include <weft/sim_world.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/file.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/time.hpp>

#include <sim/sim_net.hpp>
#include <support/engines.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace weft {
namespace {

using namespace std::chrono_literals;
using net::Endpoint;
using net::Keepalive;
using net::TcpStream;
using net::UdpSocket;
using SimSocketTest = SimNetTest;

// ── families and peers ──────────────────────────────────────────────────────────────────────────

TEST_F(SimSocketTest, Ipv6OnlyStaysInItsFamily) {
  on_worlds([](SimWorld& world) {
    const Endpoint in_ipv4{world.host("server").address(), kPort};
    on("server", [&] {
      const auto four = UdpSocket::bind({"0.0.0.0", kPort}).value();
      const auto six = UdpSocket::bind({"::", kPort}, {.ipv6_only = true}).value();
      on("client", [&] {
        const auto only = UdpSocket::bind({"::", 0}, {.ipv6_only = true}).value();
        EXPECT_EQ(only.send_to(bytes_of("x"), in_ipv4).error(), std::errc::network_unreachable);
        EXPECT_EQ(only.connect(in_ipv4).error(), std::errc::network_unreachable);
        EXPECT_TRUE(only.send_to(bytes_of("six"), {"server", kPort}));
        const auto both = UdpSocket::bind({"::", 0}).value();
        EXPECT_TRUE(both.send_to(bytes_of("four"), in_ipv4));
      });
      std::string buffer(10, '\0');
      EXPECT_EQ(six.recv(bytes_of(buffer)).value().size(), 3U);
      EXPECT_EQ(four.recv(bytes_of(buffer)).value().size(), 4U);
      const auto more = [&](const UdpSocket& socket) {
        return timeout(1min, [&] { return socket.recv(bytes_of(buffer)); }).has_value();
      };
      EXPECT_FALSE(more(six) || more(four));
    });
  });
}

TEST_F(SimSocketTest, AnIpv6OnlySocketIsNotThereForIpv4) {
  on_worlds([](SimWorld& world) {
    const Endpoint in_ipv4{world.host("server").address(), kPort};
    on("server", [&] {
      const auto datagrams = UdpSocket::bind({"::", kPort}, {.ipv6_only = true}).value();
      const auto listener = net::listen({"::", kPort}, {.ipv6_only = true}).value();
      on("client", [&] {
        const auto four = UdpSocket::bind({"0.0.0.0", 0}).value();
        ASSERT_TRUE(four.connect(in_ipv4));
        ASSERT_TRUE(four.send(bytes_of("x")));
        std::string buffer(10, '\0');
        EXPECT_EQ(four.recv(bytes_of(buffer)).error(), std::errc::connection_refused);
        EXPECT_EQ(net::connect(in_ipv4).error(), std::errc::connection_refused);
        EXPECT_TRUE(net::connect({"server", kPort}));  // which tries both
      });
    });
  });
}

TEST_F(SimSocketTest, AConnectedSocketHearsItsPeerAlone) {
  on_worlds([](SimWorld& world) {
    world.host("stranger");
    on("server", [&] {
      const auto server = UdpSocket::bind({"0.0.0.0", 0}).value();
      ASSERT_TRUE(server.connect({world.host("client").address(), kPort}));
      const Endpoint to{world.host("server").address(), server.port()};
      for (const char* const who : {"stranger", "client"})  // both from the same port
        on(who, [&] {
          const auto socket = UdpSocket::bind({"0.0.0.0", kPort}).value();
          EXPECT_TRUE(socket.send_to(bytes_of(who), to));
          sleep_for(1s);
        });
      std::string buffer(10, '\0');
      EXPECT_EQ(server.recv(bytes_of(buffer)).value().size(), 6U);
      EXPECT_EQ(buffer.substr(0, 6), "client");
    });
  });
}

// ── keepalive ───────────────────────────────────────────────────────────────────────────────────

constexpr Keepalive kKeepalive{.idle = 60s, .interval = 10s, .probes = 6};
constexpr Duration kPatience = 10s * 6;  // from the first probe without an answer

// How long a read of `stream` takes until it fails, and how it does.
struct Outcome {
  Duration after{};
  std::error_code error;
};
Outcome read_until_failure(const TcpStream& stream) {
  const Instant begin = Clock::now();
  std::string buffer(1, '\0');
  const auto got = stream.read_some(bytes_of(buffer));
  return {Clock::now() - begin, got.error()};
}

TEST_F(SimSocketTest, KeepaliveEndsAConnectionThatIsCutOff) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      world.net().partition("server", "client");
      world.script().at(90s).partition("localhost", "server");  // no business of theirs
      const Outcome outcome = read_until_failure(client);
      EXPECT_EQ(outcome.error, std::errc::timed_out);
      EXPECT_EQ(outcome.after, kKeepalive.idle + kPatience);
      EXPECT_EQ(client.write_all("x").error(), std::errc::broken_pipe);
      // The other one has not asked for it.
      std::string buffer(1, '\0');
      EXPECT_FALSE(timeout(24h, [&] { return server.read_some(bytes_of(buffer)); }));
    });
  });
}

TEST_F(SimSocketTest, KeepaliveCountsFromWhatWasLastHeard) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      sleep_for(50s);
      ASSERT_TRUE(server.write_all("x"));
      std::string buffer(1, '\0');
      ASSERT_TRUE(client.read_exactly(bytes_of(buffer)));
      sleep_for(210s);  // three probes are answered, and the next is due in 30 seconds
      world.net().partition_one_way("server", "client");
      const Outcome outcome = read_until_failure(client);
      EXPECT_EQ(outcome.error, std::errc::timed_out);
      EXPECT_GE(outcome.after, 29s + kPatience);
      EXPECT_LE(outcome.after, 30s + kPatience);
    });
  });
}

TEST_F(SimSocketTest, KeepaliveForgivesAPartitionThatHeals) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      world.script().at(110s).heal();
      world.net().partition("server", "client");
      sleep_for(3h);
      ASSERT_TRUE(server.write_all("x"));
      std::string buffer(1, '\0');
      EXPECT_TRUE(client.read_exactly(bytes_of(buffer)));
      world.net().isolate("client");
      EXPECT_EQ(read_until_failure(client).error, std::errc::timed_out);
    });
  });
}

TEST_F(SimSocketTest, KeepaliveOffIsOff) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream&) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      world.net().partition("server", "client");
      ASSERT_TRUE(client.set_keepalive(std::nullopt));
      EXPECT_FALSE(timeout(24h, [&] { return read_until_failure(client); }));
      ASSERT_TRUE(client.set_keepalive(kKeepalive));  // of a connection that is cut off already
      EXPECT_EQ(read_until_failure(client).after, kKeepalive.idle + kPatience);
      for (const Keepalive nonsense : {Keepalive{.idle = 0s}, Keepalive{.interval = -1s},
                                       Keepalive{.idle = 32768s}, Keepalive{.probes = 128}})
        EXPECT_EQ(client.set_keepalive(nonsense).error(), std::errc::invalid_argument);
    });
  });
}

TEST_F(SimSocketTest, WhatWaitsToBeSentHasItsOwnLimit) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream&) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      world.net().partition("server", "client");
      ASSERT_TRUE(client.write_all("lost"));
      const Outcome outcome = read_until_failure(client);
      EXPECT_EQ(outcome.error, std::errc::timed_out);
      EXPECT_GE(outcome.after, 15min);
    });
  });
}

// Whether it comes back or not.
TEST_F(SimSocketTest, KeepaliveFindsOutAboutACrash) {
  for (const bool restarts : {false, true})
    on_worlds([&](SimWorld& world) {
      with_connection(world, [&](const TcpStream& client, const TcpStream&) {
        ASSERT_TRUE(client.set_keepalive(kKeepalive));
        world.host("server").crash();
        if (restarts) world.script().at(95s).restart("server");
        const Outcome outcome = read_until_failure(client);
        if (!restarts) {
          EXPECT_EQ(outcome.error, std::errc::timed_out);
          EXPECT_EQ(outcome.after, kKeepalive.idle + kPatience);
        } else {
          EXPECT_EQ(outcome.error, std::errc::connection_reset);
          EXPECT_GE(outcome.after, 95s);
          EXPECT_LE(outcome.after, 95s + kKeepalive.interval);
        }
      });
    });
}

// Probes that are answered wake nobody: who waits for nobody is still in a deadlock.
TEST_F(SimSocketTest, KeepaliveHidesNoDeadlock) {
  SimIo io;
  const auto wait_for_nobody = [&] {
    with_connection(io.world(), [](const TcpStream& client, const TcpStream&) {
      ASSERT_TRUE(client.set_keepalive(kKeepalive));
      read_until_failure(client);
    });
  };
  EXPECT_THROW(io.run(wait_for_nobody), Deadlock);
}

// ── from files ──────────────────────────────────────────────────────────────────────────────────

// The server copies the file /data, of `size` bytes, to the client, in `transfer`.
void with_file(SimWorld& world, std::size_t size,
               const std::function<void(const File&, const TcpStream& to, const TcpStream& at)>&
                   transfer) {
  with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
    on("server", [&] {
      ASSERT_TRUE(write_file("/data", pattern(size)));
      const File file = File::open("/data").value();
      transfer(file, server, client);
    });
  });
}

std::uint64_t position_of(const File& file) { return file.seek(0, From::position).value(); }

TEST_F(SimSocketTest, AFileIsCopiedWhole) {
  constexpr std::size_t kSize = 300'000;
  on_worlds([&](SimWorld& world) {
    world.disk("server").set_short_transfers(0.3);
    with_file(world, kSize, [&](const File& file, const TcpStream& to, const TcpStream& at) {
      std::string received;
      nursery([&](Nursery& n) {
        n.spawn([&] { received = read_all(at); });
        std::uint64_t told = 0;
        const auto progress = [&](std::uint64_t copied) {
          EXPECT_GT(copied, std::exchange(told, copied));
        };
        ASSERT_TRUE(file.seek(100));
        EXPECT_EQ(net::copy(file, to, {.limit = 1000}).value(), 1000U);
        EXPECT_EQ(position_of(file), 1100U);
        EXPECT_EQ(net::copy(file, to, {.progress = progress}).value(), kSize - 1100);
        EXPECT_EQ(told, kSize - 1100);
        EXPECT_EQ(position_of(file), kSize);
        EXPECT_EQ(net::copy(file, to).value(), 0U);
        ASSERT_TRUE(to.shutdown_write());
      });
      EXPECT_TRUE(received == pattern(kSize).substr(100));
    });
  });
}

// The position is behind what was sent, not behind what was read: nothing is lost.
TEST_F(SimSocketTest, ACopyOfAFileThatIsCancelledGoesOnWhereItWas) {
  constexpr std::size_t kSize = 500'000;
  on_worlds([&](SimWorld& world) {
    with_file(world, kSize, [&](const File& file, const TcpStream& to, const TcpStream& at) {
      EXPECT_FALSE(timeout(1min, [&] { return net::copy(file, to); })) << "nobody reads";
      const std::uint64_t sent = position_of(file);
      EXPECT_GT(sent, 0U);
      EXPECT_LT(sent, kSize);
      std::string received;
      nursery([&](Nursery& n) {
        n.spawn([&] { received = read_all(at); });
        EXPECT_EQ(net::copy(file, to).value(), kSize - sent);
        ASSERT_TRUE(to.shutdown_write());
      });
      EXPECT_TRUE(received == pattern(kSize));
    });
  });
}

TEST_F(SimSocketTest, ACopyOfAFileFromADiskThatFails) {
  constexpr std::size_t kSize = 500'000;
  on_worlds([&](SimWorld& world) {
    world.net().set_link("server", "client", {.bandwidth = 10'000});
    with_file(world, kSize, [&](const File& file, const TcpStream& to, const TcpStream& at) {
      world.script().at(20s).fail_disk("server", EIO, 1).at(40s).fail_disk("server", EIO, 0);
      std::string received;
      nursery([&](Nursery& n) {
        n.spawn([&] { received = read_all(at); });
        EXPECT_EQ(net::copy(file, to).error(), std::errc::io_error);
        const std::uint64_t sent = position_of(file);
        EXPECT_GT(sent, 100'000U);
        EXPECT_LT(sent, kSize);
        sleep_for(40s);
        EXPECT_EQ(net::copy(file, to).value(), kSize - sent);
        ASSERT_TRUE(to.shutdown_write());
      });
      EXPECT_TRUE(received == pattern(kSize));
    });
  });
}

TEST_F(SimSocketTest, ACopyOfAFileToWhoHasGone) {
  on_worlds([](SimWorld& world) {
    with_file(world, 500'000, [&](const File& file, const TcpStream& to, const TcpStream&) {
      world.host("client").kill();
      const std::error_code error = net::copy(file, to).error();
      EXPECT_TRUE(error == std::errc::connection_reset || error == std::errc::broken_pipe)
          << error.message();
    });
  });
}

TEST_F(SimSocketTest, AFileIsCopiedToAPipe) {
  constexpr std::size_t kSize = 200'000;  // more than fits into it
  on_worlds([&](SimWorld&) {
    on("server", [&] {
      ASSERT_TRUE(write_file("/data", pattern(kSize)));
      const File file = File::open("/data").value();
      Pipe ends = pipe().value();
      EXPECT_FALSE(timeout(1min, [&] { return net::copy(file, ends.writer); })) << "nobody reads";
      const std::uint64_t sent = position_of(file);
      EXPECT_GT(sent, 0U);
      nursery([&](Nursery& n) {
        n.spawn([&] { EXPECT_TRUE(ends.reader.read_all().value() == pattern(kSize)); });
        EXPECT_EQ(net::copy(file, ends.writer).value(), kSize - sent);
        EXPECT_TRUE(ends.writer.close());
      });
    });
  });
}

// ── overload ────────────────────────────────────────────────────────────────────────────────────

// Sends a byte a second of a head that does not end, until it is hung up on: whether it was.
bool drips_until_hung_up_on() {
  const TcpStream peer = net::connect({"server", kPort}).value();
  for (int second = 0; second < 60; ++second) {
    if (!peer.write_all(std::string_view{"x"})) return true;
    std::string buffer(8, '\0');
    const auto heard = timeout(1s, [&] { return peer.read_some(bytes_of(buffer)); });
    if (heard) return !*heard || (*heard)->empty();
  }
  return false;
}

Duration time_of_a_request() {
  const Instant begun = Clock::now();
  const TcpStream peer = net::connect({"server", kPort}).value();
  EXPECT_TRUE(peer.write_all(std::string_view{"GET / HTTP/1.1\r\n\r\n"}));
  EXPECT_EQ(read_all(peer), "hello");
  return Clock::now() - begun;
}

// Whoever takes too long to ask is not waited for, and nobody else notices.
TEST_F(SimSocketTest, ADeadlineEndsThousandsOfSlowPeers) {
  static constexpr int kSlow = 5'000;
  const auto program = [](SimWorld&) {
    int hung_up_on = 0;
    Duration slowest{};
    on("server", [&] {
      net::TcpListener listener = listen_here();
      const auto handler = [](TcpStream peer) {
        net::BufferedReader reader{peer};
        const auto head = timeout(10s, [&] { return reader.read_until("\r\n\r\n"); });
        if (!head || !*head || !**head) return;
        EXPECT_TRUE(peer.write_all(std::string_view{"hello"}));
      };
      nursery([&](Nursery& n) {
        n.spawn("server", [&] { net::serve(listener, handler).value(); });
        on("client", [&] {
          nursery([&](Nursery& peers) {
            for (int i = 0; i < kSlow; ++i)
              peers.spawn([&, i] {
                sleep_for(i * 1ms);
                hung_up_on += drips_until_hung_up_on();
              });
            for (int i = 0; i < 40; ++i) {
              sleep_for(300ms);
              slowest = std::max(slowest, time_of_a_request());
            }
          });
        });
        listener.close().value();
      });
    });
    EXPECT_EQ(hung_up_on, kSlow);
    EXPECT_LT(slowest, 50ms);
  };
  on_worlds(program, 2);
}

}  // namespace
}  // namespace weft
