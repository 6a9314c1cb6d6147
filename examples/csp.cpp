// Programs in the CSP idiom, one function each. docs/csp.md quotes them.
#include <weft/csp.hpp>
#include <weft/sim.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace csp = weft::csp;
using namespace std::chrono_literals;

// ── channels ────────────────────────────────────────────────────────────────────────────────────

int a_channel() {
  csp::channel<int> ch;
  csp::spawn([w = ++ch] {        // the writer, moved out of ch
    for (int i = 1; i <= 10; ++i)
      if (!(w << i)) return;     // false: nobody reads any more
  });
  int sum = 0;
  for (int x = 0; -ch >> x;)     // false: the writer is dead
    sum += x;
  return sum;
}

// ── alt ─────────────────────────────────────────────────────────────────────────────────────────

std::string an_alternative(const csp::reader<int>& numbers, const csp::writer<char>& letters) {
  std::string seen;
  char next = 'a';
  for (int x = 0;;)
    switch (csp::alt(numbers >> x, letters << next, csp::after(50ms) >> csp::poke)) {
      case 1: seen += std::to_string(x); break;
      case -1: return seen + '.';  // the writer of the numbers is dead
      case 2: seen += next++; break;
      case -2: return seen + '!';  // the reader of the letters is dead
      case 3: return seen + '?';   // neither, for 50 ms
    }
}

// ── lists ───────────────────────────────────────────────────────────────────────────────────────

int a_list(const std::vector<csp::reader<int>>& inputs) {
  int x = 0;
  std::vector<csp::action> actions;
  for (const auto& input : inputs) actions.push_back(input >> x);
  int sum = 0;
  while (const int which = csp::alt(actions)) {  // 0: all of them are null
    if (which > 0) sum += x;
    else actions[static_cast<std::size_t>(-which - 1)] = {};
  }
  return sum;
}

// ── stages ──────────────────────────────────────────────────────────────────────────────────────

// Ends when `out` is dead, or `in`; so whole pipelines come down from either end.
csp::reader<int> without_multiples(int of, csp::reader<int> in) {
  return csp::spawn_producer<int>([of, in = std::move(in)](const csp::writer<int>& out) {
    for (int x = 0; csp::prialt(~out, in >> x) > 0;)
      if (x % of != 0 && !(out << x)) return;
  });
}

int tenth_prime() {
  auto numbers = csp::spawn_producer<int>([](const csp::writer<int>& w) {
    for (int i = 2; w << i;) ++i;
  });
  for (int i = 1; i < 10; ++i) {
    const int prime = numbers.read();
    numbers = without_multiples(prime, std::move(numbers));
  }
  return numbers.read();
}

// ── exceptions ──────────────────────────────────────────────────────────────────────────────────

std::string a_failure() {
  const auto spawned = csp::spawn([] { throw std::runtime_error{"out of paper"}; });
  try {
    csp::join(spawned);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// ── time ────────────────────────────────────────────────────────────────────────────────────────

long long four_ticks() {
  const auto start = csp::now();
  const auto ticks = csp::tick(100ms);
  csp::time_point due;
  for (int i = 0; i < 4; ++i) {
    ticks >> due;
    csp::sleep(30ms);  // no drift
  }
  return (due - start) / 1ms;
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────

int pipelined() {
  csp::writer<std::pair<std::tuple<int>, csp::writer<int>>> requests;
  csp::spawn(csp::rpc_server(--requests, [](int x) { return x * x; }));
  const auto square = csp::rpc_client(std::move(requests));
  const auto three = square.post(3);  // asked at once, read later
  const auto four = square.post(4);
  return square(2) + three.read() + four.read();
}

// ── both styles ─────────────────────────────────────────────────────────────────────────────────

int both_styles() {
  weft::Channel<int> plain{1};
  const csp::writer<int> w = plain.tx;    // one more sender
  const csp::reader<int> r = plain.rx;
  w << 20;
  const int first = plain.rx.recv().value_or(0);
  csp::spawn([tx = plain.tx] { static_cast<void>(tx.send(22)); });
  int second = 0;
  csp::alt(r >> second, ~w);
  return first + second;
}

int main() {
  weft::SimIo io;  // virtual time; FiberIo runs the same
  io.run([] {
    csp::run([] { std::printf("a channel: %d\n", a_channel()); });
    csp::run([] {
      csp::reader<char> letters;
      const auto w = ++letters;
      std::printf("an alternative: %s\n",
                  an_alternative(csp::spawn_producer<int>([](csp::writer<int> out) {
                                   csp::sleep(10ms);
                                   out << 7;
                                   csp::sleep(10ms);
                                   out << 8;
                                 }),
                                 w)
                      .c_str());
    });
    csp::run([] {
      std::vector<csp::reader<int>> inputs;
      for (int i = 0; i < 4; ++i)
        inputs.push_back(csp::spawn_producer<int>([i](csp::writer<int> out) {
          out << i;
          out << 10 * i;
        }));
      std::printf("a list: %d\n", a_list(inputs));
    });
    csp::run([] { std::printf("the tenth prime: %d\n", tenth_prime()); });
    csp::run([] { std::printf("a failure: %s\n", a_failure().c_str()); });
    csp::run([] { std::printf("four ticks: %lld ms\n", four_ticks()); });
    csp::run([] { std::printf("pipelined: %d\n", pipelined()); });
    csp::run([] { std::printf("both styles: %d\n", both_styles()); });
  });
}
