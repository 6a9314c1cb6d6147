// Random programs on channels: whatever the threads did at the same time, there is an order, one
// after the other, in which a plain queue gives the same answers.
#include <support/linearizability.hpp>

#include <weft/base/splitmix.hpp>
#include <weft/channel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <support/engines.hpp>
#include <support/watchdog.hpp>

namespace weft::testing {

void PrintTo(const ChannelRules& rules, std::ostream* out);  // for GoogleTest, by its name
void PrintTo(const ChannelRules& rules, std::ostream* out) { *out << rules.capacity; }

namespace {

using namespace std::chrono_literals;
using Verb = ChannelCall::Verb;
using Answer = ChannelCall::Answer;

// ── the checker itself ──────────────────────────────────────────────────────────────────────────

// Calls one after the other, unless a test moves their times.
class History {
 public:
  explicit History(std::size_t capacity, Overflow overflow = Overflow::block)
      : rules_{capacity, overflow} {}

  History& send(int value, Answer answer = Answer::done) {
    return add({.verb = Verb::send, .answer = answer, .value = value, .waits = true});
  }
  History& try_send(int value, Answer answer = Answer::done) {
    return add({.verb = Verb::send, .answer = answer, .value = value});
  }
  History& recv(int value) { return add({.verb = Verb::recv, .value = value, .waits = true}); }
  History& recv_nothing(Answer answer) { return add({.verb = Verb::recv, .answer = answer}); }
  History& close(Answer answer = Answer::done) {
    return add({.verb = Verb::close, .answer = answer});
  }
  // The last one returned so many calls later.
  History& lasting(std::size_t later) {
    calls_.back().returned += 2 * later;
    return *this;
  }

  [[nodiscard]] bool holds() const {
    return LinearizabilityChecker{rules_, calls_}.check() == Linearizable::yes;
  }

 private:
  History& add(ChannelCall call) {
    const std::uint64_t at = 2 * calls_.size();
    call.called = at;
    call.returned = at + 1;
    calls_.push_back(call);
    return *this;
  }

  ChannelRules rules_;
  std::vector<ChannelCall> calls_;
};

TEST(LinearizabilityChecker, AcceptsWhatAQueueDoes) {
  EXPECT_TRUE(History{2}.send(1).send(2).recv(1).recv(2).holds());
  EXPECT_TRUE(History{2}.send(1).close().recv(1).recv_nothing(Answer::closed).holds());
  EXPECT_TRUE(History{2}.recv_nothing(Answer::refused).try_send(1).recv(1).holds());
  EXPECT_TRUE(History{1}.send(1).try_send(2, Answer::refused).holds());
  EXPECT_TRUE(History{1}.close().send(1, Answer::closed).close(Answer::closed).holds());
  EXPECT_TRUE(History(1, Overflow::drop_old).send(1).send(2).recv(2).holds());
  EXPECT_TRUE(History(1, Overflow::drop_new).send(1).send(2, Answer::failed).recv(1).holds());
}

TEST(LinearizabilityChecker, AcceptsWhatOverlaps) {
  EXPECT_TRUE(History{2}.send(1).lasting(1).send(2).recv(2).recv(1).holds()) << "in either order";
  EXPECT_TRUE(History{0}.send(1).lasting(1).recv(1).holds()) << "a rendezvous";
  EXPECT_TRUE(History{0}.recv(1).lasting(1).try_send(1).holds()) << "somebody waits";
  EXPECT_TRUE(History{0}.send(1).lasting(2).close().recv(1).holds()) << "admitted when it parked";
  EXPECT_TRUE(History{1}.send(1).send(2).lasting(1).recv(1).recv(2).holds()) << "parked";
  EXPECT_TRUE(History{1}.send(1).lasting(1).recv_nothing(Answer::refused).holds()) << "not yet";
}

TEST(LinearizabilityChecker, RejectsWrongOrder) {
  EXPECT_FALSE(History{2}.send(1).send(2).recv(2).recv(1).holds()) << "reordered";
  EXPECT_FALSE(History{3}.send(1).send(2).recv(2).holds()) << "overtaken";
  EXPECT_FALSE(History{1}.send(1).send(2).lasting(2).recv(2).recv(1).holds())
      << "a parked sender came later";
}

TEST(LinearizabilityChecker, RejectsLossAndDoubling) {
  EXPECT_FALSE(History{2}.send(1).recv_nothing(Answer::refused).holds()) << "lost";
  EXPECT_FALSE(History{2}.send(1).recv(1).recv(1).holds()) << "doubled";
  EXPECT_FALSE(History{2}.recv(1).holds()) << "from nowhere";
  EXPECT_FALSE(History{2}.recv(1).send(1).holds()) << "before it was sent";
  EXPECT_FALSE(History{2}.try_send(1, Answer::refused).holds()) << "there was room";
  EXPECT_FALSE(History(1, Overflow::drop_old).send(1).send(2).recv(1).holds())
      << "the oldest is what is dropped";
  EXPECT_FALSE(History(1, Overflow::drop_new).send(1).send(2).recv(1).recv(2).holds())
      << "there was no room";
}

TEST(LinearizabilityChecker, RejectsWrongEnds) {
  EXPECT_FALSE(History{2}.close().send(1).recv(1).holds()) << "sent after the close";
  EXPECT_FALSE(History{2}.send(1).close().recv_nothing(Answer::closed).recv(1).holds())
      << "ended before it was drained";
  EXPECT_FALSE(History{2}.recv_nothing(Answer::closed).close().holds()) << "ended while open";
  EXPECT_FALSE(History{2}.close().recv_nothing(Answer::refused).holds()) << "closed, not empty";
  EXPECT_FALSE(History{2}.close().close().holds()) << "closed twice";
  EXPECT_FALSE(History{2}.send(1, Answer::closed).close().holds()) << "refused while open";
  EXPECT_FALSE(History{0}.close().send(1).lasting(1).recv(1).holds()) << "parked after the close";
}

TEST(LinearizabilityChecker, RejectsWrongWaits) {
  EXPECT_FALSE(History{0}.send(1).recv(1).holds()) << "a rendezvous returned alone";
  EXPECT_FALSE(History{0}.try_send(1).recv(1).holds()) << "nobody waited";
  EXPECT_FALSE(History{0}.recv(1).try_send(1).holds()) << "it had gone";
  EXPECT_FALSE(History{1}.send(1).send(2).recv(1).recv(2).holds()) << "two in one place";
  EXPECT_FALSE(History{1}.send(1).try_send(2).recv(1).recv(2).holds()) << "there was no room";
  EXPECT_FALSE(History{0}.send(1).lasting(3).close().try_send(2, Answer::refused).recv(1).holds())
      << "closed, not full";
}

// ── random programs ─────────────────────────────────────────────────────────────────────────────

constexpr std::size_t kChannels = 2;

// What all callers of one history share.
struct Stage {
  explicit Stage(ChannelRules rules_in) : rules(rules_in) {
    for (std::size_t i = 0; i < kChannels; ++i)
      channels.emplace_back(ChannelOptions<int>{
          .capacity = rules.capacity, .overflow = rules.overflow, .on_undelivered = [this](int v) {
            const std::lock_guard lock{mutex};
            undelivered.push_back(v);
          }});
  }

  // They begin together, so that workers who were idle have come to take part.
  void arrive() {
    for (absent.fetch_sub(1); absent.load() > 0;) this_fiber::yield();
  }

  const ChannelRules rules;
  std::vector<Channel<int>> channels;
  std::atomic<int> absent{0};
  std::atomic<std::uint64_t> clock{0};
  std::mutex mutex;
  std::vector<int> undelivered;
};

// One of those who use the channels, and what was answered.
class Caller {
 public:
  Caller(Stage& stage, unsigned number, std::uint64_t seed)
      : stage_(stage), number_(number), chance_(seed) {}

  void run() {
    stage_.arrive();
    bias_ = roll(3);
    for (unsigned left = 4 + roll(3); left > 0; --left) {
      dawdle();
      step();
    }
  }
  // Afterwards nobody waits any more.
  void close_and_drain() {
    stage_.arrive();
    for (unsigned turns = roll(30); turns > 0; --turns) this_fiber::yield();
    for (std::size_t at = 0; at < kChannels; ++at) close(at);
    for (std::size_t at = 0; at < kChannels; ++at)
      while (recv(at)) {}
  }

  [[nodiscard]] const std::vector<ChannelCall>& calls(std::size_t at) const { return calls_[at]; }

 private:
  unsigned roll(unsigned sides) { return static_cast<unsigned>(chance_.next() % sides); }

  void dawdle() {
    switch (roll(4)) {
      case 0: return this_fiber::yield();
      case 1:
        for (std::atomic<unsigned> spins{roll(300)}; spins.load() > 0;) spins.fetch_sub(1);
        return;
      default: return;
    }
  }

  void step() {
    const std::size_t at = roll(kChannels);
    if (roll(40) == 0) return close(at);
    if (roll(4) == 0) return roll(2) == 0 ? select_two(at) : select_or_not(at);
    // Some rather send, some rather receive.
    const bool sends = roll(4) <= bias_;
    if (sends) send_somehow(at);
    else recv_somehow(at);
  }

  // What an operation looks like from outside: when it was called, and when it returned.
  ChannelCall begin(Verb verb, bool waits, int value = 0) {
    ChannelCall call{.verb = verb, .value = value, .waits = waits, .caller = number_};
    call.called = stage_.clock.fetch_add(1);
    return call;
  }
  void end(std::size_t at, ChannelCall call, Answer answer) {
    call.returned = stage_.clock.fetch_add(1);
    call.answer = answer;
    calls_[at].push_back(call);
  }

  int next_value() { return static_cast<int>(number_ * 100) + ++sent_; }
  const Sender<int>& tx(std::size_t at) { return stage_.channels[at].tx; }
  const Receiver<int>& rx(std::size_t at) { return stage_.channels[at].rx; }

  // Only `send` itself does not say why.
  Answer if_not_sent() const {
    return stage_.rules.overflow == Overflow::drop_new ? Answer::failed : Answer::closed;
  }
  bool can_wait() const { return stage_.rules.overflow == Overflow::block; }

  void close(std::size_t at) {
    const ChannelCall call = begin(Verb::close, false);
    end(at, call, tx(at).close() ? Answer::done : Answer::closed);
  }

  void send_somehow(std::size_t at) {
    const unsigned how = roll(5);
    const int value = next_value();
    const ChannelCall call = begin(Verb::send, how != 0 && can_wait(), value);
    switch (how) {
      case 0: return end_send(at, call, tx(at).try_send(value));
      case 1: return end_send(at, call, tx(at).send_for(value, 0ns));
      case 2: return end_send(at, call, tx(at).send(value, no_throw));
      default: return end(at, call, tx(at).send(value) ? Answer::done : if_not_sent());
    }
  }
  void end_send(std::size_t at, const ChannelCall& call, SendStatus status) {
    switch (status) {
      case SendStatus::ok: return end(at, call, Answer::done);
      case SendStatus::closed: return end(at, call, Answer::closed);
      case SendStatus::full:
      case SendStatus::timed_out: return end(at, call, Answer::refused);
      case SendStatus::cancelled: return;  // nothing has happened, or else the search says so
    }
  }

  void recv_somehow(std::size_t at) {
    const unsigned how = roll(5);
    if (how > 2) return static_cast<void>(recv(at));
    const ChannelCall call = begin(Verb::recv, how != 0);
    switch (how) {
      case 0: return end_recv(at, call, rx(at).try_recv());
      case 1: return end_recv(at, call, rx(at).recv_for(0ns));
      default: return end_recv(at, call, rx(at).recv(no_throw));
    }
  }
  void end_recv(std::size_t at, ChannelCall call, Received<int> received) {
    switch (received.status()) {
      case RecvStatus::value: call.value = *received; return end(at, call, Answer::done);
      case RecvStatus::closed: return end(at, call, Answer::closed);
      case RecvStatus::empty:
      case RecvStatus::timed_out: return end(at, call, Answer::refused);
      case RecvStatus::cancelled: return;
    }
  }
  bool recv(std::size_t at) {
    const ChannelCall call = begin(Verb::recv, true);
    return end_recv(at, call, rx(at).recv());
  }
  bool end_recv(std::size_t at, ChannelCall call, const std::optional<int>& value) {
    call.value = value.value_or(0);
    end(at, call, value ? Answer::done : Answer::closed);
    return value.has_value();
  }

  // The winner alone has happened.
  void select_two(std::size_t at) {
    const std::size_t other = roll(kChannels);  // perhaps the same
    const bool two_receives = roll(3) == 0;
    const int value = next_value();
    const ChannelCall send = begin(Verb::send, can_wait(), value);
    ChannelCall recv = send;
    recv.verb = Verb::recv;
    recv.waits = true;
    auto receive = rx(other).on_recv();
    if (two_receives) {
      auto receive_too = rx(at).on_recv();
      if (select(receive_too, receive) == 0) end_recv(at, recv, receive_too.value());
      else end_recv(other, recv, receive.value());
      return;
    }
    auto give = tx(at).on_send(value);
    if (select(give, receive) == 0) end(at, send, give.sent() ? Answer::done : if_not_sent());
    else end_recv(other, recv, receive.value());
  }

  // If nothing could happen, nothing could at either. To know that for both at one moment, select
  // publishes them, and others may find them.
  void select_or_not(std::size_t at) {
    const std::size_t other = roll(kChannels);
    const int value = next_value();
    const ChannelCall send = begin(Verb::send, can_wait(), value);
    ChannelCall recv = send;
    recv.verb = Verb::recv;
    recv.waits = true;
    auto give = tx(at).on_send(value);
    auto receive = rx(other).on_recv();
    auto neither = otherwise();
    switch (select(give, receive, neither)) {
      case 0: return end(at, send, give.sent() ? Answer::done : if_not_sent());
      case 1: return static_cast<void>(end_recv(other, recv, receive.value()));
      default:
        recv.value = 0;
        end(at, send, Answer::refused);
        end(other, recv, Answer::refused);
    }
  }

  Stage& stage_;
  const unsigned number_;
  SplitMix chance_;
  unsigned bias_ = 0;
  int sent_ = 0;
  std::array<std::vector<ChannelCall>, kChannels> calls_;
};

// Every value that was admitted was received once, or given back once.
void expect_all_accounted_for(const std::vector<ChannelCall>& calls, std::vector<int> undelivered) {
  std::vector<int> sent;
  std::vector<int> arrived = std::move(undelivered);
  for (const ChannelCall& call : calls) {
    if (call.answer != Answer::done) continue;
    if (call.verb == Verb::send) sent.push_back(call.value);
    if (call.verb == Verb::recv) arrived.push_back(call.value);
  }
  std::ranges::sort(sent);
  std::ranges::sort(arrived);
  EXPECT_EQ(sent, arrived);
}

void expect_linearizable(Stage& stage, const std::vector<Caller>& callers) {
  std::vector<ChannelCall> all;
  for (std::size_t at = 0; at < kChannels; ++at) {
    std::vector<ChannelCall> calls;
    for (const Caller& caller : callers)
      calls.insert(calls.end(), caller.calls(at).begin(), caller.calls(at).end());
    all.insert(all.end(), calls.begin(), calls.end());
    LinearizabilityChecker checker{stage.rules, std::move(calls)};
    const Linearizable answer = checker.check();
    EXPECT_EQ(answer, Linearizable::yes) << "channel " << at << ", " << checker.history();
  }
  stage.channels.clear();  // what is in the buffers is given back
  expect_all_accounted_for(all, stage.undelivered);
}

// The last two callers: one whose nursery is cancelled in the middle, and one who ends it all.
void play(ChannelRules rules, std::uint64_t seed, bool with_thread) {
  SplitMix chance{seed};
  Stage stage{rules};
  std::vector<Caller> callers;
  const unsigned count = 4 + static_cast<unsigned>(chance.next() % 3);
  for (unsigned i = 0; i < count; ++i) callers.emplace_back(stage, i, chance.next());
  stage.absent.store(static_cast<int>(count));
  const unsigned patience = static_cast<unsigned>(chance.next() % 20);
  std::thread foreign;
  if (with_thread) foreign = std::thread{[&callers] { callers[0].run(); }};
  nursery([&](Nursery& n) {
    for (unsigned i = with_thread ? 1 : 0; i + 2 < count; ++i)
      n.spawn([&callers, i] { callers[i].run(); });
    n.spawn([&callers, &stage, count, patience] {
      nursery([&](Nursery& mortal) {
        mortal.spawn([&callers, count] { callers[count - 2].run(); });
        while (stage.absent.load() > 0) this_fiber::yield();
        for (unsigned turns = patience; turns > 0; --turns) this_fiber::yield();
        mortal.cancel();
      });
    });
    n.spawn([&callers, count] { callers[count - 1].close_and_drain(); });
  });
  if (foreign.joinable()) foreign.join();
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_linearizable(stage, callers);
}

class ChannelHistories : public ::testing::TestWithParam<ChannelRules> {};

// Until the first that is wrong.
void play_many(ChannelRules rules, unsigned workers, std::uint64_t seeds, bool with_thread) {
  FiberIo{{.workers = workers}}.run([&] {
    for (std::uint64_t seed = 0; seed < seeds && !::testing::Test::HasFailure(); ++seed)
      play(rules, seed, with_thread);
  });
}

TEST_P(ChannelHistories, OfWorkersAreLinearizable) {
  const auto seeds = scaled<std::uint64_t>(300);
  play_many(GetParam(), 2, seeds, false);
  play_many(GetParam(), 4, seeds, false);
}

TEST_P(ChannelHistories, OfWorkersAndAThreadAreLinearizable) {
  play_many(GetParam(), 3, scaled<std::uint64_t>(150), true);
}

TEST_P(ChannelHistories, OfSimulationsAreLinearizable) {
  const auto seeds = scaled<std::uint64_t>(1'500);
  for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed)
    SimIo{{.seed = seed}}.run([&] { play(GetParam(), seed, false); });
}

std::string name_of(const ::testing::TestParamInfo<ChannelRules>& test) {
  static constexpr const char* kOverflows[] = {"block", "drop_new", "drop_old"};
  const ChannelRules& rules = test.param;
  return (rules.capacity == SIZE_MAX ? "unbounded" : std::to_string(rules.capacity)) + "_" +
         kOverflows[static_cast<std::size_t>(rules.overflow)];
}

INSTANTIATE_TEST_SUITE_P(
    All, ChannelHistories,
    ::testing::Values(ChannelRules{0, Overflow::block}, ChannelRules{1, Overflow::block},
                      ChannelRules{3, Overflow::block}, ChannelRules{SIZE_MAX, Overflow::block},
                      ChannelRules{0, Overflow::drop_new}, ChannelRules{2, Overflow::drop_new},
                      ChannelRules{1, Overflow::drop_old}, ChannelRules{3, Overflow::drop_old}),
    name_of);

}  // namespace
}  // namespace weft::testing
