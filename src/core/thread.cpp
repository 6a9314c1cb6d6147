#include <weft/core/thread.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/locals.hpp>
#include <weft/core/timer.hpp>
#include <weft/core/waitable.hpp>

#include "arch/tripwire.hpp"

#include <sched.h>
#include <sys/random.h>

#include <ctime>
#include <new>
#include <stdexcept>

namespace weft {
namespace {

ThreadCarrier& carrier_of_this_thread() noexcept {
  return static_cast<ThreadCarrier&>(Carrier::here());
}

// What the kernel is to find in the word, or else not sleep.
std::uint64_t compared([[maybe_unused]] Fiber& self, std::uint64_t seen) noexcept {
  if (mutant::kThreadSleepsWithoutCompare)
    return self.word.bits().load(std::memory_order_relaxed);
  return seen;
}

std::timespec until(Instant when, Instant now) noexcept {
  const auto left = when > now ? (when - now).count() : 0;
  return {static_cast<std::time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
}

}  // namespace

Instant monotonic_now() noexcept {
  std::timespec t{};
  if constexpr (arch::kHasTripwire) arch::read_clock(CLOCK_MONOTONIC, t);
  else ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant{Duration{t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec}};
}

// A kernel that has none yet, or a sandbox that refuses it, is no reason to fail: an address and
// the clock are different enough for what these numbers are for.
std::uint64_t entropy() noexcept {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, GRND_NONBLOCK) == sizeof bits) return bits;
  return SplitMix::mixed(reinterpret_cast<std::uintptr_t>(&bits)) ^
         static_cast<std::uint64_t>(monotonic_now().time_since_epoch().count());
}

ThreadCarrier::ThreadCarrier(Fiber& frame) noexcept : fiber_(frame), strand_(frame, ground_) {
  ground_.shadow.begin(true);
  exceptions = &arch::thread_exception_state();
  current = &fiber_;
  engine = &ThreadIo::get();
  fiber_.io = &ThreadIo::get();
  fiber_.strand = &strand_;
  fiber_.scope = nullptr;  // a recycled frame remembers its last fiber's
  fiber_.id = 0;
  fiber_.word.mark_reborn();
  fiber_.word.mark_runnable(Actor::spawner);
  fiber_.word.mark_running();
}

ThreadCarrier::~ThreadCarrier() {
  if (strand_.locals) strand_.locals->release();
  fiber_.word.mark_ended(FiberState::done, Actor::fiber);
  fiber_.strand = nullptr;
  fiber_.io = nullptr;
  fiber_.attention.store(kAttendToEnrol, std::memory_order_relaxed);
  fiber_.set_name({});
  frames.give(fiber_);
}

ThreadIo& ThreadIo::get() noexcept {
  static ThreadIo* const kept = new ThreadIo;  // never destroyed: threads may end after main()
  return *kept;
}

void ThreadIo::start(Fiber&) {
  throw std::logic_error{"weft: a fiber was spawned on a thread that is not inside an engine; "
                         "call weft::run() or FiberIo::run() first"};
}

// The thread commits its own park: nobody else will ever run its stack, so there is no far side. It
// goes on when it is resumed, not when it is claimed: until then its claimer holds its frame.
Fiber& ThreadIo::successor(Fiber& self, Departure how) noexcept {
  if (how != Departure::park) {
    ::sched_yield();
    return self;
  }
  if (self.word.commit_park(self.attention)) {
    sleep_until_resumed(self, carrier_of_this_thread());
  } else {  // ended already: we are our own resumer
    self.traits |= kLatched;
    self.word.run_thread();
  }
  return self;
}

void ThreadIo::sleep_until_resumed(Fiber& self, ThreadCarrier& thread) noexcept {
  for (;;) {
    // Loaded once: the kernel compares this very value before it sleeps, so a resume in between is
    // not slept through. acquire: pairs with run_thread() and, through it, with the claim.
    const std::uint64_t seen = self.word.bits().load(std::memory_order_acquire);
    if (ControlWord::state_of(seen) == FiberState::running) return;
    Timer* const soonest = thread.timers_;
    if (!soonest) {
      Sync::sleep(self.word.bits(), compared(self, seen));
      continue;
    }
    const Instant now = monotonic_now();
    if (soonest->when > now) {
      const std::timespec left = until(soonest->when, now);
      Sync::sleep(self.word.bits(), compared(self, seen), &left);
      continue;
    }
    thread.timers_ = soonest->after_;
    soonest->armed_ = false;
    Fired fired;
    soonest->fire(fired);
    resume_all(std::move(fired.woken));
    CancelScope::tell(fired.hooks);
  }
}

void ThreadIo::departed(Fiber&, Departure) noexcept {}

// The word is changed before the kernel is asked: a thread about to sleep finds it changed. From
// then on the thread may be gone; its frame is not, so the address is good.
void ThreadIo::resume(FiberList fibers) noexcept {
  while (Fiber* const fiber = fibers.pop_front()) {
    if (mutant::kThreadWokenWithoutWord) Sync::wake(fiber->word.bits(), 1);
    fiber->word.run_thread();
    if (!mutant::kThreadWokenWithoutWord) Sync::wake(fiber->word.bits(), 1);
  }
}

Instant ThreadIo::now() const noexcept { return monotonic_now(); }

void ThreadIo::arm(Timer& timer) noexcept {
  Timer** at = &carrier_of_this_thread().timers_;
  while (*at && (*at)->when <= timer.when) at = &(*at)->after_;
  timer.after_ = *at;
  timer.armed_ = true;
  *at = &timer;
}

void ThreadIo::disarm(Timer& timer) noexcept {
  if (!timer.armed_) return;
  Timer** at = &carrier_of_this_thread().timers_;
  while (*at != &timer) at = &(*at)->after_;
  *at = timer.after_;
  timer.armed_ = false;
}

// By the thread whose engine this is, like everything here.
std::uint64_t ThreadIo::random() noexcept {
  std::optional<SplitMix>& chance = carrier_of_this_thread().chance_;
  if (!chance) chance.emplace(entropy());
  return chance->next();
}

#if defined(WEFT_MODEL)

// A model makes its carriers itself; a thread without one is a fault of the model.
Carrier& Carrier::enlist_thread() noexcept { __builtin_trap(); }

#else

// Out of memory here ends the program: a thread that cannot be known cannot wait.
Carrier& Carrier::enlist_thread() noexcept {
  FrameCache cache;
  Fiber& frame = cache.take(FrameSize::small);
  auto* const carrier = new ThreadCarrier{frame};
  arch::set_thread_slot(carrier);
  arch::at_thread_exit(
      [](void* object) {
        arch::set_thread_slot(nullptr);
        delete static_cast<ThreadCarrier*>(object);
      },
      carrier);
  return *carrier;
}

#endif

}  // namespace weft
