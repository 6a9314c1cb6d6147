// A reactor that cannot be had, and one that many ask for. A program of its own, because it puts
// itself before epoll_create1(2).
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>

#include <engine/reactor_choice.hpp>

namespace {

std::atomic<bool> refuse{false};
std::atomic<int> tries{0};

}  // namespace

extern "C" int epoll_create1(int flags) noexcept {
  ++tries;
  if (!refuse) return static_cast<int>(::syscall(SYS_epoll_create1, flags));
  errno = EMFILE;
  return -1;
}

namespace weft {
namespace {

using namespace std::chrono_literals;
using engine::ReactorOnDemand;

class ReactorChoice : public ::testing::Test {
 protected:
  ReactorChoice() {
    refuse = false;
    tries = 0;
  }
};

TEST_F(ReactorChoice, AFailureIsRememberedForAWhile) {
  refuse = true;
  FiberIo io{{.workers = 2, .reactor = ReactorKind::epoll}};
  io.run([&] {
    const Instant began = Clock::now();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(pipe().error(), IoError::no_reactor);
    const auto whiles = (Clock::now() - began) / ReactorOnDemand::kFailureHolds;
    EXPECT_LE(tries, 2 + whiles);
    EXPECT_EQ(io.reactor_report(), "none: epoll cannot be set up (Too many open files)");
  });
}

TEST_F(ReactorChoice, AFailureIsNotForEver) {
  refuse = true;
  FiberIo io{{.workers = 2, .reactor = ReactorKind::epoll}};
  io.run([&] {
    EXPECT_EQ(pipe().error(), IoError::no_reactor);
    refuse = false;
    Result<Pipe> made = pipe();
    while (!made) {
      ASSERT_EQ(made.error(), IoError::no_reactor);
      sleep_for(1ms);
      made = pipe();
    }
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(made->reader.read_all().value(), "through"); });
      EXPECT_TRUE(made->writer.write_all("through"));
      EXPECT_TRUE(made->writer.close());
    });
    EXPECT_EQ(io.reactor_report(), "epoll: asked for");
  });
}

TEST_F(ReactorChoice, ManyWhoAskAtOnceHaveItMadeOnce) {
  for (int round = 0; round < 20; ++round) {
    tries = 0;
    FiberIo io{{.workers = 4, .reactor = ReactorKind::epoll}};
    io.run([&] {
      nursery([](Nursery& n) {
        for (int i = 0; i < 50; ++i)
          n.spawn([] {
            const Result<Pipe> made = pipe();
            ASSERT_TRUE(made) << made.error().message();
            EXPECT_TRUE(made->writer.write_all("x"));
            std::array<std::byte, 1> byte{};
            EXPECT_TRUE(made->reader.read_exactly(byte));
          });
      });
    });
    EXPECT_EQ(tries, 1);
  }
}

}  // namespace
}  // namespace weft
