// OrderedTasks: tasks run at the same time, their results come in order.
//
//   weft::OrderedTasks<Page> pages{n, 8};               // at most 8 in flight
//   n.spawn([pages, &urls] {
//     for (const Url& url : urls)
//       if (!pages.submit([url] { return fetch(url); })) return;
//     pages.close();
//   });
//   for (Page& page : pages) print(page);               // in the order of the urls
//
// Invariant: results leave in the order in which their tasks were submitted, one at a time, by the
//            hand of whichever task made the oldest one known: `advancing_`, under the lock.
// Race:      tasks end, are submitted, withdrawn and closed off at the same time. All of it meets
//            under one short lock; all waiting is a channel's and a semaphore's.
// Rejected:  a channel of futures, as S1 has it (a select needs an arm that waits for the handle,
//            and then for its task: two waits cannot be one arm); a handle sent after its task was
//            started (a queue closed in between would leave a task to join: here the place is
//            reserved first, so a task that is started is always delivered).
#pragma once

#include <weft/channel.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/semaphore.hpp>
#include <weft/sync/pass.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weft {

namespace detail {

// What came of one task, and its place among those in flight, which is free when this is gone.
template <class T>
struct TaskOutcome {
  using Value = NonVoid<T>;

  // Nothing: it was cancelled, or never ran.
  std::variant<std::monostate, CellOf<Value>, std::exception_ptr> what{};
  Semaphore::Permit place{};

  // The value; or throws what the task threw, or ChildCancelled. The place is free in any case.
  Value take() {
    place.release();
    if (what.index() == 0) throw ChildCancelled{};
    if (what.index() == 2) std::rethrow_exception(std::get<2>(what));
    return take_out<Value>(std::get<1>(what));
  }
};

// What the handles and the tasks share.
template <class T>
class TaskLine {
 public:
  using Outcome = TaskOutcome<T>;
  static_assert(std::is_same_v<CellOf<Outcome>, Outcome>, "it moves without throwing");

  TaskLine(Nursery& n, std::size_t width, Name task_name)
      : nursery(n),
        places(width, task_name),
        name(std::move(task_name)),
        channel(Shared<Outcome>::make({.capacity = width, .name = name})),
        tx_(Shared<Outcome>::sender(channel)),
        slots_(width) {}

  // The number of the next task, for who has a place. Empty: closed.
  std::optional<std::uint64_t> admit() noexcept {
    const Locked locked{lock_};
    if (closed_.read()) return std::nullopt;
    const std::uint64_t number = admitted_.read();
    admitted_.write(number + 1);
    return number;
  }
  // A task says its last word, once.
  void deliver(std::uint64_t number, Outcome&& outcome) noexcept {
    lock_.lock();
    slot(number).outcome.emplace(std::move(outcome));
    advance_and_unlock();
  }
  // Whoever submits says, once, what became of the spawn. Until then nobody sees the task's word:
  // where spawn() threw, there was no task.
  void started(std::uint64_t number, bool spawned) noexcept {
    lock_.lock();
    slot(number).start = spawned ? Start::spawned : Start::withdrawn;
    advance_and_unlock();
  }
  bool close() noexcept {
    lock_.lock();
    if (closed_.read()) {
      lock_.unlock();
      return false;
    }
    closed_.write(true);
    const bool over = all_sent() || (mutant::kEndBeforeLastResult && nobody_left());
    lock_.unlock();
    if (over) tx_.close();
    // A place more than there are: whoever waits for one finds the line closed, and passes it on.
    if (!mutant::kCloseLeavesSubmitters) places.release();
    return true;
  }

  [[nodiscard]] bool closed() const noexcept {
    const Locked locked{lock_};
    return closed_.read();
  }
  // Those not sent and those sent but not taken: of one moment, so never more than have a place.
  [[nodiscard]] std::size_t in_flight(const Receiver<Outcome>& sent) const {
    const Locked locked{lock_};
    return static_cast<std::size_t>(admitted_.read() - next_.read()) + sent.size();
  }

  Nursery& nursery;
  Semaphore places;  // the channel's buffer refers to it
  const Name name;
  StateOf<Outcome>* const channel;

 private:
  enum class Start : std::uint8_t { pending, spawned, withdrawn };
  struct Slot {
    std::optional<Outcome> outcome;
    Start start = Start::pending;
  };

  // Tasks in flight have a place each: no two share a slot.
  Slot& slot(std::uint64_t number) noexcept { return slots_[number % slots_.size()]; }
  [[nodiscard]] bool nobody_left() const noexcept {
    return closed_.read() && next_.read() == admitted_.read();
  }
  [[nodiscard]] bool all_sent() const noexcept { return nobody_left() && !advancing_.read(); }

  // Sends what the head of the line has to say, and whoever follows it. One at a time does so, and
  // the lock is not held meanwhile; what becomes known in between is seen before the flag falls.
  void advance_and_unlock() noexcept {
    if (advancing_.read() && !mutant::kTwoAdvance) return lock_.unlock();
    advancing_.write(true);
    bool spawned = false;
    while (std::optional<Outcome> outcome = pop_known(spawned)) {
      lock_.unlock();
      // The channel has room for all who have a place. It refuses if nobody is left to receive.
      if (spawned) static_cast<void>(tx_.try_send(std::move(*outcome)));
      outcome.reset();  // if nobody got it, it is disposed of here
      lock_.lock();
      if (mutant::kAdvanceLooksOnce) break;
    }
    advancing_.write(false);
    const bool over = all_sent();
    lock_.unlock();
    if (over) tx_.close();
  }
  // Under the lock.
  std::optional<Outcome> pop_known(bool& spawned) noexcept {
    const std::uint64_t number = next_.read();
    Slot& head = slot(number);
    if (!head.outcome || head.start == Start::pending) return std::nullopt;
    spawned = head.start == Start::spawned;
    std::optional<Outcome> outcome{std::move(*head.outcome)};
    head.outcome.reset();
    head.start = Start::pending;
    next_.write(number + 1);
    return outcome;
  }

  Sender<Outcome> tx_;
  mutable Lock lock_;                // protects all below
  Var<bool> closed_{false};
  Var<bool> advancing_{false};
  Var<std::uint64_t> admitted_{0};   // so many tasks,
  Var<std::uint64_t> next_{0};       // and so many of them sent
  std::vector<Slot> slots_;
};

// A task's duty to say what came of it. Destroyed without: it was cancelled, or never ran.
template <class T>
class TaskDuty {
 public:
  TaskDuty(std::shared_ptr<TaskLine<T>> line, std::uint64_t number,
           Semaphore::Permit place) noexcept
      : line_(std::move(line)), number_(number), place_(std::move(place)) {}
  TaskDuty(TaskDuty&&) noexcept = default;
  TaskDuty& operator=(TaskDuty&&) = delete;
  ~TaskDuty() { fulfil({}); }

  void fulfil(decltype(TaskOutcome<T>::what) what) noexcept {
    if (const auto line = std::exchange(line_, nullptr))
      line->deliver(number_, {.what = std::move(what), .place = std::move(place_)});
  }

 private:
  std::shared_ptr<TaskLine<T>> line_;
  std::uint64_t number_;
  Semaphore::Permit place_;
};

// What runs in the child. Its failure is its result, not the nursery's.
template <class T, class F>
class OrderedTask {
  using Cell = CellOf<NonVoid<T>>;
  using What = decltype(TaskOutcome<T>::what);

 public:
  OrderedTask(TaskDuty<T>&& duty, F&& f) : duty_(std::move(duty)), f_(std::move(f)) {}

  void operator()() && { duty_.fulfil(outcome()); }

 private:
  // The handler has let go of the error when it is delivered: from then on it is the asker's alone.
  // (ThreadSanitizer does not see the counts of libstdc++'s exceptions; one that two fibers let go
  // of would look like a race.)
  What outcome() {
    try {
      return run();
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      return What{std::in_place_index<2>, std::current_exception()};
    }
  }
  What run() {
    if constexpr (std::is_void_v<T>) {
      std::invoke(std::move(f_));
      return What{std::in_place_index<1>};
    } else if constexpr (kBoxed<T>) {
      return What{std::in_place_index<1>, Cell{std::make_unique<T>(std::invoke(std::move(f_)))}};
    } else {
      return What{std::in_place_index<1>, std::invoke(std::move(f_))};
    }
  }

  TaskDuty<T> duty_;
  F f_;
};

}  // namespace detail

// The next result as an arm. The OrderedTasks must outlive it.
template <class T>
class NextArm : public RecvArm<detail::TaskOutcome<T>> {
  using Base = RecvArm<detail::TaskOutcome<T>>;
  using Value = detail::NonVoid<T>;

 public:
  explicit NextArm(detail::TaskLine<T>& line) noexcept : Base(line.channel) {}

  // When it has won: the result, or empty at the end. Throws what the task threw, every time.
  [[nodiscard]] std::optional<Value>& value() {
    if (std::optional<detail::TaskOutcome<T>>& outcome = Base::value()) {
      result_.emplace(outcome->take());
      outcome.reset();
    }
    return result_;
  }
  template <class Handler>
  void hand_to(Handler& handler) {
    handler(std::move(value()));
  }
  // To be waited for again.
  void renew() noexcept {
    Base::renew();
    result_.reset();
  }

 private:
  std::optional<Value> result_;
};

// A handle, like the ends of a channel: copies refer to the same tasks, and a const one submits.
// Give children a copy: what is inside the nursery's braces dies before they do.
//
// The tasks are children of the nursery. What one throws belongs to next(), and does not fail the
// nursery; if nobody asks for it, it is dropped. When the last handle is gone, tasks in flight run
// on, and their results are disposed of.
//
// Several may submit and several may ask; each result goes to one. The results of void tasks are
// std::monostate. Memory for `width` results is set aside once. Usable wherever the nursery is.
template <class T>
class OrderedTasks {
  static_assert(!std::is_reference_v<T>, "return by value, or a pointer");
  using Line = detail::TaskLine<T>;
  using Outcome = detail::TaskOutcome<T>;

 public:
  using iterator = detail::Pass<OrderedTasks, detail::NonVoid<T>>;
  using value_type = detail::NonVoid<T>;

  // At most `width` tasks in flight: submitted, and their results not yet taken. At least one; else
  // throws std::invalid_argument. `name` is the tasks' too.
  OrderedTasks(Nursery& n, std::size_t width, Name name = {})
      : line_(std::make_shared<Line>(n, checked(width), std::move(name))),
        rx_(detail::Shared<Outcome>::receiver(line_->channel)) {}

  // Starts `f` as a child of the nursery, behind those submitted before. Parks while `width` are in
  // flight. False: closed, and `f` was not started; a task that was started is always delivered.
  // Throws what Nursery::spawn() throws, and then there is no such task. Cancel point.
  template <std::invocable F>
    requires std::is_void_v<T> || std::convertible_to<std::invoke_result_t<F>, T>
  bool submit(F f, Site site = Site::here()) const {
    const std::shared_ptr<Line> line = kept();
    Semaphore::Permit place = line->places.permit();
    return start(line, place, f, site);
  }
  // Without waiting for a place: false also if there is none. Does not look at our scope.
  template <std::invocable F>
    requires std::is_void_v<T> || std::convertible_to<std::invoke_result_t<F>, T>
  [[nodiscard]] bool try_submit(F f, Site site = Site::here()) const {
    const std::shared_ptr<Line> line = kept();
    if (!line->places.try_acquire()) return false;
    Semaphore::Permit place{line->places};
    return start(line, place, f, site);
  }

  // The result of the oldest task that nobody has taken; empty: closed, and all are taken. Throws
  // what the task threw, or ChildCancelled if it was cancelled or dropped before it ran; the next
  // call goes on with the next task. So do all forms below. Waits for that task even if later ones
  // are done. Cancel point.
  [[nodiscard]] std::optional<value_type> next() const {
    std::optional<Outcome> outcome = rx_.recv();
    if (!outcome) return std::nullopt;
    return std::optional<value_type>{outcome->take()};
  }
  // Without waiting: value, empty or closed.
  Received<value_type> try_next() const { return taken(rx_.try_recv()); }
  // At most for so long; tries once even if the time is over. value, timed_out or closed. Cancel
  // point.
  template <class Rep, class Period>
  Received<value_type> next_for(std::chrono::duration<Rep, Period> d) const {
    return taken(rx_.recv_for(d));
  }
  // `cancelled` instead of Cancelled.
  Received<value_type> next(no_throw_t) const { return taken(rx_.recv(no_throw)); }

  // As an arm of a select. The handler gets a std::optional<T>; what the task threw leaves the
  // select instead.
  [[nodiscard]] NextArm<T> on_next() const { return NextArm<T>{line()}; }
  template <std::invocable<std::optional<detail::NonVoid<T>>> Handler>
  [[nodiscard]] Handled<NextArm<T>, Handler> on_next(Handler handler) const {
    return Handled<NextArm<T>, Handler>{std::move(handler), line()};
  }

  // No more tasks are taken; those in flight still deliver. Whoever waits to submit is told. True:
  // it was this call. To be called by whoever submits last, and by whoever stops asking early.
  bool close() const {
    const std::shared_ptr<Line> line = kept();  // who sees the end may let go of the last handle
    return line->close();
  }

  // In flight, at this moment: running, and done but not taken; at most `width`. May miss one whose
  // result is just handed over.
  [[nodiscard]] std::size_t size() const { return line().in_flight(rx_); }
  [[nodiscard]] std::size_t width() const { return rx_.capacity(); }
  [[nodiscard]] bool closed() const { return line().closed(); }
  // False: moved away.
  explicit operator bool() const noexcept { return line_ != nullptr; }

  // A single pass over the results. What a task threw leaves the loop; another goes on behind it.
  [[nodiscard]] iterator begin() const { return iterator{*this}; }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  static std::size_t checked(std::size_t width) {
    if (width == 0 || width >= detail::ChannelCore::kUnbounded)
      throw std::invalid_argument{"weft::OrderedTasks: a width from 1 to 4,294,967,294"};
    return width;
  }
  static Received<value_type> taken(Received<Outcome>&& outcome) {
    if (!outcome) return outcome.status();
    return Received<value_type>{outcome->take()};
  }
  [[nodiscard]] Line& line() const {
    if (!line_) [[unlikely]] detail::throw_no_channel();
    return *line_;
  }
  [[nodiscard]] const std::shared_ptr<Line>& kept() const {
    if (!line_) [[unlikely]] detail::throw_no_channel();
    return line_;
  }
  template <class F>
  static bool start(const std::shared_ptr<Line>& line, Semaphore::Permit& place, F& f,
                    Site site) {
    const std::optional<std::uint64_t> number = line->admit();
    if (!number) return false;
    try {
      detail::TaskDuty<T> duty{line, *number, std::move(place)};
      line->nursery.spawn(line->name,
                          detail::OrderedTask<T, F>{std::move(duty), std::move(f)}, site);
    } catch (...) {
      line->started(*number, false);
      throw;
    }
    line->started(*number, true);
    return true;
  }

  std::shared_ptr<Line> line_;
  Receiver<Outcome> rx_;  // its end before the line's: results in its buffer have places there
};

}  // namespace weft
