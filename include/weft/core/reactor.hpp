// Reactor: what tells descriptors that something has happened to them. Engines bring one.
#pragma once

#include <weft/core/kernel.hpp>
#include <weft/core/readiness.hpp>
#include <weft/core/use_count.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace weft {

class IoCall;
class Reactor;

// An open descriptor as its reactor sees it. Records are recycled and never freed: an event that
// was on its way when the descriptor was closed finds a record, and by its key that it is too late.
class alignas(64) Watched {
 public:
  // Whom an event is for; fits into 64 bits beside the record's address.
  using Key = std::uint64_t;
  [[nodiscard]] Key key() const noexcept {
    return reinterpret_cast<Key>(this) |
           (static_cast<Key>(generation_.load(std::memory_order_relaxed)) << kAddressBits);
  }
  [[nodiscard]] static Watched& of(Key key) noexcept {
    return *reinterpret_cast<Watched*>(key & ((Key{1} << kAddressBits) - 1));
  }
  // By the reactor: what poll(2) calls `events` has happened to whom `key` is for.
  static void tell(Key key, std::uint32_t events, FiberList& woken) noexcept;
  // Both directions.
  void tell_all(FiberList& woken) noexcept {
    in.tell(woken, true);
    out.tell(woken, true);
  }

  // A record for `fd`, and none of anybody else's. Throws std::bad_alloc.
  static Watched& make(int fd, std::shared_ptr<Reactor> reactor);
  static void recycle(Watched& record) noexcept;

  // ── first line, with the counts of `out`: what a call that does not wait touches ────────────
  UseCount uses;
  int fd = -1;
  // Whether edges are told of: else the first who waits for one asks for it, see Reactor::watch().
  Atomic<bool> told{false};
  bool takes_calls = false;           // the reactor has the kernel make calls, see IoCall
  Atomic<bool> likely_empty{false};   // a hint: to receive now would block
  Atomic<bool> accepts_ahead{false};  // Reactor::accept() has them, and the kernel takes no calls

 private:
  static constexpr unsigned kAddressBits = 48;

  Atomic<std::uint16_t> generation_{0};
  Watched* next_free_ = nullptr;
  friend struct WatchedPool;

 public:
  std::shared_ptr<Reactor> reactor;
  // For whatever the reactor has to remember, until forget().
  Atomic<std::uintptr_t> of_reactor{0};
  Readiness out;
  Readiness in;
  Readiness quiet;  // has an edge when the last call has left a closed descriptor
};

class Reactor {
 public:
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  virtual ~Reactor() = default;

  [[nodiscard]] virtual Kernel& kernel() noexcept = 0;

  // From now on `record` is told of every edge: once per descriptor, not per wait. 0, or the
  // negated errno; -EPERM: this kind is always ready, and need not be watched; kOnDemand: it is
  // told once tell_from_now() was called.
  virtual Kernel::Answer watch(Watched& record) noexcept = 0;
  static constexpr Kernel::Answer kOnDemand = 1;
  // Before the first wait for an edge, in a call on the descriptor. Readiness that is older than
  // this is an edge, too.
  virtual void tell_from_now(Watched& record) noexcept { static_cast<void>(record); }
  // No more of that. Comes after the last call on the descriptor, before it is closed.
  virtual void forget(Watched& record) noexcept = 0;
  // The descriptor is being closed while calls are under way: those the kernel has are asked back.
  virtual void abandon(Watched& record) noexcept { static_cast<void>(record); }

  // From now on connections may be accepted before they are asked for, if the reactor can do that:
  // with one operation for all of them. In a call on the descriptor, which listens.
  virtual void accept_ahead(Watched& record) noexcept { static_cast<void>(record); }
  // A call to accept that the kernel had was cancelled: others may have to look in its place. In a
  // call on the descriptor.
  virtual void accept_given_up(Watched& record) noexcept { static_cast<void>(record); }
  // As Kernel::accept() and Kernel::poll(), but that they know of those connections. After -EAGAIN,
  // or 0, there is an edge when there is something. In a call on the descriptor; `peer` may be
  // null.
  [[nodiscard]] virtual Kernel::Answer accept(Watched& record, SocketAddress* peer) noexcept {
    SocketAddress unwanted;
    return kernel().accept(record.fd, peer ? *peer : unwanted);
  }
  [[nodiscard]] virtual Kernel::Answer poll(Watched& record, short events) noexcept {
    return kernel().poll(record.fd, events);
  }

  // Whether calls can be left to the kernel, as a whole.
  [[nodiscard]] virtual bool takes_calls() const noexcept { return false; }
  // Whether calls that do not block should be, too: others are about to be told to the kernel, and
  // one more among them costs less than a system call of its own.
  [[nodiscard]] virtual bool gathers_calls() const noexcept { return false; }
  // Hands a call to the kernel; it will complete(). False: nothing has happened.
  [[nodiscard]] virtual bool submit(IoCall& call) noexcept {
    static_cast<void>(call);
    return false;
  }
  // Asks the kernel to end a call that it has, as soon as it can. With the lock of its queue held.
  virtual void recall(IoCall& call) noexcept { static_cast<void>(call); }

  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;  // "epoll"

 protected:
  Reactor() = default;
};

}  // namespace weft
