// The simulated disk, through the calls that files are made of; and pipes, which are the other
// thing that these calls make.
#include <weft/sim_world.hpp>

#include <weft/core/descriptor.hpp>
#include <weft/nursery.hpp>
#include <weft/time.hpp>

#include <support/engines.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using Answer = Kernel::Answer;

// A host's files, on that host.
class SimDiskTest : public ::testing::Test {
 protected:
  static void on_disks(const std::function<void(SimHost)>& program, std::uint64_t seeds = 30) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      SimIo io{{.seed = seed}};
      const SimHost host = io.world().host("disk");
      io.run([&] { host.run([&] { program(host); }); });
      EXPECT_EQ(io.world().descriptors(), 0U);
      if (HasFailure()) return;
    }
  }
};

Kernel& kernel() { return *Descriptor::kernel_here().value(); }

class OpenFile {
 public:
  explicit OpenFile(const char* path, int flags = O_RDWR | O_CREAT)
      : fd_(static_cast<int>(kernel().open(path, flags, 0644))) {}
  ~OpenFile() { static_cast<void>(kernel().close(fd_)); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  Answer write(std::string_view text, std::int64_t at) const {
    const iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    return kernel().write_at(fd_, &part, 1, at);
  }
  // Until all is written, or an error, which is returned.
  Answer write_all(std::string_view text, std::int64_t at) const {
    for (std::size_t done = 0; done < text.size();) {
      const Answer some = write(text.substr(done), at + static_cast<std::int64_t>(done));
      if (some < 0) return some;
      done += static_cast<std::size_t>(some);
    }
    return static_cast<Answer>(text.size());
  }
  Answer append(std::string_view text) const {
    const iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    return kernel().write(fd_, &part, 1);
  }
  Answer read(std::string& text, std::int64_t at) const {
    const iovec part{.iov_base = text.data(), .iov_len = text.size()};
    return kernel().read_at(fd_, &part, 1, at);
  }
  [[nodiscard]] Answer sync() const { return kernel().sync(fd_, false); }

 private:
  const int fd_;
};

std::vector<std::string> list(const char* path) {
  std::vector<DirectoryEntry> entries;
  EXPECT_EQ(kernel().list_directory(path, entries), 0);
  std::vector<std::string> names;
  for (const DirectoryEntry& one : entries) names.push_back(one.name);
  return names;
}

using Names = std::vector<std::string>;

TEST_F(SimDiskTest, FilesAndDirectories) {
  on_disks([](const SimHost& host) {
    ASSERT_EQ(kernel().make_directory("/data", 0755), 0);
    EXPECT_EQ(kernel().make_directory("/data", 0755), -EEXIST);
    EXPECT_EQ(kernel().make_directory("/nowhere/data", 0755), -ENOENT);
    {
      const OpenFile file{"/data/../data/./a"};
      EXPECT_EQ(file.write("hello", 0), 5);
      EXPECT_EQ(file.append("J"), 1);  // at the position, which is still at the begin
      EXPECT_EQ(kernel().seek(file.fd(), -1, SEEK_END), 4);
      EXPECT_EQ(kernel().seek(file.fd(), -9, SEEK_CUR), -EINVAL);
      std::string got(10, '?');
      EXPECT_EQ(file.read(got, 1), 4);
      EXPECT_EQ(got.substr(0, 4), "ello");
      EXPECT_EQ(kernel().truncate(file.fd(), 3), 0);
      struct stat status {};
      EXPECT_EQ(kernel().status(file.fd(), status), 0);
      EXPECT_EQ(status.st_size, 3);
      EXPECT_TRUE(S_ISREG(status.st_mode));
      EXPECT_EQ(kernel().open("/data/a/b", O_RDONLY, 0), -ENOTDIR);
      EXPECT_EQ(kernel().open("/data", O_RDWR, 0), -EISDIR);
      EXPECT_EQ(kernel().open("/data/a", O_RDWR | O_CREAT | O_EXCL, 0), -EEXIST);
      const OpenFile reader{"/data/a", O_RDONLY};
      EXPECT_EQ(reader.write("x", 0), -EBADF);
      const OpenFile appender{"/data/a", O_WRONLY | O_APPEND};
      EXPECT_EQ(appender.append("py"), 2);
    }
    EXPECT_EQ(host.disk().contents("/data/a"), "Jelpy");
    EXPECT_EQ(kernel().rename("/data/a", "/data/b"), 0);
    EXPECT_EQ(kernel().rename("/data", "/data/c"), -EINVAL);
    EXPECT_EQ(list("/data"), Names{"b"});
    EXPECT_EQ(kernel().remove("/data"), -ENOTEMPTY);
    EXPECT_EQ(kernel().remove("/data/b"), 0);
    EXPECT_EQ(kernel().remove("/data"), 0);
    EXPECT_EQ(kernel().remove("/data"), -ENOENT);
    EXPECT_EQ(host.disk().used(), 0U);
    // Another host has other files.
    const OpenFile file{"/tmp/here"};
    on("elsewhere", [] { EXPECT_EQ(kernel().open("/tmp/here", O_RDONLY, 0), -ENOENT); });
  });
}

TEST_F(SimDiskTest, WhatWasNotSyncedIsLost) {
  on_disks([](const SimHost&) {
    const SimHost victim = sim_world().host("victim");
    victim.run([&] {
      const OpenFile file{"/var/log"};
      EXPECT_EQ(file.write("first ", 0), 6);
      EXPECT_EQ(file.sync(), 0);
      EXPECT_EQ(file.write("second", 6), 6);
      const OpenFile unnamed{"/var/unsynced"};
      EXPECT_EQ(unnamed.write("x", 0), 1);
      EXPECT_EQ(victim.disk().contents("/var/log"), "first second");
      victim.crash();
      // Whoever is left of its programs can do no more harm, nor after the restart.
      EXPECT_EQ(file.write("third", 0), -EIO);
      EXPECT_EQ(kernel().remove("/var/log"), -EIO);
      victim.restart();
      EXPECT_EQ(kernel().remove("/var/log"), -EIO);
      EXPECT_EQ(kernel().open("/var/log", O_RDWR, 0), -EIO);
    });
    victim.restart();
    EXPECT_EQ(victim.disk().contents("/var/log"), "first ");
    EXPECT_FALSE(victim.disk().contents("/var/unsynced"));
  });
}

TEST_F(SimDiskTest, RenamesNeedASyncOfTheDirectory) {
  on_disks([](const SimHost&) {
    const SimHost victim = sim_world().host("victim");
    const auto replace = [&](bool syncs_directory) {
      victim.run([&] {
        const OpenFile file{"/var/new"};
        EXPECT_EQ(file.write("new", 0), 3);
        EXPECT_EQ(file.sync(), 0);
        EXPECT_EQ(kernel().rename("/var/new", "/var/data"), 0);
        if (syncs_directory) {
          const OpenFile directory{"/var", O_RDONLY | O_DIRECTORY};
          EXPECT_EQ(directory.sync(), 0);
        }
        victim.crash();
      });
      victim.restart();
    };
    victim.run([] {
      const OpenFile file{"/var/data"};
      EXPECT_EQ(file.write("old", 0), 3);
      EXPECT_EQ(file.sync(), 0);
    });
    replace(false);
    EXPECT_EQ(victim.disk().contents("/var/data"), "old");
    EXPECT_EQ(victim.disk().contents("/var/new"), "new");
    replace(true);
    EXPECT_EQ(victim.disk().contents("/var/data"), "new");
    EXPECT_FALSE(victim.disk().contents("/var/new"));
    // A removal that was not synced is undone.
    victim.run([&] {
      EXPECT_EQ(kernel().remove("/var/data"), 0);
      victim.crash();
    });
    victim.restart();
    EXPECT_EQ(victim.disk().contents("/var/data"), "new");
    victim.run([&] {
      EXPECT_EQ(kernel().remove("/var/data"), 0);
      victim.kill();  // the programs are gone, and the disk is what it was
    });
    EXPECT_FALSE(victim.disk().contents("/var/data"));
  });
}

TEST_F(SimDiskTest, UnsyncedWritesMaySurviveInPart) {
  std::size_t all = 0, none = 0, torn = 0;
  on_disks(
      [&](const SimHost&) {
        const SimHost victim = sim_world().host("victim");
        victim.disk().set_survival(0.5);
        victim.run([&] {
          const OpenFile file{"/var/log"};
          EXPECT_EQ(file.sync(), 0);
          EXPECT_EQ(file.write("aaaa", 0), 4);
          victim.crash();
        });
        const std::string left = victim.disk().contents("/var/log").value_or("gone");
        all += left == "aaaa" ? 1U : 0U;
        none += left.empty() ? 1U : 0U;
        torn += left == "a" || left == "aa" || left == "aaa" ? 1U : 0U;
      },
      200);
  EXPECT_EQ(all + none + torn, 200U);
  EXPECT_GT(all, 5U);
  EXPECT_GT(none, 50U);
  EXPECT_GT(torn, 30U);
}

TEST_F(SimDiskTest, DisksFillUp) {
  on_disks([](const SimHost& host) {
    host.disk().set_capacity(64 << 10);
    const std::string block(10'000, 'x');
    {
      const OpenFile file{"/tmp/big"};
      std::int64_t written = 0;
      Answer answer = 0;
      while ((answer = file.write(block, written)) > 0) written += answer;
      EXPECT_EQ(answer, -ENOSPC);
      EXPECT_EQ(written, 64 << 10);  // the last write was short
      EXPECT_EQ(file.write("over", 0), 4);  // what is there may be written again
      EXPECT_EQ(kernel().truncate(file.fd(), 0), 0);
      EXPECT_EQ(file.write(block, 0), 10'000);
    }
    EXPECT_EQ(kernel().remove("/tmp/big"), 0);
    EXPECT_EQ(host.disk().used(), 0U);
  });
}

TEST_F(SimDiskTest, HugeOffsetsAreNoDanger) {
  on_disks([](const SimHost& host) {
    constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
    const OpenFile file{"/tmp/sparse"};
    EXPECT_EQ(file.write("x", std::int64_t{1} << 43), 1);  // a hole takes no room
    EXPECT_LE(host.disk().used(), 8192U);
    EXPECT_EQ(file.write("x", kFar), -EFBIG);
    EXPECT_EQ(file.write("x", -1), -EINVAL);
    EXPECT_EQ(kernel().truncate(file.fd(), kFar), -EFBIG);
    EXPECT_EQ(kernel().truncate(file.fd(), -1), -EINVAL);
    EXPECT_EQ(kernel().seek(file.fd(), kFar, SEEK_END), -EOVERFLOW);
    std::string got(4, '?');
    EXPECT_EQ(file.read(got, std::int64_t{1} << 42), 4);
    EXPECT_EQ(got, std::string(4, '\0'));
    EXPECT_EQ(file.read(got, kFar), 0);
    EXPECT_EQ(kernel().truncate(file.fd(), 0), 0);
    const std::string path(5000, 'a');
    EXPECT_EQ(kernel().open(path.c_str(), O_RDONLY, 0), -ENAMETOOLONG);
  });
}

TEST_F(SimDiskTest, DisksFailAndCarryLess) {
  std::size_t failed = 0, short_ones = 0, calls = 0;
  on_disks([&](const SimHost& host) {
    const OpenFile file{"/tmp/unlucky"};
    host.disk().fail_with(EIO, 0.2);
    host.disk().set_short_transfers(0.5);
    for (int i = 0; i < 50; ++i, ++calls) {
      const Answer answer = file.write("0123456789", 0);
      EXPECT_TRUE(answer == -EIO || (answer > 0 && answer <= 10)) << answer;
      failed += answer < 0 ? 1U : 0U;
      short_ones += answer > 0 && answer < 10 ? 1U : 0U;
    }
    host.disk().fail_with(EIO, 1);
    EXPECT_EQ(file.sync(), -EIO);
    std::string got(1, '?');
    EXPECT_EQ(file.read(got, 0), -EIO);
    host.disk().fail_with(EIO, 0);
    EXPECT_EQ(file.write_all("0123456789", 0), 10);
    EXPECT_EQ(host.disk().contents("/tmp/unlucky"), "0123456789");
  });
  EXPECT_GT(failed, calls / 10);
  EXPECT_LT(failed, calls * 3 / 10);
  EXPECT_GT(short_ones, calls / 4);
}

TEST_F(SimDiskTest, AScriptSaysWhenDisksFail) {
  on_disks([](const SimHost& host) {
    SimWorld& world = sim_world();
    world.host("other");
    for (const double nonsense : {-0.5, 1.5})
      EXPECT_THROW(world.script().fail_disk("disk", EIO, nonsense), std::invalid_argument);
    EXPECT_THROW(world.script().fail_disk("disk", 0, 0.5), std::invalid_argument);
    EXPECT_THROW(world.script().fail_disk("disc", EIO, 0.5), std::invalid_argument);
    const OpenFile file{"/tmp/unlucky"};
    world.script()
        .at(10s).fail_disk("disk", EIO, 1)
        .at(15s).fail_disk({"disk", "other"}, ENOSPC, 1)
        .at(20s).fail_disk({"disk", "other"}, EIO, 0);
    sleep_for(500ms);
    for (int second = 0; second < 30; ++second, sleep_for(1s)) {
      const Answer wanted = second < 10 ? 1 : second < 15 ? -EIO : second < 20 ? -ENOSPC : 1;
      EXPECT_EQ(file.append("x"), wanted) << second;
      EXPECT_EQ(file.sync(), std::min<Answer>(wanted, 0)) << second;
      if (second % 10 != 2) continue;
      on("other", [&] { EXPECT_GE(OpenFile{"/tmp/elsewhere"}.fd(), 0) << second; });
    }
    on("other", [&] { EXPECT_EQ(OpenFile{"/tmp/elsewhere"}.append("x"), 1); });
    EXPECT_EQ(host.disk().contents("/tmp/unlucky"), std::string(20, 'x'));
  });
}

TEST_F(SimDiskTest, PipesCarryBytesAndEnd) {
  on_disks([](const SimHost&) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(kernel().pipe(ends), 0);
    const auto adopt = [](int fd) {
      return Descriptor::adopt(fd, Carries::stream, "pipe read", "pipe write").value();
    };
    Descriptor reader = adopt(ends[0]), writer = adopt(ends[1]);
    std::string sent(300'000, '\0');
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i % 251);
    std::string received;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (std::size_t done = 0; done < sent.size();) {
          const iovec part{.iov_base = sent.data() + done, .iov_len = sent.size() - done};
          done += writer.write({&part, 1}).value();
        }
        ASSERT_TRUE(writer.close());
      });
      for (;;) {
        std::string buffer(7000, '\0');
        const iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
        const std::size_t got = reader.read({&part, 1}).value();
        if (got == 0) break;
        received.append(buffer, 0, got);
      }
    });
    EXPECT_EQ(received, sent);
    ASSERT_EQ(kernel().pipe(ends), 0);
    writer = adopt(ends[1]);
    EXPECT_EQ(kernel().close(ends[0]), 0);
    const iovec part{.iov_base = sent.data(), .iov_len = 1};
    EXPECT_EQ(writer.write({&part, 1}).error(), std::errc::broken_pipe);
  });
}

// Filled to the last byte, a pipe says when there is room again.
TEST_F(SimDiskTest, AFullPipeIsWritableAgain) {
  on_disks([](SimHost) {
    int ends[2];
    ASSERT_EQ(kernel().pipe(ends), 0);
    const Descriptor reader = Descriptor::adopt(ends[0], Carries::stream, "r", "w").value();
    const Descriptor writer = Descriptor::adopt(ends[1], Carries::stream, "r", "w").value();
    std::string much(std::size_t{64} << 10, 'x');
    for (std::size_t done = 0; done < much.size();) {
      const iovec rest{.iov_base = much.data() + done, .iov_len = much.size() - done};
      done += writer.write({&rest, 1}).value();
    }
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::string all(std::size_t{64} << 10, ' ');
        for (std::size_t done = 0; done < all.size();) {
          const iovec rest{.iov_base = all.data() + done, .iov_len = all.size() - done};
          done += reader.read({&rest, 1}).value();
        }
      });
      Descriptor::Ready writable = writer.on_ready(Way::out);
      wait(writable);
    });
  });
}

// A directory that was moved has one name after a crash, however it was made durable.
TEST_F(SimDiskTest, AMovedDirectoryIsDurableOnce) {
  on_disks([](const SimHost&) {
    const SimHost victim = sim_world().host("victim");
    victim.run([&] {
      ASSERT_EQ(kernel().make_directory("/x", 0755), 0);
      ASSERT_EQ(OpenFile("/x/g").sync(), 0);
      ASSERT_EQ(kernel().rename("/x", "/y"), 0);
      ASSERT_EQ(OpenFile("/y/f").sync(), 0);
      victim.crash();
    });
    victim.restart();
    victim.run([] {
      const std::vector<std::string> names = list("/");
      EXPECT_EQ(std::count(names.begin(), names.end(), "y"), 1);
      EXPECT_EQ(std::count(names.begin(), names.end(), "x"), 0);
    });
  });
}

// What was inside the other is now around it: there must be no circle.
TEST_F(SimDiskTest, DirectoriesThatChangePlacesMakeNoCircle) {
  on_disks([](const SimHost&) {
    const SimHost victim = sim_world().host("victim");
    victim.run([&] {
      ASSERT_EQ(kernel().make_directory("/a", 0755), 0);
      ASSERT_EQ(kernel().make_directory("/b", 0755), 0);
      ASSERT_EQ(OpenFile("/b/f").sync(), 0);
      ASSERT_EQ(OpenFile("/a", O_RDONLY).sync(), 0);
      ASSERT_EQ(kernel().rename("/a", "/b/a"), 0);
      ASSERT_EQ(OpenFile("/b/a", O_RDONLY).sync(), 0);
      ASSERT_EQ(kernel().rename("/b/a", "/a"), 0);
      ASSERT_EQ(kernel().rename("/b", "/a/b"), 0);
      ASSERT_EQ(OpenFile("/a/b/f").sync(), 0);
      victim.crash();
    });
    victim.restart();
    victim.run([] {
      EXPECT_EQ(list("/a"), std::vector<std::string>{"b"});
      EXPECT_EQ(list("/a/b"), std::vector<std::string>{"f"});
    });
  });
}

}  // namespace
}  // namespace weft
