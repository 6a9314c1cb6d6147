// ControlWord: the one atomic of a fiber.
//
//  63                                16 15         5   4    3        0
// ┌───────────────────────────────────┬───────────┬──────┬──────────┐
// │  ticket: counts this frame's waits│  verdict  │shield│  state   │
// └───────────────────────────────────┴───────────┴──────┴──────────┘
//
// Invariant: a wait is ended by exactly one verdict, and the fiber enters a run queue exactly once
//            for it (F4).
// Race:      a waker finds the fiber between "I shall park" and "my stack is quiet". It latches its
//            verdict in the word; the parker's commit, on the far side of the switch, finds it
//            there and enqueues the fiber itself. So a PARKING stack is never claimed, and no wake
//            is lost.
//            A canceller finds it before that, and has nothing to claim. It nudges first (a bit of
//            the fiber's attention) and looks at the word after; the commit changes the word first
//            and looks for the nudge after. Both are sequentially consistent: one sees the other.
// Rejected:  a latch beside the state (two words need seq_cst and were still wrong in six ways, see
//            docs/protocol.md); a ticket beside the state (a stale timer cancels the next wait);
//            the nudge in this word (begin_park() would have to be a read-modify-write, the third
//            of a wait, lest it erase the bit).
//
// While a fiber runs, nobody but itself writes its word: no claim fits. So begin_park() stores; all
// that comes after it, until the wait has ended, is done by read-modify-write. RUNNING, WAKING and
// a yield's RUNNABLE are logical: written only when WEFT_SPEC_ASSERT checks the edges.
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/mutant.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/spec.hpp>

#include <cstddef>
#include <cstdint>

namespace weft {

// Names one wait of one frame. A recycled frame keeps counting, so an old ticket never fits again.
enum class Ticket : std::uint64_t {};

// How a wait ended: nobody yet, arm i won, or one of the reasons that are not an arm.
class Verdict {
 public:
  static constexpr std::size_t kArmsMax = 1024;

  static constexpr Verdict none() noexcept { return Verdict{0}; }
  static constexpr Verdict arm(std::size_t i) noexcept {
    return Verdict{static_cast<std::uint16_t>(i + 1)};
  }
  static constexpr Verdict cancelled() noexcept { return Verdict{2047}; }
  static constexpr Verdict deadlock() noexcept { return Verdict{2046}; }

  [[nodiscard]] constexpr bool is_arm() const noexcept { return code_ - 1U < kArmsMax; }
  [[nodiscard]] constexpr std::size_t arm() const noexcept { return code_ - 1U; }
  friend constexpr bool operator==(Verdict, Verdict) = default;

 private:
  friend class ControlWord;
  explicit constexpr Verdict(std::uint16_t code) noexcept : code_(code) {}
  std::uint16_t code_;
};

// What a claimer must do next. lost: nothing, another verdict stands. latched: nothing, the parker
// enqueues. owned: the fiber is ours, enqueue it exactly once.
enum class [[nodiscard]] Claim { lost, latched, owned };

// One load of this word opens every public operation.
enum Attention : std::uint16_t {
  kAttendScope = 1,    // the nudge: a cancellation may concern us
  kAttendToEnrol = 2,  // our scope does not know us yet; a fiber that never looks pays nothing
  kAttendTurn = 4,     // our time slice is over, and others wait
  kAttendPreempt = 8,  // in simulation: others may come first, at every operation
};

// Whether a wait may be ended by a nudge. A shielded one passes it by, and leaves it standing.
enum class Nudges : bool { heed, pass };

class ControlWord {
 public:
  // ── the fiber itself ────────────────────────────────────────────────────────────────────────

  // RUNNING -> PARKING under a fresh ticket.
  [[gnu::always_inline]] Ticket begin_park(Nudges nudges) noexcept {
    chaos::step();
    Word next = snapshot();
    check_edge(next.state, FiberState::parking, Actor::fiber);
    if (!mutant::kTicketNotBumped) ++next.ticket;
    next.verdict = Verdict::none();
    next.shielded = nudges == Nudges::pass;
    next.state = FiberState::parking;
    // release: pairs with a latching claim(); its claimer finds us in a wait that has begun.
    bits_.store(next.pack(), std::memory_order_release);
    return Ticket{next.ticket & kTicketMask};
  }

  // PARKING -> RUNNING without having left the stack. A verdict latched meanwhile stands.
  Verdict abort_park() noexcept {
    chaos::step();
    check_edge(snapshot().state, FiberState::running, Actor::fiber);
    // acquire: pairs with a latching claim(); we see the data its claimer moved.
    return Word::unpack(move_state(FiberState::parking, FiberState::running)).verdict;
  }

  // The verdict that ended the last wait. acquire: pairs with claim().
  [[nodiscard, gnu::always_inline]] Verdict verdict() const noexcept {
    return Word::unpack(bits_.load(std::memory_order_acquire)).verdict;
  }

  // ── the worker, on the far side of the switch ───────────────────────────────────────────────

  // PARKING -> PARKED. False: a verdict is latched, or a nudge has ended the wait; the fiber is
  // RUNNABLE, and the caller enqueues.
  [[nodiscard, gnu::always_inline]] bool commit_park(
      const Atomic<std::uint16_t>& attention) noexcept {
    chaos::step();
    std::uint64_t seen = bits_.load(std::memory_order_relaxed);
    while (Word::unpack(seen).verdict == Verdict::none()) {
      check_edge(Word::unpack(seen).state, FiberState::parked, Actor::worker);
      // release: pairs with claim(); who owns the fiber finds its stack written back. seq_cst, as
      // is the look that follows: pairs with cancel(), see the race above.
      const std::uint64_t parked = seen ^ change(FiberState::parking, FiberState::parked);
      if (bits_.compare_exchange_weak(seen, parked, std::memory_order_seq_cst,
                                      std::memory_order_relaxed)) {
        if ((attention.load(std::memory_order_seq_cst) & kAttendScope) == 0) [[likely]]
          return true;
        return mutant::kParkIgnoresNudge || !claim_nudged(parked);
      }
    }
    if constexpr (spec::kSpecAssert) {
      for (const FiberState step : {FiberState::parked, FiberState::waking, FiberState::runnable})
        mark(step, Actor::worker);
    } else {
      // acquire: pairs with the claim that latched; release: we enqueue what the fiber left.
      move_state(FiberState::parking, FiberState::runnable);
    }
    return false;
  }

  // RUNNABLE -> RUNNING, written in every build: for a plain thread, this is what resuming means.
  void run_thread() noexcept {
    check_edge(snapshot().state, FiberState::running, Actor::worker);
    // release: pairs with the thread's load of the word; we are done with its frame.
    move_state(FiberState::runnable, FiberState::running);
  }

  // ── anybody ─────────────────────────────────────────────────────────────────────────────────

  // The whole wake protocol in one compare-exchange: the right ticket, no earlier winner, and then
  // either the parked stack is ours or our verdict waits for a parker that is still switching away.
  [[gnu::always_inline]] Claim claim(Ticket ticket, Verdict verdict) noexcept {
    chaos::step();
    std::uint64_t seen = bits_.load(std::memory_order_relaxed);
    // As almost all are found: parked, for this wait, and nobody else has come.
    const Word usual{raw(ticket), Verdict::none(), (seen & kShielded) != 0, FiberState::parked};
    if (seen == usual.pack() && !mutant::kTicketCheckedApart) [[likely]] {
      const Claim won = try_claim(seen, usual, verdict, Actor::waker);
      if (won != Claim::lost) [[likely]] return won;
    }
    return claim_seen(seen, ticket, verdict);
  }

  // Cancellation: nudges, and ends the current wait, whichever it is, unless it is shielded. The
  // caller knows (by the scope's lock) that the wait belongs to a scope being cancelled.
  Claim cancel(Atomic<std::uint16_t>& attention) noexcept {
    chaos::step();
    if (!mutant::kCancelHintsLate) nudge(attention);
    // seq_cst, as is the nudge: pairs with commit_park(), see the race above.
    std::uint64_t seen = bits_.load(mutant::kCancelLooksRelaxed ? std::memory_order_relaxed
                                                                : std::memory_order_seq_cst);
    Claim won = Claim::lost;
    while (won == Claim::lost && is_open_to_cancel(Word::unpack(seen)))
      won = try_claim(seen, Word::unpack(seen), Verdict::cancelled(), Actor::canceller);
    if (mutant::kCancelHintsLate) nudge(attention);
    return won;
  }

  // ── logical steps, for the checks only ──────────────────────────────────────────────────────

  void mark_runnable(Actor actor) noexcept { mark(FiberState::runnable, actor); }
  void mark_running() noexcept { mark(FiberState::running, Actor::worker); }
  void mark_ended(FiberState end, Actor actor) noexcept { mark(end, actor); }
  // A frame begins a new life. Its ticket goes on counting (S0 §8).
  void mark_reborn() noexcept {
    if (mutant::kRecycledTicketRestarts) bits_.store(0, std::memory_order_relaxed);
    if constexpr (spec::kSpecAssert) force_state(FiberState::init);
  }

  [[nodiscard]] FiberState state() const noexcept { return snapshot().state; }
  static FiberState state_of(std::uint64_t bits) noexcept { return Word::unpack(bits).state; }
  [[nodiscard]] Ticket ticket() const noexcept { return Ticket{snapshot().ticket}; }

  // The raw word, for a thread that sleeps on it until it changes.
  [[nodiscard]] const Atomic<std::uint64_t>& bits() const noexcept { return bits_; }

 private:
  static constexpr std::uint64_t kShielded = 1U << 4;
  static constexpr std::uint64_t kTicketMask = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t change(FiberState from, FiberState to) noexcept {
    return static_cast<std::uint64_t>(from) ^ static_cast<std::uint64_t>(to);
  }

  struct Word {
    std::uint64_t ticket;
    Verdict verdict;
    bool shielded;  // this wait is ended by no cancel
    FiberState state;

    [[gnu::always_inline]] static constexpr Word unpack(std::uint64_t bits) noexcept {
      return {bits >> 16, Verdict{static_cast<std::uint16_t>((bits >> 5) & 0x7ff)},
              (bits & kShielded) != 0, static_cast<FiberState>(bits & 0xf)};
    }
    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
      return ticket << 16 | static_cast<std::uint64_t>(verdict.code_) << 5 |
             (shielded ? kShielded : 0) | static_cast<std::uint64_t>(state);
    }
  };

  static constexpr std::uint64_t raw(Ticket t) noexcept { return static_cast<std::uint64_t>(t); }
  [[nodiscard, gnu::always_inline]] Word snapshot() const noexcept {
    return Word::unpack(bits_.load(std::memory_order_relaxed));
  }

  // Also when the bit is set already: the read-modify-write is what carries the cancelled scope to
  // the fiber, which takes the bit back by another, and reads the scopes then.
  static void nudge(Atomic<std::uint16_t>& attention) noexcept {
    if (mutant::kNudgeSkipsRmw && (attention.load(std::memory_order_seq_cst) & kAttendScope))
      return;
    attention.fetch_or(kAttendScope, std::memory_order_seq_cst);
  }
  static bool is_open_to_cancel(Word now) noexcept {
    return now.verdict == Verdict::none() && !now.shielded &&
           (now.state == FiberState::parking || now.state == FiberState::parked);
  }
  // A canceller came before the park was begun, and found no wait to end. By its ticket: the fiber
  // may have been woken and have run since, and the frame may be another fiber's.
  [[gnu::cold, gnu::noinline]] bool claim_nudged(std::uint64_t parked) noexcept {
    const Word now = Word::unpack(parked);
    std::uint64_t seen = parked;
    while (seen == parked && !now.shielded)
      if (try_claim(seen, now, Verdict::cancelled(), Actor::worker) != Claim::lost) return true;
    return false;
  }

  // What claim() does in every case.
  [[gnu::noinline]] Claim claim_seen(std::uint64_t seen, Ticket ticket, Verdict verdict) noexcept {
    if (mutant::kTicketCheckedApart && Word::unpack(seen).ticket != raw(ticket)) return Claim::lost;
    for (;;) {
      const Word now = Word::unpack(seen);
      if (now.ticket != raw(ticket) && !mutant::kTicketCheckedApart) return Claim::lost;
      if (now.verdict != Verdict::none() && !mutant::kClaimIgnoresVerdict) return Claim::lost;
      if (!spec::can_be_claimed(now.state) && now.state != FiberState::parking) return Claim::lost;
      const Claim won = try_claim(seen, now, verdict, Actor::waker);
      if (won != Claim::lost) return won;
    }
  }

  // One attempt. Lost means "look again": `seen` has been refreshed.
  Claim try_claim(std::uint64_t& seen, Word now, Verdict verdict, Actor actor) noexcept {
    const bool parked = now.state == FiberState::parked;
    Word next{now.ticket, verdict, now.shielded, now.state};
    // WAKING is fused away unless the checks want to see it.
    if (parked) next.state = spec::kSpecAssert ? FiberState::waking : FiberState::runnable;
    if (parked) check_edge(FiberState::parked, FiberState::waking, actor);
    if (mutant::kLatchByPlainStore && !parked) {
      bits_.store(next.pack(), std::memory_order_release);
      return Claim::latched;
    }
    // release: pairs with verdict() and abort_park(). acquire: pairs with commit_park().
    if (!bits_.compare_exchange_weak(seen, next.pack(), std::memory_order_acq_rel,
                                     std::memory_order_relaxed))
      return Claim::lost;
    if (parked) mark(FiberState::runnable, actor);
    return parked ? Claim::owned : Claim::latched;
  }

  // The states differ in bits that nobody else touches now, so an exclusive-or keeps the verdict.
  std::uint64_t move_state(FiberState from, FiberState to) noexcept {
    return bits_.fetch_xor(change(from, to), std::memory_order_acq_rel);
  }

  static void check_edge(FiberState from, FiberState to, Actor actor) noexcept {
    // In release the physical state may lag behind the logical one; only checked builds keep both.
    if constexpr (spec::kSpecAssert) spec::check_edge(from, to, actor);
  }

  void force_state(FiberState to) noexcept { move_state(snapshot().state, to); }
  void mark(FiberState to, Actor actor) noexcept {
    if constexpr (spec::kSpecAssert) {
      check_edge(snapshot().state, to, actor);
      force_state(to);
    }
  }

  Atomic<std::uint64_t> bits_{0};
};

}  // namespace weft
