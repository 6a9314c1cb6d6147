// Descriptors on real engines: who waits is told, whatever closes, cancels and blocks around it.
#include <weft/core/descriptor.hpp>
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

struct Ends {
  int a = -1, b = -1;
};

Ends socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    throw std::system_error{errno, std::system_category(), "socketpair"};
  return {fds[0], fds[1]};
}

Descriptor adopt(int fd) {
  return Descriptor::adopt(fd, Carries::messages, "test read", "test write").value();
}

std::pair<Descriptor, Descriptor> connected() {
  const Ends ends = socket_pair();
  Descriptor a = adopt(ends.a);
  return {std::move(a), adopt(ends.b)};
}

Result<std::string> read_some(const Descriptor& from) {
  std::array<char, 64> room;
  const iovec part{room.data(), room.size()};
  const Result<std::size_t> got = from.receive({&part, 1});
  if (!got) return got.failure();
  return std::string{room.data(), *got};
}

Result<std::size_t> write(const Descriptor& to, std::string_view text) {
  const iovec part{const_cast<char*>(text.data()), text.size()};
  return to.send({&part, 1});
}

class Reactors : public ::testing::TestWithParam<unsigned> {
 protected:
  FiberIo io{Options{.workers = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Workers, Reactors, ::testing::Values(1U, 2U, 4U),
                         ::testing::PrintToStringParamName());

TEST_P(Reactors, WakeWhoeverWaitsForBytes) {
  constexpr int kRounds = 2'000;
  io.run([&] {
    auto ends = connected();
    Descriptor& here = ends.first;
    Descriptor& there = ends.second;
    nursery([&](Nursery& n) {
      n.spawn([&there = there] {
        for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(write(there, *read_some(there)));
      });
      for (int i = 0; i < kRounds; ++i) {
        const std::string sent = std::to_string(i);
        ASSERT_TRUE(write(here, sent));
        ASSERT_EQ(*read_some(here), sent);
      }
    });
  });
}

TEST_P(Reactors, ReportTheEndOfAStream) {
  io.run([] {
    auto ends = connected();
    Descriptor& here = ends.first;
    Descriptor& there = ends.second;
    nursery([&](Nursery& n) {
      n.spawn([&there = there] { ASSERT_TRUE(there.close()); });
      EXPECT_EQ(*read_some(here), "");
      EXPECT_EQ(*read_some(here), "");  // and again, however often one asks
    });
  });
}

TEST_P(Reactors, WaitUntilThereIsRoomToWrite) {
  io.run([] {
    auto ends = connected();
    Descriptor& here = ends.first;
    Descriptor& there = ends.second;
    nursery([&](Nursery& n) {
      std::atomic<std::size_t>& read = n.make<std::atomic<std::size_t>>(0U);
      const std::string block(64 * 1024, 'x');
      n.spawn([&there = there, &read] {
        for (;;) {
          const Result<std::string> got = read_some(there);
          ASSERT_TRUE(got);
          if (got->empty()) return;
          read += got->size();
        }
      });
      std::size_t written = 0;
      for (int i = 0; i < 20; ++i) written += write(here, block).value();
      ASSERT_TRUE(here.close());
      while (read != written) this_fiber::yield();
    });
  });
}

TEST_P(Reactors, CloseWakesWhoeverIsInside) {
  io.run([] {
    auto ends = connected();
    Descriptor& here = ends.first;
    nursery([&](Nursery& n) {
      Latch& inside = n.make<Latch>(3U);
      for (int i = 0; i < 3; ++i)
        n.spawn([&here = here, &inside] {
          inside.count_down();
          EXPECT_EQ(read_some(here).error(), IoError::closed);
        });
      inside.wait();
      EXPECT_TRUE(here.close());
      EXPECT_FALSE(here.is_open());
      EXPECT_EQ(read_some(here).error(), IoError::closed);
      EXPECT_EQ(write(here, "x").error(), IoError::closed);
      EXPECT_TRUE(here.close());  // once is enough, twice does no harm
    });
  });
}

// A cancelled read has taken nothing: the next one gets it all.
TEST_P(Reactors, CancelledReadsLoseNothing) {
  constexpr int kRounds = 300;
  io.run([] {
    auto ends = connected();
    Descriptor& here = ends.first;
    Descriptor& there = ends.second;
    nursery([&](Nursery& n) {
      n.spawn([&there = there] {
        for (int i = 0; i < kRounds; ++i) {
          ASSERT_TRUE(write(there, "ab"));
          if (i % 7 == 0) this_fiber::yield();
        }
        ASSERT_TRUE(there.close());
      });
      std::string all;
      for (bool over = false; !over;) {
        const auto got = timeout(10us, [&here = here] { return read_some(here).value(); });
        if (got) all += *got;
        over = got && got->empty();
      }
      std::string expected;
      for (int i = 0; i < kRounds; ++i) expected += "ab";
      EXPECT_EQ(all, expected);
    });
  });
}

// The same numbers again and again, while edges of the last ones are under way: nobody is woken for
// another's sake, and nobody is forgotten.
TEST_P(Reactors, DescriptorsAreReused) {
  constexpr int kRounds = 400;
  io.run([] {
    nursery([](Nursery& n) {
      for (int fiber = 0; fiber < 4; ++fiber)
        n.spawn([fiber] {
          for (int i = 0; i < kRounds; ++i) {
            auto ends = connected();
            Descriptor& here = ends.first;
            Descriptor& there = ends.second;
            const std::string text = std::to_string(fiber * kRounds + i);
            nursery([&](Nursery& inner) {
              inner.spawn([&there = there, text] { ASSERT_TRUE(write(there, text)); });
              EXPECT_EQ(*read_some(here), text);
            });
          }
        });
    });
  });
}

TEST_P(Reactors, ReadinessIsAnArm) {
  io.run([] {
    auto ends = connected();
    Descriptor& here = ends.first;
    Descriptor& there = ends.second;
    Channel<int> other;
    auto readable = here.on_ready(Way::in);
    auto received = other.rx.on_recv();
    EXPECT_EQ(select(readable, received, otherwise()), 2U) << "nothing has come yet";
    auto writable = here.on_ready(Way::out);
    EXPECT_EQ(select(writable, received), 0U);
    ASSERT_TRUE(write(there, "hello"));
    auto again = here.on_ready(Way::in);
    EXPECT_EQ(select(again, received), 0U);
    EXPECT_EQ(*read_some(here), "hello");
    nursery([&](Nursery& n) {
      n.spawn([&there = there] { ASSERT_TRUE(there.close()); });
      auto ended = here.on_ready(Way::in);
      EXPECT_EQ(select(ended, received), 0U);
      EXPECT_EQ(*read_some(here), "");
    });
  });
}

// All workers sit in a system call; what comes meanwhile is heard all the same.
TEST(Reactor, IsHeardWhileWorkersAreBlocked) {
  constexpr int kBeats = 50;
  int hostage_pipe[2];
  ASSERT_EQ(::pipe2(hostage_pipe, O_CLOEXEC), 0);
  FiberIo io{Options{.workers = 1, .max_workers = 2}};
  std::atomic<int> beats{0};
  io.run([&] {
    const Ends ends = socket_pair();
    const Descriptor here = adopt(ends.a);
    std::thread heart{[&] {  // in earnest, outside of weft: answers each byte with one
      ASSERT_EQ(::fcntl(ends.b, F_SETFL, 0), 0);
      char byte = 0;
      while (::read(ends.b, &byte, 1) == 1) ASSERT_EQ(::write(ends.b, &byte, 1), 1);
    }};
    nursery([&](Nursery& n) {
      n.spawn("hostage", [&] {
        char byte = 0;
        EXPECT_EQ(::read(hostage_pipe[0], &byte, 1), 1);
      });
      n.spawn("pulse", [&] {
        for (; beats < kBeats; ++beats) {
          ASSERT_TRUE(write(here, "."));
          ASSERT_EQ(*read_some(here), ".");
        }
        ASSERT_EQ(::write(hostage_pipe[1], "x", 1), 1);
      });
    });
    ASSERT_EQ(::shutdown(ends.a, SHUT_RDWR), 0);
    heart.join();
    ::close(ends.b);
  });
  EXPECT_EQ(beats, kBeats);
  ::close(hostage_pipe[0]);
  ::close(hostage_pipe[1]);
}

TEST(Reactor, AWaitForTheWorldOutsideIsNoDeadlock) {
  FiberIo io{Options{.workers = 2, .on_deadlock = OnDeadlock::raise}};
  const Ends ends = socket_pair();
  std::atomic<bool> waits{false};
  std::thread outside{[&] {
    while (!waits) std::this_thread::yield();
    EXPECT_EQ(::write(ends.b, "x", 1), 1);
  }};
  io.run([&] {
    const Descriptor here = adopt(ends.a);
    Channel<int> never;
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(never.rx.recv(), 7); });
      waits = true;
      EXPECT_EQ(*read_some(here), "x");
      EXPECT_TRUE(never.tx.send(7));
    });
  });
  outside.join();
  ::close(ends.b);
}

// Whoever has been told, and is in the hands of a worker that has just got up, waits no more: what
// the others wait for will come from there.
TEST(Reactor, WhoHasJustBeenToldIsNoDeadlock) {
  constexpr int kRounds = 5'000;
  for (const unsigned workers : {1U, 2U}) {
    FiberIo io{Options{.workers = workers, .on_deadlock = OnDeadlock::raise}};
    const Ends ends = socket_pair();
    std::atomic<int> round{0};
    std::thread outside{[&] {
      for (int i = 0; i < kRounds; ++i) {
        while (round <= i) std::this_thread::yield();
        EXPECT_EQ(::write(ends.b, "x", 1), 1);
      }
    }};
    io.run([&] {
      const Descriptor here = adopt(ends.a);
      const Channel<int> told;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          for (int i = 0; i < kRounds; ++i) {
            ++round;
            ASSERT_EQ(*read_some(here), "x");
            ASSERT_TRUE(told.tx.send(i));
          }
        });
        for (int i = 0; i < kRounds; ++i) ASSERT_EQ(told.rx.recv(), i);
      });
    });
    outside.join();
    ::close(ends.b);
  }
}

// That there is a socket is no excuse.
TEST(Reactor, ADeadlockBesideAnIdleSocketIsReported) {
  for (const unsigned workers : {1U, 2U}) {
    FiberIo io{Options{.workers = workers, .on_deadlock = OnDeadlock::raise}};
    EXPECT_THROW(io.run([&] {
      const auto ends = connected();
      Channel<int> never;
      static_cast<void>(never.rx.recv());
    }),
                 Deadlock);
  }
}

// It is against the rules, and slow, but it does not run one engine's fiber on another's thread.
TEST(Reactor, AFiberOfAnotherEngineIsWokenThere) {
  constexpr int kRounds = 100;
  for (const ReactorKind kind : {ReactorKind::automatic, ReactorKind::epoll}) {
    FiberIo home{Options{.workers = 2, .reactor = kind}};
    home.run([&] {
      auto ends = connected();
      Descriptor& here = ends.first;
      Descriptor& there = ends.second;
      std::atomic<int> read{0};
      std::thread abroad{[&] {
        FiberIo stranger{Options{.workers = 1}};
        stranger.run([&] {
          const std::thread::id thread = std::this_thread::get_id();
          for (int i = 0; i < kRounds; ++i) {
            EXPECT_EQ(*read_some(there), "x");
            EXPECT_EQ(std::this_thread::get_id(), thread);
            ++read;
          }
        });
      }};
      for (int i = 0; i < kRounds; ++i) {
        for (int turns = 0; turns < 20; ++turns) this_fiber::yield();
        ASSERT_TRUE(write(here, "x"));
        while (read <= i) this_fiber::yield();
      }
      abroad.join();
    });
  }
}

TEST(Reactor, DescriptorsMayOutliveTheirEngine) {
  std::optional<Descriptor> kept;
  {
    FiberIo io{Options{.workers = 2}};
    io.run([&] {
      auto ends = connected();
      Descriptor& here = ends.first;
      Descriptor& there = ends.second;
      ASSERT_TRUE(write(here, "x"));
      kept.emplace(std::move(there));
    });
  }
  EXPECT_TRUE(kept->is_open());
  EXPECT_TRUE(kept->close());
}

TEST(Reactor, WhatIsAlwaysReadyNeedsNoWatch) {
  FiberIo io{Options{.workers = 1}};
  io.run([] {
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const Descriptor file = adopt(fd);
    std::array<char, 4> magic{};
    const iovec part{magic.data(), magic.size()};
    EXPECT_EQ(file.read({&part, 1}).value(), 4U);
    EXPECT_EQ(std::string_view(magic.data() + 1, 3), "ELF");
  });
}

TEST(Reactor, NoneIsToBeHadOnAPlainThread) {
  const Ends ends = socket_pair();
  EXPECT_THROW(static_cast<void>(Descriptor::adopt(ends.a, Carries::messages, "r", "w")),
               std::logic_error);
  ::close(ends.a);
  ::close(ends.b);
}

TEST(Reactor, WaitsInPlace) {
  BlockingIo io;
  io.run([] {
    const Ends ends = socket_pair();
    const Descriptor here = adopt(ends.a);
    EXPECT_FALSE(timeout(1ms, [&] { return read_some(here).value(); }));
    std::thread outside{[&] { EXPECT_EQ(::write(ends.b, "x", 1), 1); }};
    EXPECT_EQ(*read_some(here), "x");
    outside.join();
    Channel<int> from_thread;
    std::thread sender{[tx = from_thread.tx] { EXPECT_TRUE(tx.send(5)); }};
    auto readable = here.on_ready(Way::in);
    auto received = from_thread.rx.on_recv();
    EXPECT_EQ(select(readable, received), 1U);  // woken although it sleeps in the reactor
    sender.join();
    ::close(ends.b);
    EXPECT_EQ(*read_some(here), "");
  });
}

// Unix sockets have no edge for room in a backlog: whoever finds it full is told so.
TEST(Reactor, AFullBacklogIsNoConnection) {
  FiberIo io{Options{.workers = 1, .reactor = ReactorKind::epoll}};
  io.run([] {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft-reactor-test-%d", ::getpid());
    SocketAddress address;
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                            std::strlen(at.sun_path + 1));
    std::memcpy(&address.storage, &at, sizeof at);
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(listener, address.get(), address.length), 0);
    ASSERT_EQ(::listen(listener, 0), 0);
    std::vector<Descriptor> made;
    std::error_code refused;
    while (!refused && made.size() < 16) {
      Descriptor one = adopt(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      refused = one.connect(address).error();
      made.push_back(std::move(one));
    }
    EXPECT_EQ(refused, std::errc::resource_unavailable_try_again);
    ::close(listener);
  });
}

}  // namespace
}  // namespace weft
