// The simulated network: programs that use weft's own sockets, on hosts that are not there.
#include <weft/sim_world.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/event.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <sim/sim_net.hpp>
#include <support/engines.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using net::TcpListener;
using net::TcpStream;
using ::testing::HasSubstr;

void echo(const TcpStream& stream) {
  std::string buffer(1000, '\0');
  for (;;) {
    const auto got = stream.read_some(bytes_of(buffer));
    if (!got || got->empty()) return;
    if (!stream.write_all(*got)) return;
  }
}

TEST_F(SimNetTest, BytesGoThereAndBackAndTakeTheirTime) {
  on_worlds([](SimWorld& world) {
    world.net().set_link("server", "client", {.latency = {1ms, 3ms}});
    const std::string sent = pattern(100'000);
    nursery([&](Nursery& n) {
      Event ready;
      n.spawn([&] {
        on("server", [&] {
          const TcpListener listener = listen_here();
          ready.set();
          echo(listener.accept().value());
        });
      });
      ready.wait();
      const Instant begin = Clock::now();
      on("client", [&] {
        const TcpStream stream = net::connect({"server", kPort}).value();
        EXPECT_GE(Clock::now() - begin, 2ms);
        EXPECT_EQ(stream.peer_endpoint().value().host(), world.host("server").address());
        EXPECT_EQ(stream.local_endpoint().value().host(), world.host("client").address());
        std::string received;
        nursery([&](Nursery& m) {
          m.spawn([&] { received = read_all(stream); });
          ASSERT_TRUE(stream.write_all(sent));
          ASSERT_TRUE(stream.shutdown_write());
        });
        EXPECT_EQ(received, sent);
      });
      EXPECT_GE(Clock::now() - begin, 4ms);
      EXPECT_LT(Clock::now() - begin, 1s);
    });
  });
}

TEST_F(SimNetTest, NobodyListensOrNobodyIsThere) {
  on_worlds([](SimWorld& world) {
    const Instant begin = Clock::now();
    EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::connection_refused);
    EXPECT_GT(Clock::now(), begin);
    EXPECT_EQ(net::connect({"10.0.77.7", kPort}).error(), std::errc::host_unreachable);
    EXPECT_EQ(net::connect({"192.0.2.1", kPort}).error(), std::errc::network_unreachable);
    EXPECT_EQ(net::connect({"nowhere", kPort}).error(), net::ResolveError::host_not_found);
    // What listens on 127.0.0.1 is for its own host.
    world.host("server").run([&] {
      const TcpListener own = net::listen({"127.0.0.1", kPort}).value();
      EXPECT_TRUE(net::connect({"localhost", kPort}));
      EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::connection_refused);
      on("client", [] {
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::connection_refused);
      });
    });
  });
}

TEST_F(SimNetTest, ListenerForBothFamilies) {
  on_worlds([](SimWorld&) {
    on("server", [] {
      const TcpListener listener = net::listen({"::", kPort}).value();
      EXPECT_EQ(net::listen({"0.0.0.0", kPort}).error(), std::errc::address_in_use);
      on("client", [&] {
        const auto four = net::connect({"server", kPort}, {.family = net::Family::ipv4});
        const auto six = net::connect({"server", kPort}, {.family = net::Family::ipv6});
        ASSERT_TRUE(four && six);
        net::Endpoint peer;
        ASSERT_TRUE(listener.accept(peer));
        EXPECT_EQ(peer.unmapped(), four->local_endpoint().value());
        ASSERT_TRUE(listener.accept(peer));
        EXPECT_EQ(peer, six->local_endpoint().value());
      });
    });
  });
}

TEST_F(SimNetTest, FullBacklogMakesWhoConnectsWait) {
  on_worlds([](SimWorld&) {
    on("server", [] {
      const TcpListener listener = listen_here({.backlog = 0});
      on("client", [&] {
        const auto first = net::connect({"server", kPort});
        ASSERT_TRUE(first);
        EXPECT_EQ(net::connect({"server", kPort}, {.timeout = 10s}).error(), std::errc::timed_out);
        nursery([&](Nursery& n) {
          n.spawn([&] {
            sleep_for(5s);
            EXPECT_TRUE(listener.accept());
          });
          EXPECT_TRUE(net::connect({"server", kPort}, {.timeout = 10s}));
        });
      });
    });
  });
}

TEST_F(SimNetTest, WhoDoesNotReadStopsTheWriter) {
  on_worlds([](SimWorld&) {
    nursery([&](Nursery& n) {
      Event ready, read_now;
      std::size_t received = 0;
      n.spawn([&] {
        on("server", [&] {
          const TcpListener listener = listen_here();
          ready.set();
          const TcpStream stream = listener.accept().value();
          read_now.wait();
          received = read_all(stream).size();
        });
      });
      ready.wait();
      on("client", [&] {
        const TcpStream stream = net::connect({"server", kPort}).value();
        ASSERT_TRUE(stream.set_send_buffer(8192));
        const std::string piece = pattern(5000);
        std::size_t sent = 0;
        timeout(1min, [&] {
          for (;;) sent += stream.write_some(bytes_of(piece)).value();
        });
        EXPECT_GE(sent, 128U << 10);
        EXPECT_LE(sent, (128U << 10) + 16384);
        read_now.set();
        timeout(1min, [&] {
          for (int i = 0; i < 100; ++i) sent += stream.write_some(bytes_of(piece)).value();
        });
        ASSERT_TRUE(stream.shutdown_write());
        std::string none(1, '\0');
        EXPECT_EQ(stream.read_some(bytes_of(none)).value().size(), 0U);
        EXPECT_EQ(received, sent);
      });
    });
  });
}

TEST_F(SimNetTest, ClosingWithBytesUnreadResets) {
  on_worlds([](SimWorld&) {
    on("server", [] {
      const TcpListener listener = listen_here();
      TcpStream client = net::connect({"127.0.0.1", kPort}).value();
      TcpStream accepted = listener.accept().value();
      ASSERT_TRUE(client.write_all("unwanted"));
      auto readable = accepted.on_readable();
      wait(readable);
      ASSERT_TRUE(accepted.close());
      std::error_code error;
      EXPECT_EQ(read_all(client, &error), "");
      EXPECT_EQ(error, std::errc::connection_reset);
      EXPECT_EQ(client.write_all("more").error(), std::errc::broken_pipe);

      client = net::connect({"127.0.0.1", kPort}).value();
      accepted = listener.accept().value();
      ASSERT_TRUE(accepted.set_linger(0s));
      ASSERT_TRUE(accepted.close());
      EXPECT_EQ(read_all(client, &error), "");
      EXPECT_EQ(error, std::errc::connection_reset);
    });
  });
}

TEST_F(SimNetTest, WritingToWhoHasClosedFails) {
  on_worlds([](SimWorld&) {
    on("server", [] {
      const TcpListener listener = listen_here();
      const TcpStream client = net::connect({"127.0.0.1", kPort}).value();
      ASSERT_TRUE(listener.accept().value().close());
      EXPECT_EQ(read_all(client), "");  // it ended in order
      std::error_code error;
      while (!error) error = client.write_all("x").error(), this_fiber::yield(), sleep_for(1us);
      EXPECT_TRUE(error == std::errc::connection_reset || error == std::errc::broken_pipe);
    });
  });
}

TEST_F(SimNetTest, TransfersAreShort) {
  std::size_t short_ones = 0;
  on_worlds([&](SimWorld& world) {
    world.net().set_short_transfers(1);
    on("server", [&] {
      const TcpListener listener = listen_here();
      const TcpStream client = net::connect({"127.0.0.1", kPort}).value();
      const TcpStream accepted = listener.accept().value();
      const std::string sent = pattern(1000);
      short_ones += client.write_some(bytes_of(sent)).value() < sent.size() ? 1U : 0U;
      ASSERT_TRUE(client.write_all(sent));
      ASSERT_TRUE(client.shutdown_write());
      const std::string received = read_all(accepted);
      EXPECT_EQ(received.substr(received.size() - 1000), sent);
    });
  });
  EXPECT_GT(short_ones, 40U);
}

TEST_F(SimNetTest, BandwidthAndSlowPeers) {
  on_worlds([](SimWorld& world) {
    nursery([&](Nursery& n) {
      Event ready;
      n.spawn([&] {
        on("server", [&] {
          const TcpListener listener = listen_here();
          ready.set();
          for (int i = 0; i < 2; ++i) echo(listener.accept().value());
        });
      });
      ready.wait();
      on("client", [&] {
        const auto transfer = [](std::size_t bytes) {
          const Instant begin = Clock::now();
          const TcpStream stream = net::connect({"server", kPort}).value();
          nursery([&](Nursery& m) {
            m.spawn([&] { EXPECT_EQ(read_all(stream).size(), bytes); });
            EXPECT_TRUE(stream.write_all(pattern(bytes)) && stream.shutdown_write());
          });
          return Clock::now() - begin;
        };
        world.net().set_link_one_way("client", "server", {.bandwidth = 100'000});
        const Duration slow = transfer(300'000);
        EXPECT_GT(slow, 3s);
        EXPECT_LT(slow, 6s);
        world.net().set_link("client", "server", {});
        world.net().slow_down("server", 100ms);
        EXPECT_GT(transfer(1), 400ms);  // twice there and back
      });
    });
  });
}

TEST_F(SimNetTest, PortsRunOut) {
  on_worlds([](SimWorld& world) {
    world.net().set_ports("client", 40'000, 40'002);
    on("server", [&] {
      const TcpListener listener = listen_here();
      EXPECT_EQ(net::listen({"0.0.0.0", kPort}).error(), std::errc::address_in_use);
      EXPECT_EQ(net::listen({world.host("client").address(), 1}).error(),
                std::errc::address_not_available);
      on("client", [&] {
        std::vector<TcpStream> streams;
        for (int i = 0; i < 3; ++i) streams.push_back(net::connect({"server", kPort}).value());
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::address_not_available);
        streams.clear();
        for (int i = 0; i < 3; ++i) EXPECT_EQ(read_all(listener.accept().value()), "");
        sleep_for(1s);
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::address_not_available);
        sleep_for(1min);
        EXPECT_TRUE(net::connect({"server", kPort}));
      });
    });
  });
}

TEST_F(SimNetTest, DescriptorsRunOut) {
  on_worlds([](SimWorld& world) {
    world.net().set_descriptors_max("client", 3);
    on("server", [&] {
      const TcpListener listener = listen_here();
      on("client", [&] {
        std::vector<TcpStream> streams;
        for (int i = 0; i < 3; ++i) streams.push_back(net::connect({"server", kPort}).value());
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::too_many_files_open);
        streams.pop_back();
        EXPECT_TRUE(net::connect({"server", kPort}));
      });
    });
  });
}

TEST_F(SimNetTest, WhatAPartitionHoldsUpArrivesWhenItHeals) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      const Instant begin = Clock::now();
      world.script().at(10s).heal();
      world.net().partition("server", "client");
      ASSERT_TRUE(client.write_all("late"));
      std::string got(4, '\0');
      ASSERT_TRUE(server.read_exactly(bytes_of(got)));
      EXPECT_EQ(got, "late");
      EXPECT_GE(Clock::now() - begin, 10s);
      EXPECT_LT(Clock::now() - begin, 11s);
      // And so does a connection that is being made.
      world.script().at(10s).heal("server", "client");
      world.net().isolate("server");
      world.host("server").run([&] {
        const TcpListener listener = net::listen({"0.0.0.0", 1}).value();
        on("client", [&] { EXPECT_TRUE(net::connect({"server", 1})); });
      });
      EXPECT_GE(Clock::now() - begin, 20s);
    });
  });
}

TEST_F(SimNetTest, APartitionThatStaysEndsConnections) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream&) {
      world.net().partition("server", "client");
      const Instant begin = Clock::now();
      ASSERT_TRUE(client.write_all("lost"));
      std::string got(4, '\0');
      EXPECT_EQ(client.read_exactly(bytes_of(got)).error(), std::errc::timed_out);
      EXPECT_GE(Clock::now() - begin, 15min);
      on("client", [] {
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::timed_out);
      });
      EXPECT_GE(Clock::now() - begin, 15min + 127s);
    });
  });
}

TEST_F(SimNetTest, APartitionOneWay) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      world.net().partition_one_way("server", "client");
      std::string got(2, '\0');
      ASSERT_TRUE(client.write_all("hi"));
      ASSERT_TRUE(server.read_exactly(bytes_of(got)));  // arrives, though nobody hears of it
      ASSERT_TRUE(server.write_all("yo"));
      EXPECT_FALSE(timeout(1min, [&] { return client.read_exactly(bytes_of(got)); }));
      world.net().heal();
      ASSERT_TRUE(client.read_exactly(bytes_of(got)));
      EXPECT_EQ(got, "yo");
    });
  });
}

TEST_F(SimNetTest, ResetByPartitionAndByChance) {
  on_worlds([](SimWorld& world) {
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      world.net().set_reset_by_partition(1);
      world.net().partition("server", "client");
      world.net().heal();
      std::error_code error;
      read_all(client, &error);
      EXPECT_EQ(error, std::errc::connection_reset);
      error = {};
      read_all(server, &error);
      EXPECT_EQ(error, std::errc::connection_reset);
    });
    world.net().set_link("server", "client", {.reset_probability = 1});
    with_connection(world, [&](const TcpStream& client, const TcpStream& server) {
      std::error_code error;
      ASSERT_TRUE(client.write_all("x"));
      read_all(server, &error);
      EXPECT_EQ(error, std::errc::connection_reset);
    });
  });
}

TEST_F(SimNetTest, ACrashIsSilentUntilTheHostIsUpAgain) {
  on_worlds([](SimWorld& world) {
    const SimHost server = world.host("server");
    bool was_cancelled = false;
    int starts = 0;
    nursery([&](Nursery& n) {
      server.spawn_service(n, [&] {
        ++starts;
        try {
          const TcpListener listener = listen_here();
          for (;;) {
            const TcpStream stream = listener.accept().value();
            echo(stream);
          }
        } catch (const Cancelled&) {
          was_cancelled = true;
          throw;
        }
      });
      on("client", [&] {
        sleep_for(1s);
        const TcpStream stream = net::connect({"server", kPort}).value();
        std::string got(2, '\0');
        ASSERT_TRUE(stream.write_all("hi") && stream.read_exactly(bytes_of(got)));
        server.crash();
        EXPECT_FALSE(server.is_up());
        sleep_for(1s);
        EXPECT_TRUE(was_cancelled);
        ASSERT_TRUE(stream.write_all("anybody?"));
        EXPECT_FALSE(timeout(10s, [&] { return stream.read_exactly(bytes_of(got)); }));
        EXPECT_FALSE(server.run([] { ADD_FAILURE() << "a host that is down runs nothing"; }));
        server.restart();
        EXPECT_EQ(stream.read_exactly(bytes_of(got)).error(), std::errc::connection_reset);
        sleep_for(1s);
        const auto again = net::connect({"server", kPort});
        ASSERT_TRUE(again);
        ASSERT_TRUE(again->write_all("hi") && again->read_exactly(bytes_of(got)));
      });
      EXPECT_EQ(starts, 2);
      n.cancel();
    });
  });
}

TEST_F(SimNetTest, AKilledProgramSaysGoodbye) {
  on_worlds([](SimWorld& world) {
    const SimHost server = world.host("server");
    nursery([&](Nursery& n) {
      server.spawn(n, [&] {
        const TcpListener listener = listen_here();
        const TcpStream stream = listener.accept().value();
        Event{}.wait();
      });
      on("client", [&] {
        sleep_for(1s);
        const TcpStream stream = net::connect({"server", kPort}).value();
        world.script().at(1s).kill("server");
        EXPECT_EQ(read_all(stream), "");
        EXPECT_TRUE(server.is_up());
        EXPECT_EQ(net::connect({"server", kPort}).error(), std::errc::connection_refused);
      });
    });
  });
}

TEST_F(SimNetTest, DatagramsAreLostDoubledAndReordered) {
  std::size_t lost = 0, doubled = 0, reordered = 0;
  on_worlds([&](SimWorld& world) {
    world.net().set_link("server", "client",
                         {.loss = 0.2, .duplication = 0.2, .reordering = 0.2});
    on("server", [&] {
      const auto server = net::UdpSocket::bind({"0.0.0.0", kPort}).value();
      on("client", [&] {
        const auto client = net::UdpSocket::bind({"0.0.0.0", 0}).value();
        for (std::uint8_t i = 0; i < 50; ++i) {
          const std::array message{std::byte{i}};
          ASSERT_TRUE(client.send_to(message, {"server", kPort}));
          sleep_for(10us);
        }
        const auto from = net::Endpoint{world.host("client").address(), client.port()};
        std::vector<int> got;
        std::array<std::byte, 10> buffer{};
        timeout(1s, [&] {
          for (;;) {
            const auto datagram = server.recv_from(buffer).value();
            EXPECT_EQ(datagram.from, from);
            EXPECT_EQ(datagram.bytes.size(), 1U);
            got.push_back(static_cast<int>(buffer[0]));
          }
        });
        const std::set<int> unique{got.begin(), got.end()};
        lost += 50 - unique.size();
        doubled += got.size() - unique.size();
        reordered += std::is_sorted(got.begin(), got.end()) ? 0U : 1U;
      });
    });
  });
  EXPECT_GT(lost, 250U);
  EXPECT_LT(lost, 750U);
  EXPECT_GT(doubled, 200U);
  EXPECT_GT(reordered, 40U);
}

TEST_F(SimNetTest, UnixSocketsAreOfOneHost) {
  on_worlds([](SimWorld& world) {
    on("server", [&] {
      for (const char* const name : {"/tmp/socket", "@abstract"}) {
        const auto listener = net::UnixListener::listen(name).value();
        const auto client = net::UnixStream::connect(name).value();
        const auto accepted = listener.accept().value();
        std::string got(5, '\0');
        ASSERT_TRUE(client.write_all("hello"));
        ASSERT_TRUE(accepted.read_exactly(bytes_of(got)));
        EXPECT_EQ(got, "hello");
        on("client", [&] { EXPECT_FALSE(net::UnixStream::connect(name)); });
      }
      EXPECT_EQ(net::UnixListener::listen("/tmp/socket").error(), std::errc::address_in_use);
      EXPECT_TRUE(net::UnixListener::listen("/tmp/socket", {.remove_stale = true}));
    });
    static_cast<void>(world);
  });
}

TEST_F(SimNetTest, WhoWaitsForNobodyIsDeadlocked) {
  SimIo io;
  try {
    io.run([&] {
      with_connection(io.world(), [](const TcpStream& client, const TcpStream&) {
        std::string got(1, '\0');
        static_cast<void>(client.read_exactly(bytes_of(got)));
      });
    });
    FAIL() << "nobody writes";
  } catch (const Deadlock& deadlock) {
    EXPECT_THAT(deadlock.what(), HasSubstr("tcp read"));
  }
}

// Everything at once, to be compared with itself.
void busy_program(SimWorld& world) {
  world.net().set_default_link(
      {.latency = {1ms, 20ms}, .bandwidth = 1'000'000, .reset_probability = 0.01});
  world.net().set_reset_by_partition(0.3);
  world.script().at(100ms).partition("server", "client").at(300ms).heal();
  world.script().at(500ms).crash("server").at(700ms).restart("server");
  nursery([&](Nursery& n) {
    world.host("server").spawn_service(n, [] {
      const TcpListener listener = listen_here();
      nursery({.on_error = ErrorPolicy::supervise}, [&](Nursery& all) {
        for (;;) {
          auto stream = listener.accept();
          if (!stream) return;
          all.spawn([peer = std::move(*stream)] { echo(peer); });
        }
      });
    });
    world.host("client").run([&] {
      nursery([&](Nursery& clients) {
        for (int i = 0; i < 4; ++i)
          clients.spawn([] {
            for (int k = 0; k < 10; ++k) {
              const auto stream = net::connect({"server", kPort}, {.timeout = 200ms});
              if (!stream) continue;
              timeout(200ms, [&] {
                std::string text = pattern(3000);
                if (!stream->write_all(text)) return;
                static_cast<void>(stream->read_exactly(bytes_of(text)));
              });
            }
          });
      });
    });
    n.cancel();
  });
}

TEST_F(SimNetTest, TheSameSeedIsTheSameRun) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto run = [&](const SimOptions& options) {
      SimIo io{options};
      SimWorld& world = io.world();
      world.host("server"), world.host("client");
      io.run([&] { busy_program(world); });
      EXPECT_EQ(world.descriptors(), 0U);
      return std::pair{io.trace_hash(), io.schedule()};
    };
    const auto first = run({.seed = seed, .preempt = seed % 2 != 0});
    EXPECT_EQ(first, run({.seed = seed, .preempt = seed % 2 != 0}));
    EXPECT_EQ(first, run({.replay = first.second, .strict_replay = true}));
    hashes.insert(first.first);
  }
  EXPECT_EQ(hashes.size(), 20U);
}

TEST_F(SimNetTest, NonsenseIsRefused) {
  SimIo io;
  SimWorld& world = io.world();
  world.host("a");
  EXPECT_THROW(world.host(""), std::invalid_argument);
  EXPECT_THROW(world.net().partition("a", "typo"), std::invalid_argument);
  EXPECT_THROW(world.script().at(1s).crash("typo"), std::invalid_argument);
  EXPECT_THROW(world.net().set_link("a", "a", {.loss = 1.5}), std::invalid_argument);
  EXPECT_THROW(world.net().set_link("a", "a", {.latency = {2ms, 1ms}}), std::invalid_argument);
  EXPECT_THROW(world.net().set_ports("a", 5, 4), std::invalid_argument);
  EXPECT_THROW(world.disk("a").fail_with(0, 1), std::invalid_argument);
  EXPECT_THROW(sim_world(), std::logic_error);
}

TEST_F(SimNetTest, DescriptorsMayOutliveTheirWorld) {
  std::optional<TcpStream> client, server;
  {
    SimIo io;
    SimWorld& world = io.world();
    io.run([&] {
      const TcpListener listener = listen_here();
      client = net::connect({"localhost", kPort}).value();
      server = listener.accept().value();
    });
    EXPECT_EQ(world.descriptors(), 2U);
  }
  client.reset();
  server.reset();
}

// Bytes and end have come before the connection is accepted, and so before it is watched.
TEST_F(SimNetTest, WhoAcceptsLateStillFindsTheEnd) {
  on_worlds([](SimWorld&) {
    nursery([&](Nursery& n) {
      Event& ready = n.make<Event>();
      n.spawn([&] {
        on("server", [&] {
          const TcpListener listener = listen_here();
          ready.set();
          sleep_for(1s);
          EXPECT_EQ(read_all(listener.accept().value()), "hi");
        });
      });
      ready.wait();
      on("client", [] {
        TcpStream stream = net::connect({"server", kPort}).value();
        EXPECT_TRUE(stream.write_all("hi"));
        EXPECT_TRUE(stream.close());
      });
    });
  });
}

}  // namespace
}  // namespace weft
