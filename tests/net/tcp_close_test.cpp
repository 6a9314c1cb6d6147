// What happens to calls under way when a socket is closed, a scope cancelled, or the process out of
// descriptors.
#include <weft/arch/sanitizer.hpp>
#include <weft/net.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <net/sockets.hpp>
#include <support/engines.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using testing::let_others_block;
using testing::on_workers;

TEST(TcpClose, WakesReaders) {
  in_every_world([] {
    Ends ends = connected();
    std::atomic<int> closed{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          std::array<std::byte, 4> buffer{};
          if (ends.server.read_some(buffer).error() == IoError::closed) closed.fetch_add(1);
        });
      let_others_block();
      EXPECT_TRUE(ends.server.close());
    });
    EXPECT_EQ(closed.load(), 3);
    EXPECT_FALSE(ends.server.is_open());
  });
}

TEST(TcpClose, WakesWriters) {
  in_every_world([] {
    Ends ends = connected();
    std::error_code error;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const std::vector<std::byte> much = pattern(1'000'000);
        Result<void> written;
        while (written) written = ends.client.write_all(much);
        error = written.error();
      });
      let_others_block();
      EXPECT_TRUE(ends.client.close());
    });
    EXPECT_EQ(error, IoError::closed);
  });
}

TEST(TcpClose, WakesAcceptors) {
  in_every_world([] {
    auto listener = listen({"127.0.0.1", 0}).value();
    std::atomic<int> closed{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          if (listener.accept().error() == IoError::closed) closed.fetch_add(1);
        });
      let_others_block();
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(closed.load(), 3);
    EXPECT_EQ(listener.accept().error(), IoError::closed);
  });
}

TEST(TcpCancel, AReadThatTimesOutLosesNothing) {
  const auto body = [] {
    const Ends ends = connected();
    std::array<std::byte, 16> buffer{};
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(timeout(1ms, [&] { return ends.server.read_some(buffer).value().size(); }));
      EXPECT_TRUE(ends.client.write_all("still here"));
      EXPECT_EQ(read_text(ends.server, 10), "still here");
    }
  };
  in_every_world(body);
  BlockingIo{}.run(body);
}

// Numbers in order, by a reader that is cancelled all the time.
TEST(TcpCancel, AnImpatientReaderReadsEveryByteOnce) {
  in_every_world([] {
    constexpr std::uint32_t kNumbers = 20'000;
    const Ends ends = connected();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (std::uint32_t i = 0; i < kNumbers; ++i)
          if (!ends.client.write_all(std::as_bytes(std::span{&i, 1}))) return;
        EXPECT_TRUE(ends.client.shutdown_write());
      });
      std::vector<std::byte> got;
      for (bool ended = false; !ended;) {
        timeout(20us, [&] {
          for (;;) {
            std::array<std::byte, 64> buffer{};
            const auto some = ends.server.read_some(buffer).value();
            ended = some.empty();
            if (ended) return;
            got.insert(got.end(), some.begin(), some.end());
          }
        });
      }
      ASSERT_EQ(got.size(), kNumbers * sizeof(std::uint32_t));
      for (std::uint32_t i = 0; i < kNumbers; ++i) {
        std::uint32_t number = 0;
        std::memcpy(&number, got.data() + i * sizeof number, sizeof number);
        ASSERT_EQ(number, i);
      }
    });
  });
}

TEST(TcpCancel, ACancelledAcceptTakesNoConnection) {
  in_every_world([] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    EXPECT_FALSE(timeout(1ms, [&] { return listener.accept().has_value(); }));
    const auto client = connect(listener.local_endpoint()).value();
    EXPECT_TRUE(listener.accept());
  });
}

// No descriptor can be opened while this lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    EXPECT_GE(next, 0);
    ::close(next);
    rlimit fewer = before_;
    fewer.rlim_cur = static_cast<rlim_t>(next) + 8;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &fewer), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.push_back(fd);
  }
  ~NoDescriptors() {
    for (const int fd : taken_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST(TcpScarcity, AcceptPausesWhileThereAreNoDescriptors) {
  // Sanitizers look at memory through a pipe, for which there would be no descriptor.
  if (arch::kAsan) GTEST_SKIP() << "not in a build with sanitizers";
  on_workers({1U, 2U}, [] {
    Event paused;
    std::vector<Duration> pauses;
    const auto on_pause = [&](std::error_code why, Duration length) {
      EXPECT_EQ(why, std::errc::too_many_files_open);
      pauses.push_back(length);
      if (pauses.size() == 3) paused.set();
    };
    const auto listener = listen({"127.0.0.1", 0}, {.on_pause = on_pause}).value();
    const auto client = connect(listener.local_endpoint()).value();
    nursery([&](Nursery& n) {
      auto none = std::make_unique<NoDescriptors>();
      n.spawn([&] { EXPECT_TRUE(listener.accept()); });
      paused.wait();
      none.reset();
    });
    ASSERT_GE(pauses.size(), 3U);
    EXPECT_EQ(pauses[0], 1ms);
    EXPECT_EQ(pauses[1], 2ms);
    EXPECT_EQ(pauses[2], 4ms);
  });
}

TEST(TcpScarcity, CloseEndsAPause) {
  // Sanitizers look at memory through a pipe, for which there would be no descriptor.
  if (arch::kAsan) GTEST_SKIP() << "not in a build with sanitizers";
  on_workers({1U, 2U}, [] {
    Event paused;
    auto listener =
        listen({"127.0.0.1", 0}, {.on_pause = [&](std::error_code, Duration) { paused.set(); }})
            .value();
    const auto client = connect(listener.local_endpoint()).value();
    std::error_code error;
    nursery([&](Nursery& n) {
      const NoDescriptors none;
      n.spawn([&] { error = listener.accept().error(); });
      paused.wait();
      EXPECT_TRUE(listener.close());
    });
    EXPECT_EQ(error, IoError::closed);
  });
}

TEST(TcpScarcity, ConnectSaysThatThereAreNoDescriptors) {
  // Sanitizers look at memory through a pipe, for which there would be no descriptor.
  if (arch::kAsan) GTEST_SKIP() << "not in a build with sanitizers";
  on_workers({1U}, [] {
    const auto listener = listen({"127.0.0.1", 0}).value();
    const NoDescriptors none;
    EXPECT_EQ(connect(listener.local_endpoint()).error(), std::errc::too_many_files_open);
    EXPECT_EQ(listen({"127.0.0.1", 0}).error(), std::errc::too_many_files_open);
  });
}

}  // namespace
}  // namespace weft::net
