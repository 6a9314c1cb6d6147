// Broadcast and watch, one function each. docs/special-channels.md quotes them.
#include <weft/weft.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

using namespace std::chrono_literals;

// ── broadcast ───────────────────────────────────────────────────────────────────────────────────

// Every subscriber gets every value.
int everybody_gets_everything() {
  weft::Broadcast<int> numbers{8};
  int sums[3] = {};
  weft::nursery([&](weft::Nursery& n) {
    for (int& mine : sums)
      n.spawn([&mine, rx = numbers.subscribe()] {
        for (int v : rx) mine += v;  // ends when the last Broadcast is gone
      });
    for (int i = 1; i <= 4; ++i) numbers.send(i);  // never waits
    numbers.drop();
  });
  return sums[0] + sums[1] + sums[2];
}

// Who comes late sees what is sent from then on.
std::string late_reader() {
  weft::Broadcast<char> news{8};
  const auto early = news.subscribe();
  news.send('a');
  const auto late = news.subscribe();
  news.send('b');
  news.close();
  std::string seen;
  for (char c : early) seen += c;
  seen += ", late: ";
  for (char c : late) seen += c;
  return seen;
}

// The ticker does not wait for the slow display, and the display knows what it missed.
std::string slow_display() {
  weft::Broadcast<int> prices{{.capacity = 2, .name = "prices"}};
  std::string shown;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("display", [&shown, rx = prices.subscribe()] {
      for (int price : rx) {
        if (const auto missed = rx.lagged()) shown += " (" + std::to_string(missed) + " missed)";
        shown += " " + std::to_string(price);
        weft::sleep_for(34ms);
      }
    });
    n.spawn("ticker", [prices = std::move(prices)] {
      for (int price = 100; price < 110; ++price) {
        weft::sleep_for(10ms);
        prices.send(price);
      }
    });
  });
  return shown;
}

// What is kept comes first, then why there is no more.
std::string cut_off() {
  weft::Broadcast<int> readings{4};
  const auto rx = readings.subscribe();
  readings.send(1);
  readings.close(std::make_exception_ptr(std::runtime_error{"sensor unplugged"}));
  std::string seen;
  try {
    for (int reading : rx) seen += std::to_string(reading) + ", ";
  } catch (const std::runtime_error& error) {
    seen += error.what();
  }
  return seen;
}

// Two subscriptions and a time-out, in one select.
std::string first_of_several() {
  weft::Broadcast<int> numbers{4};
  weft::Broadcast<std::string> words{4};
  const auto number = numbers.subscribe();
  const auto word = words.subscribe();
  words.send("warp");
  std::string seen;
  for (int i = 0; i < 2; ++i)
    weft::select(number.on_recv([&](std::optional<int> v) { seen += std::to_string(v.value()); }),
                 word.on_recv([&](std::optional<std::string> v) { seen += v.value(); }),
                 weft::after(1s, [&] { seen += ", then silence"; }));
  return seen;
}

// ── watch ───────────────────────────────────────────────────────────────────────────────────────

// The worker always has the latest settings, and need not have seen all of them.
std::string settings() {
  weft::Watch<int> speed{1};
  std::string seen;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("worker", [&seen, news = speed.subscribe()] {
      seen += "starts with " + std::to_string(news.get());
      while (news.changed()) {  // false when the last Watch is gone
        seen += ", now " + std::to_string(news.get());
        weft::sleep_for(25ms);  // who is slow misses some, never the last
      }
    });
    n.spawn("user", [speed = std::move(speed)] {
      for (int value = 2; value <= 6; ++value) {
        weft::sleep_for(10ms);
        speed.set(value);
      }
    });
  });
  return seen;
}

// Each update sees the one before.
int counted_together() {
  weft::Watch<int> total{0};
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 10; ++i)
      n.spawn([total] { total.update([](int& v) { v += 10; }); });
  });
  return total.get();
}

// A state that several wait for: ready, or given up.
std::string wait_until_ready() {
  enum class State { starting, ready };
  weft::Watch<State> state{State::starting, "state"};
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn([state] {
      weft::sleep_for(20ms);
      state.set(State::ready);
    });
    const auto news = state.subscribe();
    while (news.get() != State::ready)
      if (!news.changed_for(1s)) return "gave up";
    return "ready";
  });
}

int main() {
  weft::SimIo{{.seed = 1}}.run([] {
    std::printf("everybody gets everything: %d\n", everybody_gets_everything());
    std::printf("early: %s\n", late_reader().c_str());
    std::printf("slow display:%s\n", slow_display().c_str());
    std::printf("cut off: %s\n", cut_off().c_str());
    std::printf("first of several: %s\n", first_of_several().c_str());
    std::printf("settings: %s\n", settings().c_str());
    std::printf("counted together: %d\n", counted_together());
    std::printf("wait until ready: %s\n", wait_until_ready().c_str());
  });
}
