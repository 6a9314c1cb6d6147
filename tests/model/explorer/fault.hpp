// Faults: everything an execution can be found guilty of.
#pragma once

#include <cstdint>
#include <string_view>

#include "explorer/limits.hpp"
#include "explorer/site.hpp"

namespace weft::model {

enum class Failure : std::uint8_t {
  none,
  assertion,       // model::check() was false
  race,            // two unordered accesses to plain data, one of them a write
  deadlock,        // nobody can move: usually a lost wake
  livelock,        // the step limit, or threads that only spin
  leak,            // model::make() without model::destroy()
  use_after_free,  // an Atomic, Var or Lock was used after its object had gone, or may be
  abandoned_lock,  // a thread ended, or the Lock was destroyed, while it was held
  lock_misuse,     // unlock by a thread that does not hold the Lock
  exception,       // an exception left a thread's function
  limit,           // a table of the explorer is full
  replay,          // a replay string does not fit the program
};

[[nodiscard]] std::string_view to_string(Failure kind) noexcept;

// Plain data, filled in on whatever stack the thread happens to be; it becomes text later, on the
// explorer's own stack.
struct Fault {
  Failure kind = Failure::none;
  const char* text = "";  // static, or copied by raise()
  PlaceId place = kNoPlace;
  ThreadId thread = kNoThread;  // filled in by raise()
  Site site{};
  ThreadId other = kNoThread;  // the other half of an unordered pair
  Site other_site{};
};

// Ends the execution that is running: records the fault and leaves the thread's stack for good.
[[noreturn]] void raise(const Fault& fault);

}  // namespace weft::model
