// Conservation: whatever senders, receivers, closers, time-outs, cancels and drops do to each
// other, every value whose send said that it was admitted is received once or disposed of once, and
// no other value is either.
#include <weft/channel.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace weft {
namespace {

using std::chrono::microseconds;
using namespace std::chrono_literals;

// ── plans ───────────────────────────────────────────────────────────────────────────────────────

struct Kind {
  const char* name;
  std::size_t capacity;
  Overflow overflow = Overflow::block;
};
constexpr Kind kKinds[] = {
    {"rendezvous", 0},
    {"of 1", 1},
    {"of 3", 3},
    {"unbounded", SIZE_MAX},
    {"drop_new at 0", 0, Overflow::drop_new},
    {"drop_new at 2", 2, Overflow::drop_new},
    {"drop_old at 1", 1, Overflow::drop_old},
    {"drop_old at 2", 2, Overflow::drop_old},
};

enum class Send { plain, timed, no_throw, in_timeout, arm, tries, batch, kCount };
enum class Recv { plain, timed, no_throw, in_timeout, arm, tries, batch, range, kCount };
enum class End { close, close_with_error, abort, kCount };

// One fiber: does `count` operations of a form, with pauses of so many microseconds, and drops its
// end.
struct Actor {
  int form = 0;
  int count = 0;
  int pause = 0;
  int limit = 0;  // of a time-out
};
struct Plan {
  int kind = 0;
  std::vector<Actor> senders;
  std::vector<Actor> receivers;
  std::vector<Actor> enders;  // after `pause`
  int cancel_after = 0;       // everybody; 0: never
};

std::ostream& operator<<(std::ostream& out, const Actor& actor) {
  return out << '{' << actor.form << ", " << actor.count << ", " << actor.pause << ", "
             << actor.limit << '}';
}
std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  out << kKinds[plan.kind].name;
  const auto all = [&](const char* what, const std::vector<Actor>& actors) {
    out << ", " << what;
    for (const Actor& actor : actors) out << ' ' << actor;
  };
  all("senders", plan.senders);
  all("receivers", plan.receivers);
  all("enders", plan.enders);
  return out << ", cancelled after " << plan.cancel_after;
}

constexpr int kCountMax = 12;

rc::Gen<std::vector<Actor>> actors(int forms, std::size_t least, std::size_t most) {
  const auto actor = rc::gen::build<Actor>(
      rc::gen::set(&Actor::form, rc::gen::inRange(0, forms)),
      rc::gen::set(&Actor::count, rc::gen::inRange(1, kCountMax + 1)),
      rc::gen::set(&Actor::pause, rc::gen::weightedElement<int>({{6, 0}, {2, 1}, {1, 3}, {1, 7}})),
      rc::gen::set(&Actor::limit, rc::gen::inRange(0, 6)));
  return rc::gen::mapcat(rc::gen::inRange(least, most + 1), [=](std::size_t count) {
    return rc::gen::container<std::vector<Actor>>(count, actor);
  });
}

rc::Gen<Plan> plans() {
  return rc::gen::build<Plan>(
      rc::gen::set(&Plan::kind, rc::gen::inRange(0, static_cast<int>(std::size(kKinds)))),
      rc::gen::set(&Plan::senders, actors(static_cast<int>(Send::kCount), 1, 4)),
      rc::gen::set(&Plan::receivers, actors(static_cast<int>(Recv::kCount), 1, 3)),
      rc::gen::set(&Plan::enders, actors(static_cast<int>(End::kCount), 0, 1)),
      rc::gen::set(&Plan::cancel_after,
                   rc::gen::weightedElement<int>({{6, 0}, {1, 1}, {1, 3}, {1, 10}, {1, 30}})));
}

// ── what is sent ────────────────────────────────────────────────────────────────────────────────

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("the channel's error") {}
};

// Cannot be copied; -1: moved from. Boxed: because its move may throw.
template <bool kBoxed>
struct Token {
  explicit Token(int n) : number(n) {}
  Token(Token&& other) noexcept(!kBoxed) : number(std::exchange(other.number, -1)) {}
  Token& operator=(Token&& other) noexcept(!kBoxed) {
    number = std::exchange(other.number, -1);
    return *this;
  }
  ~Token() = default;
  int number;
};
static_assert(!detail::kBoxed<Token<false>> && detail::kBoxed<Token<true>>);

// What became of each value, counted by whoever saw it.
struct Fate {
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  std::atomic<int> disposed{0};
};

struct Totals {
  int sent = 0;
  int received = 0;
  int disposed = 0;
  int refused = 0;
};

// ── a trial ─────────────────────────────────────────────────────────────────────────────────────

template <class T>
class Trial {
 public:
  explicit Trial(const Plan& plan)
      : plan_(plan), fates_(plan.senders.size() * static_cast<std::size_t>(kCountMax)) {}

  // What is wrong; empty: nothing.
  template <class Engine>
  std::string play(Engine&& engine) {
    engine.run([&] {
      if (plan_.cancel_after == 0) act();
      else static_cast<void>(timeout(microseconds{plan_.cancel_after}, [&] { act(); }));
    });
    return verdict();
  }
  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  void act() {
    const Kind& kind = kKinds[plan_.kind];
    Channel<T> ch{{.capacity = kind.capacity,
                   .overflow = kind.overflow,
                   .on_undelivered = [this](T&& value) { note_disposed(value); }}};
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < plan_.senders.size(); ++i)
        n.spawn([this, i, tx = ch.tx] { send_all(plan_.senders[i], tx, first_of(i)); });
      for (const Actor& actor : plan_.receivers)
        n.spawn([this, &actor, rx = ch.rx] { receive_all(actor, rx); });
      for (std::size_t i = 0; i < plan_.enders.size(); ++i)
        n.spawn([&ender = plan_.enders[i], tx = ch.tx] { end(ender, tx); });
      ch.tx.drop();
      ch.rx.drop();
    });
  }
  static int first_of(std::size_t sender) { return static_cast<int>(sender) * kCountMax; }
  static void rest(const Actor& actor) {
    if (actor.pause != 0) sleep_for(microseconds{actor.pause});
  }

  static void end(const Actor& actor, const Sender<T>& tx) {
    rest(actor);
    switch (static_cast<End>(actor.form)) {
      case End::close: tx.close(); break;
      case End::close_with_error: tx.close(std::make_exception_ptr(Failure{})); break;
      default: tx.abort(std::make_exception_ptr(Failure{})); break;
    }
  }

  // ── senders ───────────────────────────────────────────────────────────────────────────────────

  void send_all(const Actor& actor, const Sender<T>& tx, int first) {
    if (static_cast<Send>(actor.form) == Send::batch) return send_batch(actor, tx, first);
    for (int i = 0; i < actor.count; ++i) {
      rest(actor);
      T value{first + i};
      bool sent = false;
      try {
        sent = send_one(actor, tx, value);
      } catch (const Cancelled&) {
        expect_kept(value, first + i);
        throw;
      }
      if (sent) ++fates_[static_cast<std::size_t>(first + i)].sent;
      else expect_kept(value, first + i);
    }
  }
  static bool send_one(const Actor& actor, const Sender<T>& tx, T& value) {
    const microseconds limit{actor.limit};
    switch (static_cast<Send>(actor.form)) {
      case Send::plain: return tx.send(std::move(value));
      case Send::timed: return tx.send_for(std::move(value), limit) == SendStatus::ok;
      case Send::no_throw: return tx.send(std::move(value), no_throw) == SendStatus::ok;
      case Send::in_timeout: {
        bool sent = false;
        static_cast<void>(timeout(limit, [&] { sent = tx.send(std::move(value)); }));
        return sent;
      }
      case Send::arm: {
        auto arm = tx.on_send(T{value.number});  // it owns what it sends
        auto time = after(limit);
        if (select(arm, time) == 0 && arm.sent()) return true;
        if (arm.value().number != value.number) value.number = -1;
        return false;
      }
      default:
        for (int i = 0; i < 3; ++i) {
          const SendStatus status = tx.try_send(std::move(value));
          if (status == SendStatus::ok) return true;
          if (status == SendStatus::closed) return false;
          this_fiber::yield();
        }
        return false;
    }
  }
  void send_batch(const Actor& actor, const Sender<T>& tx, int first) {
    std::vector<T> values;
    for (int i = 0; i < actor.count; ++i) values.emplace_back(first + i);
    rest(actor);
    try {
      const std::size_t sent = tx.send_all(std::move(values));
      for (std::size_t i = 0; i < sent; ++i) ++fates_[static_cast<std::size_t>(first) + i].sent;
    } catch (const Cancelled&) {  // what is not here any more was sent
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].number == -1) ++fates_[static_cast<std::size_t>(first) + i].sent;
      throw;
    }
  }
  void expect_kept(const T& value, int number) {
    if (value.number != number) lost_.fetch_add(1);
    else refused_.fetch_add(1);
  }

  // ── receivers ─────────────────────────────────────────────────────────────────────────────────

  void receive_all(const Actor& actor, const Receiver<T>& rx) {
    try {
      if (static_cast<Recv>(actor.form) == Recv::range) {
        int left = actor.count;
        for (const T& value : rx) {
          note_received(value);
          if (--left == 0) return;
          rest(actor);
        }
        return;
      }
      for (int i = 0; i < actor.count; ++i) {
        rest(actor);
        if (!receive_one(actor, rx)) return;
      }
    } catch (const Failure&) {
    }
  }
  // False: the end.
  bool receive_one(const Actor& actor, const Receiver<T>& rx) {
    const microseconds limit{actor.limit};
    switch (static_cast<Recv>(actor.form)) {
      case Recv::plain: {
        const std::optional<T> got = rx.recv();
        if (got) note_received(*got);
        return got.has_value();
      }
      case Recv::timed: return note(rx.recv_for(limit));
      case Recv::no_throw: return note(rx.recv(no_throw));
      case Recv::in_timeout: {
        bool more = true;
        static_cast<void>(timeout(limit, [&] {
          const std::optional<T> got = rx.recv();
          if (got) note_received(*got);
          more = got.has_value();
        }));
        return more;
      }
      case Recv::arm: {
        auto arm = rx.on_recv();
        auto time = after(limit);
        if (select(arm, time) != 0) return true;
        if (arm.value()) note_received(*arm.value());
        return arm.value().has_value();
      }
      case Recv::batch: {
        std::vector<T> got;
        const std::size_t count = rx.recv_many(std::back_inserter(got), 3);
        for (const T& value : got) note_received(value);
        if (count != got.size()) lost_.fetch_add(1);
        return count != 0;
      }
      default:
        this_fiber::yield();
        return note(rx.try_recv());
    }
  }
  bool note(const Received<T>& got) {
    if (got) note_received(*got);
    return got.status() != RecvStatus::closed && got.status() != RecvStatus::cancelled;
  }
  void note_received(const T& value) { ++fate_of(value).received; }
  void note_disposed(const T& value) { ++fate_of(value).disposed; }
  Fate& fate_of(const T& value) {
    if (value.number < 0 || static_cast<std::size_t>(value.number) >= fates_.size()) {
      lost_.fetch_add(1);
      return nobody_;
    }
    return fates_[static_cast<std::size_t>(value.number)];
  }

  std::string verdict() {
    std::ostringstream wrong;
    for (std::size_t i = 0; i < fates_.size(); ++i) {
      const int sent = fates_[i].sent;
      const int received = fates_[i].received;
      const int disposed = fates_[i].disposed;
      totals_.sent += sent;
      totals_.received += received;
      totals_.disposed += disposed;
      if (sent > 1 || sent != received + disposed)
        wrong << "value " << i << ": sent " << sent << ", received " << received << ", disposed "
              << disposed << '\n';
    }
    totals_.refused = refused_;
    if (lost_ != 0) wrong << lost_ << " values were not where they belong\n";
    return wrong.str();
  }

  const Plan& plan_;
  std::vector<Fate> fates_;
  Fate nobody_;
  std::atomic<int> lost_{0};
  std::atomic<int> refused_{0};
  Totals totals_;
};

// ── the property ────────────────────────────────────────────────────────────────────────────────

template <class T>
void check_in_simulation() {
  EXPECT_TRUE(rc::check("every admitted value is received once or disposed of once", [] {
    const Plan plan = *plans();
    const auto seed = *rc::gen::inRange<std::uint64_t>(0, 1'000'000);
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::string wrong = Trial<T>{plan}.play(SimIo{{.seed = seed + i}});
      RC_LOG(wrong);
      RC_ASSERT(wrong.empty());
    }
  }));
}

TEST(ChannelConservation, InSimulation) { check_in_simulation<Token<false>>(); }
TEST(ChannelConservation, OfBoxedValuesInSimulation) { check_in_simulation<Token<true>>(); }

class ChannelConservationOnWorkers : public ::testing::TestWithParam<unsigned> {};

TEST_P(ChannelConservationOnWorkers, ByRealThreads) {
  const rc::Gen<Plan> generator = plans();
  FiberIo io{{.workers = GetParam()}};
  for (std::uint64_t seed = 0; seed < (arch::kTsan ? 100 : 400); ++seed) {
    const Plan plan = generator(rc::Random{seed}, 100).value();
    std::ostringstream text;
    text << plan;
    SCOPED_TRACE(text.str());
    EXPECT_EQ(Trial<Token<false>>{plan}.play(io), "");
    EXPECT_EQ(Trial<Token<true>>{plan}.play(io), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Workers, ChannelConservationOnWorkers, ::testing::Values(2U, 4U),
                         [](const auto& of) { return std::to_string(of.param); });

// That the plans are not trivial.
TEST(ChannelConservation, ThePlansAreInteresting) {
  const rc::Gen<Plan> generator = plans();
  Totals totals;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Plan plan = generator(rc::Random{seed}, 100).value();
    Trial<Token<false>> trial{plan};
    EXPECT_EQ(trial.play(SimIo{{.seed = seed}}), "");
    totals.sent += trial.totals().sent;
    totals.received += trial.totals().received;
    totals.disposed += trial.totals().disposed;
    totals.refused += trial.totals().refused;
  }
  EXPECT_GT(totals.sent, 2'000);
  EXPECT_GT(totals.received, 1'000);
  EXPECT_GT(totals.disposed, 200);
  EXPECT_GT(totals.refused, 1'000);
}

}  // namespace
}  // namespace weft
