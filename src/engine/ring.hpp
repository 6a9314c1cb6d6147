// Ring: one io_uring(7), of which several threads may make use.
//
// Invariant: who fills an entry, or takes an answer, holds the lock. System calls are made without
//            it: the kernel takes entries in order, whoever enters, and an entry's place is free
//            again when the kernel has moved its head past it.
// Rejected:  one thread per ring alone (IORING_SETUP_SINGLE_ISSUER, DEFER_TASKRUN): what was
//            answered could not be taken while that thread is blocked elsewhere.
#pragma once

#include "pace.hpp"

#include <weft/arch/ticks.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>

#include <liburing.h>

#include <cstdint>
#include <ctime>
#include <optional>

namespace weft::engine {

class Ring {
 public:
  Ring() = default;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // 0, or the negated errno.
  [[nodiscard]] int open(unsigned entries) noexcept;
  // Whether the kernel can do all that we ask of it. To be asked of an open ring.
  [[nodiscard]] bool knows_all_operations() noexcept;

  Lock lock;

  // ── with the lock held ──────────────────────────────────────────────────────────────────────

  // Lets `fill` write an entry. If there is no room, those that wait are told to the kernel first.
  template <class Fill>
  void push(Fill fill) noexcept {
    while (!has_room()) make_room();
    io_uring_sqe& entry = ring_.sq.sqes[ring_.sq.sqe_tail & ring_.sq.ring_mask];
    fill(entry);
    io_uring_smp_store_release(ring_.sq.ktail, ++ring_.sq.sqe_tail);
  }
  // Takes one answer.
  struct Answer {
    std::uint64_t to;
    std::int32_t result;
    std::uint32_t flags;
  };
  [[nodiscard]] std::optional<Answer> pop() noexcept {
    const unsigned head = *ring_.cq.khead;
    if (head == io_uring_smp_load_acquire(ring_.cq.ktail)) return std::nullopt;
    const io_uring_cqe& from = ring_.cq.cqes[head & ring_.cq.ring_mask];
    const Answer answer{from.user_data, from.res, from.flags};
    // Whom a later one is for: it lies on a stack that no cache holds when there are thousands.
    const std::uint64_t soon = ring_.cq.cqes[(head + kAhead) & ring_.cq.ring_mask].user_data;
    for (unsigned line = 0; line < 3; ++line)  // a number, not a pointer: it may be nobody's
      __builtin_prefetch(reinterpret_cast<const void*>(soon + 64 * line), 1);
    io_uring_smp_store_release(ring_.cq.khead, head + 1);
    return answer;
  }
  // No entry is pending when this returns.
  void enter_all() noexcept {
    while (enter(0, nullptr), pending() != 0) make_room();
  }
  bool in_bed = false;  // its worker sleeps in it, and takes its answers itself

  // ── without it, too ─────────────────────────────────────────────────────────────────────────

  Pace pace{arch::ticks_of_a_moment()};
  // Entries that the kernel has not been told of.
  [[nodiscard]] unsigned pending() const noexcept {
    return io_uring_smp_load_acquire(ring_.sq.ktail) - io_uring_smp_load_acquire(ring_.sq.khead);
  }
  [[nodiscard]] bool has_answers() const noexcept {
    return io_uring_smp_load_acquire(ring_.cq.khead) != io_uring_smp_load_acquire(ring_.cq.ktail);
  }
  // Answers for which there was no room, or that are only made when we come by.
  [[nodiscard]] bool has_more() const noexcept {
    return (io_uring_smp_load_acquire(ring_.sq.kflags) &
            (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0;
  }
  [[nodiscard]] bool has_overflown() const noexcept {
    return (io_uring_smp_load_acquire(ring_.sq.kflags) & IORING_SQ_CQ_OVERFLOW) != 0;
  }
  // Tells the kernel of all entries that are pending, and has it make what answers it can.
  void enter() noexcept { enter(0, nullptr); }
  // The same, and sleeps until there is an answer, or `timeout`. May return early.
  void sleep(const std::timespec* timeout) noexcept { enter(1, timeout); }

 private:
  [[nodiscard]] bool has_room() const noexcept {
    return ring_.sq.sqe_tail - io_uring_smp_load_acquire(ring_.sq.khead) < ring_.sq.ring_entries;
  }
  static constexpr unsigned kAhead = 4;
  [[gnu::cold]] void make_room() noexcept;
  int enter(unsigned answers, const std::timespec* timeout) noexcept;

  io_uring ring_{};
  bool is_open_ = false;
};

}  // namespace weft::engine
