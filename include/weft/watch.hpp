// Watch: one value that changes, and subscribers that wait for the change.
//
//   weft::Watch<Config> config{load()};
//   n.spawn([news = config.subscribe()] {
//     while (news.changed()) apply(news.get());   // false when the last Watch is gone
//   });
//   config.set(load());
//
// Only the latest value is kept. Who is slow misses those in between, never the last one: after the
// last set(), changed() is true once more for everybody who has not got that value.
//
// All waiting forms are cancel points, as in <weft/broadcast.hpp>, and take nothing: it is get()
// that marks a value as seen. Usable from fibers of any engine and from plain threads.
#pragma once

#include <weft/broadcast.hpp>
#include <weft/mutex.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <string_view>
#include <type_traits>
#include <utility>

namespace weft {

enum class ChangeStatus : std::uint8_t { changed, unchanged, timed_out, closed, cancelled };
std::string_view to_string(ChangeStatus status) noexcept;

// Whether there is something new, and if not, why.
class [[nodiscard]] Change {
 public:
  Change(ChangeStatus status) noexcept : status_(status) {}
  [[nodiscard]] ChangeStatus status() const noexcept { return status_; }
  explicit operator bool() const noexcept { return status_ == ChangeStatus::changed; }

 private:
  ChangeStatus status_;
};

namespace detail {

class WatchCore final : public FeedCore {
 public:
  explicit WatchCore(const Name& name) : FeedCore(Kind::watch, 1, name), changes_(name) {}

  // Who sets waits for who updates: an update that did not see a value must not replace it.
  class [[nodiscard]] Turn {
   public:
    explicit Turn(WatchCore& of) : of_(of) {
      if (!mutant::kUpdatesMeet) of_.changes_.lock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (!mutant::kUpdatesMeet) of_.changes_.unlock();
    }

   private:
    WatchCore& of_;
  };

 private:
  ~WatchCore() override = default;
  Mutex changes_;
};

}  // namespace detail

// The wait for a change as an arm. The subscriber must outlive it, and stay where it is.
class WatchArm : public detail::FeedOp {
 public:
  using FeedOp::FeedOp;
  // When it has won: there is something new; false: it is closed, and there is not. Throws the
  // error that it was closed with, if any.
  [[nodiscard]] bool changed() const {
    if (ended()) core_->throw_error();
    return !ended();
  }
  template <class Handler>
  void hand_to(Handler& handler) {
    handler(changed());
  }
};

// One of possibly many ends that can change the value. Ends are handles, like pointers. The last
// one's end closes the watch.
template <class T>
class Watch {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>, "a value is watched, no reference");
  static_assert(std::is_copy_constructible_v<T>, "who looks gets a copy");

 public:
  class Subscriber;
  using value_type = T;

  explicit Watch(T value, const Name& name = {}) {
    detail::NotePtr note = detail::make_note_from(value);
    core_ = new detail::WatchCore{name};
    if (core_->publish(*note)) note.release();  // nobody can have closed it
  }
  Watch(const Watch& other) noexcept : core_(other.core_) {
    if (core_) core_->add_sender();
  }
  Watch(Watch&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Watch& operator=(Watch other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~Watch() { drop(); }

  // Gives up this end. The last one's drop closes.
  void drop() noexcept {
    if (detail::WatchCore* const core = std::exchange(core_, nullptr)) core->drop_sender();
  }
  explicit operator bool() const noexcept { return core_ != nullptr; }

  // Sets the value, and tells those who wait: equal or not, it is a new one. False: it is closed,
  // and `value` is untouched. Waits only while an update() runs. No cancel point. If the copy
  // throws, nothing has changed.
  bool set(T&& value) const {
    detail::WatchCore& feed = core();
    detail::NotePtr note = detail::make_note_from(value);
    if (publish(feed, note)) return true;
    detail::return_to(value, note);
    return false;
  }
  bool set(const T& value) const {
    detail::WatchCore& feed = core();
    detail::NotePtr note = detail::make_note<T>(value);
    return publish(feed, note);
  }
  // Changes the value by `f(T&)`, which works on a copy that then takes its place: others see the
  // old one until `f` has returned, and if it throws nothing has changed. One update or set at a
  // time, so that none is lost; set() or update() of the same watch within `f` throw
  // std::system_error. False: it is closed. No cancel point, but `f` may have some.
  template <std::invocable<T&> F>
  bool update(F&& f) const {
    detail::WatchCore& feed = core();
    const detail::WatchCore::Turn turn{feed};
    if (feed.closed()) return false;
    detail::NotePtr note = detail::make_note<T>(feed.latest().template read<T>());
    std::forward<F>(f)(note.edit<T>());
    if (!feed.publish(*note)) return false;
    note.release();
    return true;
  }
  // A copy of the value. Never waits.
  [[nodiscard]] T get() const { return T(core().latest().template read<T>()); }

  // The value of this moment counts as seen; get() has it all the same.
  [[nodiscard]] Subscriber subscribe() const { return Subscriber{core()}; }

  // The value stays as it is. Subscribers see that there is nothing new, for good, or throw
  // `error`; but first, what they have not seen. True: it was this call.
  bool close() const { return core().close(nullptr); }
  bool close(std::exception_ptr error) const { return core().close(std::move(error)); }

  [[nodiscard]] std::size_t receivers() const { return core().subscribers(); }
  [[nodiscard]] bool closed() const { return core().closed(); }
  [[nodiscard]] std::exception_ptr error() const { return core().error(); }

  // Of the same watch.
  friend bool operator==(const Watch&, const Watch&) = default;

 private:
  [[nodiscard]] detail::WatchCore& core() const {
    if (!core_) [[unlikely]] detail::throw_no_channel();
    return *core_;
  }
  static bool publish(detail::WatchCore& feed, detail::NotePtr& note) {
    const detail::WatchCore::Turn turn{feed};
    if (!feed.publish(*note)) return false;
    note.release();
    return true;
  }

  detail::WatchCore* core_ = nullptr;
};

// Who looks at a watch, and what it has seen of it. A copy is another one that has seen the same.
// To be used by one fiber or thread at a time.
template <class T>
class Watch<T>::Subscriber {
 public:
  using value_type = T;

  Subscriber() = default;  // of no watch; a disabled arm
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

  // A copy of the value, which counts as seen now. Also of a closed one. Never waits. If the copy
  // throws, nothing more was seen.
  [[nodiscard]] T get() const {
    detail::FeedCore& feed = core();
    if constexpr (std::is_nothrow_copy_constructible_v<T>) {
      return T(feed.latest(at_).template read<T>());
    } else {
      const detail::Cursor before = at_;
      try {
        return T(feed.latest(at_).template read<T>());
      } catch (...) {
        at_ = before;
        throw;
      }
    }
  }
  // Without a look.
  void mark_seen() const { core().mark_seen(at_); }

  // Returns when there is a value that we have not seen: true, again and again until it is seen.
  // False: the watch is closed, and we have seen the last one. Throws the error it was closed with
  // instead, as do all forms below. Parks while there is nothing new. Cancel point.
  [[nodiscard]] bool changed() const {
    return static_cast<bool>(status(core().wait_news(at_)));
  }
  // `cancelled` instead of an exception; changed or closed.
  Change changed(no_throw_t) const { return status(core().wait_news(at_, no_throw)); }
  // At most for so long; looks once even if the time is over. changed, timed_out or closed. Cancel
  // point.
  template <class Rep, class Period>
  Change changed_for(std::chrono::duration<Rep, Period> d) const {
    const Instant until = Clock::in(to_duration(d));
    return status(core().wait_news_until(at_, until));
  }
  // Without waiting: changed, unchanged or closed.
  Change try_changed() const {
    switch (core().look(at_)) {
      case detail::News::some: return ChangeStatus::changed;
      case detail::News::ended: return ended();
      case detail::News::none: break;
    }
    return ChangeStatus::unchanged;
  }

  [[nodiscard]] bool closed() const { return core().closed(); }
  [[nodiscard]] std::exception_ptr error() const { return core().error(); }

  // Arms for select; a handler gets what changed() returns. Of no watch: never ready. They may be
  // waited for again and again.
  [[nodiscard]] WatchArm on_changed() const noexcept { return WatchArm{core_, at_}; }
  template <std::invocable<bool> Handler>
  [[nodiscard]] Handled<WatchArm, Handler> on_changed(Handler handler) const {
    return Handled<WatchArm, Handler>{std::move(handler), core_, at_};
  }

 private:
  friend class Watch;
  explicit Subscriber(detail::FeedCore& core) noexcept : core_(&core) { core.subscribe(at_); }

  [[nodiscard]] detail::FeedCore& core() const {
    if (!core_) [[unlikely]] detail::throw_no_channel();
    return *core_;
  }
  Change ended() const {
    core_->throw_error();
    return ChangeStatus::closed;
  }
  Change status(detail::Waited how) const {
    switch (how) {
      case detail::Waited::news: return ChangeStatus::changed;
      case detail::Waited::ended: return ended();
      case detail::Waited::timed_out: return ChangeStatus::timed_out;
      case detail::Waited::cancelled: break;
    }
    return ChangeStatus::cancelled;
  }

  detail::FeedCore* core_ = nullptr;
  mutable detail::Cursor at_;
};

}  // namespace weft
