// Files on simulated disks: the same calls, with everything that can happen to them.
#include <weft/file.hpp>

#include <weft/nursery.hpp>
#include <weft/pipe.hpp>
#include <weft/process.hpp>
#include <weft/sim_world.hpp>
#include <weft/this_fiber.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include <support/engines.hpp>

namespace weft {
namespace {

// On a world of its own for each seed; nothing is left open.
void on_worlds(const std::function<void(SimHost, SimDisk)>& f,
               std::uint64_t seeds = testing::kSeeds) {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimIo io{{.seed = seed, .preempt = true}};
    const SimHost host = io.world().host("here");
    io.run([&] {
      host.run([] {
        ASSERT_TRUE(create_directories("/data"));
        ASSERT_TRUE(File::open("/")->sync());  // for good
      });
      f(host, host.disk());
    });
    EXPECT_EQ(io.world().descriptors(), 0U);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(SimulatedFiles, ShortAndInterruptedCallsAreMadeUpFor) {
  on_worlds([](const SimHost& host, SimDisk disk) {
    disk.set_short_transfers(0.5);
    disk.fail_with(EINTR, 0.3);
    EXPECT_TRUE(host.run([&] {
      std::string text;
      for (int i = 0; text.size() < 5000; ++i) text += std::to_string(i);
      ASSERT_TRUE(write_file("/data/f", text));
      EXPECT_TRUE(read_file("/data/f").value() == text);
      ASSERT_TRUE(write_file("/data/f", text + text, {.atomic = true}));
      EXPECT_TRUE(read_file("/data/f").value() == text + text);
      const File file = File::open("/data/f", {.read = true, .write = true}).value();
      ASSERT_TRUE(file.write_at("over, under", 4000));
      std::string part(6000, '\0');
      const auto got = file.read_at(std::as_writable_bytes(std::span{part}), 3000);
      ASSERT_TRUE(got);
      EXPECT_EQ(got->size(), part.size()) << "a short read is not the end";
      EXPECT_EQ(part.substr(1000, 11), "over, under");
      EXPECT_EQ(list_directory("/data")->size(), 1U);
    }));
  });
}

TEST(SimulatedFiles, AFullDiskKeepsTheOldOne) {
  on_worlds([](const SimHost& host, SimDisk disk) {
    disk.set_capacity(300'000);
    EXPECT_TRUE(host.run([&] {
      const std::string old(100'000, 'o');
      ASSERT_TRUE(write_file("/data/f", old));
      EXPECT_EQ(write_file("/data/f", std::string(250'000, 'n'), {.atomic = true}).error(),
                std::errc::no_space_on_device);
      EXPECT_EQ(read_file("/data/f").value(), old);
      EXPECT_EQ(list_directory("/data")->size(), 1U) << "nothing beside it";
      EXPECT_TRUE(write_file("/data/f", std::string(150'000, 'n'), {.atomic = true}));
    }));
  });
}

TEST(SimulatedFiles, ErrorsOfTheDeviceAreReported) {
  on_worlds([](const SimHost& host, SimDisk disk) {
    EXPECT_TRUE(host.run([&] {
      ASSERT_TRUE(write_file("/data/f", "text"));
      disk.fail_with(EIO, 1);
      EXPECT_EQ(read_file("/data/f").error(), std::errc::io_error);
      EXPECT_EQ(write_file("/data/f", "other", {.atomic = true}).error(), std::errc::io_error);
      disk.fail_with(EIO, 0);
      EXPECT_EQ(read_file("/data/f").value(), "text");
    }));
  }, 10);
}

// Whenever the power fails: each file is whole, and what was reported as written is there.
TEST(SimulatedFiles, AtomicWritesSurviveACrash) {
  int torn_runs = 0;
  on_worlds([&](const SimHost& host, SimDisk disk) {
    disk.set_short_transfers(0.3);
    disk.set_survival(0.5);
    int begun = 0;
    int reported = 0;
    const auto version = [](int number) {
      return std::string(2000, static_cast<char>('A' + number));
    };
    nursery([&](Nursery& n) {
      host.spawn(n, [&] {
        while (begun < 20) {
          ++begun;
          const Result<void> written = write_file("/data/f", version(begun), {.atomic = true});
          this_fiber::checkpoint();  // what a host does that has crashed does not count
          ASSERT_TRUE(written) << written.error().message();
          reported = begun;
        }
      });
      const std::uint64_t turns = io().random() % 200;
      for (std::uint64_t i = 0; i < turns; ++i) this_fiber::yield();
      host.crash();
      host.restart();
    });
    if (reported != begun) ++torn_runs;
    if (begun == 0) return;
    EXPECT_TRUE(host.run([&] {
      const Result<std::string> found = read_file("/data/f");
      if (!found) {
        EXPECT_EQ(found.error(), std::errc::no_such_file_or_directory);
        EXPECT_EQ(reported, 0);
        return;
      }
      EXPECT_TRUE(*found == version(reported) || *found == version(begun))
          << reported << " of " << begun << ", found " << found->substr(0, 1);
    }));
  });
  EXPECT_GT(torn_runs, 0) << "no crash has come in the midst of a write";
}

TEST(SimulatedWorlds, HavePipesButNoProcesses) {
  on_worlds([](const SimHost& host, SimDisk) {
    EXPECT_TRUE(host.run([] {
      Pipe ends = pipe().value();
      EXPECT_TRUE(ends.writer.write_all("over, under"));
      EXPECT_TRUE(ends.writer.close());
      EXPECT_EQ(ends.reader.read_all().value(), "over, under");
      EXPECT_EQ(run_process({.argv = {"true"}}).error(), std::errc::operation_not_supported);
      EXPECT_EQ(standard_input().error(), std::errc::operation_not_supported);
      EXPECT_EQ(standard_output().error(), std::errc::operation_not_supported);
    }));
  });
}

}  // namespace
}  // namespace weft
