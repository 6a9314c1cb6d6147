// select: waits for the first of several things, and does exactly one of them.
//
//   weft::select(                                       // the winner's handler runs here
//       quotes.on_recv([&](std::optional<Quote> q) { … }),
//       orders.on_send(order, [&](bool sent) { … }),
//       weft::after(50ms, [] { … }));
//
//   auto quote = quotes.on_recv();                      // or in plain control flow:
//   auto quiet = weft::after(50ms);
//   switch (weft::select(quote, quiet)) { … }           // the index of the winner
//
// An arm is any operation: a receive, a send, a timer, a future's on_ready(), an event, a lock, a
// semaphore, the other side's end. Those that lose are as if they had never been tried. An arm that
// lost may enter another select; one that won may not. A send and a receive on one channel in one
// select never meet each other. At most 1,024 arms. Cancel point.
#pragma once

#include <weft/channel.hpp>
#include <weft/core/arm.hpp>
#include <weft/core/wait.hpp>
#include <weft/time.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

// The arm that wins if no other can at once: with it, select never waits. There was a moment at
// which none of the others was ready. One at most.
class Otherwise : public Waitable {
 public:
  // It is the last of its wait: when its turn comes to be published, the others have been found not
  // ready, and would have ended the wait if that had changed. So it ends the wait itself.
  bool try_complete() override { return false; }
  bool publish() noexcept override {
    static_cast<void>(claim());
    return false;
  }
  void unpublish() noexcept override {}
  [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "otherwise"}; }
};
[[nodiscard]] inline Otherwise otherwise() noexcept { return Otherwise{}; }
template <std::invocable Handler>
[[nodiscard]] Handled<Otherwise, Handler> otherwise(Handler handler) {
  return Handled<Otherwise, Handler>{std::move(handler)};
}

namespace detail {

// How to choose among several that are ready.
enum class Choice : bool { fair, first };

// Waits; the index of the winner. `arms` is reordered. `fallback`: the one of them that wins if no
// other can at once.
std::size_t select_among(std::span<Waitable*> arms, Choice choice, Waitable* fallback);

template <class W>
inline constexpr bool kIsOtherwise = std::is_base_of_v<Otherwise, std::remove_reference_t<W>>;

// An order of up to 16 things: four bits for each, the first in the lowest.
inline constexpr std::size_t kFew = 16;

// Each order of the first `count` is as likely as any other, given 64 random bits.
inline std::uint64_t shuffled(std::size_t count, std::uint64_t chance) noexcept {
  std::uint64_t order = 0xfedcba9876543210;
  for (std::size_t i = count - 1; i > 0; --i) {
    const std::size_t j = (chance >> 32) * (i + 1) >> 32;
    chance = chance * 6364136223846793005 + 1442695040888963407;  // Knuth's, for the next
    const std::uint64_t differ = (order >> (4 * i) ^ order >> (4 * j)) & 15;
    order ^= differ << (4 * i) | differ << (4 * j);
  }
  return order;
}

template <class First, class... Others>
inline constexpr bool kAllOf = (std::is_same_v<First, Others> && ...);

// Calls `then` with the `index`th, by its own type: what is done to it can be inlined. Those of one
// type are found without a branch: after a fair draw it would be mispredicted.
template <class First, class... Others, class Then>
[[gnu::always_inline]] inline void with_nth(Then then, std::size_t index, First& first,
                                            Others&... others) {
  if constexpr (kAllOf<First, Others...>) {
    First* const all[] = {&first, &others...};
    then(*all[index]);
  } else {
    std::size_t at = 0;
    const auto visit = [&](auto& thing) { return at++ == index && (then(thing), true); };
    static_cast<void>((visit(first) || ... || visit(others)));
  }
}

// Does all of an arm, its handler included, if that can be without waiting.
template <Arm W>
[[gnu::always_inline]] inline bool try_all_of(W& arm) {
  if constexpr (kIsOtherwise<W>) {
    return false;
  } else if constexpr (Deferred<W>) {
    return arm.try_now();
  } else {
    const bool done = arm.W::try_complete();
    if (done) run_handler(arm);
    return done;
  }
}

// Whether it may pay to try an arm. Those that cannot tell without their lock may always pay.
template <Arm W>
[[gnu::always_inline]] inline bool looks_ready(const W& arm) noexcept {
  if constexpr (kIsOtherwise<W>) return false;
  else if constexpr (requires { arm.looks_ready(); }) return arm.looks_ready();
  else return true;
}

// Chooses among the bits of a set, each as likely as any other.
class Draw {
 public:
  explicit Draw(Io& io) noexcept : io_(io) {}
  static std::size_t first_of(std::uint32_t set) noexcept {
    return static_cast<std::size_t>(std::countr_zero(set));
  }
  // Of the lowest kCount bits. No branch depends on the draw: it would be mispredicted.
  template <std::size_t kCount>
  std::size_t from(std::uint32_t set) noexcept {
    if ((set & (set - 1)) == 0) return first_of(set);
    if (!drawn_) chance_ = io_.random();
    drawn_ = true;
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < kCount; ++i) count += set >> i & 1;
    const std::uint64_t skip = (chance_ >> 32) * count >> 32;
    chance_ = chance_ * 6364136223846793005 + 1442695040888963407;  // Knuth's, for the next
    std::size_t at = 0;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i + 1 < kCount; ++i) {
      seen += set >> i & 1;
      at += seen <= skip ? 1 : 0;
    }
    return at;
  }

 private:
  Io& io_;
  std::uint64_t chance_ = 0;
  bool drawn_ = false;
};

// Tries the arms of `set`, one after the other, until one is done: its index, or kCount.
template <Arm... Ws>
[[gnu::always_inline]] inline std::size_t try_some(Fiber& self, Choice choice, std::uint32_t set,
                                                   Ws&... arms) {
  Draw draw{*self.io};
  while (set != 0) {
    const std::size_t next =
        choice == Choice::fair ? draw.from<sizeof...(Ws)>(set) : Draw::first_of(set);
    bool done = false;
    with_nth([&](auto& arm) { done = try_all_of(arm); }, next, arms...);
    if (done) return next;
    set &= ~(1U << next);
  }
  return sizeof...(Ws);
}

// They are published in a random order, too: who comes by may meet the first of several on one
// channel.
template <std::size_t kCount>
[[gnu::always_inline]] inline std::size_t wait_in_order(Fiber& self, Choice choice,
                                                        std::array<Waitable*, kCount>& arms) {
  if (choice == Choice::first || kCount == 1) return wait_fused(self, arms);
  const std::uint64_t order = shuffled(kCount, self.io->random());
  std::array<Waitable*, kCount> ordered;
  for (std::size_t i = 0; i < kCount; ++i) ordered[i] = arms[order >> (4 * i) & 15];
  return order >> (4 * wait_fused(self, ordered)) & 15;
}

// An arm, and what waits for it.
template <Arm W>
struct Entrant {
  using Made = decltype(operation_of(std::declval<W&>()));
  Entrant(W& of, Made&& by) noexcept : arm(of), operation(by) {}
  W& arm;
  OperationOf<W>& operation;
};

// The arms were tried, if there are few of them, and none was done.
template <Arm... Ws>
[[gnu::always_inline]] inline std::size_t wait_for_arms(Choice choice, Entrant<Ws>... arms) {
  constexpr std::size_t kCount = sizeof...(Ws);
  constexpr bool kHasFallback = (kIsOtherwise<Ws> || ...);
  std::array<Waitable*, kCount> all{&arms.operation...};
  std::size_t winner = kCount;
  if constexpr (kCount <= kFew && !kHasFallback) {
    winner = wait_in_order(Fiber::current(), choice, all);
  } else {
    std::size_t at = 0;
    Waitable* fallback = nullptr;
    ((kIsOtherwise<Ws> ? void(fallback = all[at++]) : void(at++)), ...);
    if (kCount == 2 && kHasFallback) winner = all[0] == fallback ? 0 : 1;  // one look is enough
    else winner = select_among(all, choice, fallback);
  }
  with_nth([](auto& it) { run_handler(it.arm, it.operation); }, winner, arms...);
  return winner;
}

template <Arm... Ws>
[[gnu::always_inline]] inline std::size_t select_arms(Choice choice, Ws&... arms) {
  constexpr std::size_t kCount = sizeof...(Ws);
  static_assert(kCount > 0, "select needs an arm");
  static_assert((0U + ... + (kIsOtherwise<Ws> ? 1U : 0U)) <= 1, "one otherwise() at most");
  if constexpr (kCount <= kFew) {
    Fiber& self = Fiber::current();
    glance(self);
    // A look is no more than that: an arm that is not tried now is found ready, under its lock,
    // when it is published. Whoever does not wait has no such second look, and tries them all.
    constexpr bool kHasFallback = (kIsOtherwise<Ws> || ...);
    std::uint32_t set = 0;
    std::size_t at = 0;
    ((set |= (kHasFallback ? !kIsOtherwise<Ws> : looks_ready(arms)) ? 1U << at : 0U, ++at), ...);
    if (const std::size_t done = try_some(self, choice, set, arms...); done != kCount) return done;
  }
  return wait_for_arms<Ws...>(choice, Entrant<Ws>{arms, operation_of(arms)}...);
}

}  // namespace detail

// Uniformly among the arms that are ready; in simulation the seed decides. The index of the winner,
// after its handler has run.
template <Arm... Ws>
std::size_t select(Ws&&... arms) {
  return detail::select_arms(detail::Choice::fair, arms...);
}
// The first in the order they are written.
template <Arm... Ws>
std::size_t select_first(Ws&&... arms) {
  return detail::select_arms(detail::Choice::first, arms...);
}

// A select that is put together at run time, once, and waited for many times.
//
//   weft::SelectSet s;
//   for (auto& rx : inputs) s.recv(rx, [&](std::optional<int> v) { … });
//   while (s.wait() != s.npos) {}                       // until all inputs have ended
class SelectSet {
 public:
  static constexpr std::size_t npos = SIZE_MAX;

  SelectSet() = default;
  SelectSet(SelectSet&&) noexcept = default;
  SelectSet& operator=(SelectSet&&) noexcept = default;

  // Each keeps its end of the channel, and returns the arm's index.

  // Once it has handed over the end of the channel, the arm is disabled.
  template <class T, std::invocable<std::optional<T>> Handler>
  std::size_t recv(Receiver<T> rx, Handler handler) {
    return keep(std::make_shared<RecvEntry<T, Handler>>(std::move(rx), std::move(handler)));
  }
  // Sends a copy of `value` whenever it wins; what cannot be copied is sent once. Disabled when the
  // channel is closed; a full one that drops what is new is not.
  template <class T, std::invocable<bool> Handler>
  std::size_t send(Sender<T> tx, std::type_identity_t<T> value, Handler handler) {
    return keep(std::make_shared<SendEntry<T, Handler>>(std::move(tx), std::move(value),
                                                        std::move(handler)));
  }
  // Counted anew from the beginning of each wait.
  template <class Rep, class Period, std::invocable Handler>
  std::size_t after(std::chrono::duration<Rep, Period> d, Handler handler) {
    return keep(std::make_shared<TimeEntry<Handler>>(to_duration(d), std::move(handler)));
  }
  // Any arm. It must outlive the set, or be removed first; what it needs to be waited for again is
  // the caller's to do.
  template <Arm W>
  std::size_t add(W& arm) {
    return keep(std::make_shared<ArmEntry<W>>(arm));
  }
  // The index is not used again. Handlers may add and remove arms, their own included.
  void remove(std::size_t index) { entries_.at(index).reset(); }

  // Waits, runs the winner's handler and returns its index; npos, at once, if every arm is
  // disabled. An exception of a handler passes, and the set stays usable. Cancel point.
  std::size_t wait() { return wait(detail::Choice::fair); }
  // The first in the order they were added.
  std::size_t wait_first() { return wait(detail::Choice::first); }

  // How many arms are not disabled.
  [[nodiscard]] std::size_t enabled() const noexcept;

 private:
  class Entry {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    virtual ~Entry() = default;
    // The arm, ready to be waited for. Null: disabled.
    virtual Waitable* arm() = 0;
    virtual void won() = 0;
    [[nodiscard]] virtual bool enabled() const noexcept { return true; }
  };

  template <class T, class Handler>
  class RecvEntry final : public Entry {
   public:
    RecvEntry(Receiver<T> rx, Handler handler)
        : rx_(std::move(rx)), arm_(rx_.on_recv()), handler_(std::move(handler)) {}
    Waitable* arm() override {
      if (!enabled()) return nullptr;
      arm_.renew();
      return &arm_;
    }
    void won() override {
      if (arm_.fate() == detail::Fate::closed) open_ = false;
      std::optional<T> value = std::move(arm_.value());  // the handler may wait for the arm again
      handler_(std::move(value));
    }
    [[nodiscard]] bool enabled() const noexcept override { return open_ && rx_; }

   private:
    Receiver<T> rx_;
    RecvArm<T> arm_;
    Handler handler_;
    bool open_ = true;
  };

  template <class T, class Handler>
  class SendEntry final : public Entry {
   public:
    SendEntry(Sender<T> tx, T value, Handler handler)
        : tx_(std::move(tx)), arm_(tx_.on_send(first(value))), handler_(std::move(handler)) {
      if constexpr (std::is_copy_constructible_v<T>) value_.emplace(std::move(value));
    }
    // The copy is made here: if that throws, nothing was waited for.
    Waitable* arm() override {
      if (!enabled()) return nullptr;
      if constexpr (std::is_copy_constructible_v<T>)
        if (arm_.sent()) arm_.renew(*value_);
      return &arm_;
    }
    void won() override {
      const bool sent = arm_.sent();
      open_ = sent ? std::is_copy_constructible_v<T> : arm_.fate() == detail::Fate::full;
      if (!sent && open_) arm_.renew();
      handler_(sent);
    }
    [[nodiscard]] bool enabled() const noexcept override { return open_ && tx_; }

   private:
    static T first(T& value) {
      if constexpr (std::is_copy_constructible_v<T>) return value;
      else return std::move(value);
    }
    Sender<T> tx_;
    SendArm<T> arm_;
    Handler handler_;
    std::optional<T> value_;  // what the arm is given a copy of
    bool open_ = true;
  };

  template <class Handler>
  class TimeEntry final : public Entry {
   public:
    TimeEntry(Duration d, Handler handler) : d_(d), handler_(std::move(handler)) {}
    Waitable* arm() override { return &alarm_.emplace(Clock::in(d_)); }
    void won() override { handler_(); }

   private:
    struct Once final : Alarm {
      using Alarm::Alarm;
    };
    const Duration d_;
    std::optional<Once> alarm_;
    Handler handler_;
  };

  template <class W>
  class ArmEntry final : public Entry {
   public:
    explicit ArmEntry(W& arm) : arm_(arm), operation_(operation_of(arm)) {}
    Waitable* arm() override {
      if constexpr (Deferred<W>) operation_.renew();
      return &operation_;
    }
    void won() override { run_handler(arm_, operation_); }

   private:
    W& arm_;
    decltype(operation_of(std::declval<W&>())) operation_;
  };

  std::size_t keep(std::shared_ptr<Entry> entry) {
    entries_.push_back(std::move(entry));
    return entries_.size() - 1;
  }
  std::size_t wait(detail::Choice choice);

  // Null: removed. Shared with the wait that runs its handler.
  std::vector<std::shared_ptr<Entry>> entries_;
  std::vector<Waitable*> arms_;  // of one wait; kept for its memory
  std::vector<std::size_t> indices_;
};

}  // namespace weft
