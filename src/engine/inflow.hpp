// Inflow: connections of one listener that one operation accepts before they are asked for.
//
// Invariant: who finds nothing here leaves the operation under way. Each connection, an error, and
//            the end of the operation, whoever wanted that, are edges that come later: so nobody
//            waits who is not woken, and the first who finds nothing begins it again.
// Race:      two find nothing, and both would begin it. Under the lock one of them is told to, and
//            counts as having done so; the other waits for the same edges.
// Rejected:  the lock of the ring that has the operation: it is another ring each time, and who
//            takes a connection would meet the worker that takes answers. This lock comes last.
#pragma once

#include <weft/base/sync.hpp>
#include <weft/core/kernel.hpp>

#include <poll.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <utility>

namespace weft::engine {

class Inflow {
 public:
  Inflow() = default;  // throws std::bad_alloc
  Inflow(const Inflow&) = delete;
  Inflow& operator=(const Inflow&) = delete;

  // ── by who accepts ──────────────────────────────────────────────────────────────────────────

  struct [[nodiscard]] Found {
    Kernel::Answer answer;
    bool begin = false;  // the caller is to begin the operation; nobody else is told to
  };
  // A descriptor, an error, or -EAGAIN.
  Found take() noexcept {
    const Locked locked{lock_};
    if (!waiting_.empty()) {
      const int fd = waiting_.front();
      waiting_.pop_front();
      return {fd};
    }
    if (error_ != 0) return {std::exchange(error_, 0)};
    return {-EAGAIN, is_to_begin()};
  }
  // Whether take() would find something: POLLIN, or 0.
  Found look() noexcept {
    const Locked locked{lock_};
    if (!waiting_.empty() || error_ != 0) return {POLLIN};
    return {0, is_to_begin()};
  }

  // ── by who has the operation ────────────────────────────────────────────────────────────────

  enum class [[nodiscard]] Kept : std::uint8_t {
    kept,
    enough,   // kept, but too few are taken: the operation is to be asked back
    no_room,  // nor will there be: the connection is the caller's to close
  };
  Kept keep(int fd) noexcept {
    const Locked locked{lock_};
    error_ = 0;  // it has passed
    try {
      waiting_.push_back(fd);
    } catch (const std::bad_alloc&) {
      return Kept::no_room;
    }
    if (waiting_.size() <= kWaitingMost || operation_ != Operation::under_way) return Kept::kept;
    operation_ = Operation::asked_back;
    return Kept::enough;
  }
  // It has ended. An error is for one of those who accept, unless it says only that.
  void ended(Kernel::Answer answer) noexcept {
    const Locked locked{lock_};
    operation_ = Operation::none;
    const bool fails = answer < 0 && answer != -ECANCELED && answer != -EAGAIN && answer != -EINTR;
    if (fails) error_ = answer;
  }

  // ── by who closes the listener, when nobody else is left ────────────────────────────────────

  template <class Close>
  void close_all(Close close) noexcept {
    for (const int fd : std::exchange(waiting_, {})) close(fd);
  }

  // So many wait here before the rest is left in the backlog. More may: the kernel takes whatever
  // is there when it looks.
  static constexpr std::size_t kWaitingMost = 64;

 private:
  enum class Operation : std::uint8_t {
    // state        more may come?   its end will come?   who finds nothing
    none,        // no               no                   begins it
    under_way,   // yes              maybe                waits
    asked_back,  // yes              yes                  waits
  };

  [[nodiscard]] bool is_to_begin() noexcept {
    if (operation_ != Operation::none) return false;
    operation_ = Operation::under_way;
    return true;
  }

  Lock lock_;  // protects all of it
  std::deque<int> waiting_;
  Kernel::Answer error_ = 0;
  Operation operation_ = Operation::none;
};

}  // namespace weft::engine
