#include <support/watchdog.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace weft::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

double number_from_environment(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0) || value > 1e6) {
    std::fprintf(stderr, "%s=%s: not a number from 0 to 1000000\n", name, text);
    std::exit(2);
  }
  return value;
}

// Not by stdio, whose lock the hung test may hold.
void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string shown(Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", seconds.count());
  return text;
}

class Watchdog {
 public:
  // Lives until the process ends: its thread is never joined, so nothing may be destroyed under it.
  static Watchdog& instance() {
    static Watchdog* const only = new Watchdog;
    return *only;
  }

  void start() {
    if (limit_ == Seconds::zero()) return;
    // The program under test may expect signals on its own threads: this one takes none.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { watch(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void test_begins(std::string name) {
    const std::lock_guard lock{mutex_};
    test_ = std::move(name);
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
    dumps_kept_ = dumps_.size();
    changed_.notify_one();
  }

  void test_ends() {
    const std::lock_guard lock{mutex_};
    test_.clear();
    dumps_.resize(dumps_kept_);
    changed_.notify_one();
  }

  void add(std::function<void()> dump) {
    const std::lock_guard lock{mutex_};
    dumps_.push_back(std::move(dump));
    if (test_.empty()) dumps_kept_ = dumps_.size();
  }

 private:
  Watchdog() = default;

  void watch() {
    std::unique_lock lock{mutex_};
    for (;;) {
      if (test_.empty()) {
        changed_.wait(lock);
      } else if (Clock::now() < deadline_) {
        changed_.wait_until(lock, deadline_);
      } else {
        const std::string test = test_;
        const std::vector<std::function<void()>> dumps = dumps_;
        lock.unlock();  // the hung test may still want to add a callback
        bark(test, dumps);
      }
    }
  }

  [[noreturn]] void bark(const std::string& test, const std::vector<std::function<void()>>& dumps) {
    // The name first: whatever the callbacks do, it is known who hung.
    say("\n[ TIMEOUT  ] " + test + " exceeded its limit of " + shown(limit_) + "\n");
    std::thread([this] {
      std::this_thread::sleep_for(dump_limit_);
      say("[ TIMEOUT  ] a callback of on_timeout() hangs as well; aborting\n");
      std::abort();
    }).detach();
    for (const std::function<void()>& dump : dumps) {
      try {
        dump();
      } catch (const std::exception& error) {
        say(std::string{"[ TIMEOUT  ] a callback of on_timeout() threw: "} + error.what() + "\n");
      } catch (...) {
        say("[ TIMEOUT  ] a callback of on_timeout() threw\n");
      }
    }
    say("[ TIMEOUT  ] aborting " + test + "\n");
    std::abort();
  }

  const Seconds limit_{number_from_environment("WEFT_TEST_LIMIT", 60) *
                       number_from_environment("WEFT_TEST_TIME_SCALE", 1)};
  const Seconds dump_limit_{number_from_environment("WEFT_TEST_DUMP_LIMIT", 10)};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;  // empty between tests
  Clock::time_point deadline_;
  std::vector<std::function<void()>> dumps_;
  std::size_t dumps_kept_ = 0;  // those added outside of any test, which come first
};

class Listener : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    Watchdog::instance().test_begins(std::string{test.test_suite_name()} + "." + test.name());
  }
  void OnTestEnd(const ::testing::TestInfo&) override { Watchdog::instance().test_ends(); }
};

}  // namespace

void on_timeout(std::function<void()> dump) { Watchdog::instance().add(std::move(dump)); }

double time_scale() { return std::max(1.0, number_from_environment("WEFT_TEST_TIME_SCALE", 1)); }

bool long_budget() {
  const char* const budget = std::getenv("WEFT_MODEL_BUDGET");
  return budget != nullptr && std::string_view{budget} == "long";
}

void start_watchdog() {
  Watchdog::instance().start();
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);  // GoogleTest deletes it
}

}  // namespace weft::testing
