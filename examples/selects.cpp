// What select promises, one function each. docs/select.md quotes them.
#include <weft/weft.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

// ── two spellings ───────────────────────────────────────────────────────────────────────────────

// With handlers. The winner's runs here, in this fiber; select returns after it.
std::string with_handlers(const weft::Receiver<int>& numbers, const weft::Receiver<char>& letters) {
  std::string seen;
  for (bool quiet = false; !quiet;)
    weft::select(
        numbers.on_recv([&](std::optional<int> v) { seen += v ? std::to_string(*v) : "end"; }),
        letters.on_recv([&](std::optional<char> c) { seen += c ? *c : '.'; }),
        weft::after(50ms, [&] { quiet = true; }));
  return seen;
}

// With named arms. select returns the index of the winner.
std::string with_named_arms(const weft::Receiver<int>& numbers,
                            const weft::Receiver<char>& letters) {
  std::string seen;
  for (;;) {
    auto number = numbers.on_recv();
    auto letter = letters.on_recv();
    auto quiet = weft::after(50ms);
    switch (weft::select(number, letter, quiet)) {
      case 0: seen += number.value() ? std::to_string(*number.value()) : "end"; break;
      case 1: seen += letter.value() ? *letter.value() : '.'; break;
      case 2: return seen;
    }
  }
}

// ── losers ──────────────────────────────────────────────────────────────────────────────────────

// A send that lost still has its value, and may try again.
int patient_send() {
  weft::Channel<std::unique_ptr<int>> slow;
  int attempts = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([rx = std::move(slow.rx)] {
      weft::sleep_for(25ms);
      static_cast<void>(rx.recv());
    });
    auto send = slow.tx.on_send(std::make_unique<int>(42));
    for (std::size_t winner = 1; winner == 1; ++attempts) {
      auto late = weft::after(10ms);
      winner = weft::select(send, late);  // 1: send.value() is the 42, as before
    }
  });
  return attempts;
}

// ── order ───────────────────────────────────────────────────────────────────────────────────────

// Both are always ready: select takes each about as often, select_first only the first.
std::string how_often_the_first_of_two_wins() {
  weft::Event left;
  weft::Event right;
  left.set();
  right.set();
  int fair = 0;
  int first = 0;
  for (int i = 0; i < 1000; ++i) {
    if (weft::select(left.on_set(), right.on_set()) == 0) ++fair;
    if (weft::select_first(left.on_set(), right.on_set()) == 0) ++first;
  }
  return std::string{fair > 400 && fair < 600 ? "about half" : "not half"} + ", " +
         (first == 1000 ? "always" : "not always");
}

// Stop has precedence over work, however much of it there is.
int until_told_to_stop(const weft::Receiver<int>& work, weft::Event& stop) {
  int done = 0;
  for (;;) {
    auto stopped = stop.on_set();
    auto item = work.on_recv();
    if (weft::select_first(stopped, item) == 0) return done;
    if (!item.value()) return done;
    if (++done == 3) stop.set();
  }
}

// Takes what is there.
int whatever_is_there(const weft::Receiver<int>& numbers) {
  int sum = 0;
  for (bool more = true; more;)
    weft::select(  // never waits
        numbers.on_recv([&](std::optional<int> v) {
          more = v.has_value();
          sum += v.value_or(0);
        }),
        weft::otherwise([&] { more = false; }));
  return sum;
}

// ── which arms take part ────────────────────────────────────────────────────────────────────────

// A buffer of one, by hand: it receives while it is empty and sends while it is full. An arm of an
// end without a channel is never ready.
void relay(const weft::Receiver<int>& from, const weft::Sender<int>& to) {
  const weft::Receiver<int> no_receiver;
  const weft::Sender<int> no_sender;
  int value = 0;
  bool full = false;
  for (;;) {
    auto in = (full ? no_receiver : from).on_recv();
    auto out = (full ? to : no_sender).on_send(value);
    if (weft::select(in, out) == 0) {
      if (!in.value()) return;
      value = *in.value();
      full = true;
    } else {
      if (!out.sent()) return;
      full = false;
    }
  }
}

int through_a_relay() {
  weft::Channel<int> in;
  weft::Channel<int> out;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn("relay", [rx = std::move(in.rx), tx = std::move(out.tx)] { relay(rx, tx); });
    n.spawn("source", [tx = std::move(in.tx)] {
      for (int i = 1; i <= 10; ++i)
        if (!tx.send(i)) return;
    });
    int sum = 0;
    for (int v : out.rx) sum += v;
    return sum;
  });
}

// The other side's end is an arm, too: no need to send something to notice.
std::string nobody_listens() {
  weft::Channel<std::string> log;
  return weft::nursery([&](weft::Nursery& n) -> std::string {
    n.spawn([rx = std::move(log.rx)] { weft::sleep_for(1s); });
    auto gone = log.tx.on_peer_gone();
    auto late = weft::after(1h);
    return weft::select(gone, late) == 0 ? "gone" : "still there";
  });
}

// And so is a child's result.
std::string whoever_is_first() {
  return weft::nursery([](weft::Nursery& n) -> std::string {
    weft::Channel<int> never;
    auto answer = n.async([] {
      weft::sleep_for(20ms);
      return 42;
    });
    auto ready = answer.on_ready();
    auto item = never.rx.on_recv();
    if (weft::select(item, ready) == 1) return std::to_string(answer.get());
    return "unreachable";
  });
}

// ── sets ────────────────────────────────────────────────────────────────────────────────────────

// As many inputs as there are; each leaves the set when it has ended.
int merged(std::vector<weft::Receiver<int>> inputs) {
  int sum = 0;
  weft::SelectSet set;
  for (auto& rx : inputs)
    set.recv(std::move(rx), [&](std::optional<int> v) { sum += v.value_or(0); });
  while (set.wait() != set.npos) {
  }
  return sum;
}

int ten_inputs() {
  return weft::nursery([](weft::Nursery& n) {
    std::vector<weft::Receiver<int>> inputs;
    for (int i = 1; i <= 10; ++i) {
      weft::Channel<int> input;
      n.spawn([tx = std::move(input.tx), i] {
        for (int k = 0; k < i; ++k)
          if (!tx.send(i)) return;
      });
      inputs.push_back(std::move(input.rx));
    }
    return merged(std::move(inputs));
  });
}

template <class Spelling>
std::string three_numbers_two_letters(Spelling spelling) {
  weft::Channel<int> numbers;
  weft::Channel<char> letters;
  return weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] {
      for (int i = 1; i <= 3; ++i) {
        static_cast<void>(numbers.tx.send(i));
        weft::sleep_for(10ms);
        if (i < 3) static_cast<void>(letters.tx.send("ab"[i - 1]));
        weft::sleep_for(10ms);
      }
    });
    return spelling(numbers.rx, letters.rx);
  });
}

int main() {
  weft::SimIo io;
  io.run([] {
    std::printf("with handlers: %s\n", three_numbers_two_letters(with_handlers).c_str());
    std::printf("with named arms: %s\n", three_numbers_two_letters(with_named_arms).c_str());
    std::printf("patient send: %d attempts\n", patient_send());
    std::printf("the first of two wins: %s\n", how_often_the_first_of_two_wins().c_str());
    weft::Channel<int> numbers{8};
    for (int i = 1; i <= 6; ++i) static_cast<void>(numbers.tx.send(i));
    weft::Event stop;
    std::printf("until told to stop: %d\n", until_told_to_stop(numbers.rx, stop));
    std::printf("whatever is there: %d\n", whatever_is_there(numbers.rx));
    std::printf("through a relay: %d\n", through_a_relay());
    std::printf("nobody listens: %s\n", nobody_listens().c_str());
    std::printf("whoever is first: %s\n", whoever_is_first().c_str());
    std::printf("ten inputs: %d\n", ten_inputs());
  });
}
