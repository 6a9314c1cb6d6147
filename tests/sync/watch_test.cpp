// Watch: the latest value, and the wait for it to change.
#include <weft/watch.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;
using testing::text_of;

using Subscriber = Watch<int>::Subscriber;

TEST(Watch, HasTheLatest) {
  Watch<std::string> w{"one"};
  const auto viewer = w.subscribe();
  EXPECT_EQ(w.get(), "one");
  EXPECT_EQ(viewer.get(), "one");
  EXPECT_EQ(w.receivers(), 1U);
  EXPECT_TRUE(w.set("two"));
  const std::string three = "three";
  EXPECT_TRUE(w.set(three));
  EXPECT_EQ(three, "three");
  EXPECT_EQ(viewer.get(), "three");
  EXPECT_TRUE(w.update([](std::string& text) { text += "!"; }));
  EXPECT_EQ(w.get(), "three!");
  EXPECT_EQ(viewer.get(), "three!");
}

TEST(Watch, ChangedUntilItIsSeen) {
  on_both_engines([] {
    Watch<int> w{0, "config"};
    const Subscriber viewer = w.subscribe();  // has seen the 0
    EXPECT_EQ(viewer.try_changed().status(), ChangeStatus::unchanged);
    EXPECT_EQ(viewer.changed_for(0s).status(), ChangeStatus::timed_out);
    EXPECT_EQ(viewer.changed_for(1ms).status(), ChangeStatus::timed_out);
    EXPECT_TRUE(w.set(1));
    EXPECT_TRUE(viewer.changed());
    EXPECT_TRUE(viewer.changed());  // not seen yet
    EXPECT_TRUE(viewer.changed(no_throw));
    EXPECT_TRUE(viewer.changed_for(0s));
    EXPECT_TRUE(viewer.try_changed());
    auto arm = viewer.on_changed();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_TRUE(arm.changed());
    EXPECT_EQ(viewer.get(), 1);
    EXPECT_TRUE(arm.changed());  // it was
    EXPECT_FALSE(viewer.try_changed());
    EXPECT_EQ(select(arm, otherwise()), 1U);
    EXPECT_TRUE(w.set(1));  // equal, and new all the same
    EXPECT_TRUE(viewer.try_changed());
    viewer.mark_seen();
    EXPECT_FALSE(viewer.try_changed());
    EXPECT_EQ(w.get(), 1);  // nobody's eyes but its own
  });
}

TEST(Watch, EveryFormWaits) {
  everywhere([] {
    Watch<int> w{0};
    std::atomic<int> seen{0};
    nursery([&](Nursery& n) {
      const auto sees = [&seen](const Subscriber& viewer) {
        EXPECT_EQ(viewer.get(), 1);
        ++seen;
      };
      n.spawn([sees, viewer = w.subscribe()] {
        EXPECT_TRUE(viewer.changed());
        sees(viewer);
      });
      n.spawn([sees, viewer = w.subscribe()] {
        EXPECT_TRUE(viewer.changed(no_throw));
        sees(viewer);
      });
      n.spawn([sees, viewer = w.subscribe()] {
        EXPECT_TRUE(viewer.changed_for(1h));
        sees(viewer);
      });
      n.spawn([sees, viewer = w.subscribe()] {
        select(viewer.on_changed([&](bool changed) {
          EXPECT_TRUE(changed);
          sees(viewer);
        }));
      });
      let_others_block();
      EXPECT_TRUE(w.set(1));
    });
    EXPECT_EQ(seen, 4);
  });
}

TEST(Watch, CopiesHaveSeenTheSame) {
  Watch<int> w{0};
  Subscriber one = w.subscribe();
  EXPECT_TRUE(w.set(1));
  Subscriber other = one;
  EXPECT_EQ(one.get(), 1);
  EXPECT_FALSE(one.try_changed());
  EXPECT_TRUE(other.try_changed());
  one = other;
  EXPECT_TRUE(one.try_changed());
  EXPECT_EQ(w.receivers(), 2U);
  const Subscriber moved = std::move(other);
  EXPECT_FALSE(other);  // NOLINT: a moved end is no end
  EXPECT_TRUE(moved.try_changed());
  one.drop();
  EXPECT_EQ(w.receivers(), 1U);
}

// ── the end ─────────────────────────────────────────────────────────────────────────────────────

TEST(Watch, TheLatestComesBeforeTheEnd) {
  on_both_engines([] {
    Watch<int> w{0};
    const Subscriber viewer = w.subscribe();
    EXPECT_TRUE(w.set(1));
    EXPECT_TRUE(w.close());
    EXPECT_FALSE(w.close());
    EXPECT_TRUE(viewer.closed());
    EXPECT_FALSE(w.set(2));
    EXPECT_FALSE(w.update([](int&) { ADD_FAILURE() << "it is closed"; }));
    EXPECT_TRUE(viewer.changed());
    EXPECT_EQ(viewer.get(), 1);
    EXPECT_FALSE(viewer.changed());
    EXPECT_EQ(viewer.changed(no_throw).status(), ChangeStatus::closed);
    EXPECT_EQ(viewer.changed_for(1h).status(), ChangeStatus::closed);
    EXPECT_EQ(viewer.try_changed().status(), ChangeStatus::closed);
    auto arm = viewer.on_changed();
    EXPECT_EQ(select(arm), 0U);
    EXPECT_FALSE(arm.changed());
    EXPECT_EQ(viewer.get(), 1);  // the value stays
    EXPECT_FALSE(w.subscribe().changed());
  });
}

TEST(Watch, TheErrorComesLast) {
  on_both_engines([] {
    Watch<int> w{0};
    const Subscriber viewer = w.subscribe();
    EXPECT_TRUE(w.set(1));
    EXPECT_TRUE(w.close(std::make_exception_ptr(std::runtime_error{"fire"})));
    EXPECT_TRUE(viewer.changed());
    EXPECT_EQ(viewer.get(), 1);
    EXPECT_EQ(text_of<std::runtime_error>([&] { static_cast<void>(viewer.changed()); }), "fire");
    EXPECT_THROW(static_cast<void>(viewer.changed(no_throw)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(viewer.changed_for(1h)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(viewer.try_changed()), std::runtime_error);
    EXPECT_THROW(select(viewer.on_changed([](bool) {})), std::runtime_error);
    EXPECT_EQ(testing::what(w.error()), "fire");
    EXPECT_EQ(viewer.get(), 1);
  });
}

TEST(Watch, TheLastEndCloses) {
  everywhere([] {
    Watch<int> w{0};
    nursery([&](Nursery& n) {
      n.spawn([viewer = w.subscribe()] {
        int last = 0;
        while (viewer.changed()) last = viewer.get();
        EXPECT_EQ(last, 5);
        EXPECT_EQ(viewer.get(), 5);
      });
      Watch<int> other = w;
      EXPECT_TRUE(other == w);
      w.drop();
      EXPECT_FALSE(w);
      for (int i = 1; i <= 5; ++i) EXPECT_TRUE(other.set(i));
      other.drop();
    });
    EXPECT_THROW(w.set(1), std::logic_error);
    EXPECT_THROW(static_cast<void>(Subscriber{}.get()), std::logic_error);
  });
}

TEST(Watch, DeadlockIsReportedByName) {
  const std::string report = text_of<Deadlock>([] {
    SimIo{}.run([] {
      Watch<int> w{0, "config"};
      static_cast<void>(w.subscribe().changed());
    });
  });
  EXPECT_NE(report.find("watch change \"config\""), std::string::npos) << report;
}

TEST(Watch, StatusHasAName) {
  EXPECT_EQ(to_string(ChangeStatus::changed), "changed");
  EXPECT_EQ(to_string(ChangeStatus::unchanged), "unchanged");
  EXPECT_EQ(to_string(ChangeStatus::timed_out), "timed out");
  EXPECT_EQ(to_string(ChangeStatus::closed), "closed");
  EXPECT_EQ(to_string(ChangeStatus::cancelled), "cancelled");
}

// ── types ───────────────────────────────────────────────────────────────────────────────────────

// Counts its objects, and throws when it is told to.
struct Touchy {
  explicit Touchy(int n) : number(n) { ++alive; }
  Touchy(const Touchy& other) : number(other.number) {
    if (throws) throw std::runtime_error{"no copy"};
    ++alive;
  }
  Touchy& operator=(const Touchy&) = delete;
  ~Touchy() { --alive; }
  int number;
  static inline std::atomic<int> alive{0};
  static inline std::atomic<bool> throws{false};
};

TEST(Watch, ACopyThatThrowsChangesNothing) {
  {
    Watch<Touchy> w{Touchy{1}};
    const auto viewer = w.subscribe();
    const Touchy two{2};
    Touchy::throws = true;
    EXPECT_THROW(w.set(two), std::runtime_error);
    EXPECT_THROW(w.update([](Touchy&) {}), std::runtime_error);
    Touchy::throws = false;
    EXPECT_FALSE(viewer.try_changed());
    EXPECT_TRUE(w.set(two));
    Touchy::throws = true;
    EXPECT_THROW(static_cast<void>(viewer.get()), std::runtime_error);
    EXPECT_THROW(static_cast<void>(w.get()), std::runtime_error);
    Touchy::throws = false;
    EXPECT_TRUE(viewer.try_changed()) << "it was not seen";
    EXPECT_EQ(viewer.get().number, 2);
    EXPECT_EQ(Touchy::alive, 2);
  }
  EXPECT_EQ(Touchy::alive, 0);
}

TEST(Watch, WhatWasRefusedIsUntouched) {
  Watch<std::string> w{"last"};
  w.close();
  std::string text(100, 'x');
  EXPECT_FALSE(w.set(std::move(text)));
  EXPECT_EQ(text, std::string(100, 'x'));  // NOLINT: it was not moved
  EXPECT_EQ(w.get(), "last");
}

// ── update ──────────────────────────────────────────────────────────────────────────────────────

TEST(Watch, AnUpdateThatThrowsChangesNothing) {
  on_both_engines([] {
    Watch<int> w{1};
    const Subscriber viewer = w.subscribe();
    EXPECT_THROW(w.update([](int& v) {
      v = 2;
      throw std::runtime_error{"no"};
    }), std::runtime_error);
    EXPECT_EQ(w.get(), 1);
    EXPECT_FALSE(viewer.try_changed());
    EXPECT_THROW(w.update([&](int&) { w.set(3); }), std::system_error);
    EXPECT_TRUE(w.update([](int& v) { ++v; }));
    EXPECT_EQ(viewer.get(), 2);
  });
}

TEST(Watch, NoUpdateIsLost) {
  everywhere([] {
    Watch<int> w{0};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([w] {
          for (int k = 0; k < 5; ++k)
            EXPECT_TRUE(w.update([](int& v) {
              const int before = v;
              this_fiber::yield();  // in the middle of it: it may
              v = before + 1;
            }));
        });
    });
    EXPECT_EQ(w.get(), 20);
  });
}

TEST(Watch, ASetWaitsForAnUpdate) {
  everywhere([] {
    Watch<int> w{0};
    Event begun;
    Event go_on;
    std::atomic<bool> done{false};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        w.update([&](int& v) {
          begun.set();
          go_on.wait();
          v += 1;
        });
      });
      begun.wait();
      n.spawn([&] {
        EXPECT_TRUE(w.set(10));
        done = true;
      });
      let_others_block();
      EXPECT_EQ(w.get(), 0);  // looking does not wait
      EXPECT_FALSE(done);
      go_on.set();
    });
    EXPECT_EQ(w.get(), 10);
  });
}

// ── cancellation and select ─────────────────────────────────────────────────────────────────────

TEST(Watch, ACancelledWaitHasSeenNothing) {
  on_both_engines([] {
    Watch<int> w{0};
    const Subscriber viewer = w.subscribe();
    EXPECT_FALSE(timeout(1ms, [&] { static_cast<void>(viewer.changed()); }));
    EXPECT_FALSE(timeout(1ms, [&] { select(viewer.on_changed()); }));
    EXPECT_TRUE(w.set(1));
    cancel_scope([&](CancelScope& scope) {
      scope.cancel();
      EXPECT_EQ(viewer.changed(no_throw).status(), ChangeStatus::cancelled);
      EXPECT_THROW(static_cast<void>(viewer.changed()), Cancelled);
      EXPECT_THROW(static_cast<void>(viewer.changed_for(1h)), Cancelled);
      EXPECT_TRUE(viewer.try_changed());  // does not look
      EXPECT_TRUE(w.set(2));              // no cancel point
    });
    EXPECT_TRUE(viewer.changed());
    EXPECT_EQ(viewer.get(), 2);
  });
}

TEST(Watch, AnArmIsWaitedForAgainAndAgain) {
  everywhere([] {
    Watch<int> w{0};
    nursery([&](Nursery& n) {
      n.spawn([viewer = w.subscribe()] {
        int last = 0;
        bool over = false;
        auto arm = viewer.on_changed([&](bool changed) {
          if (changed) last = viewer.get();
          else over = true;
        });
        SelectSet set;
        set.add(arm);
        while (!over) set.wait();
        EXPECT_EQ(last, 10);
      });
      for (int i = 1; i <= 10; ++i) {
        EXPECT_TRUE(w.set(i));
        if (i % 3 == 0) this_fiber::yield();
      }
      w.drop();
    });
  });
}

// ── many at a time ──────────────────────────────────────────────────────────────────────────────

// Each viewer sees an ascending sequence that ends with the last value.
TEST(Watch, RandomProgramsEndWithTheLast) {
  std::uint64_t seen = 0;
  std::uint64_t sets = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 chance{seed};
    const auto below = [&](std::uint64_t n) { return chance() % n; };
    SimIo{{.seed = seed}}.run([&] {
      Watch<int> w{0};
      const int last = static_cast<int>(below(20));
      nursery([&](Nursery& n) {
        for (std::uint64_t i = 0; i <= below(4); ++i)
          n.spawn([&, viewer = w.subscribe()] {
            int before = 0;
            for (bool open = true; open;) {
              const std::chrono::milliseconds limit{below(3)};
              ChangeStatus status = ChangeStatus::unchanged;
              switch (below(4)) {
                case 0: open = viewer.changed(); break;
                case 1: status = viewer.changed_for(limit).status(); break;
                case 2: status = viewer.changed(no_throw).status(); break;
                default:
                  select(viewer.on_changed([&](bool changed) { open = changed; }), after(limit));
              }
              if (status == ChangeStatus::closed) open = false;
              if (!open) break;
              if (below(3) == 0) sleep_for(limit);
              if (below(2) == 0 || !viewer.try_changed()) continue;
              const int now = viewer.get();
              EXPECT_GT(now, before);
              before = now;
              ++seen;
            }
            EXPECT_EQ(before, last);
          });
        for (int i = 1; i <= last; ++i, ++sets) {
          if (below(3) == 0) sleep_for(std::chrono::milliseconds{below(3)});
          EXPECT_TRUE(below(2) == 0 ? w.set(i) : w.update([i](int& v) { v = i; }));
        }
        w.drop();
      });
    });
  }
  EXPECT_GT(sets, 1'000U);  // that they are not trivial
  EXPECT_GT(seen, 1'000U);
}

TEST(Watch, WorkersAndThreadsSeeTheLast) {
  constexpr int kUpdates = arch::kTsan ? 300 : 2'000;
  on_workers({1U, 2U, 4U}, [] {
    Watch<Touchy> w{Touchy{0}};
    const auto view = [](const Watch<Touchy>::Subscriber& viewer) {
      int last = 0;
      while (viewer.changed()) {
        const int now = viewer.get().number;
        EXPECT_GT(now, last);
        last = now;
      }
      EXPECT_EQ(last, 3 * kUpdates);
    };
    const auto work = [](const Watch<Touchy>& of) {
      for (int i = 0; i < kUpdates; ++i)
        EXPECT_TRUE(of.update([](Touchy& value) { ++value.number; }));
    };
    std::jthread viewing{[&view, viewer = w.subscribe()] { view(viewer); }};
    std::jthread updating{[&work, w] { work(w); }};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i) n.spawn([&view, viewer = w.subscribe()] { view(viewer); });
      for (int i = 0; i < 2; ++i) n.spawn([&work, w] { work(w); });
      w.drop();
    });
  });
  EXPECT_EQ(Touchy::alive, 0);
}

}  // namespace
}  // namespace weft
