// What sockets, pipes and files promise, as tests that any engine with I/O can be run against.
//
//   const IoCase mine{.name = "MyIo", .make = [] { return make<MyIo>(); }};
//   INSTANTIATE_TEST_SUITE_P(Mine, IoConformance, ::testing::Values(mine), io_name_of);
//
// An engine is made anew for each test. After it no descriptor is open that was not before.
#pragma once

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <net/sockets.hpp>
#include <support/footprint.hpp>
#include <support/temp_dir.hpp>

namespace weft::conformance {

using AnyEngine = std::shared_ptr<Engine>;
template <class E, class... Options>
AnyEngine make(Options&&... options) {
  return std::make_shared<E>(std::forward<Options>(options)...);
}

struct IoPromises {
  bool takes_turns = true;  // a fiber that waits for a peer lets the peer run
  bool real_files = true;   // files are the machine's, and not a simulated disk's
};

struct IoCase {
  std::string name;
  std::function<AnyEngine()> make;
  IoPromises promises = {};
  // Empty: it works here. Else why not.
  std::function<std::string()> missing = [] { return std::string{}; };

  friend void PrintTo(const IoCase& one, std::ostream* out) { *out << one.name; }
};

inline std::string io_name_of(const ::testing::TestParamInfo<IoCase>& info) {
  return info.param.name;
}

class IoConformance : public ::testing::TestWithParam<IoCase> {
 protected:
  void SetUp() override {
    const std::string why = GetParam().missing();
    if (!why.empty()) GTEST_SKIP() << GetParam().name << ": " << why;
  }

  [[nodiscard]] static const IoPromises& promises() { return GetParam().promises; }
  template <class F>
  static void run(F&& f) {
    make_what_is_made_once();
    const std::size_t before = testing::descriptors_now();
    GetParam().make()->run(std::forward<F>(f));
    EXPECT_EQ(testing::descriptors_now(), before) << "left open";
  }
  // A file of this name where files can be.
  [[nodiscard]] std::string path_of(const std::string& name) const {
    return promises().real_files ? directory_ / name : "/" + name;
  }
  // Others that take turns with us have come to where they wait, unless they take long.
  static void let_others_wait() {
    for (int i = 0; i < 100; ++i) this_fiber::yield();
  }

  static constexpr auto kLong = std::chrono::hours{1};  // longer than a test may take

 private:
  static void make_what_is_made_once() {
    static const bool made = [] {
      GetParam().make()->run([] { static_cast<void>(net::connected()); });
      return true;
    }();
    static_cast<void>(made);
  }

  testing::TempDir directory_;
};

#define WEFT_IO_NEEDS(promise) \
  if (!promises().promise) GTEST_SKIP() << GetParam().name << " does not promise " #promise

// Says what was said, until the end.
inline void echo(const net::StreamSocket& peer) {
  std::array<std::byte, 4096> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    if (!peer.write_all(*got)) return;
  }
}

template <class Stream>
std::vector<std::byte> read_to_the_end(const Stream& stream, std::size_t at_once = 10'007) {
  std::vector<std::byte> all;
  std::vector<std::byte> buffer(at_once);
  for (;;) {
    const auto got = stream.read_some(buffer).value();
    if (got.empty()) return all;
    all.insert(all.end(), got.begin(), got.end());
  }
}

// ── connections ─────────────────────────────────────────────────────────────────────────────────

TEST_P(IoConformance, BothEndsKnowEachOther) {
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_EQ(ends.client.local_endpoint().value(), ends.server.peer_endpoint().value());
    EXPECT_EQ(ends.client.peer_endpoint().value(), ends.server.local_endpoint().value());
  });
}

TEST_P(IoConformance, EverybodyIsEchoed) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    const auto listener = net::listen({"127.0.0.1", 0}).value();
    std::atomic<int> content{0};
    race(
        [&] {
          nursery([&](Nursery& n) {
            while (auto peer = listener.accept())
              n.spawn([p = std::move(*peer)] { echo(p); });
          });
        },
        [&] {
          nursery([&](Nursery& n) {
            for (int i = 0; i < 20; ++i)
              n.spawn([&, i] {
                const auto stream = net::connect(listener.local_endpoint()).value();
                for (int round = 0; round < 5; ++round) {
                  const std::string said = std::to_string(i) + "/" + std::to_string(round);
                  std::vector<std::byte> heard(said.size());
                  if (!stream.write_all(said) || !stream.read_exactly(heard)) return;
                  if (net::text_of(heard) != said) return;
                }
                content.fetch_add(1);
              });
          });
        });
    EXPECT_EQ(content.load(), 20);
  });
}

// Whether connections are taken before they are asked for, nobody can tell.
TEST_P(IoConformance, AcceptingAheadMakesNoDifference) {
  run([] {
    auto listener = net::listen({"127.0.0.1", 0}).value();
    listener.accept_ahead();
    EXPECT_EQ(select(listener.on_acceptable(), otherwise()), 1U);
    std::vector<net::TcpStream> clients;
    for (int i = 0; i < 10; ++i)
      clients.push_back(net::connect(listener.local_endpoint()).value());
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(select(listener.on_acceptable(), after(kLong)), 0U);
      net::Endpoint from;
      const net::TcpStream server = listener.accept(from).value();
      EXPECT_EQ(from, server.peer_endpoint().value());
    }
    EXPECT_TRUE(listener.close());
    std::array<std::byte, 4> buffer{};
    for (const net::TcpStream& client : clients) {
      const auto got = client.read_some(buffer);
      EXPECT_TRUE(got ? got->empty() : got.error() == std::errc::connection_reset);
    }
  });
}

TEST_P(IoConformance, EverybodyIsServed) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    auto listener = net::listen({"127.0.0.1", 0}).value();
    std::atomic<int> content{0};
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(net::serve(listener, [](net::TcpStream peer) { echo(peer); })); });
      nursery([&](Nursery& clients) {
        for (int i = 0; i < 40; ++i)
          clients.spawn([&, i] {
            const auto stream = net::connect(listener.local_endpoint()).value();
            const std::string said = std::to_string(i);
            if (!stream.write_all(said)) return;
            if (net::read_text(stream, said.size()) == said) content.fetch_add(1);
          });
      });
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(content.load(), 40);
  });
}

TEST_P(IoConformance, NobodyListeningIsARefusal) {
  run([] {
    net::Endpoint nobody;
    {
      const auto listener = net::listen({"127.0.0.1", 0}).value();
      nobody = listener.local_endpoint();
    }
    EXPECT_EQ(net::connect(nobody).error(), std::errc::connection_refused);
  });
}

TEST_P(IoConformance, AnAddressIsTakenOnce) {
  run([] {
    auto listener = net::listen({"127.0.0.1", 0}).value();
    EXPECT_EQ(net::listen(listener.local_endpoint()).error(), std::errc::address_in_use);
    const net::Endpoint at = listener.local_endpoint();
    EXPECT_TRUE(listener.close());
    EXPECT_TRUE(net::listen(at));
  });
}

// ── streams ─────────────────────────────────────────────────────────────────────────────────────

TEST_P(IoConformance, HalfAConnectionGoesOn) {
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_TRUE(ends.client.write_all("last words"));
    EXPECT_TRUE(ends.client.shutdown_write());
    std::array<std::byte, 16> buffer{};
    EXPECT_EQ(net::text_of(ends.server.read_up_to(buffer).value()), "last words");
    EXPECT_TRUE(ends.server.read_some(buffer).value().empty()) << "the end stays the end";
    EXPECT_TRUE(ends.server.write_all("understood"));
    EXPECT_TRUE(ends.server.shutdown_write());
    EXPECT_EQ(net::text_of(ends.client.read_up_to(buffer).value()), "understood");
    EXPECT_EQ(ends.client.write_all("more").error(), std::errc::broken_pipe);
  });
}

TEST_P(IoConformance, ReadExactlyWantsAll) {
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_TRUE(ends.client.write_all("abcdefgh"));
    EXPECT_TRUE(ends.client.shutdown_write());
    std::array<std::byte, 6> buffer{};
    EXPECT_TRUE(ends.server.read_exactly(buffer));
    EXPECT_EQ(net::text_of(buffer), "abcdef");
    EXPECT_EQ(ends.server.read_exactly(buffer).error(), IoError::end_of_stream);
  });
}

TEST_P(IoConformance, PartsAreOneStream) {
  run([] {
    const net::Ends ends = net::connected();
    const std::array<std::span<const std::byte>, 3> said{
        net::bytes_of("one "), net::bytes_of(""), net::bytes_of("stream")};
    EXPECT_TRUE(ends.client.writev_all(said));
    EXPECT_TRUE(ends.client.shutdown_write());
    std::string heard;
    std::array<std::byte, 3> first{};
    std::array<std::byte, 4> second{};
    const std::array<std::span<std::byte>, 2> parts{first, second};
    while (const std::size_t count = ends.server.readv(parts).value())
      heard += (net::text_of(first) + net::text_of(second)).substr(0, count);
    EXPECT_EQ(heard, "one stream");
  });
}

TEST_P(IoConformance, MegabytesArriveWholeBothWaysAtOnce) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_TRUE(ends.client.set_send_buffer(8192));
    const std::vector<std::byte> to_server = net::pattern(2'000'000, 1);
    const std::vector<std::byte> to_client = net::pattern(1'500'000, 2);
    std::vector<std::byte> server_heard;
    std::vector<std::byte> client_heard;
    const auto talk = [](const net::TcpStream& stream, std::span<const std::byte> said) {
      EXPECT_TRUE(stream.write_all(said));
      EXPECT_TRUE(stream.shutdown_write());
    };
    nursery([&](Nursery& n) {
      n.spawn([&] { talk(ends.client, to_server); });
      n.spawn([&] { talk(ends.server, to_client); });
      n.spawn([&] { server_heard = read_to_the_end(ends.server); });
      n.spawn([&] { client_heard = read_to_the_end(ends.client); });
    });
    EXPECT_TRUE(server_heard == to_server);
    EXPECT_TRUE(client_heard == to_client);
  });
}

TEST_P(IoConformance, AResetIsAnErrorOfThatConnection) {
  run([] {
    const auto listener = net::listen({"127.0.0.1", 0}).value();
    const auto first = net::connect(listener.local_endpoint()).value();
    auto reset = listener.accept().value();
    const auto second = net::connect(listener.local_endpoint()).value();
    const auto other = listener.accept().value();
    EXPECT_TRUE(reset.set_linger(std::chrono::seconds{0}));
    EXPECT_TRUE(reset.close());
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(first.read_some(buffer).error(), std::errc::connection_reset);
    EXPECT_EQ(first.write_all("x").error(), std::errc::broken_pipe);
    EXPECT_TRUE(second.write_all("y"));
    EXPECT_EQ(net::text_of(other.read_some(buffer).value()), "y");
  });
}

TEST_P(IoConformance, AWriterWhosePeerGoesIsWoken) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    net::Ends ends = net::connected();
    const std::vector<std::byte> much = net::pattern(65'536);
    std::error_code error;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        while (!error) error = ends.client.write_all(much).error();
      });
      let_others_wait();
      EXPECT_TRUE(ends.server.close()) << "with bytes unread, so that it is reset";
    });
    EXPECT_TRUE(error == std::errc::connection_reset || error == std::errc::broken_pipe)
        << error.message();
  });
}

// ── closing ─────────────────────────────────────────────────────────────────────────────────────

TEST_P(IoConformance, CallsAfterCloseFail) {
  run([] {
    net::Ends ends = net::connected();
    auto listener = net::listen({"127.0.0.1", 0}).value();
    EXPECT_TRUE(ends.client.close());
    EXPECT_TRUE(listener.close());
    EXPECT_TRUE(ends.client.close()) << "idempotent";
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(ends.client.read_some(buffer).error(), IoError::closed);
    EXPECT_EQ(ends.client.write_all("x").error(), IoError::closed);
    EXPECT_EQ(listener.accept().error(), IoError::closed);
    EXPECT_EQ(select(ends.client.on_readable(), otherwise()), 0U) << "a read would not wait";
    EXPECT_TRUE(ends.server.read_some(buffer).value().empty());
  });
}

TEST_P(IoConformance, CloseWakesWhoReadsWritesAndAccepts) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    net::Ends ends = net::connected();
    auto listener = net::listen({"127.0.0.1", 0}).value();
    const std::vector<std::byte> much = net::pattern(65'536);
    std::atomic<int> closed{0};
    const auto expect_closed = [&](std::error_code error) {
      EXPECT_EQ(error, IoError::closed);
      closed.fetch_add(1);
    };
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          std::array<std::byte, 4> buffer{};
          expect_closed(ends.client.read_some(buffer).error());
        });
      n.spawn([&] {
        std::error_code error;
        while (!error) error = ends.client.write_all(much).error();
        expect_closed(error);
      });
      for (int i = 0; i < 2; ++i) n.spawn([&] { expect_closed(listener.accept().error()); });
      n.spawn([&] {
        select(ends.client.on_readable(), after(kLong));
        closed.fetch_add(1);
      });
      let_others_wait();
      EXPECT_TRUE(ends.client.close());
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(closed.load(), 7);
  });
}

// ── cancelling ──────────────────────────────────────────────────────────────────────────────────

TEST_P(IoConformance, ATimeoutAroundAReadLosesNothing) {
  run([] {
    const net::Ends ends = net::connected();
    std::array<std::byte, 16> buffer{};
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(timeout(std::chrono::microseconds{i * 10}, [&] {
        static_cast<void>(ends.server.read_some(buffer));
      }));
    }
    EXPECT_TRUE(ends.client.write_all("still there"));
    EXPECT_TRUE(ends.client.shutdown_write());
    EXPECT_EQ(net::text_of(ends.server.read_up_to(buffer).value()), "still there");
  });
}

TEST_P(IoConformance, TimeoutsWhileBytesComeLoseNothing) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    const net::Ends ends = net::connected();
    const std::vector<std::byte> said = net::pattern(20'000);
    std::vector<std::byte> heard;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (std::span<const std::byte> rest = said; !rest.empty();) {
          const std::size_t count = std::min<std::size_t>(rest.size(), 97);
          EXPECT_TRUE(ends.client.write_all(rest.first(count)));
          rest = rest.subspan(count);
          sleep_for(std::chrono::microseconds{rest.size() % 40});
        }
        EXPECT_TRUE(ends.client.shutdown_write());
      });
      std::array<std::byte, 64> buffer{};
      for (bool ended = false; !ended;)
        static_cast<void>(timeout(std::chrono::microseconds{1 + heard.size() % 50}, [&] {
          const auto got = ends.server.read_some(buffer).value();
          heard.insert(heard.end(), got.begin(), got.end());
          ended = got.empty();
        }));
    });
    EXPECT_TRUE(heard == said);
  });
}

TEST_P(IoConformance, ACancelledAcceptTakesNoConnection) {
  run([] {
    const auto listener = net::listen({"127.0.0.1", 0}).value();
    for (int i = 0; i < 5; ++i)
      EXPECT_FALSE(timeout(std::chrono::microseconds{50}, [&] {
        static_cast<void>(listener.accept());
      }));
    const auto client = net::connect(listener.local_endpoint()).value();
    const auto server = listener.accept().value();
    EXPECT_TRUE(client.write_all("x"));
    std::array<std::byte, 1> buffer{};
    EXPECT_TRUE(server.read_exactly(buffer));
  });
}

TEST_P(IoConformance, InACancelledScopeNothingIsDone) {
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_TRUE(ends.client.write_all("x"));
    std::array<std::byte, 4> buffer{};
    cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      EXPECT_THROW(static_cast<void>(ends.server.read_some(buffer)), Cancelled);
      EXPECT_THROW(static_cast<void>(ends.server.write_all("y")), Cancelled);
    });
    EXPECT_EQ(net::text_of(ends.server.read_some(buffer).value()), "x");
    EXPECT_TRUE(ends.server.shutdown_write());
    EXPECT_TRUE(ends.client.read_some(buffer).value().empty());
  });
}

// ── arms ────────────────────────────────────────────────────────────────────────────────────────

TEST_P(IoConformance, SelectOverReadinessAndAChannel) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    const net::Ends ends = net::connected();
    Channel<int> orders{1};
    static constexpr int kEach = 50;
    int read = 0;
    int received = 0;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < kEach; ++i) {
          EXPECT_TRUE(ends.client.write_all("x"));
          this_fiber::yield();
        }
      });
      n.spawn([tx = orders.tx] {
        for (int i = 0; i < kEach; ++i) EXPECT_TRUE(tx.send(i));
      });
      std::array<std::byte, 1> buffer{};
      while (read < kEach || received < kEach) {
        auto order = orders.rx.on_recv();
        if (select(ends.server.on_readable(), order) == 0) {
          ASSERT_EQ(ends.server.read_some(buffer).value().size(), 1U);
          ++read;
        } else {
          ASSERT_EQ(order.value(), received++);
        }
      }
    });
    EXPECT_EQ(select(ends.server.on_readable(), otherwise()), 1U) << "nothing is left";
  });
}

// A regression: what had been read by then still completed the arm, and the next read hung. An edge
// that another worker was about to tell of may come after the read that took its byte, once.
TEST_P(IoConformance, WhatHasBeenReadIsNotReadable) {
  run([] {
    const net::Ends ends = net::connected();
    std::array<std::byte, 8> buffer{};
    const auto is_readable = [&] {
      return select(ends.server.on_readable(), after(std::chrono::microseconds{100})) == 0;
    };
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(is_readable() && (i == 0 || is_readable()));
      EXPECT_TRUE(ends.client.write_all("x"));
      ASSERT_EQ(ends.server.read_some(buffer).value().size(), 1U);
    }
  });
}

TEST_P(IoConformance, AnArmThatLosesTakesNothing) {
  run([] {
    const net::Ends ends = net::connected();
    EXPECT_EQ(select(ends.server.on_readable(), after(std::chrono::milliseconds{1})), 1U);
    EXPECT_EQ(select(ends.client.on_writable(), after(kLong)), 0U);
    EXPECT_TRUE(ends.client.write_all("ab"));
    EXPECT_EQ(select(ends.server.on_readable(), after(kLong)), 0U);
    std::array<std::byte, 1> buffer{};
    EXPECT_TRUE(ends.server.read_exactly(buffer));
    EXPECT_EQ(select(ends.server.on_readable(), after(kLong)), 0U) << "there is another byte";
    EXPECT_TRUE(ends.server.read_exactly(buffer));
    EXPECT_EQ(net::text_of(buffer), "b");
  });
}

// ── datagrams, Unix sockets, pipes, files ───────────────────────────────────────────────────────

TEST_P(IoConformance, DatagramsComeWholeAndWithTheirSender) {
  run([] {
    const auto one = net::UdpSocket::bind({"127.0.0.1", 0}).value();
    const auto other = net::UdpSocket::bind({"127.0.0.1", 0}).value();
    const net::Endpoint to = other.local_endpoint().value();
    std::array<std::byte, 64> buffer{};
    for (int i = 0; i < 10; ++i) {
      const std::string said(static_cast<std::size_t>(i), 'x');
      EXPECT_TRUE(one.send_to(net::bytes_of(said), to));
      const net::Datagram got = other.recv_from(buffer).value();
      EXPECT_EQ(net::text_of(got.bytes), said);
      EXPECT_EQ(got.from, one.local_endpoint().value());
      EXPECT_FALSE(got.truncated);
    }
    EXPECT_FALSE(timeout(std::chrono::milliseconds{1}, [&] {
      static_cast<void>(other.recv_from(buffer));
    }));
  });
}

TEST_P(IoConformance, UnixSocketsByNameAndInPairs) {
  const std::string path = path_of("socket");
  run([&] {
    const std::string abstract = "@weft-" + std::to_string(this_fiber::id()) + path;
    for (const std::string& name : {path, abstract}) {
      const auto listener = net::UnixListener::listen(name).value();
      const auto client = net::UnixStream::connect(name).value();
      const auto server = listener.accept().value();
      EXPECT_TRUE(client.write_all("hello"));
      EXPECT_TRUE(client.shutdown_write());
      EXPECT_EQ(net::text_of(read_to_the_end(server)), "hello");
    }
    const auto [one, other] = net::UnixStream::pair().value();
    EXPECT_TRUE(one.write_all("x"));
    std::array<std::byte, 4> buffer{};
    EXPECT_EQ(net::text_of(other.read_some(buffer).value()), "x");
  });
}

TEST_P(IoConformance, PipesCarryMoreThanTheyHold) {
  WEFT_IO_NEEDS(takes_turns);
  run([] {
    Pipe through = pipe().value();
    const std::vector<std::byte> said = net::pattern(1'000'000);
    std::string heard;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(through.writer.write_all(said));
        EXPECT_TRUE(through.writer.close());
      });
      heard = through.reader.read_all().value();
    });
    EXPECT_TRUE(heard == net::text_of(said));
  });
}

TEST_P(IoConformance, PipesEnd) {
  run([] {
    auto [reader, writer] = pipe().value();
    EXPECT_TRUE(writer.write_all("x"));
    EXPECT_TRUE(writer.close());
    EXPECT_EQ(reader.read_all().value(), "x");
    auto [nobody, into] = pipe().value();
    EXPECT_TRUE(nobody.close());
    EXPECT_EQ(into.write_all("x").error(), std::errc::broken_pipe);
  });
}

TEST_P(IoConformance, FilesHoldWhatWasWritten) {
  const std::string path = path_of("file");
  run([&] {
    const std::vector<std::byte> said = net::pattern(300'000);
    {
      const auto file = File::open(path, {.read = true, .write = true, .create = true}).value();
      EXPECT_TRUE(file.write_all(said));
      EXPECT_TRUE(file.write_at("begin", 0));
      EXPECT_TRUE(file.sync());
      EXPECT_EQ(file.size().value(), said.size());
      std::array<std::byte, 5> buffer{};
      EXPECT_EQ(net::text_of(file.read_at(buffer, 0).value()), "begin");
      EXPECT_TRUE(file.read_at(buffer, said.size()).value().empty());
    }
    const std::string all = read_file(path).value();
    EXPECT_TRUE(all.substr(5) == net::text_of(said).substr(5));
    EXPECT_TRUE(write_file(path, "anew", {.atomic = true}));
    EXPECT_EQ(read_file(path).value(), "anew");
    EXPECT_TRUE(remove(path));
    EXPECT_EQ(read_file(path).error(), std::errc::no_such_file_or_directory);
  });
}

}  // namespace weft::conformance
