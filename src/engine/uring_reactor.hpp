// UringReactor: I/O through io_uring(7). The kernel makes calls for fibers that wait, see IoCall,
// and tells of edges where that is what they wait for.
//
// One ring per worker, for its own fibers: what they ask for is told to the kernel when nobody is
// left to run, or there is enough of it, all at once. Temporary workers share the rings of the
// others.
//
// Invariant: a poll that the kernel has for a descriptor counts as a call on it: the descriptor is
//            closed, and its record used again, only after the kernel's last word on both.
// Race:      somebody else takes the answer that was to end a worker's sleep. From take_bed() to
//            leave_bed() nobody but that worker takes answers of its ring.
// Race:      the thread that told the kernel of a call ends, and the call comes back unmade with
//            -ECANCELED. Who did not ask for that makes it again.
// Rejected:  an eventfd to end sleeps: who polls it would have to be the thread that sleeps, or
//            else the wake waits until that thread enters the kernel. An operation that does
//            nothing is answered by whoever asks for it.
// Accepting: one operation per connection, told to the kernel together with all others; or, where
//            accept_ahead() was called, one for all of them, see Inflow. It is not the rule, since
//            it takes connections that nobody has asked for, be the server full or not; nor does it
//            say who the peer is, which costs who wants to know the system call that it saves.
// Invariant: that operation counts as a call on its descriptor, too, and its last word is an edge.
// Race:      it comes to an end that nobody wanted: out of descriptors, no room for its answers, or
//            the thread that told the kernel of it is gone. Who waits is woken, and begins it anew.
// Race:      a call to accept is cancelled as a connection comes. The kernel wakes one call per
//            connection, and if it was that one, nobody. So if something has come, all others are
//            asked back, and their fibers, who did not want that, make them again.
// Rejected:  to ask calls to accept back that are under way when it is begun: the kernel wakes one
//            operation per connection, and if that is one that is about to end, nobody.
#pragma once

#include "inflow.hpp"
#include "poller.hpp"
#include "ring.hpp"

#include <weft/core/carrier.hpp>
#include <weft/core/io_call.hpp>

#include <memory>
#include <string>
#include <vector>

namespace weft::engine {

class UringReactor final : public Poller {
 public:
  // Why there can be none here; empty: there can.
  static std::string probe();
  // For the workers of `engine`. Null: `reason` says why.
  static std::shared_ptr<UringReactor> make(const Io& engine, unsigned workers, unsigned entries,
                                            std::string& reason);

  // ── Reactor ─────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] Kernel& kernel() noexcept override { return kernel_; }
  Kernel::Answer watch(Watched& record) noexcept override;
  void tell_from_now(Watched& record) noexcept override;
  void forget(Watched& record) noexcept override;
  void abandon(Watched& record) noexcept override;
  void accept_ahead(Watched& record) noexcept override;
  void accept_given_up(Watched& record) noexcept override;
  Kernel::Answer accept(Watched& record, SocketAddress* peer) noexcept override;
  Kernel::Answer poll(Watched& record, short events) noexcept override;
  [[nodiscard]] bool takes_calls() const noexcept override;
  [[nodiscard]] bool gathers_calls() const noexcept override;
  bool submit(IoCall& call) noexcept override;
  void recall(IoCall& call) noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return "io_uring"; }

  // ── Poller ──────────────────────────────────────────────────────────────────────────────────
  bool hear(unsigned place, FiberList& woken) noexcept override;
  bool hear_all(FiberList& woken) noexcept override;
  void flush(unsigned place) noexcept override;
  void flush_late() noexcept override;
  [[nodiscard]] bool take_bed(unsigned place, bool watching) noexcept override;
  bool sleep(unsigned place, const std::timespec* timeout, FiberList& woken) noexcept override;
  void leave_bed(unsigned place) noexcept override;
  void rouse(unsigned place) noexcept override;
  void engine_ends() noexcept override { engine_.store(nullptr, std::memory_order_release); }

 private:
  UringReactor(const Io& engine, unsigned workers);

  // The ring of the calling thread; null: it is no worker of ours.
  [[nodiscard]] Ring* ring_here() const noexcept {
    const Carrier& here = Carrier::here();
    const Io* const engine = engine_.load(std::memory_order_acquire);
    return engine && here.engine == engine ? &ring_of(here.number) : nullptr;
  }
  // A temporary worker has none of its own.
  [[nodiscard]] Ring& ring_of(unsigned place) const noexcept {
    return *rings_[place < rings_.size() ? place : place % rings_.size()];
  }
  // Tells the kernel of what is pending. By a worker that has run fibers meanwhile.
  static void tell(Ring& ring) noexcept;
  // Has an operation on `record` begun by `push(ring)`, which counts as a call on it.
  template <class Push>
  void begin(Watched& record, Push push) noexcept;
  void begin_accepting(Watched& record) noexcept;
  void ask_all_back(const Watched& record, FiberList& woken) noexcept;
  // With the ring's lock held.
  bool take_answers(Ring& ring, FiberList& woken) noexcept;
  void take(Ring& ring, const Ring::Answer& answer, FiberList& woken) noexcept;
  std::uint32_t events_now(const Watched& record, int answer) noexcept;
  void take_poll(Ring& ring, const Ring::Answer& answer, FiberList& woken) noexcept;
  void take_accepted(Ring& ring, const Ring::Answer& answer, FiberList& woken) noexcept;

  Kernel& kernel_;
  Atomic<const Io*> engine_;  // null: it has ended, and only descriptors keep us
  std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace weft::engine
