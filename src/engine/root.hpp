// Root: the scope that run()'s function and posted functions are born in.
#pragma once

#include <weft/core/cancel_scope.hpp>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace weft::engine {

// Counts run()'s children. Zero means: not running, nobody is admitted.
class RootCount {
 public:
  void open() noexcept { live_.store(1, std::memory_order_release); }

  // One more child, from any thread, unless the last one has ended already: the same word decides.
  [[nodiscard]] bool admit() noexcept {
    std::uint64_t live = live_.load(std::memory_order_relaxed);
    while (live != 0)
      if (live_.compare_exchange_weak(live, live + 1, std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
        return true;
    return false;
  }

  // True: that was the last.
  bool leave(std::size_t count) noexcept {
    return live_.fetch_sub(count, std::memory_order_acq_rel) == count;
  }

  [[nodiscard]] bool over() const noexcept { return live_.load(std::memory_order_acquire) == 0; }

 private:
  Atomic<std::uint64_t> live_{0};
};

// Makes run() refuse to be called while it is under way, by whichever thread.
class [[nodiscard]] Exclusive {
 public:
  Exclusive(Atomic<bool>& busy, const char* what) : busy_(busy) {
    // acquire: pairs with the release below; we see the last run's end.
    if (busy_.exchange(true, std::memory_order_acquire))
      throw std::logic_error{std::string{what} + ": the engine is running already"};
  }
  ~Exclusive() { busy_.store(false, std::memory_order_release); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  Atomic<bool>& busy_;
};

class Root : public Home {
 public:
  virtual ~Root() = default;
  explicit Root(RootCount& count) noexcept : Home(nullptr), count_(count) {}

  // The first failure is kept for run() to throw; it stops the others.
  void child_failed(Fiber&, std::exception_ptr error) noexcept override {
    {
      const Locked locked{lock_};
      if (error_) return;
      error_ = std::move(error);
    }
    cancel();
  }
  void child_cancelled() noexcept override {}
  void children_ended(std::size_t count) noexcept override { count_.leave(count); }
  [[nodiscard]] bool child_added() noexcept override { return count_.admit(); }
  [[nodiscard]] std::string_view name() const noexcept override { return "root"; }
  [[nodiscard]] const Fiber* owner() const noexcept override { return nullptr; }
  [[nodiscard]] NurseryState state() const noexcept override {
    return cancelled() ? NurseryState::cancelling : NurseryState::open;
  }

  void rethrow_if_failed() const {
    if (error_) std::rethrow_exception(error_);
  }

 protected:
  RootCount& count_;

 private:
  Lock lock_;
  std::exception_ptr error_;
};

}  // namespace weft::engine
