// Pipes, and the streams a program is born with.
#include <weft/pipe.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/file.hpp>
#include <weft/future.hpp>
#include <weft/net/copy.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/temp_dir.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::on_workers;
using testing::open_descriptors;
using testing::TempDir;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ── pipes ───────────────────────────────────────────────────────────────────────────────────────

TEST(Pipes, CarryBytesInOrderToTheEnd) {
  on_workers([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    std::string sent;
    for (int i = 0; sent.size() < 1'000'000; ++i) sent += std::to_string(i) + ' ';
    const auto [written, got] = all(
        [&] {
          const Result<void> done = writer.write_all(sent);
          EXPECT_TRUE(writer.close());
          return done.has_value();
        },
        [&] { return reader.read_all().value(); });
    EXPECT_TRUE(written);
    EXPECT_TRUE(got == sent);
    std::array<std::byte, 1> buffer;
    EXPECT_TRUE(reader.read_some(buffer)->empty()) << "and stays at its end";
  });
}

// By the kernel: the file's position is behind what was sent, and not behind what was read.
TEST(Pipes, AFileIsCopiedWithoutABuffer) {
  const TempDir directory;
  on_workers({1U, 2U}, [&] {
    std::string all;
    for (int i = 0; all.size() < 500'000; ++i) all += std::to_string(i) + ' ';
    ASSERT_TRUE(write_file(directory / "data", all));
    const File file = File::open(directory / "data").value();
    Pipe ends = pipe().value();
    EXPECT_FALSE(timeout(10ms, [&] { return net::copy(file, ends.writer); })) << "nobody reads";
    const std::uint64_t sent = file.seek(0, From::position).value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(ends.reader.read_all().value() == all); });
      EXPECT_EQ(net::copy(file, ends.writer).value(), all.size() - sent);
      EXPECT_TRUE(ends.writer.close());
    });
    EXPECT_EQ(net::copy(file, ends.writer).error(), IoError::closed);
    Pipe broken = pipe().value();
    EXPECT_TRUE(broken.reader.close());
    ASSERT_TRUE(file.seek(0));
    EXPECT_EQ(net::copy(file, broken.writer).error(), std::errc::broken_pipe);
    EXPECT_EQ(file.seek(0, From::position).value(), 0U);
  });
}

TEST(Pipes, WorkWhereFibersDoNotTakeTurns) {
  BlockingIo{}.run([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    EXPECT_TRUE(writer.write_all("over, under"));
    EXPECT_TRUE(writer.close());
    EXPECT_EQ(reader.read_all().value(), "over, under");
  });
}

TEST(Pipes, ReadExactlyAndLimits) {
  on_workers({1U}, [] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    ASSERT_TRUE(writer.write_all("12345678"));
    ASSERT_TRUE(writer.close());
    std::array<std::byte, 3> buffer;
    ASSERT_TRUE(reader.read_exactly(buffer));
    EXPECT_EQ(text_of(buffer), "123");
    EXPECT_EQ(reader.read_all(4).error(), IoError::too_long);
    EXPECT_EQ(reader.read_exactly(buffer).error(), IoError::end_of_stream);
    EXPECT_TRUE(reader.read_some({})->empty());
  });
}

TEST(Pipes, WithoutAReaderWritingFails) {
  on_workers({1U}, [] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    EXPECT_TRUE(reader.close());
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(writer.write_all("text").error(), std::errc::broken_pipe);
    EXPECT_EQ(writer.write_some({}).value(), 0U);
    sigset_t mask;
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &mask), 0);
    EXPECT_EQ(::sigismember(&mask, SIGPIPE), 0) << "the mask is as it was";
  });
}

TEST(Pipes, ASignalThatIsSomebodyElsesStays) {
  BlockingIo{}.run([] {  // on this thread
    sigset_t broken_pipe;
    ::sigemptyset(&broken_pipe);
    ::sigaddset(&broken_pipe, SIGPIPE);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr), 0);
    const auto take_pending = [&] {
      const timespec at_once{};
      return ::sigtimedwait(&broken_pipe, nullptr, &at_once);
    };
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    EXPECT_TRUE(reader.close());
    EXPECT_EQ(writer.write_all("text").error(), std::errc::broken_pipe);
    EXPECT_EQ(take_pending(), -1) << "ours is gone";
    ASSERT_EQ(::raise(SIGPIPE), 0);
    EXPECT_EQ(writer.write_all("text").error(), std::errc::broken_pipe);
    EXPECT_EQ(take_pending(), SIGPIPE);
    ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &broken_pipe, nullptr), 0);
  });
}

TEST(Pipes, AWriterIsWokenWhenTheReaderGoes) {
  on_workers([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        const std::string much(1'000'000, 'x');
        EXPECT_EQ(writer.write_all(much).error(), std::errc::broken_pipe);
      });
      n.spawn([&] {
        std::array<std::byte, 100> buffer;
        EXPECT_TRUE(reader.read_exactly(buffer));
        EXPECT_TRUE(reader.close());
      });
    });
  });
}

TEST(Pipes, ClosingOurEndWakesWhoUsesIt) {
  on_workers([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    nursery([&](Nursery& n) {
      for (int i = 0; i < 3; ++i)
        n.spawn([&] {
          std::array<std::byte, 1> buffer;
          EXPECT_EQ(reader.read_some(buffer).error(), IoError::closed);
        });
      n.spawn([&] {
        testing::let_others_block();
        EXPECT_TRUE(reader.close());
      });
    });
    EXPECT_FALSE(reader);
    EXPECT_EQ(PipeReader{}.read_all().error(), IoError::closed);
    EXPECT_EQ(PipeWriter{}.write_all("x").error(), IoError::closed);
  });
}

TEST(Pipes, ACancelledReadTakesNothing) {
  on_workers([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    nursery([&](Nursery& n) {
      Future<void> waits = n.async([&] {
        std::array<std::byte, 1> buffer;
        static_cast<void>(reader.read_some(buffer));
        ADD_FAILURE() << "went on";
      });
      testing::let_others_block();
      waits.cancel();
    });
    EXPECT_TRUE(writer.write_all("x"));
    EXPECT_TRUE(writer.close());
    EXPECT_EQ(reader.read_all().value(), "x");
  });
}

TEST(Pipes, EndsAreArms) {
  on_workers([] {
    Pipe ends = pipe().value();
    PipeReader& reader = ends.reader;
    PipeWriter& writer = ends.writer;
    {
      auto readable = reader.on_readable();
      auto writable = writer.on_writable();
      EXPECT_EQ(select_first(readable, writable), 1U) << "empty: it can be written only";
    }
    std::array<std::byte, 64 * 1024> buffer{};
    while (writer.try_write_some(buffer)) {
    }
    EXPECT_EQ(writer.try_write_some(buffer).error(), std::errc::resource_unavailable_try_again);
    {
      auto writable = writer.on_writable();
      auto readable = reader.on_readable();
      EXPECT_EQ(select_first(writable, readable), 1U) << "full: it can be read only";
    }
    while (reader.try_read_some(buffer)) {
    }
    nursery([&](Nursery& n) {
      n.spawn([&] {
        testing::let_others_block();
        EXPECT_TRUE(writer.write_all("x"));
      });
      auto readable = reader.on_readable();
      auto late = after(1h);
      EXPECT_EQ(select(readable, late), 0U);
    });
    EXPECT_EQ(text_of(reader.try_read_some(buffer).value()), "x");
  });
}

TEST(Pipes, NoDescriptorIsLeft) {
  on_workers({1U}, [] {
    static_cast<void>(pipe());
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 100; ++i) {
      Result<Pipe> made = pipe();
      ASSERT_TRUE(made);
      EXPECT_EQ(open_descriptors(), before + 2);
      EXPECT_NE(::fcntl(made->reader.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
      EXPECT_NE(::fcntl(made->writer.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
    }
    EXPECT_EQ(open_descriptors(), before);
  });
}

// ── standard input and output ───────────────────────────────────────────────────────────────────

// Puts another descriptor in the place of one of the three, and puts that back.
class Redirected {
 public:
  Redirected(int which, int by) : which_(which), kept_(::fcntl(which, F_DUPFD_CLOEXEC, 10)) {
    ::dup2(by, which);
  }
  ~Redirected() {
    ::dup2(kept_, which_);
    ::close(kept_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  const int which_;
  const int kept_;
};

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

// What is at both ends, with blocking descriptors as a shell would give them.
struct Ends {
  std::array<int, 2> fd{-1, -1};
  ~Ends() {
    for (const int end : fd)
      if (end >= 0) ::close(end);
  }
  void close_second() { ::close(std::exchange(fd[1], -1)); }
};

// Reads "hello" from `ends.fd[0]` in the place of standard input, written meanwhile.
void expect_to_read(Ends& ends) {
  const Redirected in{STDIN_FILENO, ends.fd[0]};
  on_workers({1U}, [&] {
    StandardInput input = standard_input().value();
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::array<std::byte, 5> buffer;
        ASSERT_TRUE(input.read_exactly(buffer));
        EXPECT_EQ(text_of(buffer), "hello");
      });
      n.spawn([&] {
        testing::let_others_block();
        EXPECT_TRUE(blocks(ends.fd[0])) << "who shares it would be surprised";
        EXPECT_EQ(::write(ends.fd[1], "hello\n", 6), 6);
      });
    });
    std::array<std::byte, 1> rest;
    EXPECT_EQ(text_of(input.read_some(rest).value()), "\n");
    // Nothing comes any more, and nobody waits for it.
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(input.read_some(rest)); }));
  });
  EXPECT_TRUE(blocks(ends.fd[0]));
}

// Writes to `ends.fd[1]` in the place of standard output more than fits, read meanwhile.
void expect_to_write(Ends& ends) {
  const std::string much(500'000, 'x');
  const Redirected out{STDOUT_FILENO, ends.fd[1]};
  std::string got;
  on_workers({2U}, [&] {
    const StandardOutput output = standard_output().value();
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(output.write_all(much)); });
      n.spawn([&] {
        std::array<char, 4096> buffer;
        while (got.size() < much.size()) {
          const ssize_t count = ::recv(ends.fd[0], buffer.data(), buffer.size(), MSG_DONTWAIT);
          const ssize_t taken =
              count < 0 && errno == ENOTSOCK ? ::read(ends.fd[0], buffer.data(), buffer.size())
                                             : count;
          if (taken > 0) got.append(buffer.data(), static_cast<std::size_t>(taken));
          else this_fiber::yield();
        }
      });
    });
  });
  EXPECT_TRUE(got == much);
  EXPECT_TRUE(blocks(ends.fd[1]));
}

TEST(StandardStreams, Pipes) {
  Ends ends;
  ASSERT_EQ(::pipe2(ends.fd.data(), O_CLOEXEC), 0);
  expect_to_read(ends);
  expect_to_write(ends);
}

TEST(StandardStreams, Sockets) {
  Ends ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.fd.data()), 0);
  expect_to_read(ends);
  expect_to_write(ends);
}

TEST(StandardStreams, Terminals) {
  Ends ends;
  ASSERT_EQ(::openpty(&ends.fd[1], &ends.fd[0], nullptr, nullptr, nullptr), 0);
  expect_to_read(ends);
  const Redirected in{STDIN_FILENO, ends.fd[0]};
  on_workers({1U}, [] { EXPECT_TRUE(standard_input()->is_terminal()); });
}

TEST(StandardStreams, FilesShareTheirPosition) {
  const TempDir dir;
  const int file = ::open((dir / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  Ends ends{{file, -1}};
  {
    const Redirected out{STDOUT_FILENO, file};
    on_workers({1U}, [&] {
      const StandardOutput output = standard_output().value();
      EXPECT_FALSE(output.is_terminal());
      EXPECT_TRUE(output.write_all("one "));
      EXPECT_EQ(::write(file, "two ", 4), 4);  // as another program would that shares it
      EXPECT_TRUE(output.write_all("three"));
    });
  }
  ASSERT_EQ(::lseek(file, 4, SEEK_SET), 4);
  const Redirected in{STDIN_FILENO, file};
  on_workers({1U}, [&] {
    const StandardInput input = standard_input().value();
    EXPECT_EQ(input.read_all().value(), "two three");
  });
  EXPECT_TRUE(blocks(file));
}

TEST(StandardStreams, WithoutAReaderWritingFails) {
  Ends ends;
  ASSERT_EQ(::pipe2(ends.fd.data(), O_CLOEXEC), 0);
  const Redirected err{STDERR_FILENO, ends.fd[1]};
  ::close(std::exchange(ends.fd[0], -1));
  bool broken = false;
  FiberIo{{.workers = 1}}.run([&] {
    const StandardOutput output = standard_error().value();
    broken = output.write_all("text").error() == std::errc::broken_pipe;
  });
  EXPECT_TRUE(broken);
}

TEST(StandardStreams, NullIsAtItsEnd) {
  Ends ends{{::open("/dev/null", O_RDWR | O_CLOEXEC), -1}};
  const Redirected in{STDIN_FILENO, ends.fd[0]};
  const Redirected out{STDOUT_FILENO, ends.fd[0]};
  std::string got = "?";
  bool written = false;
  FiberIo{{.workers = 1}}.run([&] {
    got = standard_input()->read_all().value();
    written = standard_output()->write_all("gone").has_value();
  });
  EXPECT_EQ(got, "");
  EXPECT_TRUE(written);
}

}  // namespace
}  // namespace weft
