// A register that three hosts keep together, through partitions, crashes and heals: whatever its
// clients saw, it could have been one register. A mutant of it that a test must catch shows that
// the test would notice.
//
// The register is that of Attiya, Bar-Noy and Dolev: a value with a timestamp at each replica. Who
// writes asks a majority for the newest timestamp, and stores its value under a newer one at a
// majority. Who reads asks a majority for the newest value, and stores that at a majority before
// it returns it, so that nobody after it reads an older one.
#include <weft/sim_world.hpp>

#include <weft/cancel.hpp>
#include <weft/channel.hpp>
#include <weft/net.hpp>
#include <weft/nursery.hpp>
#include <weft/sim.hpp>
#include <weft/time.hpp>

#include <support/engines.hpp>
#include <support/register_history.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Linearizable;
using testing::RegisterHistory;

constexpr std::uint16_t kPort = 9000;
constexpr int kReplicas = 3;
constexpr int kMajority = 2;

enum class Mutant : std::uint8_t {
  none,
  no_write_back,   // who reads does not store what it returns
  one_is_enough,   // for a majority
  loses_its_disk,  // a replica answers before it has synced
};

struct Stamp {
  std::uint64_t number = 0;
  std::uint64_t writer = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

struct Message {
  enum class Verb : std::uint64_t { get, put, done };
  Verb verb = Verb::get;
  Stamp stamp{};
  std::int64_t value = 0;
};

using Bytes = std::array<std::byte, sizeof(Message)>;

bool send(const net::TcpStream& stream, const Message& message) {
  Bytes bytes;
  std::memcpy(bytes.data(), &message, sizeof message);
  return stream.write_all(bytes).has_value();
}

std::optional<Message> receive(const net::TcpStream& stream) {
  Bytes bytes;
  if (!stream.read_exactly(bytes)) return std::nullopt;
  Message message;
  std::memcpy(&message, bytes.data(), sizeof message);
  return message;
}

// ── a replica ───────────────────────────────────────────────────────────────────────────────────

// What a replica has to remember over a crash, through the calls of the kernel.
class Storage {
 public:
  explicit Storage(bool syncs) : kernel_(**Descriptor::kernel_here()), syncs_(syncs) {
    fd_ = static_cast<int>(kernel_.open("/var/register", O_RDWR | O_CREAT, 0600));
    const iovec part{.iov_base = &kept_, .iov_len = sizeof kept_};
    static_cast<void>(kernel_.read_at(fd_, &part, 1, 0));
  }
  ~Storage() { static_cast<void>(kernel_.close(fd_)); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] const Message& get() const { return kept_; }
  // False: it is not known to be kept.
  bool put(const Message& message) {
    if (message.stamp <= kept_.stamp) return true;
    Message written = message;
    const iovec part{.iov_base = &written, .iov_len = sizeof written};
    if (kernel_.write_at(fd_, &part, 1, 0) != static_cast<Kernel::Answer>(sizeof written))
      return false;
    if (syncs_ && kernel_.sync(fd_, false) < 0) return false;
    kept_ = message;
    return true;
  }

 private:
  Kernel& kernel_;
  const bool syncs_;
  int fd_ = -1;
  Message kept_{};
};

void answer(const net::TcpStream& peer, Storage& storage) {
  while (const auto asked = receive(peer)) {
    Message reply = storage.get();
    if (asked->verb == Message::Verb::put) {
      if (!storage.put(*asked)) return;
      reply = {.verb = Message::Verb::done};
    }
    if (!send(peer, reply)) return;
  }
}

void replica(Mutant mutant) {
  Storage storage{mutant != Mutant::loses_its_disk};
  const auto listener = net::listen({"0.0.0.0", kPort});
  if (!listener) return;
  nursery([&](Nursery& n) {
    for (;;) {
      auto peer = listener->accept();
      if (!peer) return;
      n.spawn([&storage, stream = std::move(*peer)] { answer(stream, storage); });
    }
  });
}

// ── a client ────────────────────────────────────────────────────────────────────────────────────

class Client {
 public:
  Client(std::uint64_t id, Mutant mutant) : id_(id), mutant_(mutant) {}

  // False, nullopt: no majority answered in time; a write may have happened all the same.
  bool write(std::int64_t value) {
    const auto newest = newest_of_majority();
    if (!newest) return false;
    return store({.verb = Message::Verb::put,
                  .stamp = {newest->stamp.number + 1, id_},
                  .value = value});
  }
  std::optional<std::int64_t> read() {
    auto newest = newest_of_majority();
    if (!newest) return std::nullopt;
    newest->verb = Message::Verb::put;
    if (mutant_ != Mutant::no_write_back && !store(*newest)) return std::nullopt;
    return newest->value;
  }

 private:
  std::optional<Message> newest_of_majority() {
    std::optional<Message> newest;
    const bool enough = ask_majority({.verb = Message::Verb::get}, [&](const Message& reply) {
      if (!newest || newest->stamp < reply.stamp) newest = reply;
    });
    return enough ? newest : std::nullopt;
  }
  bool store(const Message& message) {
    return ask_majority(message, [](const Message&) {});
  }

  // Asks all at once; goes on when a majority has answered.
  template <class Take>
  bool ask_majority(const Message& message, Take take) {
    const int wanted = mutant_ == Mutant::one_is_enough ? 1 : kMajority;
    int answers = 0;
    timeout(2s, [&] {
      nursery([&](Nursery& n) {
        auto [tx, rx] = Channel<Message>{kReplicas};
        for (int i = 0; i < kReplicas; ++i)
          n.spawn([tx = tx, message, name = "replica" + std::to_string(i)] {
            const auto stream = net::connect({name, kPort}, {.timeout = 1s});
            if (!stream || !send(*stream, message)) return;
            if (const auto reply = receive(*stream)) static_cast<void>(tx.send(*reply));
          });
        tx.drop();
        while (answers < wanted) {
          const auto reply = rx.recv();
          if (!reply) return;
          take(*reply);
          ++answers;
        }
        n.cancel();
      });
    });
    return answers >= wanted;
  }

  const std::uint64_t id_;
  const Mutant mutant_;
};

// ── the world ───────────────────────────────────────────────────────────────────────────────────

constexpr int kClients = 4;

// How often clients call, and how often something happens to the hosts: at most so long apart.
struct Pace {
  int calls;  // of each client
  Duration between_calls;
  Duration between_misfortunes;
};
constexpr Pace kDense{.calls = 8, .between_calls = 3s, .between_misfortunes = 3s};
// Long enough for every timeout there is, between most calls.
constexpr Pace kSparse{.calls = 12, .between_calls = 2h, .between_misfortunes = 20min};

Duration up_to(Duration most) {
  return Duration{static_cast<Duration::rep>(io().random() %
                                             static_cast<std::uint64_t>(most.count()))};
}

void client(std::uint64_t id, Mutant mutant, const Pace& pace, RegisterHistory& history) {
  Client asks{id, mutant};
  for (int i = 0; i < pace.calls; ++i) {
    // Some calls come soon after the last, whatever the pace.
    sleep_for(up_to(io().random() % 4 == 0 ? std::min<Duration>(5s, pace.between_calls)
                                           : pace.between_calls));
    const bool writes = io().random() % 2 == 0;
    const std::int64_t value = static_cast<std::int64_t>(id) * 1000 + i + 1;
    const std::size_t call = history.begin(id, writes, value);
    if (writes) {
      if (asks.write(value)) history.done(call);
    } else if (const auto got = asks.read()) {
      history.done(call, *got);
    }
  }
}

std::string any_replica() { return "replica" + std::to_string(io().random() % kReplicas); }

void misfortune(SimWorld& world, Duration most) {
  for (;;) {
    sleep_for(up_to(most));
    if (io().random() % 2 == 0) {
      world.net().heal();
      world.net().slow_down({"replica0", "replica1", "replica2"}, 0s);
    }
    for (int i = 0; i < kReplicas; ++i)
      if (io().random() % 2 == 0) world.host("replica" + std::to_string(i)).restart();
    const std::string victim = any_replica();
    switch (io().random() % 6) {
      case 0: world.net().isolate(victim); break;
      case 1: world.net().partition_one_way(victim, "clients"); break;
      case 2: world.net().partition_one_way("clients", victim); break;
      case 3: world.host(victim).crash(); break;
      case 4: world.net().slow_down(victim, up_to(300ms)); break;
      default: world.host(victim).kill(); break;
    }
  }
}

struct Outcome {
  Linearizable verdict;
  std::string history;
  std::size_t done;
  Duration time;
  std::uint64_t hash;
};

Outcome run_register(std::uint64_t seed, Mutant mutant, const Pace& pace) {
  SimIo io{{.seed = seed}};
  SimWorld& world = io.world();
  for (int i = 0; i < kReplicas; ++i) world.host("replica" + std::to_string(i));
  const SimHost clients = world.host("clients");
  world.net().set_default_link({.latency = {1ms, 100ms}, .reset_probability = 0.005});
  world.net().set_reset_by_partition(0.5);
  RegisterHistory history;
  Duration time{};
  io.run([&] {
    nursery([&](Nursery& all) {
      for (int i = 0; i < kReplicas; ++i)
        world.host("replica" + std::to_string(i)).spawn_service(all, [mutant] { replica(mutant); });
      all.spawn([&] { misfortune(world, pace.between_misfortunes); });
      nursery([&](Nursery& n) {
        for (std::uint64_t id = 1; id <= kClients; ++id)
          clients.spawn(n, [&, id] { client(id, mutant, pace, history); });
      });
      all.cancel();
    });
    time = Clock::now().time_since_epoch();
  });
  EXPECT_EQ(world.descriptors(), 0U);
  return {history.check(), history.text(), history.done_so_far(), time, io.trace_hash()};
}

// The simulated time it took.
std::chrono::hours expect_one_register(const Pace& pace, std::uint64_t seeds) {
  std::size_t done = 0, calls = 0;
  Duration time{};
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Outcome outcome = run_register(seed, Mutant::none, pace);
    EXPECT_EQ(outcome.verdict, Linearizable::yes) << "seed " << seed << '\n' << outcome.history;
    if (outcome.verdict != Linearizable::yes) break;
    done += outcome.done;
    calls += static_cast<std::size_t>(kClients * pace.calls);
    time += outcome.time;
  }
  EXPECT_GT(done, calls / 3);  // it gets on in spite of it all
  return std::chrono::duration_cast<std::chrono::hours>(time);
}

TEST(RegisterTest, IsOneRegisterThroughEverything) {
  expect_one_register(kDense, testing::scaled(200));
}

TEST(RegisterTest, IsOneRegisterForThousandsOfHours) {
  const std::chrono::hours time = expect_one_register(kSparse, testing::scaled(200));
  EXPECT_GT(time, testing::kSeeds * 10h);
}

TEST(RegisterTest, TheSameSeedIsTheSameMisfortune) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Outcome first = run_register(seed, Mutant::none, kDense);
    const Outcome again = run_register(seed, Mutant::none, kDense);
    EXPECT_EQ(first.hash, again.hash);
    EXPECT_EQ(first.history, again.history);
  }
}

const char* name_of(Mutant mutant) {
  switch (mutant) {
    case Mutant::none: break;
    case Mutant::no_write_back: return "NoWriteBack";
    case Mutant::one_is_enough: return "OneIsEnough";
    case Mutant::loses_its_disk: return "LosesItsDisk";
  }
  return "None";
}

class RegisterMutantTest : public ::testing::TestWithParam<Mutant> {};

TEST_P(RegisterMutantTest, IsCaught) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed)
    if (run_register(seed, GetParam(), kDense).verdict == Linearizable::no) {
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  FAIL() << "nobody noticed";
}

INSTANTIATE_TEST_SUITE_P(All, RegisterMutantTest,
                         ::testing::Values(Mutant::no_write_back, Mutant::one_is_enough,
                                           Mutant::loses_its_disk),
                         [](const auto& tested) { return std::string{name_of(tested.param)}; });

}  // namespace
}  // namespace weft
