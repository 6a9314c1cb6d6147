// Sockets over a kernel that makes faults: bytes stay in order and whole, what a fault ends is what
// it hit, and nothing is left behind.
#include <weft/net.hpp>

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>
#include <support/faulty_kernel.hpp>
#include <support/footprint.hpp>
#include <support/frames.hpp>
#include <support/temp_dir.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::FaultyKernel;
using testing::Faults;
using testing::let_others_block;
using Fault = FaultyKernel::Fault;

constexpr std::uint64_t kSeeds = testing::kSeeds;

class FaultsTest : public ::testing::TestWithParam<ReactorKind> {
 protected:
  using Program = std::function<void(FaultyKernel&)>;

  void SetUp() override {
    try {
      const FiberIo io{{.workers = 1, .reactor = GetParam()}};
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Once for each seed, on one worker and on two in turn; no descriptor and no fiber is left then.
  // How often there was `expected` in all.
  static std::uint64_t on_seeds(Faults faults, Fault expected, const Program& program,
                                std::uint64_t seeds = kSeeds) {
    Options options{.workers = 2, .on_deadlock = OnDeadlock::raise, .reactor = GetParam()};
    FiberIo{options}.run([] { static_cast<void>(connected()); });  // what is made once
    std::uint64_t count = 0;
    for (faults.seed = 0; faults.seed < seeds && !HasFailure(); ++faults.seed) {
      SCOPED_TRACE("seed " + std::to_string(faults.seed));
      const std::size_t before = testing::descriptors_now();
      const std::size_t frames_before = testing::frames_in_use();
      FaultyKernel kernel{faults};
      {
        const FaultyKernel::Between between{kernel};
        options.workers = faults.seed % 2 == 0 ? 1U : 2U;
        FiberIo{options}.run([&] { program(kernel); });
      }
      EXPECT_EQ(testing::descriptors_now(), before);
      EXPECT_EQ(testing::frames_in_use(), frames_before) << "a fiber was left";
      count += kernel.count(expected);
    }
    return count;
  }
};

void echo(const TcpStream& peer) {
  std::array<std::byte, 4096> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    if (!peer.write_all(*got)) return;
  }
}

// One way, up to the end, which is passed on.
void carry(const TcpStream& from, const TcpStream& to) {
  std::array<std::byte, 2048> buffer{};
  while (auto got = from.read_some(buffer)) {
    if (got->empty()) break;
    if (!to.write_all(*got)) return;
  }
  static_cast<void>(to.shutdown_write());
}

template <class Handler>
void serve_all(const TcpListener& listener, Handler handler) {
  nursery([&](Nursery& n) {
    while (auto peer = listener.accept())
      n.spawn([&handler, p = std::move(*peer)]() mutable { handler(std::move(p)); });
  });
}

// What came back of what was said: at most all of it.
struct Heard {
  std::vector<std::byte> bytes;
  bool ended = false;  // in order
};
Heard say(const TcpStream& stream, std::span<const std::byte> said) {
  Heard heard;
  nursery([&](Nursery& n) {
    n.spawn([&] {
      if (stream.write_all(said)) static_cast<void>(stream.shutdown_write());
    });
    std::array<std::byte, 3000> buffer{};
    for (;;) {
      const auto got = stream.read_some(buffer);
      heard.ended = got && got->empty();
      if (!got || got->empty()) break;
      heard.bytes.insert(heard.bytes.end(), got->begin(), got->end());
    }
    if (!heard.ended) n.cancel();  // who writes may wait for a peer that reads no more
  });
  return heard;
}

bool is_beginning_of(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// A connection, however often there are no descriptors for it.
TcpStream connect_at_last(const Endpoint& to) {
  for (;;) {
    auto stream = connect(to);
    if (stream) return std::move(*stream);
    EXPECT_TRUE(stream.error() == std::errc::too_many_files_open ||
                stream.error() == std::errc::too_many_files_open_in_system)
        << stream.error().message();
  }
}

std::string name_of(const ::testing::TestParamInfo<ReactorKind>& info) {
  return info.param == ReactorKind::epoll ? "Epoll" : "Uring";
}
INSTANTIATE_TEST_SUITE_P(Reactors, FaultsTest,
                         ::testing::Values(ReactorKind::epoll, ReactorKind::uring), name_of);

// ── bytes ───────────────────────────────────────────────────────────────────────────────────────

// With io_uring also a regression: the last fiber waits in close() for the kernel to let go of the
// listener, and that was taken for a deadlock.
TEST_P(FaultsTest, EchoedBytesStayIntact) {
  const Faults faults{.interrupted = 0.1, .would_block = 0.3, .short_transfer = 0.2, .late = 0.002};
  const std::uint64_t blocked = on_seeds(faults, Fault::would_block, [](FaultyKernel&) {
    const auto listener = listen({"127.0.0.1", 0}).value();
    std::atomic<int> content{0};
    race([&] { serve_all(listener, [](const TcpStream& peer) { echo(peer); }); },
         [&] {
           nursery([&](Nursery& n) {
             for (std::uint64_t i = 0; i < 4; ++i)
               n.spawn([&, i] {
                 const auto stream = connect(listener.local_endpoint()).value();
                 const std::vector<std::byte> said = pattern(5'000 + 7'000 * i, i + 1);
                 const Heard heard = say(stream, said);
                 EXPECT_TRUE(heard.ended);
                 if (heard.bytes == said) content.fetch_add(1);
               });
           });
         });
    EXPECT_EQ(content.load(), 4);
  });
  EXPECT_GT(blocked, kSeeds) << "the faults were made";
}

TEST_P(FaultsTest, BytesStayIntactThroughAChainOfProxies) {
  const Faults faults{.interrupted = 0.05, .would_block = 0.2, .short_transfer = 0.1};
  const std::uint64_t cut = on_seeds(faults, Fault::short_transfer, [](FaultyKernel&) {
    const auto origin = listen({"127.0.0.1", 0}).value();
    const auto middle = listen({"127.0.0.1", 0}).value();
    const auto front = listen({"127.0.0.1", 0}).value();
    const auto proxy_to = [](const TcpListener& next) {
      return [&next](const TcpStream& client) {
        const auto server = connect(next.local_endpoint()).value();
        nursery([&](Nursery& n) {
          n.spawn([&] { carry(client, server); });
          carry(server, client);
        });
      };
    };
    const std::vector<std::byte> said = pattern(30'000, 5);
    Heard heard;
    race([&] { serve_all(origin, [](const TcpStream& peer) { echo(peer); }); },
         [&] { serve_all(middle, proxy_to(origin)); }, [&] { serve_all(front, proxy_to(middle)); },
         [&] { heard = say(connect(front.local_endpoint()).value(), said); });
    EXPECT_TRUE(heard.ended);
    EXPECT_TRUE(heard.bytes == said);
  });
  EXPECT_GT(cut, kSeeds) << "the faults were made";
}

// Nearly every call would block, and every byte goes by itself.
TEST_P(FaultsTest, AStormOfEdgesIsWeathered) {
  const Faults faults{.interrupted = 0.3, .would_block = 0.9, .short_transfer = 1};
  const std::uint64_t blocked = on_seeds(
      faults, Fault::would_block,
      [](FaultyKernel&) {
        const Ends ends = connected();
        const std::vector<std::byte> said = pattern(3'000);
        std::vector<std::byte> heard(said.size());
        nursery([&](Nursery& n) {
          n.spawn([&] { EXPECT_TRUE(ends.client.write_all(said)); });
          EXPECT_TRUE(ends.server.read_exactly(heard));
        });
        EXPECT_TRUE(heard == said);
      },
      10);
  EXPECT_GT(blocked, 1000U);
}

TEST_P(FaultsTest, ATimeoutAroundAReadLosesNothing) {
  const Faults faults{.interrupted = 0.1, .would_block = 0.5, .short_transfer = 0.3, .late = 0.01};
  std::atomic<std::uint64_t> cancelled{0};
  on_seeds(faults, Fault::would_block, [&](FaultyKernel&) {
    const Ends ends = connected();
    const std::vector<std::byte> said = pattern(10'000);
    std::vector<std::byte> heard;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(ends.client.write_all(said));
        EXPECT_TRUE(ends.client.shutdown_write());
      });
      std::array<std::byte, 256> buffer{};
      for (bool ended = false; !ended;) {
        const bool in_time = timeout(1us + heard.size() % 3 * 20us, [&] {
          const auto got = ends.server.read_some(buffer).value();
          heard.insert(heard.end(), got.begin(), got.end());
          ended = got.empty();
        });
        if (!in_time) cancelled.fetch_add(1);
      }
    });
    EXPECT_TRUE(heard == said);
  });
  EXPECT_GT(cancelled.load(), 0U);
}

// ── what a fault ends ───────────────────────────────────────────────────────────────────────────

TEST_P(FaultsTest, AFaultEndsTheConnectionThatItHit) {
  const Faults faults{.interrupted = 0.05,
                      .would_block = 0.1,
                      .short_transfer = 0.1,
                      .reset = 0.005,
                      .broken_pipe = 0.005};
  std::atomic<std::uint64_t> whole{0};
  std::atomic<std::uint64_t> broken{0};
  const std::uint64_t resets = on_seeds(faults, Fault::reset, [&](FaultyKernel& kernel) {
    const auto listener = listen({"127.0.0.1", 0}).value();
    race([&] { serve_all(listener, [](const TcpStream& peer) { echo(peer); }); },
         [&] {
           nursery([&](Nursery& n) {
             for (std::uint64_t i = 0; i < 8; ++i)
               n.spawn([&, i] {
                 const auto stream = connect(listener.local_endpoint());
                 if (!stream) {  // the server may have met its fault before connect() was told
                   EXPECT_EQ(stream.error(), std::errc::connection_reset);
                   EXPECT_GT(kernel.count(Fault::reset), 0U);
                   broken.fetch_add(1);
                   return;
                 }
                 const std::uint16_t port = stream->local_endpoint().value().port();
                 const std::vector<std::byte> said = pattern(20'000, i + 1);
                 const Heard heard = say(*stream, said);
                 EXPECT_TRUE(is_beginning_of(heard.bytes, said));
                 const bool all = heard.bytes.size() == said.size();
                 (all ? whole : broken).fetch_add(1);
                 EXPECT_TRUE(all || kernel.has_ended(port));
               });
           });
         });
  });
  EXPECT_GT(resets, 0U);
  EXPECT_GT(whole.load(), 0U);
  EXPECT_GT(broken.load(), 0U);
}

TEST_P(FaultsTest, WithoutBuffersAWriteFailsAndTheStreamGoesOn) {
  const Faults faults{.no_buffers = 0.2};
  const std::uint64_t failed = on_seeds(faults, Fault::no_buffers, [](FaultyKernel&) {
    const Ends ends = connected();
    const std::vector<std::byte> said = pattern(4'000);
    std::vector<std::byte> heard(said.size());
    for (std::span<const std::byte> rest = said; !rest.empty();) {
      const std::size_t some = std::min<std::size_t>(rest.size(), 100);
      const auto written = ends.client.write_some(rest.first(some));
      rest = rest.subspan(written.value_or(0U));
      EXPECT_TRUE(written || written.error() == std::errc::no_buffer_space ||
                  written.error() == std::errc::not_enough_memory);
    }
    EXPECT_TRUE(ends.server.read_exactly(heard));
    EXPECT_TRUE(heard == said);
  });
  EXPECT_GT(failed, kSeeds);
}

// ── descriptors ─────────────────────────────────────────────────────────────────────────────────

TEST_P(FaultsTest, AcceptPausesWithoutDescriptorsAndGoesOn) {
  const Faults faults{.interrupted = 0.1, .no_descriptors = 0.3, .aborted = 0.1};
  std::atomic<std::uint64_t> pauses{0};
  const std::uint64_t failed = on_seeds(faults, Fault::no_descriptors, [&](FaultyKernel&) {
    const auto on_pause = [&](std::error_code why, Duration) {
      EXPECT_TRUE(why == std::errc::too_many_files_open ||
                  why == std::errc::too_many_files_open_in_system);
      pauses.fetch_add(1);
    };
    auto listener = listen({"127.0.0.1", 0}, {.on_pause = on_pause});
    while (!listener) listener = listen({"127.0.0.1", 0}, {.on_pause = on_pause});
    std::atomic<int> content{0};
    race([&] { serve_all(*listener, [](const TcpStream& peer) { echo(peer); }); },
         [&] {
           nursery([&](Nursery& n) {
             for (std::uint64_t i = 0; i < 4; ++i)
               n.spawn([&, i] {
                 const TcpStream stream = connect_at_last(listener->local_endpoint());
                 const std::vector<std::byte> said = pattern(100, i + 1);
                 if (say(stream, said).bytes == said) content.fetch_add(1);
               });
           });
         });
    EXPECT_EQ(content.load(), 4);
  }, kSeeds / 4);
  EXPECT_GT(failed, kSeeds / 4);
  EXPECT_GT(pauses.load(), 0U);
}

TEST_P(FaultsTest, ClosingWakesWhoeverIsInACall) {
  const Faults faults{.interrupted = 0.1, .would_block = 0.5, .short_transfer = 0.3};
  on_seeds(faults, Fault::would_block, [](FaultyKernel&) {
    Ends ends = connected();
    auto listener = listen({"127.0.0.1", 0}).value();
    const std::vector<std::byte> much = pattern(100'000);
    const auto write_on = [&] {
      for (;;)
        if (const auto written = ends.client.write_all(much); !written) return written.error();
    };
    std::atomic<int> closed{0};
    const auto expect_closed = [&](std::error_code error) {
      EXPECT_EQ(error, IoError::closed);
      closed.fetch_add(1);
    };
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&] {
          std::array<std::byte, 16> buffer{};
          expect_closed(ends.client.read_some(buffer).error());
        });
      n.spawn([&] { expect_closed(write_on()); });
      n.spawn([&] { expect_closed(listener.accept().error()); });
      for (int i = 0; i < 20; ++i) this_fiber::yield();
      EXPECT_TRUE(ends.client.close());
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(closed.load(), 4);
  });
}

// ── other kinds of descriptors ──────────────────────────────────────────────────────────────────

TEST_P(FaultsTest, InterruptedCallsAreMadeAgain) {
  const testing::TempDir directory;
  const Faults faults{.interrupted = 0.5, .late = 0.01};
  const std::uint64_t interrupted = on_seeds(faults, Fault::interrupted, [&](FaultyKernel& kernel) {
    const std::vector<std::byte> said = pattern(200'000);
    const auto ends = UnixStream::pair().value();
    Pipe through = pipe().value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(ends.first.write_all(said)); });
      n.spawn([&] {
        EXPECT_TRUE(through.writer.write_all(said));
        EXPECT_TRUE(through.writer.close());
      });
      std::vector<std::byte> heard(said.size());
      EXPECT_TRUE(ends.second.read_exactly(heard));
      EXPECT_TRUE(heard == said);
      const std::string piped = through.reader.read_all().value();
      EXPECT_TRUE(piped == text_of(said));
    });
    const auto here = UdpSocket::bind({"127.0.0.1", 0}).value();
    const auto there = UdpSocket::bind({"127.0.0.1", 0}).value();
    for (int i = 0; i < 10; ++i) {
      std::array<std::byte, 64> buffer{};
      EXPECT_TRUE(here.send_to(bytes_of(std::to_string(i)), there.local_endpoint().value()));
      EXPECT_EQ(text_of(there.recv(buffer).value()), std::to_string(i));
    }
    const std::string path = directory / "file";
    EXPECT_TRUE(write_file(path, said, {.atomic = kernel.count(Fault::interrupted) % 2 == 0}));
    EXPECT_TRUE(read_file(path).value() == text_of(said));
  }, kSeeds / 4);
  EXPECT_GT(interrupted, kSeeds);
}

TEST_P(FaultsTest, FilesAreWholeThroughShortTransfers) {
  const testing::TempDir directory;
  const Faults faults{.interrupted = 0.2, .short_transfer = 0.7};
  on_seeds(faults, Fault::short_transfer, [&](FaultyKernel&) {
    const std::vector<std::byte> said = pattern(20'000);
    const FileOptions options{.read = true, .write = true, .create = true};
    const auto file = File::open(directory / "file", options).value();
    EXPECT_TRUE(file.write_at(said, 100));
    std::vector<std::byte> heard(said.size());
    EXPECT_EQ(file.read_at(heard, 100).value().size(), said.size());
    EXPECT_TRUE(heard == said);
  }, kSeeds / 4);
}

}  // namespace
}  // namespace weft::net
