// Thousands of connections at once: all are served, and nothing is left when they are gone.
#include <weft/net.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/latch.hpp>
#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/process.hpp>
#include <weft/semaphore.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>
#include <support/footprint.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::on_workers;

constexpr bool kSanitized = arch::kTsan || arch::kAsan;  // memory is theirs, too

// As many connections as `wanted`, or as the limit on descriptors allows, which is raised as far as
// it goes. Both ends are in this process, or one.
enum class Here : rlim_t { one_end = 1, both_ends = 2 };
int affordable(int wanted, Here here) {
  constexpr rlim_t kOthers = 100;
  const auto each = static_cast<rlim_t>(here);
  const rlim_t needed = each * static_cast<rlim_t>(wanted) + kOthers;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < needed) {
    const rlimit raised{.rlim_cur = needed, .rlim_max = std::max(limit.rlim_max, needed)};
    limit.rlim_cur = std::min(limit.rlim_max, needed);
    if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return wanted;
  const int fewer = static_cast<int>((std::max(limit.rlim_cur, kOthers) - kOthers) / each);
  std::printf("RLIMIT_NOFILE is %llu: %d connections instead of %d\n",
              static_cast<unsigned long long>(limit.rlim_cur), fewer, wanted);
  return fewer;
}

std::size_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void echo(const TcpStream& peer) {
  std::array<std::byte, 256> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    if (!peer.write_all(*got)) return;
  }
}

template <class Handler>
void serve_all(const TcpListener& listener, Handler handler) {
  nursery([&](Nursery& n) {
    while (auto peer = listener.accept())
      n.spawn([&handler, p = std::move(*peer)] { handler(p); });
  });
}

// Its port is free at once when it is closed.
TcpStream fleeting(const Endpoint& to) {
  auto stream = connect(to).value();
  EXPECT_TRUE(stream.set_linger(0s));
  return stream;
}

bool is_echoed(const TcpStream& stream, const std::string& said) {
  std::vector<std::byte> heard(said.size());
  return stream.write_all(said) && stream.read_exactly(heard) && text_of(heard) == said;
}

// ── ten thousand ────────────────────────────────────────────────────────────────────────────────

// The server's ends are in the test's process and the clients' in another, which is this program
// again: so each needs no more descriptors than there are connections.

// What one of `count` idle connections costs at one end, a fiber and a socket, if `before` was all
// before them.
std::size_t bytes_of_each(int count, std::size_t before) {
  const std::size_t now = resident_bytes();
  const std::size_t bytes = (now > before ? now - before : 0) / static_cast<std::size_t>(count);
  EXPECT_LT(bytes, kSanitized ? SIZE_MAX : 64U * 1024);
  return bytes;
}

// `count` connections at once, each of which is echoed before all are there and after the word to
// go on, which is that standard input ends.
void be_clients(const Endpoint& server, int count) {
  Semaphore connecting{500};  // no more than the backlog holds
  Latch content{static_cast<std::size_t>(count)};
  Event go_on;
  const auto talk = [&](int i) {
    connecting.acquire();
    const TcpStream stream = fleeting(server);
    EXPECT_TRUE(is_echoed(stream, "one " + std::to_string(i)));
    connecting.release();
    go_on.wait();
    EXPECT_TRUE(is_echoed(stream, "two " + std::to_string(i)));
    content.count_down();
    content.wait();  // nobody leaves before
  };
  const std::size_t before = resident_bytes();
  nursery([&](Nursery& n) {
    for (int i = 0; i < count; ++i) n.spawn([&, i] { talk(i); });
    EXPECT_EQ(standard_input().value().read_all().value(), "");
    std::printf("%zu at the client\n", bytes_of_each(count, before));
    go_on.set();
  });
}

constexpr const char* kServer = "WEFT_TEST_SERVER";
constexpr const char* kCount = "WEFT_TEST_COUNT";

TEST(Clients, DISABLED_OfTenThousandAtOnce) {
  ASSERT_TRUE(std::getenv(kServer) && std::getenv(kCount)) << "TenThousandAtOnce starts this";
  const auto server = Endpoint::parse(std::getenv(kServer)).value();
  const int count = std::atoi(std::getenv(kCount));
  const std::size_t descriptors = testing::descriptors_now();
  FiberIo{{.workers = 2}}.run([&] { be_clients(server, count); });
  EXPECT_EQ(testing::descriptors_now(), descriptors);
}

Process start_clients(const Endpoint& server, int count) {
  return Process::spawn({.argv = {"/proc/self/exe", "--gtest_brief=1",
                                  "--gtest_also_run_disabled_tests",
                                  "--gtest_filter=Clients.DISABLED_OfTenThousandAtOnce"},
                         .env = {kServer + ("=" + to_string(server)),
                                 kCount + ("=" + std::to_string(count))},
                         .in = Stdio::pipe})
      .value();
}

// Each connection is echoed once, and idle; and then again.
void serve_clients(int count) {
  const auto listener = listen({"127.0.0.1", 0}).value();
  Latch idle{static_cast<std::size_t>(count)};
  std::atomic<int> served{0};
  const auto echo_twice = [&](const TcpStream& peer) {
    std::array<std::byte, 64> buffer{};
    for (int times = 0; auto got = peer.read_some(buffer); ++times) {
      if (got->empty() || !peer.write_all(*got)) return;
      if (times == 0) idle.count_down();
      if (times == 1) served.fetch_add(1);
    }
  };
  const std::size_t before = resident_bytes();
  Process clients = start_clients(listener.local_endpoint(), count);
  nursery([&](Nursery& n) {
    n.spawn([&] { serve_all(listener, echo_twice); });
    n.spawn([&] {
      idle.wait();
      std::printf("%d idle connections: %zu bytes resident each at the server\n", count,
                  bytes_of_each(count, before));
      std::fflush(stdout);
      EXPECT_TRUE(clients.in().close());
    });
    EXPECT_TRUE(clients.wait().value().success());
    n.cancel();
  });
  EXPECT_EQ(served.load(), count);
}

TEST(Connections, TenThousandAtOnce) {
  // ThreadSanitizer knows some 8,000 fibers at most.
  const int count = affordable(arch::kTsan ? 1'000 : arch::kAsan ? 2'000 : 10'000, Here::one_end);
  if (count == 0) GTEST_SKIP() << "no descriptors to be had for connections";
  std::size_t descriptors = 0;
  std::size_t resident = 0;
  for (int round = 0; round < 2; ++round) {
    FiberIo{{.workers = 2}}.run([&] { serve_clients(count); });
    if (round != 0) break;
    descriptors = testing::descriptors_now();
    resident = resident_bytes();
  }
  EXPECT_EQ(testing::descriptors_now(), descriptors);
  // What the first round has used is used again; margins are for what allocators keep.
  const std::size_t margin = resident / 2 + (std::size_t{32} << 20);
  EXPECT_LT(resident_bytes(), kSanitized ? SIZE_MAX : resident + margin);
}

// ── slow peers ──────────────────────────────────────────────────────────────────────────────────

// Reads lines, and answers each with "ok\n".
void answer_lines(const TcpStream& peer, std::atomic<int>& bytes_heard) {
  std::array<std::byte, 64> buffer{};
  while (auto got = peer.read_some(buffer)) {
    if (got->empty()) return;
    bytes_heard.fetch_add(static_cast<int>(got->size()));
    for (const std::byte byte : *got)
      if (byte == std::byte{'\n'} && !peer.write_all("ok\n")) return;
  }
}

// A thousand peers send a byte now and then, and never a line, for as long as a fast one is served.
TEST(Connections, SlowPeersKeepNobodyWaiting) {
  constexpr int kRequests = 500;
  const int slow_peers = affordable(arch::kTsan ? 200 : 1'000, Here::both_ends);
  on_workers({1U, 2U}, [&] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    std::atomic<int> bytes_heard{0};
    std::atomic<int> served_slow{0};
    std::atomic<bool> over{false};
    Latch connected_all{static_cast<std::size_t>(slow_peers)};
    int served_fast = 0;
    const auto be_slow = [&](int i) {
      const TcpStream stream = fleeting(listener.local_endpoint());
      connected_all.count_down();
      while (!over.load()) {
        if (!stream.write_all("x")) return;
        sleep_for(std::chrono::milliseconds{1 + i % 20});
      }
      std::array<std::byte, 3> answer{};
      if (stream.write_all("\n") && stream.read_exactly(answer)) served_slow.fetch_add(1);
    };
    race([&] { serve_all(listener, [&](const TcpStream& p) { answer_lines(p, bytes_heard); }); },
         [&] {
           nursery([&](Nursery& n) {
             for (int i = 0; i < slow_peers; ++i) n.spawn([&, i] { be_slow(i); });
             connected_all.wait();
             const TcpStream fast = fleeting(listener.local_endpoint());
             std::array<std::byte, 3> answer{};
             for (int i = 0; i < kRequests; ++i)
               if (fast.write_all("now\n") && fast.read_exactly(answer)) ++served_fast;
             EXPECT_EQ(served_slow.load(), 0) << "they had not finished their line";
             over.store(true);
           });
         });
    EXPECT_EQ(served_fast, kRequests);
    EXPECT_EQ(served_slow.load(), slow_peers) << "and are served as soon as they have";
    EXPECT_GT(bytes_heard.load(), kRequests * 4 + slow_peers);
  });
}

// ── all at once ─────────────────────────────────────────────────────────────────────────────────

TEST(Connections, ACancelClosesThemAll) {
  const int count = affordable(arch::kTsan ? 500 : 2'000, Here::both_ends);
  const auto talk_and_cancel = [&] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    Semaphore connecting{500};
    Latch idle{static_cast<std::size_t>(count)};
    nursery([&](Nursery& n) {
      n.spawn([&] { serve_all(listener, echo); });
      for (int i = 0; i < count; ++i)
        n.spawn([&] {
          connecting.acquire();
          const TcpStream stream = fleeting(listener.local_endpoint());
          EXPECT_TRUE(is_echoed(stream, "x"));
          connecting.release();
          idle.count_down();
          echo(stream);  // both listen, and nobody says a word
        });
      idle.wait();
      n.cancel();
    });
  };
  on_workers({2U}, talk_and_cancel);
  const std::size_t before = testing::descriptors_now();
  on_workers({1U, 2U}, talk_and_cancel);
  EXPECT_EQ(testing::descriptors_now(), before);
}

}  // namespace
}  // namespace weft::net
