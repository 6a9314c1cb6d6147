// Operations of the CSP idiom: `w << v`, `r >> x`, `~w`, `~r`; alone, in lists, in alt and prialt.
// <weft/csp.hpp> is the manual.
//
// An operation is an object. Made as a statement, it happens when it is destroyed, at the end of
// the statement; asked for its bool, it happens then; in an alt, it is one arm of a weft::select.
// So its destructor waits, and may throw Cancelled: that is the idiom, and nothing else in weft
// does so. It does not happen if an exception leaves the expression that it is part of.
#pragma once

#include <weft/channel.hpp>
#include <weft/core/wait.hpp>
#include <weft/select.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft::csp {
namespace detail {

using Choice = weft::detail::Choice;

// What alt needs to know of an operation.
class Operation {
 public:
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  // To be waited for, again and again. Null: there is nothing to wait for.
  virtual Waitable* arm() = 0;
  // That arm has won: hands over what came. 1: it is done; -1: the other end is dead.
  virtual int won() = 0;

 protected:
  Operation() = default;
  ~Operation() = default;
};

// Waits for one of them. 1 and up: the one that is done. -1 and down: the one whose other end is
// dead. 0, at once: all are null.
int choose(std::span<Operation* const> operations, Choice choice);

// Room for an arm, which cannot be moved and is not always needed.
template <class A>
class ArmSlot {
 public:
  ArmSlot() noexcept {}
  ArmSlot(const ArmSlot&) = delete;
  ArmSlot& operator=(const ArmSlot&) = delete;
  ~ArmSlot() {
    if (made_) std::destroy_at(&held_);
  }
  template <class Make>
  void make(Make&& how) {
    ::new (static_cast<void*>(&held_)) Held{how()};
    made_ = true;
  }
  explicit operator bool() const noexcept { return made_; }
  A& operator*() noexcept { return held_.arm; }
  A* operator->() noexcept { return &held_.arm; }

 private:
  struct Held {
    A arm;
  };
  union {
    Held held_;
  };
  bool made_ = false;
};

// A send that is kept in a list: a copy of the value goes whenever it wins. What cannot be copied
// is sent once.
template <class T>
class KeptSend final : public Operation {
 public:
  KeptSend(const Sender<T>& tx, T&& value) : enabled_(tx), arm_(tx.on_send(first(value))) {
    if constexpr (kAgain) value_.emplace(std::move(value));
  }
  Waitable* arm() override {
    if (!enabled_) return nullptr;
    if (arm_.sent()) {
      if constexpr (kAgain) arm_.renew(*value_);
      else return nullptr;
    } else {
      arm_.renew();  // the other end was found dead; it will be again
    }
    return &arm_;
  }
  int won() override { return arm_.sent() ? 1 : -1; }

 private:
  static constexpr bool kAgain = std::is_copy_constructible_v<T>;
  static T first(T& value) {
    if constexpr (kAgain) return value;
    else return std::move(value);
  }
  const bool enabled_;
  SendArm<T> arm_;
  std::optional<T> value_;
};

// A send as it is written: it happens once at most. One that lost an alt still has its value.
template <class T>
class Send final : public Operation {
 public:
  Send(const Sender<T>& tx, T value) : tx_(tx), value_(std::move(value)) {}
  Waitable* arm() override {
    if (spent_ || !tx_) return nullptr;
    if (!arm_) arm_.make([this] { return tx_.on_send(std::move(value_)); });
    else if (arm_->sent()) return nullptr;
    else arm_->renew();
    return &*arm_;
  }
  int won() override { return arm_->sent() ? 1 : -1; }
  bool run() {
    if (!arm_) return !std::exchange(spent_, true) && tx_ && tx_.send(std::move(value_));
    Waitable* const again = arm();
    if (!again) return false;
    weft::wait(*again);
    return arm_->sent();
  }
  [[nodiscard]] std::shared_ptr<Operation> keep() {
    return std::make_shared<KeptSend<T>>(
        tx_, std::move(arm_ && !arm_->sent() ? arm_->value() : value_));
  }

 private:
  const Sender<T>& tx_;
  T value_;
  bool spent_ = false;  // by run()
  ArmSlot<SendArm<T>> arm_;
};

// `into` may be null: nobody wants the value.
template <class T, class U>
class Recv final : public Operation {
 public:
  Recv(const Receiver<T>& rx, U* into) noexcept : rx_(&rx), into_(into) {}
  Waitable* arm() override {
    if (arm_) {
      arm_->renew();
    } else {
      if (!rx_ || !*rx_) return nullptr;
      arm_.make([this] { return rx_->on_recv(); });
    }
    return &*arm_;
  }
  int won() override { return deliver(arm_->value()) ? 1 : -1; }
  bool run() {
    if (!*rx_) return false;
    std::optional<T> value = rx_->recv();
    return deliver(value);
  }
  [[nodiscard]] std::shared_ptr<Operation> keep() {
    auto kept = std::make_shared<Recv>(*rx_, into_);
    static_cast<void>(kept->arm());
    kept->rx_ = nullptr;  // the reader may be moved from here on; the channel stays
    return kept;
  }

 private:
  bool deliver(std::optional<T>& value) {
    if (!value) return false;
    if (into_) *into_ = *std::move(value);
    return true;
  }
  const Receiver<T>* rx_;
  U* const into_;
  ArmSlot<RecvArm<T>> arm_;
};

// The death of the other end.
template <class End>
class Death final : public Operation {
 public:
  explicit Death(const End& end) noexcept
      : end_(end), enabled_(end), arm_(end.on_peer_gone()) {}
  Waitable* arm() override { return enabled_ ? &arm_ : nullptr; }
  int won() override { return -1; }
  bool run() {
    if (enabled_) weft::wait(arm_);
    return false;
  }
  [[nodiscard]] std::shared_ptr<Operation> keep() { return std::make_shared<Death>(end_); }

 private:
  const End& end_;  // for keep() alone: until the end of the expression
  const bool enabled_;
  weft::detail::PeerGone arm_;
};

// A death that has happened already.
class Dead final : public Operation {
 public:
  Waitable* arm() override { return &arm_; }
  int won() override { return -1; }
  bool run() { return false; }
  [[nodiscard]] std::shared_ptr<Operation> keep() { return std::make_shared<Dead>(); }

 private:
  class Arm final : public Waitable {
   public:
    bool try_complete() override { return true; }
    bool publish() noexcept override { return false; }
    void unpublish() noexcept override {}
    [[nodiscard]] WaitReason reason() const noexcept override { return {.verb = "skip"}; }
  };
  Arm arm_;
};

struct Access;

}  // namespace detail

// An operation as it is written: `w << v`.
template <class Core>
class chanop final {
 public:
  template <class... Args>
  explicit chanop(std::in_place_t, Args&&... args)
      : core_(std::forward<Args>(args)...), unwinding_(std::uncaught_exceptions()) {}
  chanop(const chanop&) = delete;
  chanop& operator=(const chanop&) = delete;
  ~chanop() noexcept(false) {
    if (active_ && std::uncaught_exceptions() <= unwinding_) core_.run();
  }

  // Does it, and waits until it is done. False: the other end is dead, or this one null.
  explicit operator bool() const {
    active_ = false;
    return core_.run();
  }

 private:
  friend struct detail::Access;
  mutable Core core_;
  const int unwinding_;
  mutable bool active_ = true;
};

// An operation that is kept, in lists for instance; or none: action{}. Happens whenever an alt
// chooses it, and never by itself. The end that it is an operation of must outlive it.
class action {
 public:
  action() = default;
  template <class Core>
  action(chanop<Core>&& operation);
  action(action&&) noexcept = default;
  action& operator=(action&&) noexcept = default;
  action(const action&) = delete;
  action& operator=(const action&) = delete;

  [[nodiscard]] bool empty() const noexcept { return kept_ == nullptr; }
  // As a chanop's.
  explicit operator bool() const {
    detail::Operation* const only[] = {kept_.get()};
    return detail::choose(only, detail::Choice::first) > 0;
  }

 private:
  friend struct detail::Access;
  std::shared_ptr<detail::Operation> kept_;
};

namespace detail {

// From now on the operation happens only as an arm.
struct Access {
  template <class Core>
  static Core& core(chanop<Core>& operation) noexcept {
    operation.active_ = false;
    return operation.core_;
  }
  template <class Core>
  static Operation* get(chanop<Core>& operation) noexcept {
    return &core(operation);
  }
  static Operation* get(const action& kept) noexcept { return kept.kept_.get(); }
};

template <class Op>
concept Alternative = requires(std::remove_cvref_t<Op>& operation) { Access::get(operation); };

int choose(std::span<const action> list, Choice choice);

}  // namespace detail

template <class Core>
action::action(chanop<Core>&& operation) : kept_(detail::Access::core(operation).keep()) {}

template <class... Actions>
[[nodiscard]] std::vector<action> action_list(Actions&&... actions) {
  std::vector<action> list;
  list.reserve(sizeof...(actions));
  (list.push_back(std::forward<Actions>(actions)), ...);
  return list;
}

// Does one of the operations: the first that can be done or whose other end is dead. Which: its
// place, counted from 1, negative if it was a death; 0, at once, if all are null. Of several that
// could be, any is as likely as any other. Values are moved for that one alone. Cancel point.
template <detail::Alternative... Ops>
  requires(sizeof...(Ops) > 0)
int alt(Ops&&... operations) {
  detail::Operation* const all[] = {detail::Access::get(operations)...};
  return detail::choose(all, detail::Choice::fair);
}
inline int alt(std::span<const action> list) { return detail::choose(list, detail::Choice::fair); }
inline int alt(const action* list, std::size_t count) { return alt({list, count}); }

// The same; of several, the first in the order they are written.
template <detail::Alternative... Ops>
  requires(sizeof...(Ops) > 0)
int prialt(Ops&&... operations) {
  detail::Operation* const all[] = {detail::Access::get(operations)...};
  return detail::choose(all, detail::Choice::first);
}
inline int prialt(std::span<const action> list) {
  return detail::choose(list, detail::Choice::first);
}
inline int prialt(const action* list, std::size_t count) { return prialt({list, count}); }

}  // namespace weft::csp
