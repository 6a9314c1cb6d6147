// Stack overflow: a sentence on stderr that names the fiber, then the death it would have died.
//
// A fiber that runs into the guard below its stack gets SIGSEGV. The handler cannot run on that
// stack, so each worker thread has a SignalStack; the handler itself is the process's, installed
// while any engine has an OverflowHandler. It says what happened, hands over to the handler that
// the program had before, and if there is none, or it returns, lets the default action end the
// process, with a core that shows the faulting frame. A fault anywhere else is none of its
// business and goes straight to the program's handler.
//
// A handler that the program installs after the engine started comes first; it must pass on what it
// does not handle, and be installed with SA_ONSTACK, or there is no message.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::arch {

// Who runs on the calling thread. `name` may be null; it must stay readable for the call.
struct OverflowNames {
  std::uint64_t id = 0;
  const char* name = nullptr;
};

// Fills in the names; false if the thread runs no fiber. Called in a signal handler, on the thread
// and at the instruction that faulted: async-signal-safe code only.
using DescribeCurrent = bool (*)(OverflowNames&) noexcept;

// Any thread, at any time; null: fibers stay nameless.
void set_describe_current(DescribeCurrent describe) noexcept;

enum class OverflowReport : std::uint8_t { on, off };

// Keeps the process's SIGSEGV and SIGBUS handlers installed. One per engine; they nest and overlap
// as they like, and the last one puts back what the first one found, unless the program has
// installed a handler in the meantime: that stays.
class [[nodiscard]] OverflowHandler {
 public:
  explicit OverflowHandler(OverflowReport report = OverflowReport::on) noexcept;  // off: nothing
  ~OverflowHandler();
  OverflowHandler(const OverflowHandler&) = delete;
  OverflowHandler& operator=(const OverflowHandler&) = delete;

 private:
  const bool counted_;
};

// The calling thread's alternate signal stack, for as long as this object lives. Made and destroyed
// by the same thread, on its own stack; the one that was there before comes back. One inside
// another is the same: simulations come and go by the thousand.
//
// If there is no memory for it the thread goes on without: an overflow then ends the process just
// as surely, but without a word.
class [[nodiscard]] SignalStack {
 public:
  explicit SignalStack(OverflowReport report = OverflowReport::on) noexcept;  // off: nothing
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  [[nodiscard]] bool active() const noexcept { return memory_ != nullptr || shared_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  // usable

 private:
  void* memory_ = nullptr;  // guard first
  bool shared_ = false;     // with the one outside
  std::size_t guard_bytes_ = 0;
  std::size_t bytes_ = 0;
  void* before_memory_ = nullptr;  // what the thread had: a stack_t in parts
  std::size_t before_bytes_ = 0;
  int before_flags_ = 0;
};

}  // namespace weft::arch
