// Whole files, written atomically by a kernel that fails, or cancels, at each step of it.
#include <weft/file.hpp>

#include <weft/blocking_io.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <string>
#include <system_error>

#include <engine/reactor_hook.hpp>
#include <net/kernel_between.hpp>
#include <support/engines.hpp>
#include <support/temp_dir.hpp>

namespace weft {
namespace {

using testing::TempDir;

enum class Step : std::uint8_t {
  create,
  write,
  set_permissions,
  sync,
  rename,
  open_directory,
  sync_directory,
  other,
};

// Asks the test before each step.
class Clumsy final : public testing::KernelBetween {
 public:
  Clumsy() { engine::kernel_in_between.store(this); }
  ~Clumsy() { engine::kernel_in_between.store(nullptr); }

  std::function<int(Step)> fault;  // the errno instead of the step; 0: it is made

  Answer open(const char* path, int flags, mode_t permissions) noexcept override {
    struct stat there {};
    const bool is_directory = ::stat(path, &there) == 0 && S_ISDIR(there.st_mode);
    const Step step = (flags & O_CREAT) ? Step::create
                      : is_directory    ? Step::open_directory
                                        : Step::other;
    return made(step, [&] { return real_.open(path, flags, permissions); });
  }
  Answer write(int fd, const iovec* parts, int count) noexcept override {
    return made(Step::write, [&] { return real_.write(fd, parts, count); });
  }
  Answer set_permissions(int fd, mode_t permissions) noexcept override {
    return made(Step::set_permissions, [&] { return real_.set_permissions(fd, permissions); });
  }
  Answer sync(int fd, bool data_only) noexcept override {
    struct stat what {};
    const bool is_directory = ::fstat(fd, &what) == 0 && S_ISDIR(what.st_mode);
    return made(is_directory ? Step::sync_directory : Step::sync,
                [&] { return real_.sync(fd, data_only); });
  }
  Answer rename(const char* from, const char* to) noexcept override {
    return made(Step::rename, [&] { return real_.rename(from, to); });
  }
  Answer status(int fd, struct stat& status) noexcept override {
    return made(Step::other, [&] { return real_.status(fd, status); });
  }
  Answer status(const char* path, struct stat& status) noexcept override {
    return made(Step::other, [&] { return real_.status(path, status); });
  }

 private:
  template <class Call>
  Answer made(Step step, Call call) noexcept {
    const int error = fault ? fault(step) : 0;
    return error == 0 ? call() : -error;
  }
};

void on_machine(const std::function<void()>& f) {
  testing::on_workers({1U, 2U}, f);
  SCOPED_TRACE("BlockingIo");
  BlockingIo{}.run(f);
}

// A file that the umask alone would not have made as it is.
class Scene {
 public:
  Scene() {
    EXPECT_TRUE(write_file(path(), "old"));
    EXPECT_EQ(::chmod(path().c_str(), 0666), 0);
  }
  ~Scene() { ::umask(umask_before_); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  [[nodiscard]] std::string path() const { return dir_ / "f"; }
  [[nodiscard]] std::string content() const { return read_file(path()).value(); }
  [[nodiscard]] std::size_t files() const { return list_directory(dir_.path())->size(); }

 private:
  const mode_t umask_before_ = ::umask(022);
  const TempDir dir_;
};

std::error_code write_with_fault(Clumsy& kernel, const Scene& scene, Step at, int error) {
  bool reached = false;
  kernel.fault = [&](Step step) {
    if (step == at) reached = true;
    return step == at ? error : 0;
  };
  const Result<void> written = write_file(scene.path(), "new", {.atomic = true});
  kernel.fault = nullptr;
  EXPECT_TRUE(reached);
  return written.error();
}

TEST(AtomicWrite, AStepThatFailsLeavesTheOldAndNothingBeside) {
  Clumsy kernel;
  on_machine([&] {
    for (const Step step :
         {Step::create, Step::write, Step::set_permissions, Step::sync, Step::rename}) {
      const Scene scene;
      EXPECT_EQ(write_with_fault(kernel, scene, step, EIO), std::errc::io_error);
      EXPECT_EQ(scene.content(), "old") << int(step);
      EXPECT_EQ(status(scene.path())->permissions, mode_t{0666}) << int(step);
      EXPECT_EQ(scene.files(), 1U) << int(step);
    }
  });
}

// The new content is there, but a crash may bring the old one back: who asked must know.
TEST(AtomicWrite, ADirectoryThatCannotBeSyncedIsReported) {
  Clumsy kernel;
  on_machine([&] {
    const auto outcome = [&](Step step, int error) {
      const Scene scene;
      const std::error_code said = write_with_fault(kernel, scene, step, error);
      EXPECT_EQ(scene.content(), "new");
      EXPECT_EQ(scene.files(), 1U);
      return said;
    };
    EXPECT_EQ(outcome(Step::sync_directory, EIO), std::errc::io_error);
    EXPECT_EQ(outcome(Step::sync_directory, ENOSPC), std::errc::no_space_on_device);
    EXPECT_EQ(outcome(Step::sync_directory, EACCES), std::errc::permission_denied);
    EXPECT_EQ(outcome(Step::open_directory, EMFILE), std::errc::too_many_files_open);
    EXPECT_EQ(outcome(Step::open_directory, EINVAL), std::errc::invalid_argument);
    EXPECT_FALSE(outcome(Step::open_directory, EACCES)) << "we may not, and it is no fault";
    EXPECT_FALSE(outcome(Step::sync_directory, EINVAL)) << "there is no such thing there";
  });
}

TEST(AtomicWrite, CancelledAtAnyStepItLeavesNothingBeside) {
  Clumsy kernel;
  on_machine([&] {
    int cancelled_at = 0;
    for (bool reached = true; reached;) {
      ++cancelled_at;
      const Scene scene;
      bool written = false;
      int steps = 0;
      const bool ended = cancel_scope([&](CancelScope& scope) {
        kernel.fault = [&](Step) {
          if (++steps == cancelled_at) scope.cancel();
          return 0;
        };
        written = write_file(scene.path(), "new", {.atomic = true}).has_value();
      });
      kernel.fault = nullptr;
      reached = steps >= cancelled_at;
      EXPECT_TRUE(written || (reached && !ended)) << cancelled_at;
      EXPECT_EQ(scene.content(), written ? "new" : "old") << cancelled_at;
      EXPECT_EQ(scene.files(), 1U) << cancelled_at;
    }
    EXPECT_GT(cancelled_at, 8) << "all of them were tried";
  });
}

}  // namespace
}  // namespace weft
