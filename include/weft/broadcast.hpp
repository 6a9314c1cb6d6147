// Broadcast: every subscriber gets every value, and who is too slow is told how many it missed.
//
//   weft::Broadcast<Quote> quotes{64};                    // the last 64 are kept
//   n.spawn([news = quotes.subscribe()] {                 // sees what is sent from here on
//     for (const Quote& quote : news) use(quote);         // ends when the last Broadcast is gone
//   });
//   quotes.send({"WEFT", 42});                            // never waits
//
// A send never waits for anybody. It keeps one copy for all subscribers, in place of the oldest of
// `capacity`; a subscriber that has not come to that one yet skips it, and its lagged() counts it.
// So what a subscriber receives is in the order of the sends, and received + lagged = sent since it
// subscribed.
//
// All waiting forms are cancel points: in a cancelled scope they throw Cancelled, even if they
// could complete, and nothing was taken. `try_` forms never wait and never look at the scope.
// Usable from fibers of any engine and from plain threads. docs/special-channels.md tells more.
#pragma once

#include <weft/channel.hpp>
#include <weft/sync/feed_core.hpp>
#include <weft/sync/pass.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace weft {

template <class T>
class Broadcast;

struct BroadcastOptions {
  std::size_t capacity = 16;  // of values that are kept for those who are behind
  Name name{};                // for reports
};

namespace detail {

// A broadcast's state by its own type, which has a destructor that only the base may call.
class BroadcastCore final : public FeedCore {
 public:
  explicit BroadcastCore(BroadcastOptions options)
      : FeedCore(Kind::broadcast, options.capacity, std::move(options.name)) {}

 private:
  ~BroadcastCore() override = default;
};

// Makes something of the value that was taken. If that throws, the value was not taken.
template <class F>
auto use_taken(Cursor& at, F make) {
  if constexpr (noexcept(make())) {
    return make();
  } else {
    try {
      return make();
    } catch (...) {
      at.put_back();
      throw;
    }
  }
}

// A new note with `value` in it. Who gives an rvalue and is refused gets it back by return_to().
template <class T>
NotePtr make_note(const T& value) {
  return NotePtr{new NoteOf<T>{std::in_place, value}};
}
template <class T>
NotePtr make_note_from(T& value) {
  if constexpr (std::is_nothrow_move_constructible_v<T>)
    return NotePtr{new NoteOf<T>{std::in_place, std::move(value)}};
  else return make_note<T>(value);
}
template <class T>
void return_to(T& value, const NotePtr& note) noexcept {
  if constexpr (std::is_nothrow_move_constructible_v<T>) {  // else it was copied
    std::destroy_at(std::addressof(value));                 // need not be assignable
    std::construct_at(std::addressof(value), std::move(note.edit<T>()));
  }
}

}  // namespace detail

// A receive by a subscriber as an arm. The subscriber must outlive it, and stay where it is. When
// the arm has won, value() takes what came, or is empty at the end; until then nothing is taken.
template <class T>
class BroadcastArm : public detail::FeedOp {
 public:
  BroadcastArm(detail::FeedCore* core, detail::Cursor& at) noexcept
      : detail::FeedOp(core, at), at_(at) {}

  bool try_complete() override {
    value_.reset();
    taken_ = false;
    return detail::FeedOp::try_complete();
  }

  // Throws the error that the broadcast was closed with, if it has ended with one.
  [[nodiscard]] std::optional<T>& value() {
    if (taken_) return value_;
    if (this->ended()) {
      this->core_->throw_error();
    } else if (const detail::Taken taken = this->core_->take(at_); taken.note) {
      detail::use_taken(at_, [&] { value_.emplace(taken.note.template read<T>()); });
    }
    taken_ = true;
    return value_;
  }

  template <class Handler>
  void hand_to(Handler& handler) {
    handler(std::move(value()));
  }

 private:
  detail::Cursor& at_;
  std::optional<T> value_;
  bool taken_ = false;
};

// One of possibly many sending ends. Ends are handles, like pointers: a const one can send. The
// last one's end closes the broadcast.
template <class T>
class Broadcast {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "values are sent, not references");
  static_assert(std::is_copy_constructible_v<T>, "each subscriber gets a copy");

 public:
  class Subscriber;
  using value_type = T;

  // Throws std::invalid_argument if `capacity` is 0.
  explicit Broadcast(std::size_t capacity) : Broadcast(BroadcastOptions{.capacity = capacity}) {}
  explicit Broadcast(BroadcastOptions options)
      : core_(new detail::BroadcastCore{std::move(options)}) {}
  Broadcast(const Broadcast& other) noexcept : core_(other.core_) {
    if (core_) core_->add_sender();
  }
  Broadcast(Broadcast&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Broadcast& operator=(Broadcast other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~Broadcast() { drop(); }

  // Gives up this end. The last one's drop closes.
  void drop() noexcept {
    if (detail::FeedCore* const core = std::exchange(core_, nullptr)) core->drop_sender();
  }
  explicit operator bool() const noexcept { return core_ != nullptr; }

  // Sends to all who subscribe now. True, even if nobody does: receivers() counts them. False: it
  // is closed, and `value` is untouched. Never waits, no cancel point. If the copy throws, or there
  // is no memory for it, nothing was sent.
  bool send(T&& value) const {
    detail::FeedCore& feed = core();
    detail::NotePtr note = detail::make_note_from(value);
    if (feed.publish(*note)) {
      note.release();
      return true;
    }
    detail::return_to(value, note);
    return false;
  }
  bool send(const T& value) const {
    detail::FeedCore& feed = core();
    detail::NotePtr note = detail::make_note<T>(value);
    if (!feed.publish(*note)) return false;
    note.release();
    return true;
  }

  // Sees what is sent after this call. Of a closed one: sees the end.
  [[nodiscard]] Subscriber subscribe() const { return Subscriber{core()}; }

  // No more is sent, by anybody; subscribers get what is kept for them, and then see the end, or
  // throw `error`. True: it was this call.
  bool close() const { return core().close(nullptr); }
  bool close(std::exception_ptr error) const { return core().close(std::move(error)); }

  [[nodiscard]] std::size_t receivers() const { return core().subscribers(); }
  [[nodiscard]] std::size_t capacity() const { return core().capacity(); }
  [[nodiscard]] bool closed() const { return core().closed(); }
  [[nodiscard]] std::exception_ptr error() const { return core().error(); }

  // Of the same broadcast.
  friend bool operator==(const Broadcast&, const Broadcast&) = default;

 private:
  [[nodiscard]] detail::FeedCore& core() const {
    if (!core_) [[unlikely]] detail::throw_no_channel();
    return *core_;
  }

  detail::FeedCore* core_;
};

// A receiving end with a place of its own among what was sent. A copy is another one, at the same
// place. To be used by one fiber or thread at a time.
template <class T>
class Broadcast<T>::Subscriber {
 public:
  using iterator = detail::Pass<Subscriber, T>;
  using value_type = T;

  Subscriber() = default;  // of no broadcast; a disabled arm
  // What was lost and not yet reported is the other's to report.
  Subscriber(const Subscriber& other) noexcept : core_(other.core_) {
    if (core_) core_->subscribe(at_, other.at_);
  }
  Subscriber(Subscriber&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), at_(other.at_) {}
  Subscriber& operator=(Subscriber other) noexcept {
    std::swap(core_, other.core_);
    std::swap(at_, other.at_);
    return *this;
  }
  ~Subscriber() { drop(); }

  // Unsubscribes.
  void drop() noexcept {
    if (detail::FeedCore* const core = std::exchange(core_, nullptr)) core->unsubscribe();
  }
  explicit operator bool() const noexcept { return core_ != nullptr; }

  // A copy of the next value; empty: the broadcast is closed, and we have had all that is kept.
  // Throws the error it was closed with instead, as do all forms below. Parks while there is none.
  // Cancel point. If the copy throws, the value was not taken.
  [[nodiscard]] std::optional<T> recv() const {
    const detail::Taken taken = core().recv(at_);
    if (taken.note) return copied<std::optional<T>>(taken.note);
    ended();
    return std::nullopt;
  }
  // Without waiting: value, empty or closed.
  Received<T> try_recv() const {
    preemption_point();
    const detail::Taken taken = core().take(at_);
    if (taken.note) return copied<Received<T>>(taken.note);
    return taken.ended ? ended() : RecvStatus::empty;
  }
  // At most for so long; tries once even if the time is over. value, timed_out or closed. Cancel
  // point.
  template <class Rep, class Period>
  Received<T> recv_for(std::chrono::duration<Rep, Period> d) const {
    const Instant until = Clock::in(to_duration(d));
    return received(core().wait_news_until(at_, until));
  }
  // `cancelled` instead of an exception.
  Received<T> recv(no_throw_t) const { return received(core().wait_news(at_, no_throw)); }

  // How many values were overwritten before we came to them, since the last call.
  [[nodiscard]] std::uint64_t lagged() const { return core().lagged(at_); }

  [[nodiscard]] std::size_t capacity() const { return core().capacity(); }
  [[nodiscard]] bool closed() const { return core().closed(); }  // something may be left to receive
  [[nodiscard]] std::exception_ptr error() const { return core().error(); }

  // Arms for select. Of no broadcast: never ready. They may be waited for again and again.
  [[nodiscard]] BroadcastArm<T> on_recv() const noexcept { return BroadcastArm<T>{core_, at_}; }
  template <std::invocable<std::optional<T>> Handler>
  [[nodiscard]] Handled<BroadcastArm<T>, Handler> on_recv(Handler handler) const {
    return Handled<BroadcastArm<T>, Handler>{std::move(handler), core_, at_};
  }

  // A single pass over what comes, until the end. begin() waits for the first value.
  [[nodiscard]] iterator begin() const { return iterator{*this}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class Broadcast;
  explicit Subscriber(detail::FeedCore& core) noexcept : core_(&core) { core.subscribe(at_); }

  [[nodiscard]] detail::FeedCore& core() const {
    if (!core_) [[unlikely]] detail::throw_no_channel();
    return *core_;
  }
  template <class Result>
  Result copied(const detail::NotePtr& note) const {
    constexpr bool kSafe =
        std::is_nothrow_copy_constructible_v<T> && std::is_nothrow_move_constructible_v<T>;
    return detail::use_taken(
        at_, [&]() noexcept(kSafe) { return Result{T(note.template read<T>())}; });
  }
  RecvStatus ended() const {
    core_->throw_error();
    return RecvStatus::closed;
  }
  Received<T> received(detail::Waited how) const {
    switch (how) {
      case detail::Waited::news: return try_recv();
      case detail::Waited::ended: return ended();
      case detail::Waited::timed_out: return RecvStatus::timed_out;
      case detail::Waited::cancelled: break;
    }
    return RecvStatus::cancelled;
  }

  detail::FeedCore* core_ = nullptr;
  mutable detail::Cursor at_;
};

}  // namespace weft
