// Channels and select: W3 to W7 and W12.
#include "workloads.hpp"

#include <weft/weft.hpp>

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <vector>

namespace weft::bench {
namespace {

// ── W3 ──────────────────────────────────────────────────────────────────────────────────────────

void ping_pong(long rounds) {
  Channel<std::uint64_t> there, back;
  std::uint64_t wrong = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      n.spawn([in = std::move(there.rx), out = std::move(back.tx)] {
        while (const auto v = in.recv())
          if (!out.send(*v)) return;
      });
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(rounds); ++i)
        wrong += !there.tx.send(std::uint64_t{i}) || back.rx.recv() != i;
      there.tx.close();
    });
  });
  expect(wrong == 0, "pingpong");
  emit("pingpong", each(s, rounds), "ns");
}

// ── W4 ──────────────────────────────────────────────────────────────────────────────────────────

void buffered(long pairs, long total) {
  Channel<std::uint64_t> ch{128};
  std::vector<long> received(static_cast<std::size_t>(pairs));
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      for (long& count : received) {
        n.spawn([tx = ch.tx, mine = total / pairs] {
          for (long i = 0; i < mine; ++i)
            if (!tx.send(static_cast<std::uint64_t>(i))) return;
        });
        n.spawn([rx = ch.rx, &count] {
          long mine = 0;
          while (rx.recv()) ++mine;
          count = mine;
        });
      }
      ch.tx.drop();
    });
  });
  long sum = 0;
  for (const long count : received) sum += count;
  expect(sum == total / pairs * pairs, "buffered");
  emit("buf_" + std::to_string(pairs) + "x" + std::to_string(pairs), each(s, sum), "ns");
}

// ── W5 ──────────────────────────────────────────────────────────────────────────────────────────

void select_of_four(const std::string& name, std::size_t capacity, long total) {
  constexpr std::size_t kChannels = 4;
  std::array<Receiver<std::uint64_t>, kChannels> rx;
  std::uint64_t sum = 0;
  const std::uint64_t mine = static_cast<std::uint64_t>(total) / kChannels;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      for (auto& receiver : rx) {
        Channel<std::uint64_t> ch{capacity};
        receiver = std::move(ch.rx);
        n.spawn([tx = std::move(ch.tx), mine] {
          for (std::uint64_t i = 0; i < mine; ++i)
            if (!tx.send(std::uint64_t{i})) return;
          // A closed channel is an arm that is always ready: not before all is received.
          select(tx.on_peer_gone());
        });
      }
      const auto add = [&](std::optional<std::uint64_t> v) { sum += *v; };
      for (std::uint64_t i = 0; i < mine * kChannels; ++i)
        select(rx[0].on_recv(add), rx[1].on_recv(add), rx[2].on_recv(add), rx[3].on_recv(add));
      for (auto& receiver : rx) receiver.drop();
    });
  });
  expect(sum == mine * (mine - 1) / 2 * kChannels, "select");
  emit(name, each(s, static_cast<long>(mine * kChannels)), "ns");
}

// ── W6 ──────────────────────────────────────────────────────────────────────────────────────────

void ring(long hops) {
  constexpr int kFibers = 503;
  std::vector<Channel<long>> links(kFibers);
  long seen = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      for (std::size_t i = 0; i < kFibers; ++i)
        n.spawn([&, in = links[i].rx, out = links[(i + 1) % kFibers].tx] {
          while (const auto v = in.recv()) {
            if (*v == 0) {
              seen = 1;
              for (Channel<long>& link : links) link.tx.close();
              return;
            }
            if (!out.send(*v - 1)) return;
          }
        });
      expect(links[0].tx.send(long{hops}), "ring: begun");
    });
  });
  expect(seen == 1, "ring");
  emit("ring", each(s, hops), "ns");
}

// ── W7 ──────────────────────────────────────────────────────────────────────────────────────────

// NOLINTNEXTLINE(misc-no-recursion)
void sky_node(const Sender<long>& up, long number, long size) {
  if (size == 1) {
    static_cast<void>(up.send(long{number}));
    return;
  }
  Channel<long> below;
  const long sum = nursery([&](Nursery& n) {
    for (long i = 0; i < 10; ++i)
      n.spawn([&tx = below.tx, child = number + i * (size / 10), size] {
        sky_node(tx, child, size / 10);
      });
    long all = 0;
    for (int i = 0; i < 10; ++i) all += below.rx.recv().value();
    return all;
  });
  static_cast<void>(up.send(long{sum}));
}

void skynet(long leaves) {
  long result = 0;
  const double s = seconds([&] {
    Channel<long> top;
    nursery([&](Nursery& n) {
      n.spawn([&top, leaves] { sky_node(top.tx, 0, leaves); });
      result = top.rx.recv().value();
    });
  });
  expect(result == leaves * (leaves - 1) / 2, "skynet");
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  emit("skynet", s * 1e3, "ms");
  emit("skynet_peak", static_cast<double>(used.ru_maxrss) / 1024, "MiB");
}

// ── W12 ─────────────────────────────────────────────────────────────────────────────────────────

void sieve(int primes, int last_prime) {
  int last = 0;
  const double s = seconds([&] {
    nursery([&](Nursery& n) {
      Channel<int> numbers;
      Receiver<int> in = std::move(numbers.rx);
      n.spawn([tx = std::move(numbers.tx)] {
        for (int i = 2; tx.send(int{i}); ++i) {}
      });
      for (int i = 0; i < primes; ++i) {
        const int prime = in.recv().value();
        last = prime;
        Channel<int> rest;
        n.spawn([in = std::move(in), out = std::move(rest.tx), prime] {
          while (const auto v = in.recv())
            if (*v % prime != 0 && !out.send(int{*v})) return;
        });
        in = std::move(rest.rx);
      }
      n.cancel();
    });
  });
  expect(last == last_prime, "sieve");
  emit("sieve", s * 1e3, "ms");
}

}  // namespace

bool run_flow_workload(std::string_view workload) {
  const bool tiny = scale < 1;
  if (workload == "pingpong") {
    ping_pong(scaled(2'000'000));
  } else if (workload == "buffered") {
    buffered(1, scaled(10'000'000));
    buffered(4, scaled(10'000'000));
  } else if (workload == "select") {
    select_of_four("select4", 0, scaled(2'000'000));
    select_of_four("select4_buf", 128, scaled(4'000'000));
  } else if (workload == "ring") {
    ring(scaled(1'000'000));
  } else if (workload == "skynet") {
    skynet(tiny ? 1000 : 1'000'000);
  } else if (workload == "sieve") {
    if (tiny) sieve(100, 541);
    else sieve(2000, 17389);
  } else {
    return false;
  }
  return true;
}

}  // namespace weft::bench
