// IoCall: a system call that the kernel makes for a fiber that waits meanwhile.
//
// Invariant: from take() to complete() the kernel has the call, and may write to its buffers at any
//            time. The wait does not return in between, however it ends: the buffers may be on the
//            stack of who waits.
// Race:      a wait is cancelled while the kernel completes the call. Both meet under the lock of
//            the queue that has it: either the answer came first, and stands, or the call is asked
//            back, and settle() waits for the kernel's last word. Bytes that came by then are not
//            lost: they are the wait's result, and cancellation is for the next one to raise.
// Race:      a descriptor is closed while a call on it is handed over. The mark is set before the
//            closer asks all queues, under their locks, to give back what they have: who takes the
//            call later sees the mark.
// Rejected:  buffers that outlive the wait: one more copy of every byte.
#pragma once

#include <weft/core/reactor.hpp>

#include <cstdint>

namespace weft {

class IoCall final : public KernelOwned {
 public:
  enum class Kind : std::uint8_t {
    receive,  // into message()
    send,     // what is in message()
    accept,   // a connection, whose peer is written to address(), unless that is null
    connect,  // to address()
  };
  struct Request {
    Kind kind;
    msghdr* message = nullptr;
    SocketAddress* address = nullptr;
    bool would_block = false;  // so it seems: let the kernel wait first, and try then
  };

  // `readiness`: the direction whose reason to wait it shares. What `request` points to stays until
  // the wait has returned.
  IoCall(Watched& record, const Readiness& readiness, const Request& request) noexcept
      : request_(request), record_(record), readiness_(readiness) {}
  ~IoCall();

  // ── when its wait has returned ──────────────────────────────────────────────────────────────

  // As Kernel's are. -ECANCELED: it was asked back, or came back by itself; nothing was done.
  [[nodiscard]] Kernel::Answer answer() const noexcept { return answer_.read(); }
  // There was more to be had than was asked for.
  [[nodiscard]] bool left_more() const noexcept { return left_more_.read(); }
  // The reactor did not take it: the descriptor is closed, or this is no place for it.
  [[nodiscard]] bool was_refused() const noexcept { return state_.read() == State::refused; }

  // ── by the reactor, with the lock of the queue that has it held ─────────────────────────────

  // It is about to be queued, and complete() will follow. False: the descriptor is closed; let it
  // be.
  [[nodiscard]] bool take(Lock& lock, void* queue) noexcept {
    lock_ = &lock;
    queue_ = queue;
    if (record_.uses.is_closed() && !mutant::kCallTakenAfterClose) return false;
    waiter_.write(this);
    state_.write(State::taken);
    return true;
  }
  // The kernel's last word. Whoever waits for it, and is to be resumed, goes to `woken`.
  void complete(Kernel::Answer answer, bool left_more, FiberList& woken) noexcept;

  [[nodiscard]] const Request& request() const noexcept { return request_; }
  [[nodiscard]] const Watched& record() const noexcept { return record_; }
  [[nodiscard]] int fd() const noexcept { return record_.fd; }
  [[nodiscard]] void* queue() const noexcept { return queue_; }  // as given to take()

  // ── Waitable ────────────────────────────────────────────────────────────────────────────────

  bool try_complete() override;
  bool publish() noexcept override;
  void unpublish() noexcept override;
  bool settle() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override { return readiness_.reason(); }

 private:
  enum class State : std::uint8_t {
    // state       whose are the buffers?   complete() will come?
    ours,       // ours                     no
    taken,      // the kernel's             yes
    answered,   // ours                     it has
    refused,    // ours                     no
  };
  class LastWord;

  const Request request_;
  Watched& record_;
  const Readiness& readiness_;
  Lock* lock_ = nullptr;  // null: never handed over
  void* queue_ = nullptr;
  bool asked_back_ = false;
  // All under that lock.
  Var<State> state_{State::ours};
  Var<Waitable*> waiter_{nullptr};  // who is told; null: nobody any more, or not yet
  Var<Kernel::Answer> answer_{0};
  Var<bool> left_more_{false};
};

}  // namespace weft
