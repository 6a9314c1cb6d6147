// Stages: what streams are put together from, and how they come into fibers.
//
//   source ──▶ step ──▶ step ──▶ │ channel │ ──▶ stage ──▶ │ channel │ ──▶ end
//   └──────── one fiber ───────┘               └─ fiber ─┘             └─ the caller's
//
// A *step* looks at one value after another and never waits: adjacent steps are fused, and run in
// one fiber with their source. Any other *stage* has fibers of its own. An *end* makes it all run.
//
// How a stage ends, whatever it does:
//  - its input has ended: it passes on what it still holds, and ends its output;
//  - nobody receives its output any more: it gives up its input, so that those before it end, too;
//  - its input has failed: the error goes on to its output, behind the values before it;
//  - it throws: the nursery fails with its error, under its name, and so does its output;
//  - it is cancelled, even before it has begun: its output fails with ChildCancelled. A stream that
//    was cut short never looks like one that has ended.
#pragma once

#include <weft/channel.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/this_fiber.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace weft {

// What each kind of part derives from; here, so that `|` is found for all of them.
struct StageTag {};
struct StepTag : StageTag {};
struct SourceTag {};
struct EndTag {};

namespace stream_detail {

template <class T, class Tag>
concept Tagged = std::derived_from<std::remove_cvref_t<T>, Tag>;

// Thrown by an inlet: the error came from further up, and is not this stage's own.
struct UpstreamFailed {
  std::exception_ptr error;
};

struct Ignore {
  void operator()(const auto&) const noexcept {}
};

// Where the values of a stage go.
template <class T>
class Outlet {
 public:
  using value_type = T;

  explicit Outlet(Sender<T> tx) noexcept : tx_(std::move(tx)) {}
  Outlet(Outlet&&) noexcept = default;
  Outlet& operator=(Outlet&&) = delete;
  // In the closure of the stage: its nursery has learned of a failure before those behind it do.
  ~Outlet() {
    if (!tx_) return;
    tx_.close(error_ ? error_ : std::make_exception_ptr(ChildCancelled{}));
  }

  // False: nobody wants any more. Cancel point.
  [[nodiscard]] bool operator()(T&& value) const { return tx_.send(std::move(value)); }
  [[nodiscard]] bool operator()(const T& value) const { return tx_.send(value); }
  // Whether nobody wants any more; and that, as an arm.
  [[nodiscard]] bool gone() const { return tx_.closed(); }
  [[nodiscard]] auto on_gone() const noexcept { return tx_.on_peer_gone(); }
  [[nodiscard]] const Sender<T>& sender() const noexcept { return tx_; }

  void finish() noexcept { tx_.drop(); }
  void fail(std::exception_ptr error) noexcept { error_ = std::move(error); }

 private:
  Sender<T> tx_;
  std::exception_ptr error_;
};

// Where the values of a stage come from.
template <class T>
class Inlet {
 public:
  explicit Inlet(Receiver<T> rx) noexcept : rx_(std::move(rx)) {}

  // The next value; empty: the input has ended, or nobody wants the output. Cancel point.
  template <class Out>
  std::optional<T> next(const Out& out) {
    Slot slot;
    if (!next(out, slot)) return std::nullopt;
    return std::optional<T>{detail::take_out<T>(*slot)};
  }
  // The same, put where it is wanted: an optional that is copied at once after it was written is
  // read before the parts have arrived, which costs as much as the receive.
  using Slot = std::optional<detail::CellOf<T>>;
  template <class Out>
  [[nodiscard, gnu::always_inline]] bool next(const Out& out, Slot& slot) {
    this_fiber::checkpoint();  // with every value, as recv() has it
    rx_.poll(slot);
    // One that sends little must find out, too.
    const bool look_behind = (++taken_ & 63) == 0;
    if (!slot || look_behind) [[unlikely]] return slot ? !out.gone() : wait_for_one(out, slot);
    return true;
  }
  // As an arm; its value() may throw the input's error: see taken().
  [[nodiscard]] auto on_recv() const noexcept { return rx_.on_recv(); }
  // The value of such an arm, when it has won.
  [[nodiscard]] static std::optional<T> taken(RecvArm<T>& arm) {
    try {
      return std::move(arm.value());
    } catch (...) {
      throw UpstreamFailed{std::current_exception()};
    }
  }
  [[nodiscard]] Receiver<T>& receiver() noexcept { return rx_; }

 private:
  // False: the end, of one side or the other.
  template <class Out>
  [[gnu::noinline]] bool wait_for_one(const Out& out, Slot& slot) {
    typename detail::StateOf<T>::Recv arm = rx_.on_recv_into(slot);
    auto gone = out.on_gone();
    if (select_first(gone, arm) == 0) return false;
    try {
      return rx_.has_come(arm);
    } catch (...) {
      throw UpstreamFailed{std::current_exception()};
    }
  }

  Receiver<T> rx_;
  unsigned taken_ = 0;
};

// A stage's fiber: `body(out)`, and the ends of a stage named above. `Out` is an outlet, or holds
// several, with finish() and fail().
template <class Body, class Out>
class StageFiber {
 public:
  StageFiber(Body body, Out out) : body_(std::move(body)), out_(std::move(out)) {}

  void operator()() && {
    try {
      body_(out_);
      // The input may have ended because whoever fed it was cancelled before us: that is no end.
      attend(Fiber::current());
      out_.finish();
    } catch (const Cancelled&) {
      throw;
    } catch (const UpstreamFailed& upstream) {
      out_.fail(upstream.error);
    } catch (...) {
      out_.fail(std::current_exception());
      throw;
    }
  }

 private:
  Body body_;
  Out out_;
};

template <class Body, class Out>
void spawn_stage(Nursery& n, Name name, Body body, Out out) {
  n.spawn(std::move(name), StageFiber<Body, Out>{std::move(body), std::move(out)});
}

// One new channel named after its stage, and the stage that fills it.
template <class T, class Body>
[[nodiscard]] Receiver<T> spawn_into_channel(Nursery& n, const Name& name, std::size_t capacity,
                                             Body body) {
  Channel<T> ch{ChannelOptions<T>{.capacity = capacity, .name = name}};
  spawn_stage(n, name, std::move(body), Outlet<T>{std::move(ch.tx)});
  return std::move(ch.rx);
}

// ---- steps, fused -------------------------------------------------------------------------------

// A step, as the user writes it, has `kName` and `bind<In>() &&`, which makes the step for values
// of type In: that has
//
//   Out                               the type of its results
//   bool push(In&& value, emit)       passes on what comes of it by emit(Out) -> bool;
//                                     false: it wants no more, or emit has returned false
//   void finish(emit)                 optional: the input has ended
//   bool exhausted() const            optional: it wants none at all
//
// `emit` also has gone() and on_gone(), as an outlet: one that makes much of one value asks it.
//
// Values into a run of steps, one after another.
template <class Steps, class Out>
class Run {
 public:
  Run(Steps& steps, Out& out) noexcept : steps_(steps), out_(out) {}

  template <std::size_t I = 0, class V>
  [[gnu::always_inline]] bool push(V&& value) {
    if constexpr (I == kCount) return out_(std::forward<V>(value));
    else return std::get<I>(steps_).push(std::forward<V>(value), Emit<I + 1>{*this});
  }
  // Those behind a step that holds something back see it before they finish themselves.
  template <std::size_t I = 0>
  void finish() {
    if constexpr (I < kCount) {
      if constexpr (requires { std::get<I>(steps_).finish(Emit<I + 1>{*this}); })
        std::get<I>(steps_).finish(Emit<I + 1>{*this});
      finish<I + 1>();
    }
  }
  template <std::size_t I = 0>
  [[nodiscard]] bool exhausted() const {
    if constexpr (I < kCount) {
      if constexpr (requires { std::get<I>(steps_).exhausted(); })
        if (std::get<I>(steps_).exhausted()) return true;
      return exhausted<I + 1>();
    } else {
      return false;
    }
  }

 private:
  static constexpr std::size_t kCount = std::tuple_size_v<Steps>;
  template <std::size_t I>
  struct Emit {
    Run& run;
    template <class V>
    [[gnu::always_inline]] bool operator()(V&& value) const {
      return run.template push<I>(std::forward<V>(value));
    }
    [[nodiscard]] bool gone() const { return run.out_.gone(); }
    [[nodiscard]] auto on_gone() const noexcept { return run.out_.on_gone(); }
  };

  Steps& steps_;
  Out& out_;
};

// A source has `value_type`, `kName` and feed(out, push): push(value) -> bool for one value after
// another, until that returns false, there are no more, or out is gone.
template <class Source, class... Steps>
struct FusedBody {
  Source source;
  std::tuple<Steps...> steps;

  template <class Out>
  void operator()(Out& out) {
    Run run{steps, out};
    if (!run.exhausted()) {
      Source from = std::move(source);  // given up before what is left is passed on
      from.feed(out, [&run](auto&& value) __attribute__((always_inline)) {
        return run.push(std::forward<decltype(value)>(value));
      });
    }
    run.finish();
  }
};

// A channel as a source.
template <class T>
struct FromReceiver : SourceTag {
  using value_type = T;
  static constexpr const char* kName = "copy";

  explicit FromReceiver(Receiver<T> from) noexcept : rx(std::move(from)) {}
  template <class Out, class Push>
  void feed(const Out& out, Push push) {
    Inlet<T> in{std::move(rx)};
    for (;;) {
      typename Inlet<T>::Slot slot;
      if (!in.next(out, slot) || !push(detail::take_out<T>(*slot))) return;
    }
  }

  Receiver<T> rx;
};

// What one that never waits asks before each value: true, go on. It gives way now and then: if
// nothing comes out at the other end, nobody else does. Cancel point.
class Pace {
 public:
  template <class Out>
  [[nodiscard]] bool operator()(const Out& out) {
    if ((++count_ & 63) != 0) [[likely]] {
      this_fiber::checkpoint();
      return true;
    }
    this_fiber::yield();
    return !out.gone();
  }

 private:
  unsigned count_ = 0;
};

template <class In, class... Steps>
struct OutOf {
  using type = In;
};
template <class In, class Step, class... Rest>
struct OutOf<In, Step, Rest...> : OutOf<typename Step::Out, Rest...> {};

}  // namespace stream_detail

// Something between a source and an end, alone or several joined by `|`.
template <class S>
concept Stage = stream_detail::Tagged<S, StageTag>;

// Stages that were joined, and wait for a source.
template <class... S>
struct Stages : StageTag {
  explicit Stages(std::tuple<S...> of) : stages(std::move(of)) {}
  std::tuple<S...> stages;
};

// A source and the steps behind it, not yet in a fiber: that happens when a stage or an end takes
// it. One that is thrown away gives up its source.
template <class Source, class... Steps>
class [[nodiscard]] Stream {
 public:
  using value_type =
      typename stream_detail::OutOf<typename Source::value_type, Steps...>::type;

  Stream(Nursery& n, Source source, std::tuple<Steps...> steps, Name name)
      : n_(&n), source_(std::move(source)), steps_(std::move(steps)), name_(std::move(name)) {}

  [[nodiscard]] Nursery& nursery() const noexcept { return *n_; }
  // Nothing to be done but to receive.
  static constexpr bool kIsChannel =
      sizeof...(Steps) == 0 && std::is_same_v<Source, stream_detail::FromReceiver<value_type>>;

  // With one more step in the same fiber.
  template <class Step>
  auto fused(Step step) && {
    auto bound = std::move(step).template bind<value_type>();
    return Stream<Source, Steps..., decltype(bound)>{
        *n_, std::move(source_),
        std::tuple_cat(std::move(steps_), std::tuple<decltype(bound)>{std::move(bound)}),
        named_with(Step::kName)};
  }

  // Into a fiber, if it needs one. The channel behind it has room for `capacity` values.
  Receiver<value_type> open(std::size_t capacity = 0) && {
    if constexpr (kIsChannel) {
      if (capacity == 0) return std::move(source_.rx);
    }
    return stream_detail::spawn_into_channel<value_type>(*n_, name_or_source(), capacity,
                                                         std::move(*this).body());
  }
  // Into a fiber that sends to `tx`.
  template <class U>
  void open_into(Sender<U> tx) && {
    const Name name = name_or_source();
    stream_detail::spawn_stage(*n_, name, std::move(*this).body(),
                               stream_detail::Outlet<U>{std::move(tx)});
  }

 private:
  auto body() && {
    return stream_detail::FusedBody<Source, Steps...>{std::move(source_), std::move(steps_)};
  }
  // "where+map": who looks at a dump sees what runs in the fiber.
  Name named_with(const char* step) const {
    if (name_.empty()) return Name{std::string_view{step}};
    return Name{std::string{name_.view()} + "+" + step};
  }
  Name name_or_source() const {
    return name_.empty() ? Name{std::string_view{Source::kName}} : name_;
  }

  Nursery* n_;
  Source source_;
  std::tuple<Steps...> steps_;
  Name name_;
};

namespace stream_detail {

template <class>
inline constexpr bool kIsStream = false;
template <class Source, class... Steps>
inline constexpr bool kIsStream<Stream<Source, Steps...>> = true;
template <class S>
concept AnyStream = kIsStream<std::remove_cvref_t<S>>;

template <class T>
auto stream_of(Nursery& n, Receiver<T> rx) {
  return Stream<FromReceiver<T>>{n, FromReceiver<T>{std::move(rx)}, {}, {}};
}

template <std::size_t I, class S, class... Of>
auto join_from(S s, Stages<Of...>&& stages) {
  if constexpr (I == sizeof...(Of)) return s;
  else
    return join_from<I + 1>(std::move(s) | std::get<I>(std::move(stages.stages)),
                            std::move(stages));
}

template <class... A>
std::tuple<A...> as_tuple(Stages<A...>&& stages) {
  return std::move(stages.stages);
}
template <class A>
std::tuple<A> as_tuple(A&& stage) {
  return std::tuple<A>{std::move(stage)};
}
template <class... A>
Stages<A...> stages_of(std::tuple<A...> all) {
  return Stages<A...>{std::move(all)};
}

}  // namespace stream_detail

// The values of a channel, or of a source, as a stream whose stages are fibers of `n`.
template <class T>
[[nodiscard]] auto stream(Nursery& n, Receiver<T> rx) {
  return stream_detail::stream_of(n, std::move(rx));
}
template <stream_detail::Tagged<SourceTag> Source>
[[nodiscard]] auto stream(Nursery& n, Source source) {
  return Stream<Source>{n, std::move(source), {}, {}};
}

template <stream_detail::AnyStream S, Stage Next>
[[nodiscard]] auto operator|(S s, Next stage) {
  if constexpr (stream_detail::Tagged<Next, StepTag>) {
    return std::move(s).fused(std::move(stage));
  } else if constexpr (requires { std::move(stage).stages; }) {
    return stream_detail::join_from<0>(std::move(s), std::move(stage));
  } else {
    return std::move(stage).attach(std::move(s));
  }
}
template <stream_detail::AnyStream S, stream_detail::Tagged<EndTag> End>
decltype(auto) operator|(S s, End end) {
  return std::move(end).run(std::move(s));
}
// Joined, for a stream to come.
template <Stage A, Stage B>
[[nodiscard]] auto operator|(A a, B b) {
  return stream_detail::stages_of(std::tuple_cat(stream_detail::as_tuple(std::move(a)),
                                                 stream_detail::as_tuple(std::move(b))));
}

}  // namespace weft
