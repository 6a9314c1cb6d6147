// Buffered streams, copy and serve on the machine's own sockets and files, and on simulated ones.
#include <weft/arch/sanitizer.hpp>
#include <weft/net.hpp>

#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <support/engines.hpp>

#include "fakes.hpp"

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::bytes_of;
using testing::let_others_block;
using testing::on_workers;
using testing::text_in;

static_assert(Duplex<TcpStream> && Duplex<UnixStream>);
static_assert(Listener<TcpListener> && Listener<UnixListener>);
static_assert(Readable<File> && Writable<File>);

template <class S>
void echo(S peer) {
  std::vector<std::byte> room(4096);
  for (;;) {
    const auto got = peer.read_some(room);
    if (!got || got->empty() || !peer.write_all(*got)) return;
  }
}

template <class S>
bool is_answered(S& stream, std::string_view text) {
  if (!stream.write_all(bytes_of(text))) return false;
  std::vector<std::byte> room(text.size());
  return stream.read_exactly(room).has_value() && text_in(room) == text;
}

// On the machine's network, and on one that is not there.
void on_both_networks(const std::function<void()>& f) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("SimIo, seed " + std::to_string(seed));
    SimIo{{.seed = seed, .preempt = seed % 2 != 0}}.run(f);
  }
  on_workers(f);
}

TcpListener listen_here(const ListenOptions& options = {}) {
  return listen({"127.0.0.1", 0}, options).value();
}
TcpStream connect_to(const TcpListener& listener) {
  return connect({"127.0.0.1", listener.port()}).value();
}

// ── buffered ────────────────────────────────────────────────────────────────────────────────────

TEST(Streams, CarryLinesThroughASocket) {
  on_workers([] {
    auto ends = UnixStream::pair().value();
    constexpr int kLines = 2000;
    nursery([&](Nursery& n) {
      n.spawn("writer", [&] {
        BufferedWriter writer{ends.first, {.buffer_bytes = 100}};
        for (int i = 0; i < kLines; ++i)
          writer.print("line ", i, std::string(static_cast<std::size_t>(i % 300), '.'), '\n')
              .value();
        writer.flush().value();
        ends.first.shutdown_write().value();
      });
      BufferedReader reader{ends.second, {.buffer_bytes = 128}};
      int lines = 0;
      while (const auto line = reader.read_line().value()) {
        const std::string dots(static_cast<std::size_t>(lines % 300), '.');
        ASSERT_EQ(*line, "line " + std::to_string(lines) + dots);
        ++lines;
      }
      EXPECT_EQ(lines, kLines);
    });
  });
}

// ── copy ────────────────────────────────────────────────────────────────────────────────────────

// A file in memory, at its begin.
File memory_file(std::string_view content) {
  char path[] = "/tmp/weft_streams_XXXXXX";
  const int fd = ::mkstemp(path);
  EXPECT_GE(fd, 0);
  ::close(fd);
  File file = File::open(path, {.read = true, .write = true}).value();
  ::unlink(path);
  file.write_all(bytes_of(content)).value();
  EXPECT_EQ(file.seek(0).value(), 0U);
  return file;
}

std::string noise(std::size_t bytes) {
  std::string text(bytes, ' ');
  std::uint32_t state = 1;
  for (char& letter : text) {
    state = state * 1664525U + 1013904223U;
    letter = static_cast<char>(state >> 24);
  }
  return text;
}

template <class S>
std::string all_of(S& stream) {
  std::string text;
  std::vector<std::byte> room(10'000);
  for (;;) {
    const auto got = stream.read_some(room).value();
    if (got.empty()) return text;
    text += text_in(got);
  }
}

TEST(Streams, SendAFileThroughASocket) {
  on_workers({1U, 2U}, [] {
    const std::string content = noise(3'000'001);
    File file = memory_file(content);
    const TcpListener listener = listen_here();
    nursery([&](Nursery& n) {
      n.spawn("sender", [&] {
        TcpStream stream = connect_to(listener);
        std::uint64_t told = 0;
        const auto sent = copy(file, stream, {.progress = [&](std::uint64_t bytes) {
                                 EXPECT_GT(bytes, told);
                                 told = bytes;
                               }});
        EXPECT_EQ(sent.value(), content.size());
        EXPECT_EQ(told, content.size());
        EXPECT_EQ(file.seek(0, From::position).value(), content.size());
      });
      TcpStream stream = listener.accept().value();
      EXPECT_TRUE(all_of(stream) == content);
    });
  });
}

TEST(Streams, SendAPartOfAFileAndStayBehindIt) {
  on_workers({1U}, [] {
    File file = memory_file("0123456789");
    auto ends = UnixStream::pair().value();
    (void)file.seek(2).value();
    EXPECT_EQ(copy(file, ends.first, {.limit = 5}).value(), 5U);
    EXPECT_EQ(file.seek(0, From::position).value(), 7U);
    EXPECT_EQ(copy(file, ends.first).value(), 3U);
    ends.first.shutdown_write().value();
    EXPECT_EQ(all_of(ends.second), "23456789");
  });
}

TEST(Streams, AreLeftInOrderWhenTheSendingOfAFileIsCancelled) {
  on_workers({1U}, [] {
    const std::string content = noise(8'000'000);
    File file = memory_file(content);
    auto ends = UnixStream::pair().value();
    EXPECT_FALSE(timeout(20ms, [&] { (void)copy(file, ends.first); })) << "nobody reads";
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(copy(file, ends.first));
        ends.first.shutdown_write().value();
      });
      EXPECT_TRUE(all_of(ends.second) == content) << "neither lost nor twice";
    });
  });
}

TEST(Streams, TellThatTheReceiverOfAFileHasGone) {
  on_workers({1U}, [] {
    File file = memory_file(noise(100'000));
    auto ends = UnixStream::pair().value();
    ends.second.close().value();
    EXPECT_EQ(copy(file, ends.first).error(), std::errc::broken_pipe) << "and no SIGPIPE";
  });
}

TEST(Streams, AreCopiedToAFile) {
  on_workers({1U}, [] {
    File file = memory_file("");
    auto ends = UnixStream::pair().value();
    ends.first.write_all(bytes_of("through")).value();
    ends.first.shutdown_write().value();
    EXPECT_EQ(copy(ends.second, file).value(), 7U);
    (void)file.seek(0).value();
    EXPECT_EQ(file.read_all().value(), "through");
  });
}

TEST(Streams, AreJoinedByAProxy) {
  on_both_networks([] {
    TcpListener behind = listen_here();
    TcpListener front = listen_here();
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { EXPECT_TRUE(serve(behind, echo<TcpStream>)); });
      n.spawn("proxy", [&] {
        EXPECT_TRUE(serve(front, [&](TcpStream client) {
          TcpStream server = connect_to(behind);
          EXPECT_TRUE(copy_both(client, server));
        }));
      });
      parallel_for(10, [&](std::size_t i) {
        TcpStream client = connect_to(front);
        const std::string text = noise(10'000 + i);
        nursery([&](Nursery& both) {
          both.spawn([&] {
            client.write_all(bytes_of(text)).value();
            client.shutdown_write().value();
          });
          EXPECT_TRUE(all_of(client) == text);
        });
      });
      front.close().value();
      behind.close().value();
    });
  });
}

// ── serve ───────────────────────────────────────────────────────────────────────────────────────

TEST(Streams, AreServed) {
  on_both_networks([] {
    TcpListener listener = listen_here();
    Server server{{.max_connections = 7}};
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { EXPECT_TRUE(server.serve(listener, echo<TcpStream>)); });
      parallel_for(100, [&](std::size_t i) {
        TcpStream client = connect_to(listener);
        EXPECT_TRUE(is_answered(client, "client " + std::to_string(i)));
        EXPECT_LE(server.live(), 7U);
      });
      server.stop();
    });
    EXPECT_EQ(server.accepted(), 100U);
    EXPECT_EQ(server.live(), 0U);
    EXPECT_FALSE(connect({"127.0.0.1", listener.port()})) << "nobody listens";
  });
}

TEST(Streams, AreServedByUnixSockets) {
  on_workers({2U}, [] {
    const std::string name = "@weft-streams-" + std::to_string(::getpid());
    UnixListener listener = UnixListener::listen(name).value();
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { EXPECT_TRUE(serve(listener, echo<UnixStream>)); });
      UnixStream client = UnixStream::connect(name).value();
      EXPECT_TRUE(is_answered(client, "over"));
      listener.close().value();
    });
  });
}

TEST(Streams, AListenerIsClosedWhileItsServerIsFull) {
  on_both_networks([] {
    TcpListener listener = listen_here();
    Server server{{.max_connections = 1}};
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { EXPECT_TRUE(server.serve(listener, echo<TcpStream>)); });
      TcpStream first = connect_to(listener);
      EXPECT_TRUE(is_answered(first, "first"));
      const TcpStream second = connect_to(listener);  // news for the listener, but no place
      let_others_block();
      listener.close().value();
      EXPECT_TRUE(is_answered(first, "goes on"));
      EXPECT_EQ(server.accepted(), 1U);
    });
    EXPECT_EQ(server.accepted(), 1U);
  });
}

TEST(Streams, AServerWithoutDescriptorsPauses) {
  // Sanitizers look at memory through a pipe, for which there would be no descriptor.
  if (arch::kAsan) GTEST_SKIP() << "not in a build with sanitizers";
  // So few descriptors are left that the server runs out of them, though clients do not.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  on_workers({1U, 2U}, [&] {
    std::atomic<int> pauses{0};
    TcpListener listener =
        listen_here({.on_pause = [&](std::error_code why, Duration) {
          EXPECT_EQ(why, std::errc::too_many_files_open);
          ++pauses;
        }});
    // With a limit nothing is accepted ahead, where the kernel heeds the limit of descriptors that
    // there was when it began.
    Server server{{.max_connections = 100}};
    nursery([&](Nursery& n) {
      n.spawn("server", [&] { EXPECT_TRUE(server.serve(listener, echo<TcpStream>)); });
      TcpStream first = connect_to(listener);
      EXPECT_TRUE(is_answered(first, "first"));
      TcpStream second = connect({"127.0.0.1", listener.port()}).value();
      EXPECT_TRUE(is_answered(second, "second"));
      const int next = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
      ASSERT_GE(next, 0);
      ::close(next);
      // One more: the client's. None for the server's end.
      const rlimit tight{static_cast<rlim_t>(next) + 1, before.rlim_max};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
      TcpStream third = connect({"127.0.0.1", listener.port()}).value();
      while (pauses == 0) this_fiber::yield();
      second.close().value();  // with the server's end of it: two are free
      EXPECT_TRUE(is_answered(third, "third"));
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
      listener.close().value();
    });
    EXPECT_GT(pauses, 0);
    EXPECT_LT(pauses, 50) << "it spins";
  });
}

}  // namespace
}  // namespace weft::net
