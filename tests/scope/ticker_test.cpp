#include <weft/time.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/engine.hpp>
#include <weft/event.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Missed = Ticker::Missed;
using testing::on_seeds;

struct Tick {
  Duration due;    // what next() returned
  Duration taken;  // when it returned
  bool operator==(const Tick&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Tick& tick) {
  return out << "due " << tick.due.count() << " taken " << tick.taken.count();
}

// Six ticks of 10 ms; after the second the taker is busy for 35 ms.
std::vector<Tick> ticks_with_a_pause(Missed missed) {
  const Instant start = Clock::now();
  Ticker ticker{10ms, {.missed = missed}};
  std::vector<Tick> ticks;
  for (int i = 0; i < 6; ++i) {
    const Instant due = ticker.next();
    ticks.push_back({due - start, Clock::now() - start});
    if (i == 1) sleep_for(35ms);
  }
  return ticks;
}

TEST(Ticker, TicksWithoutDrift) {
  on_seeds([] {
    for (const Missed missed : {Missed::skip, Missed::burst}) {
      const Instant start = Clock::now();
      Ticker ticker{10ms, {.missed = missed}};
      for (int i = 1; i <= 20; ++i) {
        EXPECT_EQ(ticker.next(), start + i * 10ms);
        EXPECT_EQ(Clock::now(), start + i * 10ms);
        sleep_for(i % 2 == 0 ? 9ms : 1ms);  // in time
      }
    }
  });
}

TEST(Ticker, SkipLosesWhatWasMissed) {
  on_seeds([] {
    // Busy from 20 to 55: the tick of 30 comes late, those of 40 and 50 never.
    EXPECT_THAT(ticks_with_a_pause(Missed::skip),
                ElementsAre(Tick{10ms, 10ms}, Tick{20ms, 20ms}, Tick{30ms, 55ms}, Tick{60ms, 60ms},
                            Tick{70ms, 70ms}, Tick{80ms, 80ms}));
  });
}

TEST(Ticker, BurstCatchesUp) {
  on_seeds([] {
    EXPECT_THAT(ticks_with_a_pause(Missed::burst),
                ElementsAre(Tick{10ms, 10ms}, Tick{20ms, 20ms}, Tick{30ms, 55ms}, Tick{40ms, 55ms},
                            Tick{50ms, 55ms}, Tick{60ms, 60ms}));
  });
}

TEST(Ticker, DelayStartsAnew) {
  on_seeds([] {
    EXPECT_THAT(ticks_with_a_pause(Missed::delay),
                ElementsAre(Tick{10ms, 10ms}, Tick{20ms, 20ms}, Tick{30ms, 55ms}, Tick{65ms, 65ms},
                            Tick{75ms, 75ms}, Tick{85ms, 85ms}));
  });
}

TEST(Ticker, SkipIsTheDefault) {
  on_seeds([] {
    const Instant start = Clock::now();
    Ticker ticker{10ms};
    sleep_for(35ms);
    EXPECT_EQ(ticker.next(), start + 10ms);
    EXPECT_EQ(ticker.next(), start + 40ms);
  });
}

TEST(Ticker, APeriodMustBePositive) {
  on_seeds([] {
    EXPECT_THROW(Ticker{0ms}, std::invalid_argument);
    EXPECT_THROW(Ticker{-1ms}, std::invalid_argument);
    EXPECT_THROW((Ticker{0s, {.missed = Missed::burst}}), std::invalid_argument);
    EXPECT_NO_THROW(Ticker{1ns});
  });
}

TEST(Ticker, NextIsACancelPointAndTheTickStays) {
  on_seeds([] {
    const Instant start = Clock::now();
    Ticker ticker{10ms};
    EXPECT_FALSE(timeout(4ms, [&] { ticker.next(); }));
    EXPECT_EQ(Clock::now() - start, 4ms);
    EXPECT_EQ(ticker.next(), start + 10ms);
    EXPECT_THROW(Event{}.wait(), Deadlock) << "a timer left behind would end in time";
    EXPECT_EQ(Clock::now() - start, 10ms);
  });
}

TEST(Ticker, OnTickIsAnArm) {
  on_seeds([] {
    const Instant start = Clock::now();
    Ticker ticker{10ms};
    std::vector<std::string> order;
    Event stop;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        sleep_for(25ms);
        stop.set();
      });
      for (;;) {
        Alarm tick = ticker.on_tick();
        Event::Wait stopped = stop.on_set();
        const std::array<Waitable*, 2> arms{&stopped, &tick};
        if (wait(arms) == 0) break;
        order.push_back(std::to_string((ticker.tick() - start) / 1ms));
      }
    });
    EXPECT_THAT(order, ElementsAre("10", "20"));
    EXPECT_EQ(Clock::now() - start, 25ms);
  });
}

TEST(Ticker, AnEndlessPeriodNeverTicks) {
  on_seeds([] {
    Ticker ticker{Duration::max()};
    EXPECT_FALSE(timeout(24h, [&] { ticker.next(); }));
  });
}

TEST(Ticker, WithoutThrowing) {
  on_seeds([] {
    const Instant start = Clock::now();
    Ticker ticker{10ms};
    EXPECT_EQ(ticker.next(no_throw), start + 10ms);
    EXPECT_TRUE(timeout(5ms, [&] { EXPECT_EQ(ticker.next(no_throw), std::nullopt); }));
    EXPECT_EQ(Clock::now() - start, 15ms);
    EXPECT_EQ(ticker.next(no_throw), start + 20ms) << "no tick was taken";
  });
}

TEST(Ticker, NeverEarlyOnRealWorkers) {
  for (const unsigned workers : {1U, 2U, 4U})
    FiberIo{{.workers = workers}}.run([] {
      const Instant start = Clock::now();
      Ticker ticker{100us, {.missed = Missed::burst}};
      for (int i = 1; i <= 20; ++i) {
        const Instant due = ticker.next();
        EXPECT_GE(Clock::now(), due);
        EXPECT_GE(due, start + i * 100us);
      }
    });
}

}  // namespace
}  // namespace weft
