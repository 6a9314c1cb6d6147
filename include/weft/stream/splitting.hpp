// Where one stream becomes several: a stage with a second output, and ends that return receivers.
//
// An output that nobody receives is left out; when that is all of them, the input is given up. A
// failure reaches them all.
#pragma once

#include <weft/stream/flow.hpp>

#include <deque>
#include <functional>
#include <stdexcept>
#include <vector>

namespace weft {

namespace stream_detail {

template <class T, class U>
struct TeeOut {
  Outlet<T> main;
  Outlet<U> side;
  void finish() noexcept {
    side.finish();
    main.finish();
  }
  void fail(const std::exception_ptr& error) noexcept {
    side.fail(error);
    main.fail(error);
  }
};

template <class T, class U>
struct TeeBody {
  Receiver<T> rx;

  void operator()(TeeOut<T, U>& out) {
    Inlet<T> in{std::move(rx)};
    while (std::optional<T> value = in.next(out.main)) {
      std::optional<U> copy;
      if (out.side.sender()) copy.emplace(std::as_const(*value));
      if (!out.main(*std::move(value))) return;
      if (copy && !pass_aside(*std::move(copy), out)) return;
    }
  }
  // False: nobody wants the stream itself any more.
  static bool pass_aside(U&& copy, TeeOut<T, U>& out) {
    SendStatus status = out.side.sender().try_send(std::move(copy));
    if (status == SendStatus::full) {
      auto gone = out.main.on_gone();
      auto sent = out.side.sender().on_send(std::move(copy));
      if (select_first(gone, sent) == 0) return false;
      status = sent.sent() ? SendStatus::ok : SendStatus::closed;
    }
    if (status == SendStatus::closed) out.side.finish();
    return true;
  }
};

template <class U>
struct Tee : StageTag {
  explicit Tee(Sender<U> to) noexcept : side(std::move(to)) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using T = typename S::value_type;
    static_assert(std::constructible_from<U, const T&>,
                  "tee: these values cannot be copied into that channel");
    Nursery& n = s.nursery();
    Channel<T> ch{ChannelOptions<T>{.name = "tee"}};
    spawn_stage(n, "tee", TeeBody<T, U>{std::move(s).open()},
                TeeOut<T, U>{Outlet<T>{std::move(ch.tx)}, Outlet<U>{std::move(side)}});
    return stream_of(n, std::move(ch.rx));
  }
  Sender<U> side;
};

template <class T>
struct Outlets {
  std::vector<Outlet<T>> all;
  void finish() noexcept {
    for (Outlet<T>& out : all) out.finish();
  }
  void fail(const std::exception_ptr& error) noexcept {
    for (Outlet<T>& out : all) out.fail(error);
  }
};

// Outlets at work: those that nobody receives are left out.
template <class T>
class Spread {
 public:
  explicit Spread(Outlets<T>& outs) : live_(outs.all.size()) {
    for (Outlet<T>& out : outs.all) legs_.emplace_back(out);
  }
  [[nodiscard]] std::size_t size() const noexcept { return legs_.size(); }

  // Empty: the input has ended, or nobody receives anything any more. Cancel point.
  std::optional<T> next(const Receiver<T>& rx) {
    this_fiber::checkpoint();
    while (live_ > 0) {
      if (Received<T> got = try_next(rx)) {
        if ((++taken_ & 63) == 0) [[unlikely]] look();
        if (live_ == 0) break;
        return *std::move(got);
      } else if (got.status() == RecvStatus::closed) {
        break;
      }
      auto value = rx.on_recv();
      listed_.clear();
      arms_.clear();
      for (Leg& leg : legs_)
        if (leg.live()) list(leg, leg.gone);
      arms_.push_back(&value);
      const std::size_t won = wait(arms_);
      if (won == listed_.size()) return Inlet<T>::taken(value);
      leave_out(*listed_[won]);
    }
    return std::nullopt;
  }

  // To every one of them, in whichever order they are ready. False: nobody is left.
  bool to_all(T&& value) {
    std::size_t left = live_;
    for (Leg& leg : legs_) {
      if (!leg.live()) continue;
      if (--left == 0) offer(leg, std::move(value));
      else offer(leg, T(std::as_const(value)));
    }
    for (;;) {
      listed_.clear();
      arms_.clear();
      for (Leg& leg : legs_)
        if (leg.pending) list(leg, leg.pending->arm);
      if (arms_.empty()) return live_ > 0;
      Leg& leg = *listed_[wait(arms_)];
      const bool sent = leg.pending->arm.sent();
      leg.pending.reset();
      if (!sent) leave_out(leg);
    }
  }
  // To one; dropped if nobody receives there. False: nobody is left.
  bool to_one(std::size_t which, T&& value) {
    Leg& leg = legs_[which];
    if (leg.live() && !leg.out(std::move(value))) leave_out(leg);
    return live_ > 0;
  }

 private:
  struct Pending {
    Pending(const Sender<T>& tx, T&& value) : arm(tx.on_send(std::move(value))) {}
    SendArm<T> arm;
  };
  struct Leg {
    explicit Leg(Outlet<T>& to) noexcept : out(to), gone(to.on_gone()) {}
    [[nodiscard]] bool live() const noexcept { return static_cast<bool>(out.sender()); }
    Outlet<T>& out;
    detail::PeerGone gone;
    std::optional<Pending> pending;
  };

  void offer(Leg& leg, T&& value) {
    switch (leg.out.sender().try_send(std::move(value))) {
      case SendStatus::ok: return;
      case SendStatus::full: leg.pending.emplace(leg.out.sender(), std::move(value)); return;
      default: leave_out(leg);
    }
  }
  void list(Leg& leg, Waitable& arm) {
    listed_.push_back(&leg);
    arms_.push_back(&arm);
  }
  void look() {
    for (Leg& leg : legs_)
      if (leg.live() && leg.out.gone()) leave_out(leg);
  }
  void leave_out(Leg& leg) noexcept {
    leg.out.finish();
    --live_;
  }

  std::deque<Leg> legs_;
  std::size_t live_;
  std::vector<Leg*> listed_;
  std::vector<Waitable*> arms_;
  unsigned taken_ = 0;
};

// Starts `make_body(rx)`, and returns the receivers of its outputs.
template <class S, class Body>
[[nodiscard]] std::vector<Receiver<typename S::value_type>> spawn_spread(S s, const Name& name,
                                                                        std::size_t outputs,
                                                                        Body body) {
  using T = typename S::value_type;
  Nursery& n = s.nursery();
  std::vector<Receiver<T>> results;
  Outlets<T> outs;
  results.reserve(outputs);
  outs.all.reserve(outputs);
  for (std::size_t i = 0; i < outputs; ++i) {
    Channel<T> ch{ChannelOptions<T>{.name = name}};
    results.push_back(std::move(ch.rx));
    outs.all.emplace_back(std::move(ch.tx));
  }
  spawn_stage(
      n, name,
      [rx = std::move(s).open(), body = std::move(body)](Outlets<T>& to) mutable {
        Spread<T> spread{to};
        while (std::optional<T> value = spread.next(rx))
          if (!body(spread, *std::move(value))) return;
      },
      std::move(outs));
  return results;
}

struct Fanout : EndTag {
  explicit Fanout(std::size_t n) noexcept : count(n) {}
  template <AnyStream S>
  [[nodiscard]] auto run(S s) && {
    using T = typename S::value_type;
    static_assert(std::copy_constructible<T>, "fanout: these values cannot be copied");
    return spawn_spread(std::move(s), "fanout", count,
                        [](Spread<T>& to, T&& value) { return to.to_all(std::move(value)); });
  }
  std::size_t count;
};

template <class F>
struct PartitionByIndex : EndTag {
  PartitionByIndex(std::size_t n, F by) : count(n), f(std::move(by)) {}
  template <AnyStream S>
  [[nodiscard]] auto run(S s) && {
    using T = typename S::value_type;
    static_assert(std::is_invocable_r_v<std::size_t, F&, const T&>,
                  "partition: the function makes no index of these values");
    return spawn_spread(std::move(s), "partition", count,
                        [f = std::move(f)](Spread<T>& to, T&& value) mutable {
                          const auto which = static_cast<std::size_t>(
                              std::invoke(f, std::as_const(value)));
                          if (which >= to.size())
                            throw std::out_of_range("weft: partition has no such output");
                          return to.to_one(which, std::move(value));
                        });
  }
  std::size_t count;
  F f;
};

template <class P>
struct Partition : EndTag {
  explicit Partition(P by) : p(std::move(by)) {}
  template <AnyStream S>
  [[nodiscard]] auto run(S s) && {
    using T = typename S::value_type;
    static_assert(std::predicate<P&, const T&>, "partition: not a predicate of these values");
    auto outs = PartitionByIndex{2, [p = std::move(p)](const T& value) mutable {
                                   return std::invoke(p, value) ? std::size_t{0} : std::size_t{1};
                                 }}
                    .run(std::move(s));
    return std::pair{std::move(outs[0]), std::move(outs[1])};
  }
  P p;
};

}  // namespace stream_detail

// Passes the values on, and sends a copy of each to `tx` behind it: a slow receiver there holds the
// stream back, one that is gone is not missed. When the stream ends, fails or is no longer wanted,
// so is tx: as with into(), other senders keep that channel open, and an error closes it for all.
//
//   1 2 3   ▶ tee(tx) ▶   1 2 3
//                └──────▶ 1 2 3
template <class T>
[[nodiscard]] auto tee(Sender<T> tx) noexcept {
  return stream_detail::Tee<T>{std::move(tx)};
}

// An end that returns a std::vector of k receivers, each of which gets every value. The slowest
// sets the pace; buffer() behind one lets it lag. One that is dropped is left out.
//
//   1 2 3   ▶ fanout(2) ▶   1 2 3
//                       ▶   1 2 3
[[nodiscard]] inline auto fanout(std::size_t k) noexcept { return stream_detail::Fanout{k}; }

// An end that returns a pair of receivers: of the values for which p(value), and of the others. A
// value whose receiver is gone is dropped; one that is not received holds back those behind it.
//
//   1 2 3 4   ▶ partition(even) ▶   2 4
//                               ▶   1 3
template <class P>
[[nodiscard]] auto partition(P p) {
  return stream_detail::Partition<P>{std::move(p)};
}
// A std::vector of k receivers, and f(value) tells which one gets it. An index that is k or more
// fails the stream with std::out_of_range.
template <class F>
[[nodiscard]] auto partition(std::size_t k, F f) {
  return stream_detail::PartitionByIndex<F>{k, std::move(f)};
}

}  // namespace weft
