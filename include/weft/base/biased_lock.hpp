// BiasedLock: a KeptLock that costs its most frequent taker no read-modify-write.
//
// One who takes it again and again, and meets nobody there, is favoured: from then on it takes the
// lock by a store and two looks. Whoever else comes takes the KeptLock, ends the favour, which
// costs some microseconds, and waits until the favoured one is out.
//
// Invariant: while somebody is favoured, nobody holds the KeptLock but who is about to end that.
// Race:      the favoured one enters while another ends the favour. Each writes a word and then
//            reads the other's, so one of them sees the other. That needs a fence on both sides;
//            the favoured, who comes millions of times, only promises one to the compiler, and the
//            other, who comes rarely, pays for both with a barrier that reaches every core.
// Rejected:  a favour for whoever comes first: an object that goes from one worker to another when
//            it has been made is the common case, and ending a favour costs as much as thousands
//            of locks. Counting in each lock who comes how often: it would need a second cache
//            line; who looks at every so many-th lock that it takes meets those again that it
//            takes most. Saying "inside" in the lock: one who hesitates at the door of a lock that
//            favours another by now would write over what that one says.
#pragma once

#include <weft/base/chaos.hpp>
#include <weft/base/kept_lock.hpp>
#include <weft/base/mutant.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace weft {

// Where one says which lock it has entered as the favoured one, and is told of favours that were
// ended.
template <class Sync>
struct alignas(64) LockSeat {
  typename Sync::template Atomic<const void*> inside{nullptr};
  typename Sync::template Atomic<std::uint32_t> ended{0};
  typename Sync::template Atomic<bool> taken{false};  // see LockMark
};

// By mark. A seat is for ever, and so anybody may look whether it is empty. Visible, as Sync is: a
// program and a shared library must look at the same.
inline constexpr std::uint16_t kLockMarks = 1024;
template <class Sync>
[[gnu::visibility("default")]] inline constinit std::array<LockSeat<Sync>, kLockMarks> lock_seats{};

// One who takes such locks: a thread, or a place at which one thread stands at a time. Used by that
// thread alone. One without a mark is never favoured.
template <class Sync>
class LockTaker {
 public:
  static constexpr std::uint16_t kUnmarked = 0;
  // It looks at each so many-th lock, and more rarely when favours have not turned out well.
  static constexpr std::uint32_t kLookMost = 4;
  static constexpr std::uint32_t kLookLeast = kLookMost << 14;

  LockTaker() = default;
  // `mark`: below kLockMarks, and nobody else's. `look_every`: for models.
  explicit LockTaker(std::uint16_t mark, std::uint32_t look_every = kLookMost) noexcept {
    set_mark(mark, look_every);
  }
  void set_mark(std::uint16_t mark, std::uint32_t look_every = kLookMost) noexcept {
    if (mark == kUnmarked) return;
    mark_ = mark;
    favoured_ = mark | kFavoured;
    until_look_ = look_every_ = look_every;
    seat_ = &lock_seats<Sync>[mark];
    ended_ = seat_->ended.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint16_t mark() const noexcept { return mark_; }

 private:
  template <class AnySync>
  friend class BiasedLock;
  static constexpr std::uint16_t kFavoured = 0x8000;
  static constexpr std::uint16_t kNever = 0xffff;
  // So many looks without a regret, and it looks more often again: about as many locks as the end
  // of a favour costs.
  static constexpr std::uint32_t kCalm = 512;

  // A favour that was ended was not worth its price: wait longer for the next.
  void regret() noexcept {
    if (look_every_ < kLookLeast) look_every_ *= 4;
    calm_ = 0;
  }
  void choose_next_look() noexcept {
    for (const std::uint32_t now = seat_->ended.load(std::memory_order_relaxed); ended_ != now;
         ++ended_)
      regret();
    if (++calm_ == kCalm) {
      calm_ = 0;
      if (look_every_ > kLookMost) look_every_ = std::max(look_every_ / 4, kLookMost);
    }
    until_look_ = look_every_;
  }

  std::uint16_t mark_ = kUnmarked;
  std::uint16_t favoured_ = kNever;  // what is in a lock that favours us
  std::uint32_t until_look_ = UINT32_MAX;
  std::uint32_t look_every_ = UINT32_MAX;
  std::uint32_t calm_ = 0;
  std::uint32_t ended_ = 0;  // favours of ours, as far as we know
  LockSeat<Sync>* seat_ = &lock_seats<Sync>[kUnmarked];  // the unmarked have one that stays empty
};

template <class Sync>
class BiasedLock : private KeptLock<Sync> {
 public:
  using Taker = LockTaker<Sync>;

  [[gnu::always_inline]] void lock(Taker& me) noexcept {
    if (favours(me) && enter(me)) return;
    KeptLock<Sync>::lock();
    const std::uint16_t seen = favour_.load(std::memory_order_relaxed);
    if (seen != kNobody && seen != me.mark_) [[unlikely]] end_favour(me, seen);
    if (--me.until_look_ == 0) [[unlikely]] look(me);
  }

  [[gnu::always_inline]] void unlock(Taker& me) noexcept {
    if (me.seat_->inside.load(std::memory_order_relaxed) != this) return KeptLock<Sync>::unlock();
    chaos::step();
    // release: pairs with end_favour(); the next holder sees what we did.
    constexpr auto kRelaxed = std::memory_order_relaxed;
    me.seat_->inside.store(nullptr,
                           mutant::kFavouredLeavesRelaxed ? kRelaxed : std::memory_order_release);
  }

 private:
  // favour_: somebody's mark, who was met once or is favoured.
  static constexpr std::uint16_t kNobody = 0;
  static constexpr std::uint16_t kFavoured = Taker::kFavoured;
  static_assert(kLockMarks < kFavoured - 1);  // kNever is nobody's
  static constexpr unsigned kSpins = 1000;  // then its thread has lost its core

  [[nodiscard, gnu::always_inline]] bool favours(const Taker& me) const noexcept {
    return favour_.load(std::memory_order_relaxed) == me.favoured_;
  }
  // False: favoured no more, or inside another such lock.
  [[gnu::always_inline]] bool enter(Taker& me) noexcept {
    chaos::step();
    auto& inside = me.seat_->inside;
    if (inside.load(std::memory_order_relaxed) != nullptr) [[unlikely]] return false;
    // release, as every store to a seat: who waits for us outside another lock may see this first.
    inside.store(this, mutant::kSeatTakenRelaxed ? std::memory_order_relaxed
                                                 : std::memory_order_release);
    if (!mutant::kFavouredEntersUnfenced) Sync::fence_here();  // pairs with end_favour()
    if (favours(me) || mutant::kFavourUnchecked) [[likely]] return true;
    inside.store(nullptr, std::memory_order_release);
    return false;
  }

  // By who holds the KeptLock. `seen` is another's, or says that we are favoured and did not enter.
  [[gnu::cold, gnu::noinline]] void end_favour(Taker& me, std::uint16_t seen) noexcept {
    favour_.store(kNobody, std::memory_order_relaxed);
    if (!(seen & kFavoured) || seen == me.favoured_) return;  // our own: we are inside another
    LockSeat<Sync>& favoured = lock_seats<Sync>[seen ^ kFavoured];
    favoured.ended.fetch_add(1, std::memory_order_relaxed);
    me.regret();  // who meets another here will be met itself
    if (!mutant::kFavourEndsUnfenced) Sync::fence_everywhere();  // pairs with enter()
    if (!mutant::kFavouredNotAwaited) await(favoured);
  }
  void await(const LockSeat<Sync>& favoured) const noexcept {
    // acquire: pairs with unlock(), and with what the favoured one enters after that.
    for (unsigned i = 0; favoured.inside.load(std::memory_order_acquire) == this; ++i) {
      if (i < kSpins) {
        Sync::spin();
        continue;
      }
      constexpr std::timespec kMoment{.tv_sec = 0, .tv_nsec = 50'000};
      const typename Sync::template Atomic<std::uint32_t> nobody_wakes{0};
      Sync::sleep(nobody_wakes, 0, &kMoment);
    }
  }

  // By who holds the KeptLock, at one in so many of its locks.
  [[gnu::cold, gnu::noinline]] void look(Taker& me) noexcept {
    me.choose_next_look();
    if (me.mark_ == Taker::kUnmarked) return;
    if (favour_.load(std::memory_order_relaxed) != me.mark_)
      return favour_.store(me.mark_, std::memory_order_relaxed);
    // Met again, and nobody else has been here since. We go on as one who is favoured: inside, with
    // the KeptLock free. Unless we are inside another: the next look will do.
    if (me.seat_->inside.load(std::memory_order_relaxed) != nullptr) return;
    me.seat_->inside.store(this, std::memory_order_release);
    favour_.store(me.favoured_, std::memory_order_relaxed);
    KeptLock<Sync>::unlock();
  }

  typename Sync::template Atomic<std::uint16_t> favour_{kNobody};
};

}  // namespace weft
