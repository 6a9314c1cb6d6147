#include "flow_models.hpp"

#include "model_engine.hpp"
#include "model_thread.hpp"

#include <weft/channel.hpp>
#include <weft/core/cancel_scope.hpp>
#include <weft/event.hpp>
#include <weft/select.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace weft::model {
namespace flow {
namespace {

// A value that is watched: who moves or reads it while somebody else does is found out.
class Parcel {
 public:
  explicit Parcel(int content) noexcept : content_(content) {}
  Parcel(Parcel&& other) noexcept : content_(other.content_.read()) { other.content_.write(0); }
  Parcel& operator=(Parcel&& other) noexcept {
    content_.write(other.content_.read());
    other.content_.write(0);
    return *this;
  }
  // 0: it was moved away.
  [[nodiscard]] int content() const noexcept { return content_.read(); }

 private:
  Var<int> content_;
};

// What one model consists of; most need a part of it only.
struct Flow {
  explicit Flow(std::size_t capacity = 0) {
    open(Channel<Parcel>{ChannelOptions<Parcel>{
        .capacity = capacity,
        .on_undelivered = [this](Parcel&& parcel) { dispose(std::move(parcel)); }}});
  }

  void open(Channel<Parcel> channel) {
    tx = std::move(channel.tx);
    rx = std::move(channel.rx);
  }
  void open_back(std::size_t capacity) {
    Channel<Parcel> channel{capacity};
    tx_back = std::move(channel.tx);
    rx_back = std::move(channel.rx);
  }
  void drop_all() {
    tx.drop();
    rx.drop();
    tx_back.drop();
    rx_back.drop();
  }

  // By whoever sends. The caller keeps what is not sent.
  void give(int content) {
    Parcel parcel{content};
    const bool done = tx.send(std::move(parcel));
    check(parcel.content() == (done ? 0 : content), "neither sent nor kept, or both");
    if (done) sent.fetch_add(1, std::memory_order_relaxed);
  }
  void give_now(int content) {
    Parcel parcel{content};
    const bool done = tx.try_send(std::move(parcel)) == SendStatus::ok;
    check(parcel.content() == (done ? 0 : content), "neither sent nor kept, or both");
    if (done) sent.fetch_add(1, std::memory_order_relaxed);
  }
  // By whoever receives. False: the end.
  bool take(int content) { return keep(rx.recv(), content); }
  bool keep(const std::optional<Parcel>& parcel, int content) {
    if (!parcel) return false;
    check(parcel->content() == content, "not the value that was sent");
    got.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void dispose(Parcel parcel) {
    check(parcel.content() != 0, "disposed of twice, or after it was received");
    disposed.fetch_add(1, std::memory_order_relaxed);
  }

  // When all is over: every value that was admitted went to one place.
  void account(int expected_sent = -1) {
    drop_all();
    const int all = sent.load(std::memory_order_relaxed);
    check(all == got.load(std::memory_order_relaxed) + disposed.load(std::memory_order_relaxed),
          "a value was lost or doubled");
    check(expected_sent < 0 || all == expected_sent, "another number of values was admitted");
    check(engine.all_frames_free(), "a frame is lost");
  }

  ModelEngine engine;
  CancelScope scope{nullptr};  // one that threads may cancel
  Event go;
  Sender<Parcel> tx, tx_back;
  Receiver<Parcel> rx, rx_back;
  Atomic<int> sent{0}, got{0}, disposed{0};
  Atomic<int> winners{0};  // of selects, one bit each
};

template <void (*kBody)(Flow&)>
void add_fiber(Flow& s) {
  s.engine.fiber([](void* at) { kBody(*static_cast<Flow*>(at)); }, &s);
}
void add_workers(Program& p, Flow& s, int workers) {
  for (; workers > 0; --workers) p.thread("worker", [&s] { s.engine.work(); });
}

// Two fibers, each on a worker of its own if it likes.
template <void (*kOne)(Flow&), void (*kOther)(Flow&), std::size_t kCapacity = 0, int kSent = -1>
void two_fibers(Program& p) {
  auto& s = p.make<Flow>(kCapacity);
  add_fiber<kOne>(s);
  add_fiber<kOther>(s);
  add_workers(p, s, 2);
  p.at_end([&s] { s.account(kSent); });
}

// A fiber against threads, each of which does one thing.
template <void (*kBody)(Flow&), std::size_t kCapacity = 0>
Flow& one_fiber(Program& p) {
  auto& s = p.make<Flow>(kCapacity);
  add_fiber<kBody>(s);
  add_workers(p, s, 1);
  p.at_end([&s] { s.account(); });
  return s;
}

// ── a value changes hands ───────────────────────────────────────────────────────────────────────

// Whoever comes first parks. Who leaves last destroys the channel.
void sends_and_leaves(Flow& s) {
  s.give(1);
  s.tx.drop();
}
void receives_and_leaves(Flow& s) {
  check(s.take(1), "the sender is there");
  s.rx.drop();
}

// The second send finds the buffer full, or else does not wait. Only when it has returned may the
// receiver go on: what it took must have made room.
void sends_two(Flow& s) {
  s.give(1);
  s.give(2);
  s.go.set();
}
void receives_one_then_another(Flow& s) {
  check(s.take(1), "the first");
  s.go.wait();
  check(s.take(2), "the second");
}

// Two who receive: both learn of the end, and between them they get all there is.
void receives_some(Flow& s) {
  while (const std::optional<Parcel> parcel = s.rx.recv()) {
    check(parcel->content() == 1 || parcel->content() == 2, "one of the two");
    s.got.fetch_add(1, std::memory_order_relaxed);
  }
}
void two_receivers(Program& p) {
  auto& s = p.make<Flow>(1U);
  add_fiber<receives_some>(s);
  add_fiber<receives_some>(s);
  add_workers(p, s, 1);
  p.thread("sender", [&s] {
    s.give_now(1);
    s.give_now(2);  // unless the buffer is full
    s.tx.drop();
  });
  p.at_end([&s] { s.account(); });
}

void receives_if_sent(Flow& s) {
  while (s.take(1)) {}
}
void thread_tries_to_send(Program& p) {
  auto& s = one_fiber<receives_if_sent>(p);
  p.thread("sender", [&s] {
    s.give_now(1);
    s.tx.drop();
  });
}

// One value, and nothing that wakes the receiver but the send.
void receives_once(Flow& s) { check(s.take(1), "nobody closes"); }
void thread_sends_to_buffer(Program& p) {
  auto& s = one_fiber<receives_once, 1>(p);
  p.thread("sender", [&s] { s.give_now(1); });
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

void gives_one(Flow& s) { s.give(1); }
// Admitted before the close: delivered. After it: refused.
void closes_and_drains(Flow& s) {
  check(s.rx.close(), "nobody else does");
  while (s.take(1)) {}
}

// One worker: the sender has parked when the other closes.
void must_give_one(Flow& s) {
  s.give(1);
  check(s.sent.load(std::memory_order_relaxed) == 1, "it was admitted when it parked");
}
void close_keeps_the_parked(Program& p) {
  auto& s = p.make<Flow>();
  add_fiber<must_give_one>(s);
  add_fiber<closes_and_drains>(s);
  add_workers(p, s, 1);
  p.at_end([&s] { s.account(1); });
}

void receives_the_end(Flow& s) { check(!s.take(1), "nobody sends"); }
void close_against_receiver(Program& p) {
  auto& s = one_fiber<receives_the_end>(p);
  p.thread("closer", [&s] { check(s.tx.close(), "nobody else does"); });
}
// Who has waited before is known to its scope, and parks by the shorter way.
void enrol_first() { checkpoint(Fiber::current()); }

void selects_the_end(Flow& s) {
  enrol_first();
  auto value = s.rx.on_recv();
  check(select_first(value) == 0 && !value.value(), "nobody sends");
}
void close_against_select(Program& p) {
  auto& s = one_fiber<selects_the_end>(p);
  p.thread("closer", [&s] { check(s.tx.close(), "nobody else does"); });
}

void last_receiver_against_send(Program& p) {
  auto& s = one_fiber<sends_and_leaves>(p);
  p.thread("receiver", [&s] { s.rx.drop(); });
}
void last_receiver_against_buffer(Program& p) {
  auto& s = one_fiber<sends_and_leaves, 1>(p);
  p.thread("receiver", [&s] { s.rx.drop(); });
}
void selects_a_send(Flow& s) {
  enrol_first();
  auto send = s.tx.on_send(Parcel{1});
  check(select_first(send) == 0 && !send.sent(), "nobody receives");
  check(send.value().content() == 1, "the value is still here");
}
void last_receiver_against_select(Program& p) {
  auto& s = one_fiber<selects_a_send>(p);
  p.thread("receiver", [&s] { s.rx.drop(); });
}

void drains_and_leaves(Flow& s) {
  while (s.take(1)) {}
  s.rx.drop();
}
template <std::size_t kCapacity>
void last_sender_against_recv(Program& p) {
  auto& s = one_fiber<drains_and_leaves, kCapacity>(p);
  p.thread("sender", [&s] {
    s.give_now(1);
    s.tx.drop();
  });
}

// Nobody waits: the two last ends go, and what is in the buffer with them.
void both_ends_go(Program& p) {
  auto& s = p.make<Flow>(1U);
  p.thread("sender", [&s] {
    s.give_now(1);
    s.tx.drop();
  });
  p.thread("receiver", [&s] { s.rx.drop(); });
  p.at_end([&s] { s.account(); });
}

void waits_for_receivers_end(Flow& s) {
  auto gone = s.tx.on_peer_gone();
  select_first(gone);
  s.give_now(1);
  check(s.sent.load(std::memory_order_relaxed) == 0, "admitted although nobody is left");
  s.tx.drop();
}
void receivers_end_is_seen(Program& p) {
  auto& s = one_fiber<waits_for_receivers_end, 1>(p);
  p.thread("receiver", [&s] { s.rx.drop(); });
}
void waits_for_senders_end(Flow& s) {
  auto gone = s.rx.on_peer_gone();
  select_first(gone);
  check(s.rx.closed(), "a sender is left");
  s.rx.drop();
}
void senders_end_is_seen(Program& p) {
  auto& s = one_fiber<waits_for_senders_end>(p);
  p.thread("sender", [&s] { s.tx.drop(); });
}

// Received or disposed of, by whoever came first.
void abort_against_recv(Program& p) {
  auto& s = one_fiber<receives_if_sent, 1>(p);
  p.thread("sender", [&s] {
    s.give_now(1);
    check(s.tx.abort(), "nobody else does");
  });
}
void abort_against_send(Program& p) {
  auto& s = one_fiber<sends_and_leaves>(p);
  p.thread("receiver", [&s] { check(s.rx.abort(), "nobody else does"); });
}
void abort_against_hang_up(Program& p) {
  auto& s = p.make<Flow>(1U);
  s.give_now(1);
  p.thread("sender", [&s] {
    static_cast<void>(s.tx.abort());
    s.tx.drop();
  });
  p.thread("receiver", [&s] { s.rx.drop(); });
  p.at_end([&s] { s.account(1); });
}

void oneshot_two_receivers(Program& p) {
  auto& s = p.make<Flow>();
  s.open(oneshot<Parcel>());
  add_fiber<receives_if_sent>(s);
  add_fiber<receives_if_sent>(s);
  add_workers(p, s, 1);
  p.thread("sender", [&s] {
    s.give_now(1);
    s.give_now(2);
  });
  p.at_end([&s] {
    s.account(1);
    check(s.got.load(std::memory_order_relaxed) == 1, "one receiver gets it");
  });
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

// Either nothing moved, or it is done: account() compares.
void receives_in_a_scope(Flow& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    check(s.take(1), "nobody closes");
  } catch (const Cancelled&) {
  }
}
void cancel_against_recv(Program& p) {
  auto& s = one_fiber<receives_in_a_scope>(p);
  p.thread("sender", [&s] { s.give_now(1); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}
void selects_in_a_scope(Flow& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    enrol_first();
    auto value = s.rx.on_recv();
    select_first(value);
    check(s.keep(value.value(), 1), "nobody closes");
  } catch (const Cancelled&) {
  }
}
void cancel_against_select(Program& p) {
  auto& s = one_fiber<selects_in_a_scope>(p);
  p.thread("sender", [&s] { s.give_now(1); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

void sends_in_a_scope(Flow& s) {
  Fiber& self = Fiber::current();
  Parcel parcel{1};
  bool done = false;
  try {
    const Entered entered{self, s.scope};
    done = s.tx.send(std::move(parcel));
    check(done, "nobody closes");
    s.sent.fetch_add(1, std::memory_order_relaxed);
  } catch (const Cancelled&) {
  }
  check(parcel.content() == (done ? 0 : 1), "neither sent nor kept, or both");
}
void receives_now(Flow& s) {
  if (Received<Parcel> parcel = s.rx.try_recv()) {
    check(parcel->content() == 1, "not the value that was sent");
    s.got.fetch_add(1, std::memory_order_relaxed);
  }
}
void cancel_against_send(Program& p) {
  auto& s = one_fiber<sends_in_a_scope>(p);
  p.thread("receiver", [&s] { receives_now(s); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}

// The buffer is full: the sender's value goes there, and to whoever takes it next.
void cancel_against_refill(Program& p) {
  auto& s = p.make<Flow>(1U);
  s.give_now(1);
  add_fiber<sends_in_a_scope>(s);
  add_workers(p, s, 1);
  p.thread("receiver", [&s] { receives_now(s); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { s.account(); });
}

// A cancel that does not concern the fiber ends its wait for a moment: it waits again.
void stranger_nudges_a_send(Program& p) {
  auto& s = p.make<Flow>();
  add_fiber<must_give_one>(s);
  add_fiber<receives_and_leaves>(s);
  add_workers(p, s, 1);
  p.thread("stranger", [&s] {
    Fiber& fiber = s.engine.frame(0);
    if (fiber.word.cancel(fiber.attention) == Claim::owned) s.engine.resume(FiberList{fiber});
  });
  p.at_end([&s] { s.account(1); });
}

// ── select ──────────────────────────────────────────────────────────────────────────────────────

// Two that could each give to the other: one of them does, the other takes it.
template <int kWho>
void gives_or_takes(Flow& s) {
  enrol_first();
  auto send = (kWho == 0 ? s.tx : s.tx_back).on_send(Parcel{kWho + 1});
  auto recv = (kWho == 0 ? s.rx_back : s.rx).on_recv();
  if (select_first(send, recv) == 0) {
    check(send.sent() && !recv.value(), "the loser has done nothing");
    s.winners.fetch_add(1 << kWho, std::memory_order_relaxed);
  } else {
    check(send.value().content() == kWho + 1, "the loser has lost its value");
    check(recv.value() && recv.value()->content() == 2 - kWho, "not the value that was sent");
    s.winners.fetch_add(16, std::memory_order_relaxed);
  }
}
void two_selects_meet(Program& p) {
  auto& s = p.make<Flow>();
  s.open_back(0);
  add_fiber<gives_or_takes<0>>(s);
  add_fiber<gives_or_takes<1>>(s);
  add_workers(p, s, 2);
  p.at_end([&s] {
    s.account();
    const int winners = s.winners.load(std::memory_order_relaxed);
    check(winners == 17 || winners == 18, "not one transfer");
  });
}

// Both arms on one channel: they are nobody's partners but a stranger's.
void gives_or_takes_here(Flow& s) {
  enrol_first();
  auto recv = s.rx.on_recv();
  auto send = s.tx.on_send(Parcel{1});
  if (select_first(recv, send) == 1) {
    check(send.sent(), "nobody closes");
    s.sent.fetch_add(1, std::memory_order_relaxed);
    check(!recv.value(), "it has met itself");
  } else {
    check(send.value().content() == 1, "the loser has lost its value");
    check(s.keep(recv.value(), 2), "nobody closes");
  }
}
void select_and_stranger(Program& p) {
  auto& s = p.make<Flow>();
  add_fiber<gives_or_takes_here>(s);
  add_workers(p, s, 1);
  p.thread("stranger", [&s] {
    as_thread(
        [](void* at) {
          auto& to = *static_cast<Flow*>(at);
          if (choose(2) == 0) to.give(2);
          else check(to.take(1), "nobody closes");
        },
        &s);
  });
  p.at_end([&s] { s.account(1); });
}

// The value that is not chosen stays where it is.
void receives_both(Flow& s) {
  enrol_first();
  auto one = s.rx.on_recv();
  auto other = s.rx_back.on_recv();
  if (select_first(one, other) == 0) {
    check(s.keep(one.value(), 1) && !other.value(), "one value at a time");
    check(s.keep(s.rx_back.recv(), 2), "the loser has lost a value");
  } else {
    check(s.keep(other.value(), 2) && !one.value(), "one value at a time");
    check(s.take(1), "the loser has lost a value");
  }
}
void loser_loses_nothing(Program& p) {
  auto& s = p.make<Flow>(1U);
  s.open_back(1);
  add_fiber<receives_both>(s);
  add_workers(p, s, 1);
  p.thread("one", [&s] { s.give_now(1); });
  p.thread("other", [&s] {
    check(s.tx_back.try_send(Parcel{2}) == SendStatus::ok, "there is room");
    s.sent.fetch_add(1, std::memory_order_relaxed);
  });
  p.at_end([&s] { s.account(2); });
}

// ── threads ─────────────────────────────────────────────────────────────────────────────────────

void thread_receives(Program& p) {
  auto& s = p.make<Flow>();
  add_fiber<sends_and_leaves>(s);
  add_workers(p, s, 1);
  p.thread("receiver", [&s] {
    as_thread([](void* at) { receives_and_leaves(*static_cast<Flow*>(at)); }, &s);
  });
  p.at_end([&s] { s.account(1); });
}
void thread_to_thread(Program& p) {
  auto& s = p.make<Flow>();
  p.thread("sender", [&s] {
    as_thread([](void* at) { sends_and_leaves(*static_cast<Flow*>(at)); }, &s);
  });
  p.thread("receiver", [&s] {
    as_thread([](void* at) { receives_and_leaves(*static_cast<Flow*>(at)); }, &s);
  });
  p.at_end([&s] { s.account(1); });
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────

constexpr CoreModel within(unsigned bound, const char* name, void (*setup)(Program&)) {
  return {name, setup, true, Mode::bound, bound};
}

constexpr std::array kModels{
    within(3, "rendezvous", two_fibers<sends_and_leaves, receives_and_leaves, 0, 1>),
    within(3, "rendezvous, receiver first",
           two_fibers<receives_and_leaves, sends_and_leaves, 0, 1>),
    within(2, "buffered hand-over", two_fibers<sends_two, receives_one_then_another, 1, 2>),
    CoreModel{"thread tries to send", thread_tries_to_send},
    CoreModel{"thread sends to the buffer", thread_sends_to_buffer},
    within(3, "two receivers", two_receivers),
    within(3, "close against a parking sender", two_fibers<gives_one, closes_and_drains>),
    CoreModel{"close keeps the parked", close_keeps_the_parked},
    CoreModel{"close against a parking receiver", close_against_receiver},
    CoreModel{"close against a select", close_against_select},
    CoreModel{"last receiver against a send", last_receiver_against_send},
    CoreModel{"last receiver against the buffer", last_receiver_against_buffer},
    CoreModel{"last receiver against a select", last_receiver_against_select},
    CoreModel{"last sender against a recv", last_sender_against_recv<0>},
    CoreModel{"last sender against the buffer", last_sender_against_recv<1>},
    CoreModel{"both ends go", both_ends_go},
    CoreModel{"receivers' end is seen", receivers_end_is_seen},
    CoreModel{"senders' end is seen", senders_end_is_seen},
    CoreModel{"abort against a recv", abort_against_recv},
    CoreModel{"abort against a send", abort_against_send},
    CoreModel{"abort against hang-up", abort_against_hang_up},
    within(3, "oneshot, two receivers", oneshot_two_receivers),
    within(2, "cancel against a recv", cancel_against_recv),
    within(2, "cancel against a send", cancel_against_send),
    within(2, "cancel against a refill", cancel_against_refill),
    within(2, "cancel against a select", cancel_against_select),
    within(3, "stranger nudges a send", stranger_nudges_a_send),
    within(2, "two selects meet", two_selects_meet),
    within(2, "select and a stranger", select_and_stranger),
    within(2, "loser loses nothing", loser_loses_nothing),
    within(3, "thread receives", thread_receives),
    within(3, "thread to thread", thread_to_thread),
};

}  // namespace
}  // namespace flow

std::span<const CoreModel> flow_models() { return flow::kModels; }

}  // namespace weft::model
