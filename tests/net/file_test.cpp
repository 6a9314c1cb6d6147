// Files and directories of the machine, from fibers.
#include <weft/file.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/engines.hpp>
#include <support/temp_dir.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::open_descriptors;
using testing::TempDir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// On the engines that have the machine's files.
void on_machine(const std::function<void()>& f) {
  testing::on_workers({1U, 2U}, f);
  FiberIo{{.workers = 2, .reactor = ReactorKind::epoll}}.run(f);
  SCOPED_TRACE("BlockingIo");
  BlockingIo{}.run(f);
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Every byte tells where it is.
std::string pattern(std::size_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i)
    text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}

// ── whole files ─────────────────────────────────────────────────────────────────────────────────

TEST(WholeFiles, WhatIsWrittenIsRead) {
  on_machine([] {
    const TempDir dir;
    for (const std::size_t length : {0U, 1U, 4095U, 4096U, 4097U, 3000000U}) {
      const std::string text = pattern(length);
      ASSERT_TRUE(write_file(dir / "f", text));
      const Result<std::string> got = read_file(dir / "f");
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_TRUE(*got == text) << length;
    }
    EXPECT_TRUE(write_file(dir / "f", "short"));
    EXPECT_EQ(read_file(dir / "f").value(), "short") << "nothing of the longer one is left";
  });
}

TEST(WholeFiles, LimitsAreToTheByte) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", pattern(5000)));
    EXPECT_TRUE(read_file(dir / "f", 5000));
    EXPECT_EQ(read_file(dir / "f", 4999).error(), IoError::too_long);
    EXPECT_EQ(read_file(dir / "f", 0).error(), IoError::too_long);
    ASSERT_TRUE(write_file(dir / "empty", ""));
    EXPECT_EQ(read_file(dir / "empty", 0).value(), "");
  });
}

// Such a file says that it is empty.
TEST(WholeFiles, OfTheKernelAreReadToTheirEnd) {
  on_machine([] {
    const std::string status = read_file("/proc/self/status").value();
    EXPECT_THAT(status, ::testing::HasSubstr("VmSize"));
    EXPECT_EQ(read_file("/proc/self/status", 10).error(), IoError::too_long);
  });
}

TEST(WholeFiles, AtomicWritesLeaveNothingBeside) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "old"));
    ASSERT_EQ(::chmod((dir / "f").c_str(), 0600), 0);
    const File reader = File::open(dir / "f").value();
    ASSERT_TRUE(write_file(dir / "f", "new", {.atomic = true}));
    EXPECT_EQ(read_file(dir / "f").value(), "new");
    EXPECT_EQ(reader.read_all().value(), "old") << "who has opened it reads on";
    EXPECT_EQ(status(dir / "f")->permissions, mode_t{0600});
    ASSERT_TRUE(write_file(dir / "g", "first", {.atomic = true, .permissions = 0640}));
    EXPECT_EQ(status(dir / "g")->permissions & 0700U, mode_t{0600});
    EXPECT_EQ(list_directory(dir.path())->size(), 2U);
  });
}

TEST(WholeFiles, AtomicWritesKeepPermissionsWhateverTheUmask) {
  const mode_t before = ::umask(027);
  on_machine([] {
    const TempDir dir;
    const auto after = [&](mode_t permissions) {
      EXPECT_TRUE(write_file(dir / "f", "old"));
      EXPECT_EQ(::chmod((dir / "f").c_str(), permissions), 0);
      EXPECT_TRUE(write_file(dir / "f", "new", {.atomic = true, .permissions = 0600}));
      EXPECT_EQ(read_file(dir / "f").value(), "new");
      return status(dir / "f")->permissions;
    };
    EXPECT_EQ(after(0666), mode_t{0666});
    EXPECT_EQ(after(0644), mode_t{0644});
    EXPECT_EQ(after(0600), mode_t{0600});
    EXPECT_EQ(after(0755), mode_t{0755});
    EXPECT_EQ(after(06755), mode_t{0755}) << "with whose rights it runs is not carried over";
    ASSERT_TRUE(write_file(dir / "g", "first", {.atomic = true}));
    EXPECT_EQ(status(dir / "g")->permissions, mode_t{0640}) << "a new one heeds the umask";
    ASSERT_TRUE(write_file(dir / "h", "first", {.atomic = true, .permissions = 0777}));
    EXPECT_EQ(status(dir / "h")->permissions, mode_t{0750});
  });
  ::umask(before);
}

TEST(WholeFiles, AtomicWritesToTheLongestName) {
  on_machine([] {
    const TempDir dir;
    const std::string path = dir / std::string(255, 'x');
    for (const char* const text : {"first", "second"}) {
      const Result<void> written = write_file(path, text, {.atomic = true});
      EXPECT_TRUE(written) << written.error().message();
      EXPECT_EQ(read_file(path).value_or("none"), text);
    }
    EXPECT_EQ(list_directory(dir.path())->size(), 1U);
  });
}

TEST(WholeFiles, AtomicWritesThatFailLeaveNothingAtAll) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(create_directories(dir / "there/inside"));
    const Result<void> written = write_file(dir / "there", "text", {.atomic = true});
    EXPECT_EQ(written.error(), std::errc::is_a_directory) << written.error().message();
    EXPECT_EQ(list_directory(dir.path())->size(), 1U);
    EXPECT_EQ(write_file(dir / "no/f", "text", {.atomic = true}).error(),
              std::errc::no_such_file_or_directory);
  });
}

TEST(WholeFiles, ReadersSeeTheOldOrTheNew) {
  testing::on_workers({2U}, [] {
    const TempDir dir;
    const std::string old(10'000, 'o');
    const std::string fresh(20'000, 'n');
    ASSERT_TRUE(write_file(dir / "f", old));
    std::atomic<bool> done = false;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 20; ++i)
          EXPECT_TRUE(write_file(dir / "f", i % 2 ? old : fresh, {.atomic = true}));
        done = true;
      });
      n.spawn([&] {
        while (!done) {
          const Result<std::string> got = read_file(dir / "f");
          ASSERT_TRUE(got) << got.error().message();
          EXPECT_TRUE(*got == old || *got == fresh) << got->size();
        }
      });
    });
  });
}

// ── opening ─────────────────────────────────────────────────────────────────────────────────────

TEST(FileOpen, SaysWhyItDoesNot) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "text"));
    EXPECT_EQ(File::open(dir / "none").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(File::open(dir / "f/g").error(), std::errc::not_a_directory);
    EXPECT_EQ(File::open(dir.path(), {.write = true}).error(), std::errc::is_a_directory);
    EXPECT_EQ(File::open(dir / "f", {.write = true, .create = true, .exclusive = true}).error(),
              std::errc::file_exists);
    EXPECT_EQ(File::open(dir.path())->read_all().error(), std::errc::is_a_directory);
    EXPECT_EQ(File::open(std::string(300, 'x')).error(), std::errc::filename_too_long);
  });
}

TEST(FileOpen, RefusesWhatMakesNoSense) {
  on_machine([] {
    const TempDir dir;
    for (const FileOptions& options :
         {FileOptions{.create = true}, FileOptions{.truncate = true},
          FileOptions{.read = true, .truncate = true},
          FileOptions{.write = true, .exclusive = true}})
      EXPECT_EQ(File::open(dir / "f", options).error(), std::errc::invalid_argument);
    EXPECT_EQ(File::open(dir / std::string("f\0g", 3), {.write = true, .create = true}).error(),
              std::errc::invalid_argument);
    EXPECT_THAT(list_directory(dir.path()).value(), IsEmpty());
  });
}

TEST(FileOpen, OptionsSayWhatMayBeDone) {
  on_machine([] {
    const TempDir dir;
    std::array<std::byte, 8> buffer;
    const File writer =
        File::open(dir / "f", {.write = true, .create = true, .permissions = 0600}).value();
    EXPECT_TRUE(writer.write_all("abc"));
    EXPECT_EQ(writer.read_some(buffer).error(), std::errc::bad_file_descriptor);
    const File reader = File::open(dir / "f").value();
    EXPECT_EQ(reader.write_all("x").error(), std::errc::bad_file_descriptor);
    const File both = File::open(dir / "f", {.read = true, .write = true}).value();
    EXPECT_EQ(both.read_all().value(), "abc");
    EXPECT_TRUE(both.write_all("def"));
    const File appender = File::open(dir / "f", {.append = true}).value();
    EXPECT_TRUE(appender.seek(0));
    EXPECT_TRUE(appender.write_all("ghi"));
    EXPECT_EQ(read_file(dir / "f").value(), "abcdefghi");
    EXPECT_EQ(File::open(dir / "f", {.write = true, .truncate = true})->size().value(), 0U);
  });
}

TEST(FileOpen, NoDescriptorIsLeft) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "text"));  // and whatever the engine opens for its first I/O
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(read_file(dir / "f"));
      EXPECT_FALSE(read_file(dir / "none"));
      EXPECT_TRUE(write_file(dir / "f", "text", {.atomic = true}));
    }
    EXPECT_EQ(open_descriptors(), before);
  });
}

// ── at offsets, and at the position ─────────────────────────────────────────────────────────────

TEST(FileAt, GapsReadAsZeros) {
  on_machine([] {
    const TempDir dir;
    const File file =
        File::open(dir / "f", {.read = true, .write = true, .create = true}).value();
    constexpr std::uint64_t kFar = std::uint64_t{5} << 32;  // past what 32 bits can count
    ASSERT_TRUE(file.write_at("end", kFar));
    EXPECT_EQ(file.size().value(), kFar + 3);
    std::array<std::byte, 8> buffer;
    EXPECT_EQ(text_of(file.read_at(buffer, 1000).value()), std::string(8, '\0'));
    EXPECT_EQ(text_of(file.read_at(buffer, kFar - 2).value()), std::string("\0\0end", 5));
    EXPECT_THAT(file.read_at(buffer, kFar + 3).value(), IsEmpty());
    EXPECT_THAT(file.read_at(buffer, kFar * 2).value(), IsEmpty());
    EXPECT_EQ(file.read_at(buffer, ~std::uint64_t{0}).error(), std::errc::invalid_argument);
    EXPECT_EQ(file.write_at("x", ~std::uint64_t{0}).error(), std::errc::invalid_argument);
    EXPECT_EQ(file.seek(0, From::position).value(), 0U) << "the position has not moved";
    EXPECT_TRUE(file.truncate(2));
    EXPECT_EQ(file.size().value(), 2U);
  });
}

TEST(FileAt, ReadersAndWritersInParts) {
  on_machine([] {
    const TempDir dir;
    constexpr std::size_t kParts = 16;
    constexpr std::size_t kPart = 100'000;
    const std::string text = pattern(kParts * kPart);
    const File file = File::open(dir / "f", {.read = true, .write = true, .create = true}).value();
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < kParts; ++i)
        n.spawn([&, i] {
          EXPECT_TRUE(file.write_at(std::string_view{text}.substr(i * kPart, kPart), i * kPart));
        });
    });
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < kParts; ++i)
        n.spawn([&, i] {
          std::vector<std::byte> buffer(kPart);
          const auto got = file.read_at(buffer, i * kPart);
          ASSERT_TRUE(got);
          EXPECT_TRUE(text_of(*got) == text.substr(i * kPart, kPart)) << i;
        });
    });
    EXPECT_TRUE(file.sync());
    EXPECT_TRUE(file.sync(Flush::data_only));
  });
}

TEST(FileAt, WhatHasNoOffsetsSaysSo) {
  on_machine([] {
    const TempDir dir;
    ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
    const File both = File::open(dir / "fifo", {.read = true, .write = true}).value();
    ASSERT_TRUE(both.write_all("text"));
    std::array<std::byte, 4> buffer;
    EXPECT_EQ(both.read_at(buffer, 0).error(), std::errc::invalid_seek);
    EXPECT_EQ(both.write_at("text", 0).error(), std::errc::invalid_seek);
    EXPECT_EQ(both.sync().error(), std::errc::invalid_argument);
    const File reader = File::open("/proc/self/status").value();
    EXPECT_EQ(text_of(reader.read_at(buffer, 0).value()), "Name");
    EXPECT_FALSE(reader.write_at("text", 0));
    EXPECT_EQ(File::open("/dev/full", {.write = true})->write_at("text", 0).error(),
              std::errc::no_space_on_device);
  });
}

TEST(FileAt, AppendersWriteAtTheEnd) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "0123"));
    const File appender = File::open(dir / "f", {.append = true}).value();
    EXPECT_TRUE(appender.write_at("45", 0)) << "wherever they are told to";
    EXPECT_TRUE(appender.write_at("", 0));
    EXPECT_EQ(read_file(dir / "f").value(), "012345");
  });
}

// ── with each reactor ───────────────────────────────────────────────────────────────────────────

class FilesWith : public ::testing::TestWithParam<ReactorKind> {
 protected:
  void SetUp() override {
    if (GetParam() != ReactorKind::uring) return;
    try {
      const FiberIo tried{{.reactor = ReactorKind::uring}};
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  [[nodiscard]] static Options options(unsigned workers) {
    return {.workers = workers, .reactor = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Reactors, FilesWith,
                         ::testing::Values(ReactorKind::uring, ReactorKind::epoll),
                         [](const auto& kind) {
                           return kind.param == ReactorKind::uring ? "uring" : "epoll";
                         });

File new_file(const TempDir& dir) {
  return File::open(dir / "f", {.read = true, .write = true, .create = true}).value();
}

// Whole, or not at all; and the buffer is nobody's when the call has ended.
TEST_P(FilesWith, CancelledWritesAreWhole) {
  constexpr std::size_t kBytes = 300'000;
  for (const unsigned workers : {1U, 2U}) {
    FiberIo{options(workers)}.run([] {
      const TempDir dir;
      const File file = new_file(dir);
      std::string now(kBytes, 'a');
      ASSERT_TRUE(file.write_at(now, 0));
      for (int round = 0; round < 100; ++round) {
        const char letter = static_cast<char>('a' + round % 26);
        bool written = false;
        nursery([&](Nursery& n) {
          Future<void> writer = n.async([&] {
            std::string text(kBytes, letter);
            ASSERT_TRUE(file.write_at(text, 0));
            written = true;
            ASSERT_TRUE(file.sync(Flush::data_only));
          });
          for (int i = 0; i < round % 10; ++i) this_fiber::yield();
          writer.cancel();
        });
        if (written) now.assign(kBytes, letter);
        std::vector<std::byte> buffer(kBytes + 1);
        ASSERT_TRUE(text_of(file.read_at(buffer, 0).value()) == now) << round;
      }
    });
  }
}

TEST_P(FilesWith, NothingBeginsInACancelledScope) {
  FiberIo{options(1)}.run([] {
    const TempDir dir;
    const File file = new_file(dir);
    ASSERT_TRUE(file.write_at("old", 0));
    const auto cancelled = [&](auto call) {
      return !cancel_scope([&](CancelScope& scope) {
        scope.cancel();
        static_cast<void>(call());
        ADD_FAILURE() << "went on";
      });
    };
    std::array<std::byte, 4> buffer{};
    EXPECT_TRUE(cancelled([&] { return file.write_at("new", 0); }));
    EXPECT_TRUE(cancelled([&] { return file.read_at(buffer, 0); }));
    EXPECT_TRUE(cancelled([&] { return file.sync(); }));
    EXPECT_EQ(text_of(file.read_at(buffer, 0).value()), "old");
  });
}

TEST_P(FilesWith, ClosedWhileManyAreAtWork) {
  for (const unsigned workers : {1U, 2U}) {
    FiberIo{options(workers)}.run([] {
      const TempDir dir;
      for (int round = 0; round < 20; ++round) {
        File file = new_file(dir);
        nursery([&](Nursery& n) {
          for (std::size_t i = 0; i < 6; ++i)
            n.spawn([&, i] {
              std::vector<std::byte> buffer(50'000);
              Result<void> done{};
              while (done) {
                if (i % 3 == 0) done = file.sync();
                else if (i % 3 == 1) done = file.write_at(buffer, i * buffer.size());
                else if (const auto got = file.read_at(buffer, 0); !got) done = got.failure();
              }
              EXPECT_EQ(done.error(), IoError::closed);
            });
          for (int i = 0; i < round * 5; ++i) this_fiber::yield();
          EXPECT_TRUE(file.close());
        });
      }
    });
  }
}

TEST(FileStream, MovesThePosition) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "0123456789"));
    const File file = File::open(dir / "f").value();
    std::array<std::byte, 4> buffer;
    EXPECT_EQ(text_of(file.read_some(buffer).value()), "0123");
    ASSERT_TRUE(file.read_exactly(buffer));
    EXPECT_EQ(text_of(buffer), "4567");
    EXPECT_EQ(file.read_exactly(buffer).error(), IoError::end_of_stream);
    EXPECT_THAT(file.read_some(buffer).value(), IsEmpty());
    EXPECT_EQ(file.seek(-3, From::end).value(), 7U);
    EXPECT_EQ(file.read_all().value(), "789");
    EXPECT_EQ(file.seek(2).value(), 2U);
    EXPECT_EQ(file.read_all(8).value(), "23456789");
    EXPECT_EQ(file.seek(-1).error(), std::errc::invalid_argument);
    EXPECT_EQ(file.seek(1).value(), 1U);
    EXPECT_EQ(text_of(file.read_all_bytes().value()), "123456789");
  });
}

TEST(FileStream, AFullDeviceIsAnError) {
  on_machine([] {
    const File full = File::open("/dev/full", {.write = true}).value();
    EXPECT_EQ(full.write_all("text").error(), std::errc::no_space_on_device);
  });
}

// ── closing and cancelling ──────────────────────────────────────────────────────────────────────

TEST(FileClose, LaterCallsSaySo) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "text"));
    File file = File::open(dir / "f").value();
    EXPECT_TRUE(file.is_open());
    EXPECT_GE(file.native_handle(), 0);
    EXPECT_TRUE(file.close());
    EXPECT_TRUE(file.close()) << "once more";
    EXPECT_FALSE(file.is_open());
    std::array<std::byte, 4> buffer;
    EXPECT_EQ(file.read_at(buffer, 0).error(), IoError::closed);
    EXPECT_EQ(file.read_all().error(), IoError::closed);
    EXPECT_EQ(file.size().error(), IoError::closed);
    EXPECT_EQ(File{}.size().error(), IoError::closed);
  });
}

TEST(FileClose, WaitsForCallsUnderWay) {
  testing::on_workers({1U, 2U}, [] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", pattern(1 << 20)));
    File file = File::open(dir / "f").value();
    nursery([&](Nursery& n) {
      for (int i = 0; i < 20; ++i)
        n.spawn([&] {
          std::vector<std::byte> buffer(1 << 20);
          const auto got = file.read_at(buffer, 0);
          if (got) EXPECT_EQ(got->size(), buffer.size());
          else EXPECT_EQ(got.error(), IoError::closed);
        });
      n.spawn([&] { EXPECT_TRUE(file.close()); });
    });
    EXPECT_FALSE(file.is_open());
  });
}

TEST(FileCancel, NothingIsDoneInACancelledScope) {
  testing::on_workers({1U, 2U}, [] {
    const TempDir dir;
    const bool ended = cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      static_cast<void>(write_file(dir / "f", "text"));
      ADD_FAILURE() << "went on";
    });
    EXPECT_FALSE(ended);
    EXPECT_FALSE(exists(dir / "f").value());
  });
}

// A reader of a named pipe blocks its thread until somebody writes.
TEST(FileCancel, ACallThatHasBegunIsWaitedFor) {
  testing::on_workers({1U, 2U}, [] {
    const TempDir dir;
    ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
    const File both = File::open(dir / "fifo", {.read = true, .write = true}).value();
    const auto read = [&] {
      std::array<std::byte, 4> buffer{};
      return text_of(both.read_some(buffer).value());
    };
    std::atomic<bool> begun = false;
    nursery([&](Nursery& n) {
      Future<std::string> reader = n.async([&] {
        begun = true;
        return read();
      });
      while (!begun) this_fiber::yield();
      for (int i = 0; i < 50; ++i) this_fiber::yield();
      reader.cancel();
      EXPECT_TRUE(both.write_all("data"));
      try {
        EXPECT_EQ(reader.get(), "data") << "as if nobody had cancelled";
      } catch (const ChildCancelled&) {  // before it began
        EXPECT_EQ(read(), "data") << "nothing is lost";
      }
    });
  });
}

TEST(FileCancel, AtomicWritesLeaveNothing) {
  testing::on_workers({1U, 2U}, [] {
    const TempDir dir;
    for (int yields = 0; yields < 30; ++yields) {
      ASSERT_TRUE(write_file(dir / "f", "old"));
      std::atomic<bool> written = false;
      nursery([&](Nursery& n) {
        Future<void> writer = n.async([&] {
          ASSERT_TRUE(write_file(dir / "f", "new", {.atomic = true}));
          written = true;
        });
        for (int i = 0; i < yields; ++i) this_fiber::yield();
        writer.cancel();
      });
      const std::string now = read_file(dir / "f").value();
      EXPECT_TRUE(now == "new" || (now == "old" && !written)) << now;
      EXPECT_EQ(list_directory(dir.path())->size(), 1U);
    }
  });
}

// ── directories ─────────────────────────────────────────────────────────────────────────────────

TEST(Directories, AreMadeListedAndRemoved) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(create_directories(dir / "a/b//c/"));
    EXPECT_TRUE(create_directories(dir / "a/b"));
    EXPECT_EQ(status(dir / "a/b/c")->kind, DirectoryEntry::Kind::directory);
    ASSERT_TRUE(write_file(dir / "a/z", "text"));
    ASSERT_EQ(::symlink("z", (dir / "a/link").c_str()), 0);
    std::vector<std::string> names;
    std::vector<DirectoryEntry::Kind> kinds;
    const std::vector<DirectoryEntry> entries = list_directory(dir / "a").value();
    for (const DirectoryEntry& entry : entries) {
      names.push_back(entry.name);
      kinds.push_back(entry.kind);
    }
    EXPECT_THAT(names, ElementsAre("b", "link", "z"));
    EXPECT_THAT(kinds, ElementsAre(DirectoryEntry::Kind::directory, DirectoryEntry::Kind::link,
                                   DirectoryEntry::Kind::file));
    EXPECT_EQ(status(dir / "a/link")->size, 4U);
    EXPECT_GT(status(dir / "a/z")->modified.count(), 0);
    EXPECT_EQ(remove(dir / "a").error(), std::errc::directory_not_empty);
    EXPECT_TRUE(rename(dir / "a/z", dir / "y"));
    EXPECT_FALSE(exists(dir / "a/z").value());
    EXPECT_TRUE(exists(dir / "y").value());
    EXPECT_TRUE(remove(dir / "y"));
    EXPECT_TRUE(remove(dir / "a/b/c"));
  });
}

TEST(Directories, SayWhatIsWrong) {
  on_machine([] {
    const TempDir dir;
    ASSERT_TRUE(write_file(dir / "f", "text"));
    EXPECT_EQ(list_directory(dir / "none").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(list_directory(dir / "f").error(), std::errc::not_a_directory);
    EXPECT_EQ(create_directories(dir / "f").error(), std::errc::not_a_directory);
    EXPECT_EQ(create_directories(dir / "f/g").error(), std::errc::not_a_directory);
    EXPECT_EQ(create_directories("").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(remove(dir / "none").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(rename(dir / "none", dir / "f").error(), std::errc::no_such_file_or_directory);
    EXPECT_FALSE(exists(dir / "f/g").value());
    EXPECT_EQ(exists(dir / std::string(300, 'x')).error(), std::errc::filename_too_long);
  });
}

}  // namespace
}  // namespace weft
