// OffloadQueue: calls that wait for a thread, and threads that wait for a call.
//
// Invariant: a call in the queue implies a thread that is awake, being woken, or being started,
//            unless as many run calls as there may be threads: those look here before they rest.
// Race:      a thread lies down while a call comes. It reads the count of calls under the lock,
//            after it found the queue empty, and sleeps only on that count: a call that comes later
//            has changed it. A thread goes home while a call comes: it says so under the lock,
//            with the queue empty, so that the call has a new one started.
#pragma once

#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/offload.hpp>

#include <climits>
#include <cstdint>
#include <ctime>

namespace weft::engine {

class OffloadQueue {
 public:
  explicit OffloadQueue(unsigned threads_max) noexcept : most_(threads_max) {}

  // ── who calls ───────────────────────────────────────────────────────────────────────────────

  // True: a thread is to be started for it, and has been counted.
  [[nodiscard]] bool push(OffloadJob& job) noexcept {
    bool start = false;
    bool wake = false;
    {
      const Locked locked{lock_};
      queue_.push_back(job);
      ++queued_;
      calls_.fetch_add(1, std::memory_order_relaxed);
      in_flight_.fetch_add(1, std::memory_order_relaxed);
      start = idle_ < queued_ && threads_ < most_;
      if (start) ++threads_;
      wake = idle_ != 0;
    }
    if (wake) Sync::wake(calls_, 1);
    return start;
  }
  // The thread that was to be started was not. The calls that nobody is left to make, one by one.
  [[nodiscard]] OffloadJob* pop_stranded(bool first) noexcept {
    const Locked locked{lock_};
    if (first) --threads_;
    return threads_ == 0 ? take() : nullptr;
  }
  [[nodiscard]] bool withdraw(OffloadJob& job) noexcept {
    const Locked locked{lock_};
    if (!job.is_linked()) return false;
    if (mutant::kWithdrawnStaysQueued) return true;
    queue_.remove(job);
    --queued_;
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  // ── the threads ─────────────────────────────────────────────────────────────────────────────

  // The next call. Null: it is time to go home, because of stop(), or because none came for so
  // long.
  [[nodiscard]] OffloadJob* pop(const std::timespec* patience) noexcept {
    lock_.lock();
    for (;;) {
      if (OffloadJob* const job = take()) {
        lock_.unlock();
        return job;
      }
      std::uint32_t seen = calls_.load(std::memory_order_relaxed);
      if (stopping_) return go_home();
      ++idle_;
      lock_.unlock();
      if (mutant::kCallCountedLate) seen = calls_.load(std::memory_order_relaxed);
      Sync::sleep(calls_, seen, patience);
      lock_.lock();
      --idle_;
      if (patience && queue_.empty() && calls_.load(std::memory_order_relaxed) == seen)
        return go_home();
    }
  }
  // True: no call is in flight any more.
  bool made() noexcept { return in_flight_.fetch_sub(1, std::memory_order_relaxed) == 1; }

  // ── whoever starts and ends it all ──────────────────────────────────────────────────────────

  void open() noexcept {
    const Locked locked{lock_};
    stopping_ = false;
  }
  // Sends the threads home, once there are no calls.
  void stop() noexcept {
    {
      const Locked locked{lock_};
      stopping_ = true;
      calls_.fetch_add(1, std::memory_order_relaxed);
    }
    Sync::wake(calls_, INT_MAX);
  }

  // Calls that wait or are being made; threads that are there. Both may change at once.
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return in_flight_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned queued() const noexcept {
    const Locked locked{lock_};
    return queued_;
  }
  [[nodiscard]] unsigned threads() const noexcept {
    const Locked locked{lock_};
    return threads_;
  }

 private:
  // Under the lock, as is go_home(), which releases it.
  OffloadJob* take() noexcept {
    OffloadJob* const job = queue_.pop_front();
    if (job) --queued_;
    return job;
  }
  OffloadJob* go_home() noexcept {
    --threads_;
    lock_.unlock();
    return nullptr;
  }

  const unsigned most_;
  mutable Lock lock_;  // protects what is no atomic
  List<OffloadJob> queue_;
  unsigned queued_ = 0;
  unsigned idle_ = 0;     // threads that lie down
  unsigned threads_ = 0;  // that are there, or are being started
  bool stopping_ = false;
  Atomic<std::uint32_t> calls_{0};  // that ever came, and stop(): what idle threads sleep on
  Atomic<std::uint32_t> in_flight_{0};
};

}  // namespace weft::engine
