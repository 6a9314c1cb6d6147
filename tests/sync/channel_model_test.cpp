// One channel against a model of it: random programs of sends and receives, some of which park, of
// closes, aborts, cancels and copies and drops of ends. After each step everybody else is blocked,
// and whatever has ended, and how, is what the model says.
#include <weft/channel.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

// ── programs ────────────────────────────────────────────────────────────────────────────────────

struct Kind {
  const char* name;
  std::size_t capacity;
  Overflow overflow = Overflow::block;
  bool once = false;
};
constexpr Kind kKinds[] = {
    {"rendezvous", 0},
    {"of 1", 1},
    {"of 2", 2},
    {"of 5", 5},
    {"unbounded", SIZE_MAX},
    {"drop_new at 0", 0, Overflow::drop_new},
    {"drop_new at 2", 2, Overflow::drop_new},
    {"drop_old at 1", 1, Overflow::drop_old},
    {"drop_old at 3", 3, Overflow::drop_old},
    {"oneshot", 1, Overflow::block, true},
};

enum class Verb {
  try_send,
  try_recv,
  send,  // the next four in a fiber, which may park
  recv,
  watch_senders,
  watch_receivers,
  cancel,  // one of those
  close,
  close_with_error,
  abort,
  copy_sender,
  drop_sender,
  copy_receiver,
  drop_receiver,
};

struct Step {
  int verb = 0;
  int which = 0;  // end, form or fiber
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  constexpr const char* kNames[] = {"try_send", "try_recv", "send", "recv", "watch_senders",
                                    "watch_receivers", "cancel", "close", "close_with_error",
                                    "abort", "copy_sender", "drop_sender", "copy_receiver",
                                    "drop_receiver"};
  return out << kNames[step.verb] << ' ' << step.which;
}

rc::Gen<std::vector<Step>> programs() {
  const auto verb = rc::gen::weightedElement<int>({{8, 0}, {8, 1}, {16, 2}, {16, 3}, {1, 4}, {1, 5},
                                                   {5, 6}, {1, 7}, {1, 8}, {1, 9}, {3, 10}, {3, 11},
                                                   {3, 12}, {3, 13}});
  return rc::gen::container<std::vector<Step>>(
      rc::gen::build<Step>(rc::gen::set(&Step::verb, verb),
                           rc::gen::set(&Step::which, rc::gen::inRange(0, 1'000))));
}

// ── how an operation ended ──────────────────────────────────────────────────────────────────────

struct Ending {
  enum Is { pending, sent, refused, value, empty, end, error, gone, cancelled } is = pending;
  int number = 0;  // of a value
  friend bool operator==(const Ending&, const Ending&) = default;
};

std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  constexpr const char* kNames[] = {"pending", "sent", "refused", "value", "empty",
                                    "end", "error", "gone", "cancelled"};
  out << kNames[ending.is];
  return ending.is == Ending::value ? out << ' ' << ending.number : out;
}

// ── the model ───────────────────────────────────────────────────────────────────────────────────

class Model {
 public:
  explicit Model(const Kind& kind) : kind_(kind) {}

  Ending try_send(int number) { return offer(number).value_or(Ending{Ending::refused}); }
  Ending try_recv() { return take().value_or(Ending{Ending::empty}); }

  // Operations of fibers, by number. Each has an end of its own until it has ended.
  void send(std::size_t op, int number) {
    ++senders_;
    begin(op, true);
    if (const auto ending = offer(number)) return finish(op, *ending);
    if (kind_.overflow == Overflow::drop_new) return finish(op, {Ending::refused});
    parked_senders_.push_back({op, number});
  }
  void recv(std::size_t op) {
    ++receivers_;
    begin(op, false);
    if (const auto ending = take()) return finish(op, *ending);
    parked_receivers_.push_back(op);
  }
  void watch_senders(std::size_t op) {
    ++receivers_;
    begin(op, false);
    if (closed_) finish(op, {Ending::gone});
    else senders_watched_.push_back(op);
  }
  void watch_receivers(std::size_t op) {
    ++senders_;
    begin(op, true);
    if (receivers_ == 0) finish(op, {Ending::gone});
    else receivers_watched_.push_back(op);
  }
  void cancel(std::size_t op) {
    if (endings[op].is != Ending::pending) return;
    std::erase_if(parked_senders_, [&](const auto& parked) { return parked.first == op; });
    std::erase(parked_receivers_, op);
    std::erase(senders_watched_, op);
    std::erase(receivers_watched_, op);
    finish(op, {Ending::cancelled});
  }

  bool close(bool with_error) {
    if (closed_) return false;
    closed_ = true;
    failed_ = with_error;
    end_receivers();
    return true;
  }
  bool abort() {
    if (ended_) return false;
    closed_ = ended_ = true;
    failed_ = true;
    end_receivers();
    end_senders();
    discard();
    return true;
  }
  void copy_sender() { ++senders_; }
  void copy_receiver() { ++receivers_; }
  void drop_sender() {
    if (--senders_ == 0) close(false);
  }
  void drop_receiver() {
    if (--receivers_ != 0) return;
    closed_ = ended_ = true;
    end_senders();
    discard();
    for (const std::size_t op : std::exchange(receivers_watched_, {})) finish(op, {Ending::gone});
  }
  // The fibers that have ended drop their ends, which may end others.
  void settle() {
    while (!leaving_.empty()) {
      const std::size_t op = leaving_.front();
      leaving_.pop_front();
      if (has_sender_[op]) drop_sender();
      else drop_receiver();
    }
  }

  [[nodiscard]] std::size_t size() const { return buffer_.size(); }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] bool failed() const { return failed_; }

  std::map<std::size_t, Ending> endings;
  std::vector<int> disposed;

 private:
  void begin(std::size_t op, bool has_sender) {
    endings[op] = {};
    has_sender_[op] = has_sender;
  }
  void finish(std::size_t op, Ending ending) {
    endings[op] = ending;
    leaving_.push_back(op);
  }
  [[nodiscard]] Ending the_end() const { return {failed_ ? Ending::error : Ending::end}; }

  // None: full.
  std::optional<Ending> offer(int number) {
    if (closed_) return Ending{Ending::refused};
    if (!parked_receivers_.empty()) {
      finish(parked_receivers_.front(), {Ending::value, number});
      parked_receivers_.pop_front();
    } else if (buffer_.size() < kind_.capacity) {
      buffer_.push_back(number);
    } else if (kind_.overflow == Overflow::drop_old) {
      disposed.push_back(buffer_.front());
      buffer_.pop_front();
      buffer_.push_back(number);
    } else {
      return std::nullopt;
    }
    if (kind_.once) close(false);
    return Ending{Ending::sent};
  }
  // None: empty.
  std::optional<Ending> take() {
    if (ended_) return the_end();
    std::deque<int> parked;
    if (!parked_senders_.empty()) {
      parked.push_back(parked_senders_.front().second);
      finish(parked_senders_.front().first, {Ending::sent});
      parked_senders_.pop_front();
    }
    buffer_.insert(buffer_.end(), parked.begin(), parked.end());
    if (buffer_.empty()) return closed_ ? std::optional{the_end()} : std::nullopt;
    const int number = buffer_.front();
    buffer_.pop_front();
    return Ending{Ending::value, number};
  }
  void end_receivers() {
    for (const std::size_t op : std::exchange(parked_receivers_, {})) finish(op, the_end());
    for (const std::size_t op : std::exchange(senders_watched_, {})) finish(op, {Ending::gone});
  }
  void end_senders() {
    for (const auto& [op, number] : std::exchange(parked_senders_, {}))
      finish(op, {Ending::refused});
  }
  void discard() {
    disposed.insert(disposed.end(), buffer_.begin(), buffer_.end());
    buffer_.clear();
  }

  const Kind& kind_;
  std::deque<int> buffer_;
  std::deque<std::pair<std::size_t, int>> parked_senders_;
  std::deque<std::size_t> parked_receivers_, senders_watched_, receivers_watched_, leaving_;
  std::map<std::size_t, bool> has_sender_;
  int senders_ = 1;
  int receivers_ = 1;
  bool closed_ = false;
  bool ended_ = false;
  bool failed_ = false;
};

// ── the real thing ──────────────────────────────────────────────────────────────────────────────

struct Plain {
  int number;
};
// Travels in a box, and cannot be copied.
struct Risky {
  explicit Risky(int n) : number(n) {}
  Risky(Risky&& other) noexcept(false) : number(std::exchange(other.number, -1)) {}
  Risky& operator=(Risky&& other) noexcept(false) {
    number = std::exchange(other.number, -1);
    return *this;
  }
  ~Risky() = default;
  int number;
};
static_assert(!detail::kBoxed<Plain> && detail::kBoxed<Risky>);

template <class T>
class Trial {
 public:
  explicit Trial(const Kind& kind) : kind_(kind), model_(kind) {}

  // What differs from the model; empty: nothing.
  std::string play(const std::vector<Step>& program, std::uint64_t seed) {
    SimIo{{.seed = seed}}.run([&] {
      open();
      nursery([&](Nursery& n) {
        for (const Step& step : program) {
          do_step(n, step);
          settle();
          model_.settle();
          compare(step);
          if (!wrong_.str().empty()) break;
        }
        while (!senders_.empty()) drop_sender(0);
        while (!receivers_.empty()) drop_receiver(0);
        settle();
        model_.settle();
        compare({});
        for (std::size_t op = 0; op < ops_.size(); ++op) cancel(op);  // who watch each other
      });
    });
    return wrong_.str();
  }
  [[nodiscard]] const Model& model() const { return model_; }

 private:
  struct Op {
    Ending ending;
    std::stop_source stop;
  };

  void open() {
    const auto note = [this](T&& value) { disposed_.push_back(value.number); };
    Channel<T> ch = kind_.once ? oneshot<T>()
                               : Channel<T>{{.capacity = kind_.capacity,
                                             .overflow = kind_.overflow,
                                             .on_undelivered = note}};
    senders_.push_back(std::move(ch.tx));
    receivers_.push_back(std::move(ch.rx));
  }

  void do_step(Nursery& n, const Step& step) {
    const auto which = static_cast<std::size_t>(step.which);
    const std::size_t tx = senders_.empty() ? 0 : which % senders_.size();
    const std::size_t rx = receivers_.empty() ? 0 : which % receivers_.size();
    switch (static_cast<Verb>(step.verb)) {
      case Verb::try_send:
        if (senders_.empty()) break;
        ++last_;
        expect("try_send", model_.try_send(last_), try_send(tx, last_));
        break;
      case Verb::try_recv:
        if (!receivers_.empty()) expect("try_recv", model_.try_recv(), try_recv(rx));
        break;
      case Verb::send:
        if (!senders_.empty()) start_send(n, senders_[tx], which % 4);
        break;
      case Verb::recv:
        if (!receivers_.empty()) start_recv(n, receivers_[rx], which % 5);
        break;
      case Verb::watch_senders:
        if (receivers_.empty()) break;
        model_.watch_senders(ops_.size());
        start(n, [rx_end = receivers_[rx]](Op& op) {
          auto arm = rx_end.on_peer_gone();
          select(arm);
          op.ending = {Ending::gone};
        });
        break;
      case Verb::watch_receivers:
        if (senders_.empty()) break;
        model_.watch_receivers(ops_.size());
        start(n, [tx_end = senders_[tx]](Op& op) {
          select(tx_end.on_peer_gone());
          op.ending = {Ending::gone};
        });
        break;
      case Verb::cancel:
        if (ops_.empty()) break;
        cancel(which % ops_.size());
        break;
      case Verb::close: finish(which, [](auto& end) { return end.close(); }, false); break;
      case Verb::close_with_error:
        finish(which, [](auto& end) { return end.close(an_error()); }, true);
        break;
      case Verb::abort:
        if (!senders_.empty()) expect("abort", model_.abort(), senders_[tx].abort(an_error()));
        else if (!receivers_.empty())
          expect("abort", model_.abort(), receivers_[rx].abort(an_error()));
        break;
      case Verb::copy_sender:
        if (senders_.empty() || senders_.size() == 4) break;
        model_.copy_sender();
        senders_.push_back(Sender<T>{senders_[tx]});
        break;
      case Verb::drop_sender:
        if (!senders_.empty()) drop_sender(tx);
        break;
      case Verb::copy_receiver:
        if (receivers_.empty() || receivers_.size() == 4) break;
        model_.copy_receiver();
        receivers_.push_back(Receiver<T>{receivers_[rx]});
        break;
      case Verb::drop_receiver:
        if (!receivers_.empty()) drop_receiver(rx);
        break;
    }
  }

  void cancel(std::size_t op) {
    model_.cancel(op);
    ops_[op]->stop.request_stop();
  }
  static std::exception_ptr an_error() {
    return std::make_exception_ptr(std::runtime_error{"the channel's error"});
  }
  template <class Close>
  void finish(std::size_t which, Close close, bool with_error) {
    if (senders_.empty() && receivers_.empty()) return;
    const bool real = senders_.empty() || (which % 2 == 0 && !receivers_.empty())
                          ? close(receivers_[which % receivers_.size()])
                          : close(senders_[which % senders_.size()]);
    expect("close", model_.close(with_error), real);
  }
  void drop_sender(std::size_t which) {
    model_.drop_sender();
    senders_.erase(senders_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void drop_receiver(std::size_t which) {
    model_.drop_receiver();
    receivers_.erase(receivers_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  Ending try_send(std::size_t tx, int number) {
    T value{number};
    const SendStatus status = senders_[tx].try_send(std::move(value));
    if (status == SendStatus::ok) return {Ending::sent};
    if (value.number != number) wrong_ << "a value that was not sent has gone\n";
    return {Ending::refused};
  }
  Ending try_recv(std::size_t rx) {
    return received([&] { return receivers_[rx].try_recv(); });
  }

  template <class Receive>
  static Ending received(Receive receive) {
    try {
      const auto got = receive();
      if (got) return {Ending::value, got->number};
      if constexpr (requires { got.status(); })
        return {got.status() == RecvStatus::closed ? Ending::end
                : got.status() == RecvStatus::empty ? Ending::empty
                                                    : Ending::cancelled};
      return {Ending::end};
    } catch (const std::runtime_error&) {
      return {Ending::error};
    }
  }

  // In a fiber of its own, which can be cancelled. What `f` captures goes with it.
  template <class F>
  void start(Nursery& n, F f) {
    ops_.push_back(std::make_unique<Op>());
    n.spawn([&op = *ops_.back(), f = std::move(f)] {
      const bool unwound = !with_stop(op.stop.get_token(), [&] { f(op); });
      if (unwound) op.ending = {Ending::cancelled};
    });
  }

  void start_send(Nursery& n, const Sender<T>& end, std::size_t form) {
    const int number = ++last_;
    model_.send(ops_.size(), number);
    start(n, [this, number, form, tx = end](Op& op) {
      T value{number};
      try {
        op.ending = send(tx, value, form);
      } catch (const Cancelled&) {
        if (value.number != number) wrong_ << "a cancelled send has taken its value\n";
        throw;
      }
      if (op.ending.is != Ending::sent && value.number != number)
        wrong_ << "a value that was not sent has gone\n";
    });
  }
  static Ending send(const Sender<T>& tx, T& value, std::size_t form) {
    if (form == 3) {  // an arm owns what it sends
      auto arm = tx.on_send(T{value.number});
      auto never = after(1h);
      select(arm, never);
      return {arm.sent() ? Ending::sent : Ending::refused};
    }
    if (form == 2) return {tx.send(std::move(value)) ? Ending::sent : Ending::refused};
    switch (form == 0 ? tx.send(std::move(value), no_throw) : tx.send_for(std::move(value), 1h)) {
      case SendStatus::ok: return {Ending::sent};
      case SendStatus::cancelled: return {Ending::cancelled};
      default: return {Ending::refused};
    }
  }

  void start_recv(Nursery& n, const Receiver<T>& end, std::size_t form) {
    model_.recv(ops_.size());
    start(n, [form, rx = end](Op& op) {
      switch (form) {
        case 0: op.ending = received([&] { return rx.recv(); }); break;
        case 1: op.ending = received([&] { return rx.recv(no_throw); }); break;
        case 2: op.ending = received([&] { return rx.recv_for(1h); }); break;
        case 3: {
          auto arm = rx.on_recv();
          auto never = after(1h);
          select(never, arm);
          op.ending = received([&] { return std::move(arm.value()); });
          break;
        }
        default: op.ending = received_iterator(rx); break;
      }
    });
  }
  static Ending received_iterator(const Receiver<T>& rx) {
    try {
      const auto at = rx.begin();
      if (at == rx.end()) return {Ending::end};
      return {Ending::value, (*at).number};
    } catch (const std::runtime_error&) {
      return {Ending::error};
    }
  }

  template <class Result>
  void expect(const char* what, const Result& model, const Result& real) {
    if (model != real) wrong_ << what << " should be " << model << ", is " << real << '\n';
  }
  void compare(const Step& after) {
    std::ostringstream at;
    for (std::size_t op = 0; op < ops_.size(); ++op)
      if (ops_[op]->ending != model_.endings[op])
        at << "operation " << op << " should be " << model_.endings[op] << ", is "
           << ops_[op]->ending << '\n';
    if (!kind_.once && disposed_ != model_.disposed)
      at << "disposed: " << disposed_.size() << " instead of " << model_.disposed.size() << '\n';
    const auto ask = [&](const auto& end) {
      if (end.size() != model_.size()) at << "size should be " << model_.size() << '\n';
      if (end.closed() != model_.closed()) at << "closed() is wrong\n";
      if ((end.error() != nullptr) != model_.failed()) at << "error() is wrong\n";
    };
    for (const auto& end : senders_) ask(end);
    for (const auto& end : receivers_) ask(end);
    if (!at.str().empty()) wrong_ << "after " << after << ":\n" << at.str();
  }

  const Kind& kind_;
  Model model_;
  std::vector<Sender<T>> senders_;
  std::vector<Receiver<T>> receivers_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<int> disposed_;
  int last_ = 0;  // number sent
  std::ostringstream wrong_;
};

// ── the property ────────────────────────────────────────────────────────────────────────────────

template <class T>
void check_every_kind() {
  for (const Kind& kind : kKinds)
    EXPECT_TRUE(rc::check(std::string{"a channel behaves as its model: "} + kind.name, [&] {
      const std::vector<Step> program = *programs();
      const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
      Trial<T> trial{kind};
      const std::string wrong = trial.play(program, seed);
      RC_LOG(wrong);
      RC_ASSERT(wrong.empty());
    }));
}

TEST(ChannelModel, OfPlainValues) { check_every_kind<Plain>(); }
TEST(ChannelModel, OfBoxedValues) { check_every_kind<Risky>(); }

// That the programs are not trivial: every ending comes up, for every kind that has it.
TEST(ChannelModel, TheProgramsAreInteresting) {
  const rc::Gen<std::vector<Step>> generator = programs();
  std::map<Ending::Is, int> seen;
  int disposed = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<Step> program = generator(rc::Random{seed}, 100).value();
    Trial<Plain> trial{kKinds[seed % std::size(kKinds)]};
    EXPECT_EQ(trial.play(program, seed), "");
    for (const auto& [op, ending] : trial.model().endings) ++seen[ending.is];
    disposed += static_cast<int>(trial.model().disposed.size());
  }
  for (const Ending::Is is : {Ending::sent, Ending::refused, Ending::value, Ending::end,
                              Ending::error, Ending::gone, Ending::cancelled})
    EXPECT_GT(seen[is], 20) << Ending{is};
  EXPECT_EQ(seen[Ending::pending], 0);
  EXPECT_GT(disposed, 20);
}

}  // namespace
}  // namespace weft
