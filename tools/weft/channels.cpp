#include "tour.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

constexpr int kStages = 100;

// Each stage is a fiber that adds one to what comes and passes it on. They end one after the other,
// when the source has: nobody is told to.
void through_a_pipeline(Page& page, long count) {
  Progress bar{page,
               "of " + grouped(count) + " values through " + std::to_string(kStages) + " stages"};
  FiberIo io;
  bool in_order = true;
  long arrived = 0;
  const double taken = seconds([&] {
    io.run([&] {
      nursery([&](Nursery& n) {
        Channel<long> first{64};
        n.spawn("source", [tx = std::move(first.tx), count] {
          for (long i = 0; i < count; ++i)
            if (!tx.send(i)) return;
        });
        Receiver<long> in = std::move(first.rx);
        for (int stage = 0; stage < kStages; ++stage) {
          Channel<long> next{64};
          n.spawn("stage", [rx = std::move(in), tx = std::move(next.tx)] {
            for (long v : rx)
              if (!tx.send(v + 1)) return;
          });
          in = std::move(next.rx);
        }
        for (long v : in) {
          if (v != arrived + kStages) in_order = false;
          ++arrived;
          if (arrived % 100 == 0) bar.show(arrived, count);
        }
      });
    });
  });
  bar.clear();
  expect(arrived == count, "a value was lost in the pipeline");
  expect(in_order, "a value overtook another");
  page.figure("values, each through " + std::to_string(kStages) + " fibers", grouped(arrived));
  page.figure("a value, from one fiber to the next",
              taken * 1e9 / static_cast<double>(count * (kStages + 1)), "ns");
  page.figure("all of them", taken * 1e3, "ms");
}

// Four channels that are always full, and one select over them.
void shared_fairly(Page& page, int rounds) {
  std::array<int, 4> wins{};
  FiberIo io{{.workers = 1}};
  io.run([&] {
    nursery([&](Nursery& n) {
      std::array<Receiver<int>, 4> rx;
      for (int i = 0; i < 4; ++i) {
        Channel<int> busy{1};
        n.spawn("busy", [tx = std::move(busy.tx), i] {
          while (tx.send(i)) {
          }
        });
        rx[static_cast<std::size_t>(i)] = std::move(busy.rx);
      }
      for (const Receiver<int>& r : rx) static_cast<void>(r.recv());  // all of them have begun
      SelectSet set;
      for (Receiver<int>& r : rx)
        set.recv(std::move(r),
                 [&](std::optional<int> i) { ++wins[static_cast<std::size_t>(i.value())]; });
      for (int i = 0; i < rounds; ++i) static_cast<void>(set.wait());
    });  // the set is gone, and with it the receivers: the senders end
  });
  const auto [least, most] = std::minmax_element(wins.begin(), wins.end());
  expect(*least > 0, "a channel was starved");
  const auto percent = [&](int n) { return rounded(100.0 * n / rounds); };
  page.figure(grouped(rounds) + " selects over four busy channels",
              "each won " + percent(*least) + " to " + percent(*most) + " %");
}

// A feed with pauses of up to 200 ms, and somebody who takes notice whenever it is quiet for 50.
void patience_in_virtual_time(Page& page, int count) {
  const auto pause = [](int i) { return 500us + 1ms * (i * 37 % 200); };
  long expected = 0;
  for (int i = 0; i < count; ++i) expected += pause(i) / 50ms;

  long values = 0;
  long quiet = 0;
  Duration passed{};
  SimIo io;
  const double taken = seconds([&] {
    io.run([&] {
      Channel<int> feed;
      nursery([&](Nursery& n) {
        n.spawn("feed", [tx = std::move(feed.tx), count, pause] {
          for (int i = 0; i < count; ++i) {
            sleep_for(pause(i));
            if (!tx.send(i)) return;
          }
        });
        const Instant begin = Clock::now();
        for (;;) {
          auto value = feed.rx.on_recv();
          auto too_late = after(50ms);
          const bool in_time = select(value, too_late) == 0;
          if (in_time && !value.value()) break;
          ++(in_time ? values : quiet);
        }
        passed = Clock::now() - begin;
      });
    });
  });
  expect(values == count, "a value was lost to a time-out");
  expect(quiet == expected, "a time-out came too often, or not often enough");
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(passed).count();
  page.figure("values received, time-outs noticed", grouped(values) + ", " + grouped(quiet));
  page.figure(grouped(minutes) + " minutes of virtual time took", taken * 1e3, "ms");
}

}  // namespace

void channels(Page& page) {
  page.say("A pipeline: a source, " + std::to_string(kStages) +
           " fibers in a row, and channels of 64 in between. When the source ends,");
  page.say("its channel closes, and so they all do, each after its last value:");
  through_a_pipeline(page, at_most(1'000'000, 20'000, 2'000));
  page.say("A select takes whichever is ready; of several, each as often as any other:");
  shared_fairly(page, static_cast<int>(at_most(400'000, 40'000, 4'000)));
  page.say("A value, or 50 ms without one. In the simulator the clock jumps, and none is missed:");
  patience_in_virtual_time(page, static_cast<int>(at_most(100'000, 10'000, 2'000)));
}

}  // namespace weft::tour
