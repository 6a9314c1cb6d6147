// Where streams come together: the one before the stage, and receivers.
//
// An error of any input is the stream's, which then gives up the others.
#pragma once

#include <weft/stream/flow.hpp>

#include <deque>
#include <memory>
#include <vector>

namespace weft {

namespace stream_detail {

template <class T, class... More>
[[nodiscard]] std::vector<Receiver<T>> receivers(Receiver<T> first, Receiver<More>... more) {
  static_assert((std::is_same_v<T, More> && ...), "inputs that are joined have one type");
  std::vector<Receiver<T>> all;
  all.reserve(2 + sizeof...(More));  // and the stream itself
  all.push_back(std::move(first));
  (all.push_back(std::move(more)), ...);
  return all;
}

// A value of any of them.
template <class T>
class AnyOf {
 public:
  explicit AnyOf(std::vector<Receiver<T>> inputs) {
    for (Receiver<T>& rx : inputs)
      if (rx) inputs_.emplace_back(std::move(rx));
  }

  // Empty: all have ended, or nobody wants the output. Cancel point.
  std::optional<T> next(const Outlet<T>& out) {
    this_fiber::checkpoint();
    if ((++taken_ & 63) == 0 && out.gone()) [[unlikely]] return std::nullopt;
    auto gone = out.on_gone();
    for (;;) {
      if (std::optional<T> value = try_each(); value || inputs_.empty()) return value;
      arms_.assign(1, &gone);
      for (Input& in : inputs_) arms_.push_back(&in.arm);
      const std::size_t won = wait(arms_);
      if (won == 0) return std::nullopt;
      Input& in = inputs_[won - 1];
      if (std::optional<T> value = Inlet<T>::taken(in.arm)) {
        in.arm.renew();
        turn_ = won;
        return value;
      }
      ended(won - 1);
    }
  }

 private:
  struct Input {
    explicit Input(Receiver<T> from) noexcept : rx(std::move(from)), arm(rx.on_recv()) {}
    Receiver<T> rx;
    RecvArm<T> arm;
  };

  // Each in its turn: the one behind the last that had a value comes first.
  std::optional<T> try_each() {
    for (std::size_t left = inputs_.size(); left > 0; --left) {
      if (turn_ >= inputs_.size()) turn_ = 0;
      if (Received<T> got = try_next(inputs_[turn_].rx)) {
        ++turn_;
        return *std::move(got);
      } else if (got.status() == RecvStatus::closed) {
        ended(turn_);
      } else {
        ++turn_;
      }
    }
    return std::nullopt;
  }
  void ended(std::size_t which) {
    // Arms stay where they are: the last one, made anew, takes its place.
    Receiver<T> last = std::move(inputs_.back().rx);
    inputs_.pop_back();
    if (which == inputs_.size()) return;
    std::destroy_at(&inputs_[which]);
    std::construct_at(&inputs_[which], std::move(last));
  }

  std::deque<Input> inputs_;
  std::vector<Waitable*> arms_;
  std::size_t turn_ = 0;
  unsigned taken_ = 0;
};

template <class T>
struct MergeBody {
  std::vector<Receiver<T>> inputs;
  void operator()(Outlet<T>& out) {
    AnyOf<T> any{std::move(inputs)};
    while (std::optional<T> value = any.next(out))
      if (!out(*std::move(value))) return;
  }
};

template <class T>
struct ChainBody {
  std::vector<Receiver<T>> inputs;
  void operator()(Outlet<T>& out) {
    for (Receiver<T>& rx : inputs) {
      if (!rx) continue;
      Inlet<T> in{std::move(rx)};
      while (std::optional<T> value = in.next(out))
        if (!out(*std::move(value))) return;
      if (out.gone()) return;
    }
  }
};

// The stream and the receivers behind it, into one stage.
template <template <class> class Body, class T>
struct Join : StageTag {
  Join(const char* called, std::vector<Receiver<T>> with) noexcept
      : name(called), others(std::move(with)) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    static_assert(std::is_same_v<typename S::value_type, T>,
                  "inputs that are joined have one type");
    Nursery& n = s.nursery();
    others.insert(others.begin(), std::move(s).open());
    return stream_of(n, spawn_into_channel<T>(n, Name{std::string_view{name}}, 0,
                                              Body<T>{std::move(others)}));
  }
  const char* name;
  std::vector<Receiver<T>> others;
};

// One value of each. All inputs are waited for at once: the shortest may be any of them.
template <class... Ts>
struct ZipBody {
  using Row = std::tuple<Ts...>;
  std::tuple<Receiver<Ts>...> inputs;

  void operator()(Outlet<Row>& out) { run(out, std::index_sequence_for<Ts...>{}); }

 private:
  using Slots = std::tuple<std::optional<Ts>...>;

  template <std::size_t... I>
  void run(Outlet<Row>& out, std::index_sequence<I...>) {
    for (;;) {
      this_fiber::checkpoint();
      Slots slots;
      if (!(try_one<I>(slots) && ...)) return;
      while (!(std::get<I>(slots).has_value() && ...))
        if (!wait_for_one(out, slots, arm<I>(slots)...)) return;
      if (!out(Row{*std::get<I>(std::move(slots))...})) return;
    }
  }
  // False: it has ended.
  template <std::size_t I>
  bool try_one(Slots& slots) {
    if (auto got = try_next(std::get<I>(inputs))) std::get<I>(slots).emplace(*std::move(got));
    else return got.status() != RecvStatus::closed;
    return true;
  }
  // That of no channel is never ready.
  template <std::size_t I>
  auto arm(const Slots& slots) const {
    using Rx = std::tuple_element_t<I, std::tuple<Receiver<Ts>...>>;
    if (std::get<I>(slots)) return Rx{}.on_recv();
    return std::get<I>(inputs).on_recv();
  }
  // False: one has ended, or nobody wants the output.
  static bool wait_for_one(const Outlet<Row>& out, Slots& slots, RecvArm<Ts>&&... arms) {
    auto gone = out.on_gone();
    const std::size_t won = select_first(gone, arms...);
    if (won == 0) return false;
    std::size_t at = 1;
    return std::apply(
        [&](auto&... slot) { return ((at++ != won || fill(slot, arms)) && ...); }, slots);
  }
  template <class T>
  static bool fill(std::optional<T>& slot, RecvArm<T>& arm) {
    std::optional<T> value = Inlet<T>::taken(arm);
    if (!value) return false;
    slot.emplace(*std::move(value));
    return true;
  }
};

template <class... More>
struct Zip : StageTag {
  explicit Zip(Receiver<More>... with) noexcept : others(std::move(with)...) {}
  template <AnyStream S>
  [[nodiscard]] auto attach(S s) && {
    using Body = ZipBody<typename S::value_type, More...>;
    Nursery& n = s.nursery();
    Body body{std::tuple_cat(std::make_tuple(std::move(s).open()), std::move(others))};
    return stream_of(n, spawn_into_channel<typename Body::Row>(n, "zip", 0, std::move(body)));
  }
  std::tuple<Receiver<More>...> others;
};

}  // namespace stream_detail

// The values of this stream and of others, as they come: if several have one, they take turns. Ends
// when all have ended.
//
//   1   2   3  ┐
//     8   9    ┴ ▶ merge ▶   1 8 2 9 3
template <class T>
[[nodiscard]] auto merge(std::vector<Receiver<T>> others) {
  return stream_detail::Join<stream_detail::MergeBody, T>{"merge", std::move(others)};
}
template <class T, class... More>
[[nodiscard]] auto merge(Receiver<T> rx, Receiver<More>... more) {
  return merge(stream_detail::receivers(std::move(rx), std::move(more)...));
}

// This stream, and then the others, one after another. Those behind wait until their turn comes.
//
//   1 2 3 ┐
//   8 9   ┴ ▶ chain ▶   1 2 3 8 9
template <class T>
[[nodiscard]] auto chain(std::vector<Receiver<T>> others) {
  return stream_detail::Join<stream_detail::ChainBody, T>{"chain", std::move(others)};
}
template <class T, class... More>
[[nodiscard]] auto chain(Receiver<T> rx, Receiver<More>... more) {
  return chain(stream_detail::receivers(std::move(rx), std::move(more)...));
}

// Tuples of one value from each. Ends when any of them has ended, and gives up the others; values
// that found no partner are dropped.
//
//   1 2 3 ┐
//   a b   ┴ ▶ zip ▶   1a 2b |
template <class T, class... More>
[[nodiscard]] auto zip(Receiver<T> rx, Receiver<More>... more) {
  return stream_detail::Zip<T, More...>{std::move(rx), std::move(more)...};
}

}  // namespace weft
