// Root: the scope that run()'s function and posted functions are born in.
#pragma once

#include <weft/base/mutant.hpp>
#include <weft/core/cancel_scope.hpp>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

namespace weft::engine {

// Counts run()'s children, and says who may still come.
//
// Invariant: while somebody is counted, the root lives and run() has not ended.
// Race:      stop(), or a post, meets the last child's end, or the next run's beginning. The same
//            word decides: who is counted in time keeps the root alive until it leaves, and who is
//            not was too late, or too early.
class RootCount {
 public:
  // The root's own place is taken; nobody else gets in yet. By run(), with nobody inside.
  void begin() noexcept {
    word_.store(mutant::kOpenBeforeStart ? 1 : kStarting | 1, std::memory_order_release);
  }
  // release: pairs with admit(); who gets in sees the root.
  void open() noexcept { word_.store(1, std::memory_order_release); }

  // One more child, from any thread, unless the last one has ended already, or stop() was called.
  [[nodiscard]] bool admit() noexcept {
    return enter(mutant::kStoppingAdmits ? kStarting : kStarting | kStopping, 0);
  }
  // One more child, on behalf of one that lives.
  [[nodiscard]] bool add() noexcept { return enter(kStarting, 0); }
  // Nobody is admitted from now on. True: it runs, and counts the caller, who goes on to cancel the
  // root and leaves after that.
  [[nodiscard]] bool stop() noexcept { return enter(kStarting, kStopping); }

  // True: that was the last.
  bool leave(std::size_t count) noexcept {
    return (word_.fetch_sub(count, std::memory_order_acq_rel) & kLive) == count;
  }

  [[nodiscard]] bool over() const noexcept {
    return (word_.load(std::memory_order_acquire) & kLive) == 0;
  }

 private:
  static constexpr std::uint64_t kStarting = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kStopping = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kLive = kStopping - 1;

  bool enter(std::uint64_t unless, std::uint64_t mark) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while ((seen & kLive) != 0 && (seen & unless) == 0)
      // acquire: pairs with open(). release: who is refused because of our mark comes after us.
      if (word_.compare_exchange_weak(seen, place(seen, mark) | mark, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
        return true;
    return false;
  }
  static std::uint64_t place(std::uint64_t seen, std::uint64_t mark) noexcept {
    return mutant::kStopUncounted && mark != 0 ? seen : seen + 1;
  }

  Atomic<std::uint64_t> word_{0};
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
  explicit Root(RootCount& count) noexcept : Home(nullptr, nullptr), count_(count) {}

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
  [[nodiscard]] bool child_added() noexcept override { return count_.add(); }
  [[nodiscard]] std::string_view name() const noexcept override { return "root"; }
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
