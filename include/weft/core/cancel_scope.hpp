// CancelScope: a node of the tree that mirrors lexical nesting.
//
// Invariant: when cancel() returns, every fiber that waits below, with no shield between, has been
//            woken or nudged, and every later wait there finds the flag.
// Race:      a fiber parks in a scope while an ancestor is being cancelled. It makes itself
//            findable first (each scope attached to its parent, top down; then itself enrolled in
//            its scope) and reads the flags after. The canceller sets the flag first and sweeps top
//            down after. The locks they both take order the two, at whichever level they meet.
//            Fibers that meet at a scope's lock get rolls of their own, a few for each scope. These
//            are made under that lock, too: a canceller that did not see them was there before they
//            were made, and who enrols in one sees its flag.
// Rejected:  linking every scope when it is entered (fork-join makes a scope per call, and most
//            never see a park: a fiber enrols at its first park, and only then do its scopes);
//            copying the flag downward (needs the links).
#pragma once

#include <weft/base/intrusive_list.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/fiber.hpp>
#include <weft/core/time.hpp>
#include <weft/core/timer.hpp>

#include <cstdint>
#include <exception>
#include <stop_token>
#include <string_view>

namespace weft {

// Why a scope was cancelled. The first reason stands.
enum class CancelReason : std::uint8_t {
  none,            // it was not
  requested,       // cancel() was called
  timed_out,       // its deadline passed
  sibling_failed,  // a child or the body of the nursery failed
  stop_requested,  // by a std::stop_token
  parent,          // a scope around it was cancelled
};
std::string_view to_string(CancelReason reason) noexcept;

// Unwinds a fiber that is no longer wanted. Not a std::exception, so handlers for program errors
// pass it by; swallowed by `catch (...)`, it is raised again at the next wait until its scope ends.
class Cancelled {
 public:
  // Of the innermost scope of the fiber that was cancelled.
  [[nodiscard]] CancelReason reason() const noexcept { return reason_; }

 private:
  friend void attend(Fiber& self);
  explicit Cancelled(CancelReason reason) noexcept : reason_(reason) {}
  CancelReason reason_;
};

enum class Shield : bool { absent, present };

// The fibers that a canceller has to wake, or some of them.
struct Roll {
  List<Strand> strands;
  Sync::KeptLock lock;  // protects it; held by who keeps the scope, or its parent's
};

struct StopHook;  // carries a cancellation to a std::stop_source

class CancelScope : public ListNode<CancelScope> {
 public:
  explicit CancelScope(CancelScope* parent, Shield shield = Shield::absent) noexcept
      : parent_(parent),
        // Born in a scope that was clear then, we were clear then.
        clear_at_(parent ? parent->clear_at_.load(std::memory_order_relaxed) : 0),
        shield_(shield) {}
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  ~CancelScope() {  // whoever dies has left the tree
    detach();
    if (stop_) [[unlikely]] drop_stop_hook();
    if (rolls_.load(std::memory_order_relaxed)) [[unlikely]] drop_rolls();
  }

  // Asks every fiber below to stop. From any thread; idempotent. The caller keeps *this alive.
  // Takes constant stack, however deep the tree.
  void cancel(CancelReason why = CancelReason::requested) noexcept;
  // The same, for a timer.
  void cancel(CancelReason why, Fired& fired) noexcept;
  static void tell(StopHook* hooks) noexcept;

  // A token that is stopped when this scope is cancelled, by itself or from above; it may outlive
  // the scope. Callbacks run on the cancelling thread, after the fibers were woken.
  [[nodiscard]] std::stop_token stop_token();

  [[nodiscard]] CancelReason reason() const noexcept;

  // A request that nobody is forced to heed: seen by this_fiber::stopping(), here and below.
  void ask_to_stop() noexcept { asked_.store(true, std::memory_order_release); }
  [[nodiscard]] bool asked_to_stop() const noexcept;  // or cancelled

  // Whether fibers in this scope are to stop: its own flag, or that of an ancestor no shield hides.
  [[nodiscard]] bool cancelled() const noexcept;

  // The same, for a fiber that nobody has to find, because it is not going to park: remembers the
  // answer until somebody, anywhere, cancels anything, so that a million spawns do not climb the
  // tree a million times.
  [[nodiscard, gnu::always_inline]] bool cancelled_by_now() noexcept {
    // acquire: pairs with cancel(); who sees the new epoch sees the flag.
    const std::uint32_t now = epoch.load(std::memory_order_acquire);
    return now != clear_at_.load(std::memory_order_relaxed) && look_again(now);
  }

  [[nodiscard]] CancelScope* parent() const noexcept { return parent_; }
  [[nodiscard]] Shield shield() const noexcept { return shield_; }
  // The earliest of this scope's and, unless shielded, its ancestors'.
  [[nodiscard]] Instant deadline() const noexcept;
  // Moves it either way; those above still count. A scope made by cancel_scope(), timeout() or
  // deadline() is cancelled when it passes. By a fiber inside the scope, one at a time.
  void set_deadline(Instant when) noexcept;

  // ── for wait() and whoever enters and leaves scopes ─────────────────────────────────────────

  // `strand` will be found by cancel() from now on. False, and not enrolled: cancelled already.
  [[nodiscard]] bool enrol(Strand& strand) noexcept;
  // Afterwards no canceller knows `strand` by this scope. Idempotent.
  static void withdraw(Strand& strand) noexcept {
    if (strand.enrolled) [[unlikely]] strand.enrolled->remove(strand);
  }
  // Afterwards no canceller knows this scope by its parent. Idempotent.
  void detach() noexcept {
    // acquire: pairs with attach(), which another fiber of this scope may have done.
    if (attached_.load(std::memory_order_acquire)) [[unlikely]] leave_parent();
  }

 private:
  friend class TimedScope;

  void flag(CancelReason why) noexcept;
  void sweep(Fired& fired) noexcept;
  void wake_strands(Fired& fired) noexcept;
  bool wake_some(Fired& fired) noexcept;
  bool wake(Fired& fired, std::size_t most) noexcept;
  static bool wake(Roll& roll, Fired& fired, std::size_t most) noexcept;
  Roll& lock_a_roll() noexcept;
  [[gnu::cold, gnu::noinline]] void make_rolls() noexcept;
  void drop_stop_hook() noexcept;
  void drop_rolls() noexcept;
  void attach() noexcept;
  void leave_parent() noexcept;
  void remove(Strand& strand) noexcept;
  bool look_again(std::uint32_t now) noexcept;

  // Counts cancellations in the whole process, and so is visible to all its shared libraries. Read
  // at every first run, written only by cancel().
  [[gnu::visibility("default")]] static constinit inline Atomic<std::uint32_t> epoch{0};

  // Fork-join makes a scope per call: this is laid out to be made with few stores.
  CancelScope* const parent_;
  List<CancelScope> children_;
  Roll roll_;                          // its lock protects children_ and stop_, too
  struct Rolls;
  Atomic<Rolls*> rolls_{nullptr};      // made once two have met at the lock, under it
  Atomic<std::uint32_t> clear_at_;     // the epoch at which we were last found not cancelled
  Instant deadline_ = Instant::max();  // our own; deadline() heeds those above
  StopHook* stop_ = nullptr;
  Atomic<std::uint8_t> reason_{0};     // a CancelReason; not none: cancelled
  Atomic<bool> asked_{false};
  bool timed_ = false;                 // we are a TimedScope
  Atomic<bool> attached_{false};       // in parent_'s children_; written under the parent's lock
  const Shield shield_;
};

// A scope that is cancelled when its deadline passes.
class TimedScope final : public CancelScope, private Timer {
 public:
  // `now`, if the caller has just looked at the clock, saves a look.
  TimedScope(Io& io, CancelScope* parent, Instant deadline, Instant now) noexcept;
  TimedScope(Io& io, CancelScope* parent) noexcept;
  ~TimedScope();

 private:
  friend class CancelScope;
  void arm(Instant now) noexcept;
  void rearm() noexcept;
  void fire(Fired& fired) noexcept override;

  Io& io_;
};

// The scope fibers are spawned in. Told once about each of them, after its closure is destroyed.
class Home : public CancelScope {
 public:
  // `owner`: the fiber whose block this is; null: the engine's root.
  Home(CancelScope* parent, const Fiber* owner) noexcept : CancelScope(parent), owner_(owner) {}

  // A child's closure threw something other than Cancelled.
  virtual void child_failed(Fiber& child, std::exception_ptr error) noexcept = 0;
  // A child was unwound by cancellation, or dropped before it ran.
  virtual void child_cancelled() noexcept = 0;
  // The last thing a fiber does for its home. *this may be gone when it returns.
  virtual void children_ended(std::size_t count) noexcept = 0;
  // The same, by who has the owner in hand: it will run next, on this thread, in the midst of its
  // block. False: not told.
  [[nodiscard]] virtual bool children_ended_for_owner(std::size_t count) noexcept;
  // The root's spawn(): one more child, on behalf of one that lives. False: takes none this way.
  [[nodiscard]] virtual bool child_added() noexcept { return false; }
  // Whose child it is: a home of one child answers with the home that it stands in front of.
  [[nodiscard]] virtual const Home& family() const noexcept { return *this; }
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] const Fiber* owner() const noexcept { return owner_; }
  [[nodiscard]] virtual NurseryState state() const noexcept = 0;

 protected:
  ~Home() = default;

 private:
  const Fiber* const owner_;
};

// Runs the calling fiber inside `scope` until destroyed. Scopes nest like the blocks they mirror.
class [[nodiscard]] Entered {
 public:
  Entered(Fiber& self, CancelScope& scope) noexcept : self_(self), outer_(self.scope) {
    move_to(&scope);
  }
  ~Entered() {
    CancelScope::withdraw(*self_.strand);
    move_to(outer_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  void move_to(CancelScope* scope) noexcept {
    self_.scope = scope;
    // A fiber that never looked at a scope still has the bit, and pays nothing here. relaxed: only
    // we read it; a read-modify-write, because a canceller may set its own bit beside it.
    if (!(self_.attention.load(std::memory_order_relaxed) & kAttendToEnrol))
      self_.attention.fetch_or(kAttendToEnrol, std::memory_order_relaxed);
  }

  Fiber& self_;
  CancelScope* const outer_;
};

}  // namespace weft
