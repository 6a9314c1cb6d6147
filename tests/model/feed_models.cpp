#include "feed_models.hpp"

#include "model_engine.hpp"
#include "model_thread.hpp"

#include <weft/broadcast.hpp>
#include <weft/core/cancel_scope.hpp>
#include <weft/event.hpp>
#include <weft/select.hpp>
#include <weft/watch.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace weft::model {
namespace feed {
namespace {

// A value that is watched: who copies it while somebody else destroys it is found out.
class Print {
 public:
  explicit Print(int content) noexcept : content_(content) {}
  Print(const Print& other) noexcept : content_(other.content()) {}
  Print& operator=(const Print& other) noexcept {
    content_.write(other.content());
    return *this;
  }
  [[nodiscard]] int content() const noexcept { return content_.read(); }
  void add(int more) noexcept { content_.write(content() + more); }

 private:
  Var<int> content_;
};

// What one model consists of; most need a part of it only.
struct Feed {
  explicit Feed(std::size_t capacity = 1) : paper(capacity), reader(paper.subscribe()) {}

  // The next value has this content.
  void must_get(int content) {
    const std::optional<Print> got = reader.recv();
    check(got && got->content() == content, "not the value that was sent");
  }
  // When all is over.
  void account() {
    paper.drop();
    reader.drop();
    late.drop();
    board.drop();
    viewer.drop();
    check(engine.all_frames_free(), "a frame is lost");
  }

  ModelEngine engine;
  CancelScope scope{nullptr};  // one that threads may cancel
  Event bell;
  Broadcast<Print> paper;
  Broadcast<Print>::Subscriber reader, late;
  Watch<Print> board{Print{0}};
  Watch<Print>::Subscriber viewer{board.subscribe()};
};

// A fiber against threads, each of which does one thing.
template <void (*kBody)(Feed&), std::size_t kCapacity = 1>
Feed& one_fiber(Program& p) {
  auto& s = p.make<Feed>(kCapacity);
  s.engine.fiber([](void* at) { kBody(*static_cast<Feed*>(at)); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.at_end([&s] { s.account(); });
  return s;
}
template <void (*kBody)(Feed&)>
void add_thread(Program& p, Feed& s, const char* name) {
  p.thread(name, [&s] {
    as_thread([](void* at) { kBody(*static_cast<Feed*>(at)); }, &s);
  });
}

// ── broadcast ───────────────────────────────────────────────────────────────────────────────────

void gets_one(Feed& s) { s.must_get(1); }
void send_against_parking(Program& p) {
  auto& s = one_fiber<gets_one>(p);
  p.thread("sender", [&s] { check(s.paper.send(Print{1}), "nobody closes"); });
}
void selects_one(Feed& s) {
  auto value = s.reader.on_recv();
  auto never = s.late.on_recv();
  check(select_first(never, value) == 1, "a disabled arm has won");
  check(value.value() && value.value()->content() == 1, "not the value that was sent");
}
void send_against_select(Program& p) {
  auto& s = one_fiber<selects_one>(p);
  p.thread("sender", [&s] { check(s.paper.send(Print{1}), "nobody closes"); });
}

void gets_the_end(Feed& s) { check(!s.reader.recv(), "nobody sends"); }
void close_against_parking(Program& p) {
  auto& s = one_fiber<gets_the_end>(p);
  p.thread("closer", [&s] { check(s.paper.close(), "nobody else does"); });
}
void last_sender_against_parking(Program& p) {
  auto& s = one_fiber<gets_the_end>(p);
  p.thread("sender", [&s] { s.paper.drop(); });
}
void selects_the_end(Feed& s) {
  auto value = s.reader.on_recv();
  check(select_first(value) == 0 && !value.value(), "nobody sends");
}
void close_against_select(Program& p) {
  auto& s = one_fiber<selects_the_end>(p);
  p.thread("closer", [&s] { check(s.paper.close(), "nobody else does"); });
}

// Who comes late sees the last of them, or more, or nothing; in order, and without a gap.
void subscribes_and_drains(Feed& s) {
  s.late = s.paper.subscribe();
  int last = 0;
  while (const std::optional<Print> got = s.late.recv()) {
    check(last == 0 || got->content() == last + 1, "a gap, or out of order");
    last = got->content();
  }
  check(last == 0 || last == 2, "not all that was sent since");
  check(s.late.lagged() == 0, "there was room");
}
void subscribe_against_send(Program& p) {
  auto& s = one_fiber<subscribes_and_drains, 2>(p);
  s.reader.drop();
  p.thread("sender", [&s] {
    check(s.paper.send(Print{1}) && s.paper.send(Print{2}), "nobody else closes");
    check(s.paper.close(), "nobody else does");
  });
}

// One slot: each send overwrites what was not received yet.
void drains_with_gaps(Feed& s) {
  int last = 0;
  int count = 0;
  while (const std::optional<Print> got = s.reader.recv()) {
    check(got->content() > last, "out of order");
    last = got->content();
    ++count;
  }
  check(last == 2, "the last one is always kept");
  check(static_cast<int>(s.reader.lagged()) + count == 2, "neither received nor reported");
}
void lag_against_recv(Program& p) {
  auto& s = one_fiber<drains_with_gaps>(p);
  p.thread("sender", [&s] {
    check(s.paper.send(Print{1}) && s.paper.send(Print{2}), "nobody else closes");
    check(s.paper.close(), "nobody else does");
  });
}

void last_subscriber_against_send(Program& p) {
  auto& s = p.make<Feed>(1U);
  p.thread("sender", [&s] {
    check(s.paper.send(Print{1}) && s.paper.send(Print{2}), "nobody closes");
  });
  p.thread("subscriber", [&s] { s.reader.drop(); });
  p.at_end([&s] { s.account(); });
}
void last_subscriber_against_the_next(Program& p) {
  auto& s = p.make<Feed>(1U);
  check(s.paper.send(Print{7}), "nobody closes");
  p.thread("next", [&s] {
    s.late = s.paper.subscribe();
    check(s.paper.send(Print{1}), "nobody closes");
    const Received<Print> got = s.late.try_recv();
    check(got && got->content() == 1, "not what was sent since");
  });
  p.thread("last", [&s] { s.reader.drop(); });
  p.at_end([&s] { s.account(); });
}
void both_ends_go(Program& p) {
  auto& s = p.make<Feed>(1U);
  p.thread("sender", [&s] {
    check(s.paper.send(Print{1}), "nobody closes");
    s.paper.drop();
  });
  p.thread("subscriber", [&s] { s.reader.drop(); });
  p.at_end([&s] { s.account(); });
}

// Cancelled or not: the value is still there, once.
void gets_one_in_a_scope(Feed& s) {
  try {
    const Entered entered{Fiber::current(), s.scope};
    s.must_get(1);
    return;
  } catch (const Cancelled&) {
  }
  s.must_get(1);
}
void cancel_against_recv(Program& p) {
  auto& s = one_fiber<gets_one_in_a_scope>(p);
  p.thread("sender", [&s] { check(s.paper.send(Print{1}), "nobody closes"); });
  p.thread("canceller", [&s] { s.scope.cancel(); });
}
void selects_either(Feed& s) {
  auto value = s.reader.on_recv();
  auto bell = s.bell.on_set();
  if (select_first(bell, value) == 1)
    check(value.value() && value.value()->content() == 1, "not the value that was sent");
  else s.must_get(1);
  check(s.reader.try_recv().status() == RecvStatus::empty, "it was received twice");
}
void arm_loses(Program& p) {
  auto& s = one_fiber<selects_either>(p);
  p.thread("sender", [&s] { check(s.paper.send(Print{1}), "nobody closes"); });
  p.thread("ringer", [&s] { s.bell.set(); });
}

void thread_receives(Program& p) {
  auto& s = p.make<Feed>(1U);
  add_thread<drains_with_gaps>(p, s, "subscriber");
  p.thread("sender", [&s] {
    check(s.paper.send(Print{1}) && s.paper.send(Print{2}), "nobody else closes");
    s.paper.drop();
  });
  p.at_end([&s] { s.account(); });
}

// ── watch ───────────────────────────────────────────────────────────────────────────────────────

void sets_one(Feed& s) { check(s.board.set(Print{1}), "nobody closes"); }
void waits_for_change(Feed& s) {
  check(s.viewer.changed() && s.viewer.get().content() == 1, "not the value that was set");
  check(!s.viewer.try_changed(), "it was seen");
}
void set_against_changed(Program& p) {
  add_thread<sets_one>(p, one_fiber<waits_for_change>(p), "setter");
}
void selects_change(Feed& s) {
  auto change = s.viewer.on_changed();
  check(select_first(change) == 0 && change.changed(), "nobody closes");
  check(s.viewer.get().content() == 1, "not the value that was set");
}
void set_against_select(Program& p) {
  add_thread<sets_one>(p, one_fiber<selects_change>(p), "setter");
}

void sees_the_latest(Feed& s) {
  int last = 0;
  while (s.viewer.changed()) {
    const int now = s.viewer.get().content();
    check(now > last, "seen twice, or out of order");
    last = now;
  }
  check(last == 2, "the latest is never missed");
}
void sets_two_and_leaves(Feed& s) {
  check(s.board.set(Print{1}) && s.board.set(Print{2}), "nobody else closes");
  s.board.drop();
}
void the_latest_is_seen(Program& p) {
  add_thread<sets_two_and_leaves>(p, one_fiber<sees_the_latest>(p), "setter");
}

void adds_one(Feed& s) {
  check(s.board.update([](Print& print) { print.add(1); }), "nobody closes");
}
void two_updates(Program& p) {
  auto& s = p.make<Feed>();
  add_thread<adds_one>(p, s, "one");
  add_thread<adds_one>(p, s, "other");
  p.at_end([&s] {
    check(s.board.get().content() == 2, "an update is lost");
    s.account();
  });
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────

constexpr CoreModel within(unsigned bound, const char* name, void (*setup)(Program&)) {
  return {name, setup, true, Mode::bound, bound};
}

constexpr std::array kModels{
    CoreModel{"send against a parking subscriber", send_against_parking},
    CoreModel{"send against a subscriber's select", send_against_select},
    CoreModel{"close against a parking subscriber", close_against_parking},
    CoreModel{"last sender against a parking subscriber", last_sender_against_parking},
    CoreModel{"close against a subscriber's select", close_against_select},
    within(3, "subscribe against a send", subscribe_against_send),
    within(3, "lag against a recv", lag_against_recv),
    CoreModel{"last subscriber against a send", last_subscriber_against_send},
    CoreModel{"last subscriber against the next", last_subscriber_against_the_next},
    CoreModel{"both ends of a broadcast go", both_ends_go},
    within(2, "cancel against a subscriber's recv", cancel_against_recv),
    within(2, "subscriber's arm loses", arm_loses),
    within(3, "thread subscribes", thread_receives),
    CoreModel{"set against changed", set_against_changed},
    CoreModel{"set against a select", set_against_select},
    within(3, "the latest is seen", the_latest_is_seen),
    within(3, "two updates", two_updates),
};

}  // namespace
}  // namespace feed

std::span<const CoreModel> feed_models() { return feed::kModels; }

}  // namespace weft::model
