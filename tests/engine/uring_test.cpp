// io_uring: calls that the kernel makes for fibers, asked back, closed and crowded.
#include <weft/base/splitmix.hpp>
#include <weft/cancel.hpp>
#include <weft/core/descriptor.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string why_not() {
  try {
    const FiberIo io{{.reactor = ReactorKind::uring}};
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

class UringTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string reason = why_not();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  static Options options(unsigned entries = 256) {
    return {.workers = 2, .reactor = ReactorKind::uring, .ring_entries = entries};
  }
};

struct Ends {
  Descriptor left, right;
};

Descriptor adopt(int fd) {
  return *Descriptor::adopt(fd, Carries::stream, "test read", "test write");
}

Ends make_ends() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
    throw std::runtime_error{std::strerror(errno)};
  return {adopt(fds[0]), adopt(fds[1])};
}

Result<std::size_t> receive(const Descriptor& from, std::span<char> buffer) {
  const iovec part{buffer.data(), buffer.size()};
  return from.receive({&part, 1});
}

bool send(const Descriptor& to, std::string_view text) {
  while (!text.empty()) {
    const iovec part{const_cast<char*>(text.data()), text.size()};
    const Result<std::size_t> sent = to.send({&part, 1});
    if (!sent) return false;
    text.remove_prefix(*sent);
  }
  return true;
}

std::string receive_exactly(const Descriptor& from, std::size_t count) {
  std::string all(count, '\0');
  std::size_t got = 0;
  while (got < count) {
    const auto some = receive(from, std::span{all}.subspan(got));
    if (!some || *some == 0) break;
    got += *some;
  }
  all.resize(got);
  return all;
}

void echo(const Descriptor& peer) {
  std::array<char, 64> buffer;
  for (;;) {
    const auto got = receive(peer, buffer);
    if (!got || *got == 0 || !send(peer, {buffer.data(), *got})) return;
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
    ++count;
  return count;
}

// ── what it does ────────────────────────────────────────────────────────────────────────────────

TEST_F(UringTest, IsWhatOneGetsWhereItWorks) {
  EXPECT_EQ(FiberIo{{.reactor = ReactorKind::uring}}.reactor_report(), "io_uring: asked for");
  EXPECT_EQ(FiberIo{{.reactor = ReactorKind::epoll}}.reactor_report(), "epoll: asked for");
  FiberIo io{options()};
  EXPECT_EQ(io.run([] { return std::string{weft::io().reactor()->kind()}; }), "io_uring");
}

void echo_many(const Options& options, unsigned connections, unsigned rounds) {
  FiberIo io{options};
  std::atomic<unsigned> good{0};
  io.run([&] {
    nursery([&](Nursery& n) {
      for (unsigned i = 0; i < connections; ++i) {
        auto ends = std::make_shared<Ends>(make_ends());
        n.spawn([ends] { echo(ends->left); });
        n.spawn([&good, rounds, ends, i] {
          for (unsigned round = 0; round < rounds; ++round) {
            const std::string text = std::to_string(i) + ":" + std::to_string(round) + ";";
            if (!send(ends->right, text)) return;
            if (receive_exactly(ends->right, text.size()) != text) return;
          }
          ++good;
          static_cast<void>(ends->right.close());
        });
      }
    });
  });
  EXPECT_EQ(good, connections);
}

TEST_F(UringTest, Echoes) { echo_many(options(), 20, 100); }
TEST_F(UringTest, EchoesOnOneWorker) {
  Options one = options();
  one.workers = 1;
  echo_many(one, 20, 100);
}
// Two entries, and room for eight answers: nothing gets lost for want of room.
TEST_F(UringTest, EchoesWithTheSmallestOfRings) {
  echo_many(options(1), 50, 20);
  echo_many(options(2), 200, 20);
}
TEST_F(UringTest, EchoesOnAThousandConnections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < 2'100) GTEST_SKIP() << "too few descriptors allowed";
  echo_many(options(), 1'000, 5);
}

// ── asked back ──────────────────────────────────────────────────────────────────────────────────

// A frame that is gone, and what is there next: the kernel must not write to it.
[[gnu::noinline]] bool paint_and_look() {
  volatile char paint[2'048];
  for (volatile char& c : paint) c = 0x5a;
  for (int i = 0; i < 3; ++i) this_fiber::yield();
  for (volatile char& c : paint)
    if (c != 0x5a) return false;
  return true;
}

[[gnu::noinline]] bool receive_one(const Descriptor& from, char& to) {
  struct {
    char before[16], buffer[1], behind[16];
  } frame;
  std::memset(&frame, 0x77, sizeof frame);
  const auto got = receive(from, frame.buffer);
  for (const char c : frame.before)
    if (c != 0x77) std::abort();
  for (const char c : frame.behind)
    if (c != 0x77) std::abort();
  if (!got || *got != 1) return false;
  to = frame.buffer[0];
  return true;
}

// One byte is sent while its receiver is cancelled. Either it is received, or it is still there.
TEST_F(UringTest, NothingIsLostWhenACallIsCancelledAsItCompletes) {
  constexpr unsigned kRounds = 2'000;
  FiberIo io{options()};
  unsigned received = 0, cancelled = 0, wrong = 0;
  std::atomic<bool> painted_over{false};
  io.run([&] {
    const Ends ends = make_ends();
    for (unsigned round = 0; round < kRounds; ++round) {
      char got = 0;
      std::atomic<bool> has{false};
      const char sent = static_cast<char>('a' + round % 26);
      nursery([&](Nursery& n) {
        n.spawn([&] {
          try {
            has = receive_one(ends.left, got);
          } catch (const Cancelled&) {
            if (!paint_and_look()) painted_over = true;
            throw;
          }
        });
        n.spawn([&, round] {
          for (unsigned i = 0; i < round % 5; ++i) this_fiber::yield();
          shielded([&] { EXPECT_TRUE(send(ends.right, {&sent, 1})); });
        });
        for (unsigned i = 0; i < round % 7; ++i) this_fiber::yield();
        n.cancel();
      });
      if (!has) {
        ++cancelled;
        EXPECT_TRUE(send(ends.right, "!"));  // the other sender may have been cancelled, too
        char first = 0;
        ASSERT_TRUE(receive_one(ends.left, first));
        if (first != '!') {
          wrong += first != sent;
          ASSERT_TRUE(receive_one(ends.left, first));
          wrong += first != '!';
        }
      } else {
        ++received;
        wrong += got != sent;
      }
    }
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_FALSE(painted_over);
  EXPECT_EQ(received + cancelled, kRounds);
}

// Answers that come late, and calls that are asked back, as a seed draws them: what arrives is what
// was sent, in one piece.
TEST_F(UringTest, LateAnswersAndCancelsOfManySeedsLoseNoByte) {
  constexpr std::string_view kEnd = ".";
  unsigned cancelled = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    FiberIo io{options(seed % 2 == 0 ? 1 : 256)};
    std::string sent, got;
    io.run([&] {
      const Ends ends = make_ends();
      nursery([&](Nursery& n) {
        n.spawn("writer", [&, chance = SplitMix{seed}]() mutable {
          for (int i = 0; i < 60; ++i) {
            const std::uint64_t drawn = chance.next();
            if (drawn % 3 == 0) sleep_for(std::chrono::microseconds{drawn / 3 % 300});
            else if (drawn % 3 == 1) this_fiber::yield();
            const std::string part(1 + drawn / 1024 % 12, static_cast<char>('a' + i % 26));
            sent += part;
            if (!send(ends.right, part)) return;
          }
          sent += kEnd;
          EXPECT_TRUE(send(ends.right, kEnd));
        });
        SplitMix chance{~seed};
        while (!got.ends_with(kEnd)) {
          char next = 0;
          const std::chrono::microseconds patience{chance.next() % 200};
          const auto came = timeout(patience, [&] { return receive_one(ends.left, next); });
          if (!came) ++cancelled;
          else if (!*came) break;
          else got += next;
        }
      });
    });
    EXPECT_EQ(got, sent);
  }
  EXPECT_GT(cancelled, 0U);
}

TEST_F(UringTest, ATimeoutEndsACallThatGetsNothing) {
  FiberIo io{options()};
  io.run([] {
    const Ends ends = make_ends();
    for (int i = 0; i < 20; ++i) {
      char byte = 0;
      EXPECT_FALSE(cancel_scope([&](CancelScope& scope) {
        nursery([&](Nursery& n) {
          n.spawn([&] { static_cast<void>(receive_one(ends.left, byte)); });
          n.spawn([&scope] {
            sleep_for(100us);
            scope.cancel();
          });
        });
      }));
    }
    EXPECT_TRUE(send(ends.right, "x"));
    char byte = 0;
    EXPECT_TRUE(receive_one(ends.left, byte));
    EXPECT_EQ(byte, 'x');
  });
}

// ── closed ──────────────────────────────────────────────────────────────────────────────────────

TEST_F(UringTest, ClosingEndsCallsInFlightAndThePeerSeesIt) {
  FiberIo io{options()};
  io.run([] {
    for (unsigned round = 0; round < 300; ++round) {
      Ends ends = make_ends();
      std::atomic<unsigned> closed{0};
      nursery([&](Nursery& n) {
        for (int i = 0; i < 3; ++i)
          n.spawn([&] {
            char byte = 0;
            const auto got = receive(ends.left, {&byte, 1});
            if (!got && got.error() == IoError::closed) ++closed;
          });
        n.spawn([&] {  // and one that waits for an edge
          Descriptor::Ready ready = ends.left.on_ready(Way::in);
          wait(ready);
          ++closed;
        });
        for (unsigned i = 0; i < round % 6; ++i) this_fiber::yield();
        EXPECT_TRUE(ends.left.close());
      });
      EXPECT_EQ(closed, 4U);
      char byte = 0;
      const auto end = receive(ends.right, {&byte, 1});
      ASSERT_TRUE(end);
      EXPECT_EQ(*end, 0U);
    }
  });
}

// The number of a descriptor is given again at once: what was for the last must not reach the next.
// A regression: an arm that had begun to look before the close, and counted edges after it, waited
// for one more.
TEST_F(UringTest, AnArmIsWokenHoweverItMeetsTheClose) {
  FiberIo io{options()};
  io.run([] {
    for (unsigned round = 0; round < 5'000; ++round) {
      Ends ends = make_ends();
      std::atomic<bool> go{false};
      nursery([&](Nursery& n) {
        n.spawn([&] {
          while (!go) this_fiber::yield();
          Descriptor::Ready ready = ends.left.on_ready(Way::in);
          wait(ready);
        });
        this_fiber::yield();
        go = true;
        for (unsigned i = 0; i < round % 64 * 8; ++i)
          std::atomic_signal_fence(std::memory_order_seq_cst);  // so that the loop stays
        EXPECT_TRUE(ends.left.close());
      });
    }
  });
}

TEST_F(UringTest, ADescriptorThatIsUsedAgainGetsItsOwnAnswers) {
  const std::size_t before = open_descriptors();
  {
    FiberIo io{options()};
    io.run([] {
      nursery([](Nursery& n) {
        for (int fiber = 0; fiber < 4; ++fiber)
          n.spawn([fiber] {
            for (int round = 0; round < 300; ++round) {
              Ends ends = make_ends();
              const std::string text = std::to_string(fiber) + "/" + std::to_string(round);
              nursery([&](Nursery& inner) {
                inner.spawn([&] { EXPECT_EQ(receive_exactly(ends.left, text.size()), text); });
                this_fiber::yield();
                EXPECT_TRUE(send(ends.right, text));
              });
            }
          });
      });
    });
  }
  EXPECT_EQ(open_descriptors(), before);
}

// ── connections ─────────────────────────────────────────────────────────────────────────────────

struct Listening {
  Descriptor listener;
  SocketAddress address;
};

Listening listen_here() {
  Kernel& kernel = **Descriptor::kernel_here();
  const auto fd = static_cast<int>(kernel.socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(kernel.bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  EXPECT_EQ(kernel.listen(fd, 128), 0);
  Listening listening;
  EXPECT_EQ(kernel.local_address(fd, listening.address), 0);
  listening.listener = adopt(fd);
  return listening;
}

Descriptor dial(const SocketAddress& address) {
  const auto fd =
      static_cast<int>((*Descriptor::kernel_here())->socket(AF_INET, SOCK_STREAM, 0));
  Descriptor made = adopt(fd);
  const Result<void> connected = made.connect(address);
  EXPECT_TRUE(connected) << connected.error().message();
  return made;
}

TEST_F(UringTest, AcceptsAndConnects) {
  const std::size_t before = open_descriptors();
  {
    FiberIo io{options()};
    io.run([] {
      const Listening here = listen_here();
      nursery([&](Nursery& n) {
        n.spawn([&] {
          nursery([&](Nursery& connections) {
            for (int i = 0; i < 100; ++i) {
              SocketAddress peer;
              const Result<int> fd = here.listener.accept(&peer);
              ASSERT_TRUE(fd) << fd.error().message();
              EXPECT_EQ(peer.get()->sa_family, AF_INET);
              auto accepted = std::make_shared<Descriptor>(adopt(*fd));
              connections.spawn([accepted] { echo(*accepted); });
            }
          });
        });
        for (int i = 0; i < 100; ++i)
          n.spawn([&here, i] {
            const Descriptor peer = dial(here.address);
            const std::string text = "hello " + std::to_string(i);
            EXPECT_TRUE(send(peer, text));
            EXPECT_EQ(receive_exactly(peer, text.size()), text);
          });
      });
    });
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(UringTest, ARefusedConnectionSaysSo) {
  FiberIo io{options()};
  io.run([] {
    Listening gone = listen_here();
    EXPECT_TRUE(gone.listener.close());
    const auto fd =
        static_cast<int>((*Descriptor::kernel_here())->socket(AF_INET, SOCK_STREAM, 0));
    const Descriptor made = adopt(fd);
    const Result<void> connected = made.connect(gone.address);
    ASSERT_FALSE(connected);
    EXPECT_EQ(connected.error(), std::errc::connection_refused);
  });
}

// Neither a call nor a poll keeps it.
TEST_F(UringTest, TheAddressOfAClosedListenerIsFreeAtOnce) {
  FiberIo io{options()};
  io.run([] {
    Kernel& kernel = **Descriptor::kernel_here();
    Listening here = listen_here();
    for (unsigned round = 0; round < 200; ++round) {
      nursery([&](Nursery& n) {
        n.spawn([&] {
          SocketAddress peer;
          EXPECT_FALSE(here.listener.accept(&peer));
        });
        n.spawn([&] {
          Descriptor::Ready ready = here.listener.on_ready(Way::in);
          wait(ready);
        });
        for (unsigned i = 0; i < round % 6; ++i) this_fiber::yield();
        EXPECT_TRUE(here.listener.close());
      });
      const auto fd = static_cast<int>(kernel.socket(AF_INET, SOCK_STREAM, 0));
      ASSERT_EQ(kernel.bind(fd, here.address.get(), here.address.length), 0) << round;
      ASSERT_EQ(kernel.listen(fd, 8), 0);
      here.listener = adopt(fd);
    }
  });
}

// A listener whose accept() is cancelled as a connection comes in keeps it for the next.
TEST_F(UringTest, NoConnectionIsLostWhenAcceptIsCancelled) {
  const std::size_t before = open_descriptors();
  {
    FiberIo io{options()};
    io.run([] {
      const Listening here = listen_here();
      for (unsigned round = 0; round < 500; ++round) {
        std::optional<Descriptor> accepted, dialled;
        nursery([&](Nursery& n) {
          n.spawn([&] {
            SocketAddress peer;
            if (const Result<int> fd = here.listener.accept(&peer)) accepted = adopt(*fd);
          });
          n.spawn([&] { shielded([&] { dialled = dial(here.address); }); });
          for (unsigned i = 0; i < round % 9; ++i) this_fiber::yield();
          n.cancel();
        });
        if (!dialled) dialled = dial(here.address);
        if (!accepted) {
          SocketAddress peer;
          const Result<int> fd = here.listener.accept(&peer);
          ASSERT_TRUE(fd);
          accepted = adopt(*fd);
        }
        ASSERT_TRUE(send(*dialled, "x"));
        ASSERT_EQ(receive_exactly(*accepted, 1), "x");
      }
    });
  }
  EXPECT_EQ(open_descriptors(), before);
}

// ── files ───────────────────────────────────────────────────────────────────────────────────────

// The kernel wakes one call for each connection, and that one may be cancelled at the same time.
TEST_F(UringTest, AConnectionGoesToAnotherIfTheCallThatItWokeIsCancelled) {
  Options one = options();
  one.workers = 1;
  FiberIo{one}.run([] {
    const Listening here = listen_here();
    for (unsigned round = 0; round < 100; ++round) {
      const auto accept = [&] {
        const Result<int> fd = here.listener.accept();
        ASSERT_TRUE(fd);
        ::close(*fd);
      };
      const auto call = [&] {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::connect(fd, here.address.get(), here.address.length), 0);
        ::close(fd);
      };
      std::stop_source cancelled;
      bool first_runs = false, first_has_one = false;
      Event first_has_ended;
      nursery([&](Nursery& n) {
        n.spawn([&] {
          first_runs = true;
          first_has_one = static_cast<bool>(with_stop(cancelled.get_token(), accept));
          first_has_ended.set();
        });
        while (!first_runs) this_fiber::yield();
        bool second_runs = false;
        n.spawn([&] {
          second_runs = true;
          accept();
        });
        while (!second_runs) this_fiber::yield();
        sleep_for(1us);  // the kernel has both calls, in this order
        // From outside: our thread sleeps, and hears of the connection after it was told to cancel.
        std::thread outside{[&] {
          call();
          cancelled.request_stop();
        }};
        first_has_ended.wait();
        outside.join();
        if (first_has_one) call();
      });
    }
  });
}

// ── workers that come, go and are blocked ───────────────────────────────────────────────────────

// The only worker sits in a system call that ends when a fiber of its own has been answered.
TEST_F(UringTest, AnswersOfABlockedWorkerAreTakenByOthers) {
  Options one = options();
  one.workers = 1;
  one.max_workers = 2;
  FiberIo io{one};
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  io.run([&] {
    const Ends ends = make_ends();
    std::atomic<bool> blocked{false};
    std::thread sender{[&] {
      while (!blocked) std::this_thread::yield();
      EXPECT_EQ(::send(ends.right.fd(), "x", 1, 0), 1);
    }};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_EQ(receive_exactly(ends.left, 1), "x");
        EXPECT_EQ(::write(pipe[1], "x", 1), 1);
      });
      this_fiber::yield();
      sleep_for(1us);  // the kernel has been told
      blocked = true;
      char byte = 0;
      EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
    });
    sender.join();
  });
  ::close(pipe[0]);
  ::close(pipe[1]);
}

// The threads that told the kernel of a poll are gone, and the engine, too.
TEST_F(UringTest, DescriptorsOutliveRunsAndEngines) {
  const std::size_t before = open_descriptors();
  std::optional<Ends> kept;
  {
    FiberIo io{options()};
    for (int run = 0; run < 5; ++run)
      io.run([&] {
        if (!kept) kept = make_ends();
        nursery([&](Nursery& n) {
          n.spawn([&] {
            Descriptor::Ready ready = kept->left.on_ready(Way::in);
            wait(ready);
          });
          n.spawn([&] {
            this_fiber::yield();
            EXPECT_TRUE(send(kept->right, "y"));
          });
        });
        EXPECT_EQ(receive_exactly(kept->left, 1), "y");
      });
  }
  kept.reset();
  EXPECT_EQ(open_descriptors(), before);
}

Duration processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST_F(UringTest, WhoWaitsUsesNoProcessor) {
  FiberIo io{options()};
  const Duration used = io.run([] {
    std::vector<Ends> all;
    for (int i = 0; i < 100; ++i) all.push_back(make_ends());
    Duration idle{};
    nursery([&](Nursery& n) {
      for (const Ends& ends : all)
        n.spawn([&ends] { static_cast<void>(receive_exactly(ends.left, 1)); });
      sleep_for(50ms);
      const Duration before = processor_time();
      sleep_for(500ms);
      idle = processor_time() - before;
      n.cancel();
    });
    return idle;
  });
  EXPECT_LT(used, 250ms);
}

// ── where it is forbidden ───────────────────────────────────────────────────────────────────────

void forbid(unsigned call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::fputs("no seccomp here\n", stderr);
    std::_Exit(3);
  }
}

[[noreturn]] void weave_without(unsigned call) {
  forbid(call);
  FiberIo io{{.workers = 2}};
  io.run([] {
    const Ends ends = make_ends();
    nursery([&](Nursery& n) {
      n.spawn([&] { std::fputs(receive_exactly(ends.left, 5).c_str(), stderr); });
      static_cast<void>(send(ends.right, "woven"));
    });
  });
  std::fprintf(stderr, " by %s\n", io.reactor_report().c_str());
  std::_Exit(0);
}

TEST(UringForbidden, EpollStandsInAndSaysWhy) {
  EXPECT_EXIT(weave_without(SYS_io_uring_setup), ::testing::ExitedWithCode(0),
              "woven by epoll: io_uring is forbidden here.*sandbox");
}

// A ring can be made then, but hears nothing.
TEST(UringForbidden, EpollStandsInForARingThatAnswersNothing) {
  EXPECT_EXIT(weave_without(SYS_io_uring_enter), ::testing::ExitedWithCode(0),
              "woven by epoll: .+");
}

TEST(UringForbidden, AskedForItIsAnError) {
  EXPECT_EXIT(
      {
        forbid(SYS_io_uring_setup);
        ::setenv("WEFT_IO", "uring", 1);
        try {
          const FiberIo io;
        } catch (const std::runtime_error& error) {
          std::fputs(error.what(), stderr);
          std::_Exit(0);
        }
        std::_Exit(1);
      },
      ::testing::ExitedWithCode(0), "io_uring was asked for.*WEFT_IO.*forbidden here");
}

// An entry of a ring has 32 bits for a length, and four gigabytes are none in these.
TEST_F(UringTest, AHugeBufferIsNotAnEmptyOne) {
  constexpr std::size_t kHuge = std::size_t{1} << 32;
  void* const room = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) GTEST_SKIP() << "no four gigabytes of addresses here";
  FiberIo io{options()};
  io.run([&] {
    const Ends ends = make_ends();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        this_fiber::yield();
        const iovec hello{const_cast<char*>("hello"), 5};
        EXPECT_EQ(ends.right.send({&hello, 1}).value(), 5U);
      });
      const iovec all{room, kHuge};
      EXPECT_EQ(ends.left.receive({&all, 1}).value(), 5U);
    });
  });
  ::munmap(room, kHuge);
}

}  // namespace
}  // namespace weft
