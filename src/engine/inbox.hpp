// Inbox: where other threads leave fibers for a worker, and where the worker sleeps.
//
// Invariant: a fiber in the inbox implies that the worker is awake or being woken.
//            A closed inbox is empty, and stays so: its worker has gone.
// Race:      the worker goes to sleep, or goes for good, while a fiber, a nudge or a call arrives.
//            All are one compare-exchange on the same word: either it came first, and the worker
//            does not sleep or go, or the worker lay down first, and the sender sees it asleep and
//            wakes it, or went first, and the sender keeps what it brought.
// Rejected:  a sleep flag beside the queue: two words, which need sequential consistency.
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>

namespace weft::engine {

// Where a worker sleeps that does not sleep on its inbox, because it wants to hear something else.
class Bed {
 public:
  // Ends the sleep, also one that is about to begin. From any thread, once per sleep or more.
  virtual void rouse() noexcept = 0;

 protected:
  ~Bed() = default;
};

class Inbox {
 public:
  explicit Inbox(Bed* bed = nullptr) noexcept : bed_(bed) {}

  // ── from any thread ─────────────────────────────────────────────────────────────────────────

  // Leaves `fiber` here. If the worker sleeps, wakes it. False: the worker has gone for good.
  [[nodiscard]] bool try_push(Fiber& fiber) noexcept {
    chaos::step();
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      if (head == kGone && !mutant::kPushToTheGone) return false;
      fiber.link = chain(head);
      // release: pairs with take_all(); the worker sees the fiber as we left it.
    } while (!head_.compare_exchange_weak(head, to_word(fiber) | (head & kCalled),
                                          std::memory_order_release, std::memory_order_relaxed));
    pushed_.fetch_add(1, std::memory_order_relaxed);
    wake(head);
    return true;
  }
  // To a worker that never goes.
  void push(Fiber& fiber) noexcept {
    if (!try_push(fiber)) [[unlikely]] std::terminate();
  }

  // Has the worker look around without giving it anything to run: wakes it, or keeps it from
  // falling asleep once.
  void nudge() noexcept { tell(kNudged); }

  // Wakes the worker, if it sleeps, to search for work: it has been counted as a searcher.
  [[nodiscard]] bool call() noexcept { return rouse(kCalled); }
  // Wakes the worker, if it sleeps, to look around.
  [[nodiscard]] bool rouse() noexcept { return rouse(kNudged); }

  [[nodiscard]] bool empty() const noexcept {
    return (head_.load(std::memory_order_relaxed) & ~kGone) == kNothing;
  }
  // About how many fibers wait here.
  [[nodiscard]] std::size_t length() const noexcept {
    const auto waiting = static_cast<std::int32_t>(pushed_.load(std::memory_order_relaxed) -
                                                   taken_.load(std::memory_order_relaxed));
    return waiting > 0 ? static_cast<std::size_t>(waiting) : 0;  // a push counts after it is done
  }

  // The fibers of a worker that does not come for them.
  FiberList take_over() noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    while (chain(head))
      // Calls stay: they are the worker's own.
      if (head_.compare_exchange_weak(head, head & kCalled, std::memory_order_acq_rel,
                                      std::memory_order_relaxed))
        return in_order(head);
    return {};
  }

  // ── by the worker ───────────────────────────────────────────────────────────────────────────

  struct Arrivals {
    FiberList fibers;  // in order of arrival
    bool called;       // see call()
  };
  Arrivals take_all() noexcept {
    chaos::step();
    const std::uint64_t head = head_.exchange(kNothing, std::memory_order_acquire);
    return {in_order(head), (head & kCalled) != 0};
  }

  // From now on senders wake us. False: there is something here already.
  [[nodiscard]] bool lie_down() noexcept {
    chaos::step();
    return become(kNothing, kAsleep);
  }
  // Until something arrives, or `timeout`. May return early.
  void sleep(const std::timespec* timeout) noexcept { Sync::sleep(head_, kAsleep, timeout); }
  // Between the two, we sleep in our bed, and senders rouse that. False: there is something here.
  [[nodiscard]] bool move_to_bed() noexcept {
    chaos::step();
    return become(kAsleep, kAsleep | kElsewhere);
  }
  void move_back() noexcept { become(kAsleep | kElsewhere, kAsleep); }
  [[nodiscard]] bool is_asleep() const noexcept {
    return (head_.load(std::memory_order_relaxed) & kAsleep) != 0;
  }
  void get_up() noexcept { become(kAsleep, kNothing); }

  // From now on nobody leaves anything here, until the worker comes back. False: there is something
  // here already.
  [[nodiscard]] bool close() noexcept {
    chaos::step();
    if (!mutant::kGoneWithoutALook) return become(kNothing, kGone);
    head_.store(kGone, std::memory_order_release);
    return true;
  }
  void reopen() noexcept { become(kGone, kNothing); }

 private:
  // Frames are aligned to cache lines: their addresses leave room for these.
  static constexpr std::uint64_t kNothing = 0;
  static constexpr std::uint64_t kAsleep = 1;
  static constexpr std::uint64_t kNudged = 2;
  static constexpr std::uint64_t kCalled = 4;
  static constexpr std::uint64_t kGone = 8;
  static constexpr std::uint64_t kElsewhere = 16;  // asleep, in bed_
  static constexpr std::uint64_t kMarks = 31;

  bool rouse(std::uint64_t what) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    do {
      if (!(head & kAsleep)) return false;
    } while (!head_.compare_exchange_weak(head, what, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    wake(head);
    return true;
  }
  void wake(std::uint64_t before) noexcept {
    if ((before & kElsewhere) && !mutant::kRousesTheWrongBed) [[unlikely]] bed_->rouse();
    else if (before & kAsleep) Sync::wake(head_, 1);
  }
  void tell(std::uint64_t what) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (mutant::kToldOnceIsEnough && (head & what) != 0) return;
    do {
      if (head == kGone) return;
      // Also when it is told already: release, pairs with take_all(); the worker sees our reason,
      // too.
    } while (!head_.compare_exchange_weak(head, (head & ~(kAsleep | kElsewhere)) | what,
                                          std::memory_order_acq_rel, std::memory_order_relaxed));
    wake(head);
  }
  bool become(std::uint64_t from, std::uint64_t to) noexcept {
    return head_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  FiberList in_order(std::uint64_t head) noexcept {
    Fiber* newest = chain(head);
    Fiber* oldest = nullptr;
    std::uint32_t count = 0;
    while (newest) {
      Fiber* const before = newest->link;
      newest->link = oldest;
      oldest = newest;
      newest = before;
      ++count;
    }
    FiberList all;
    while (oldest) {
      Fiber* const after = oldest->link;
      all.push_back(*oldest);
      oldest = after;
    }
    if (count != 0) taken_.fetch_add(count, std::memory_order_relaxed);
    return all;
  }
  static std::uint64_t to_word(Fiber& fiber) noexcept {
    return reinterpret_cast<std::uint64_t>(&fiber);
  }
  static Fiber* chain(std::uint64_t head) noexcept {
    return reinterpret_cast<Fiber*>(head & ~kMarks);
  }

  Atomic<std::uint64_t> head_{kNothing};
  Atomic<std::uint32_t> pushed_{0};
  Atomic<std::uint32_t> taken_{0};
  Bed* const bed_;
};

}  // namespace weft::engine
