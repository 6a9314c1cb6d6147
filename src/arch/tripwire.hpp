// Tripwire: notices calls of the C library that ask the real world for the time, or wait for it,
// on a thread whose world is a simulated one.
//
// A real clock makes a run depend on the machine, so that its seed does not repeat it; a real sleep
// or a lock that is held blocks the one thread on which all simulated fibers run. Checked builds
// notice, in the way of held_locks.hpp: weak functions take the place of the C library's, and call
// the real ones.
#pragma once

#include "arch/held_locks.hpp"

#include <cstdint>
#include <ctime>

namespace weft::arch {

inline constexpr bool kHasTripwire = kWatchesLocks;

enum class Trip : std::uint8_t {
  clock,      // a real clock is read
  sleep,      // real time is waited for
  lock,       // a lock is wanted that somebody holds
  condition,  // a condition variable is waited for
};

struct Tripped {
  Trip what = Trip::clock;
  const char* function = "";     // the C library's name for it
  const void* caller = nullptr;  // it returns there
  const void* lock = nullptr;    // Trip::lock: which,
  bool is_ours = false;          // and the calling thread itself holds it
  bool for_ever = false;         // nobody can ever end the wait
};

// One for each simulated run, on its thread. A simulation inside another's fiber has its own.
class Tripwire {
 public:
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;

  // The calling thread's innermost; null: it has none.
  static Tripwire* here() noexcept;
  // Before the call is made. What is called meanwhile does not trip.
  static void touch(const Tripped& tripped) noexcept;

 protected:
  Tripwire() = default;
  ~Tripwire() = default;

  // Both on the thread that is to be watched.
  void begin() noexcept;
  void end() noexcept;

  virtual void tell(const Tripped& tripped) noexcept = 0;

 private:
  Tripwire* outer_ = nullptr;
  bool inside_ = false;
};

// weft's own look at a real clock, which trips nothing. Only where kHasTripwire.
int read_clock(clockid_t clock, std::timespec& into) noexcept;

}  // namespace weft::arch
