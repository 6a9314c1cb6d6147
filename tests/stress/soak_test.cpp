// Everything at once, for some seconds: channels, selects, nurseries, cancellation, timers, locks,
// blocking(), pinned fibers, foreign threads, hogs, and system calls that nobody announced. At the
// end the books must balance. WEFT_SOAK_SECONDS says for how long; 5 unless set.
#include <weft/weft.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using namespace std::chrono_literals;

using Count = std::atomic<std::int64_t>;
using Random = std::minstd_rand;

// What goes through the channels: an object that is counted as long as it exists.
class Parcel {
 public:
  explicit Parcel(Count& live) : live_(&live) { live_->fetch_add(1); }
  Parcel(Parcel&& other) noexcept : live_(other.live_) { live_->fetch_add(1); }
  Parcel& operator=(Parcel&&) noexcept { return *this; }  // both exist, before and after
  ~Parcel() { live_->fetch_sub(1); }

 private:
  Count* live_;
};

[[gnu::noinline]] pid_t thread_here() { return ::gettid(); }

// By the real clock, and without telling anybody.
void sit_in_the_kernel(Random& random) {
  const std::timespec request{.tv_sec = 0,
                              .tv_nsec = static_cast<long>(random() % 3'000'000) + 1'000};
  ::nanosleep(&request, nullptr);
}

void compute(Random& random, Duration at_most) {
  const auto begin = std::chrono::steady_clock::now();
  const Duration length = at_most * static_cast<int>(random() % 100) / 100;
  while (std::chrono::steady_clock::now() - begin < length) {}
}

// Without a pause for a while, then not at all: temporary workers come, and go again.
template <class F>
void now_and_then(F disturb) {
  for (int i = 0; i < 50; ++i) disturb();
  sleep_for(100ms);
}

class Soak {
 public:
  Soak(FiberIo& io, Duration length) : io_(io), length_(length) {}

  // Inside the engine. Returns when everybody has ended. Again and again, if wanted.
  void run() {
    over_ = false;
    parcels_ = Channel<Parcel>{16};
    std::vector<std::jthread> threads;
    nursery({.name = "soak"}, [&](Nursery& n) {
      struct AtTheEnd {
        std::atomic<bool>& over;
        ~AtTheEnd() { over = true; }
      } const at_the_end{over_};  // also if somebody has failed
      for (std::uint32_t i = 0; i < 4; ++i) {
        every(n, "sender", i, [this](Random& r) { send(r); });
        every(n, "chooser", i, [this](Random& r) { choose(r); });
        every(n, "tree", i, [this](Random& r) { grow(r, 3); });
        every(n, "sleeper", i, [this](Random& r) { sleep(r); });
        every(n, "locker", i, [this](Random& r) { lock(r); });
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        every(n, "caller", i, [this](Random& r) { call(r); });
        every(n, "settler", i, [this](Random& r) { settle(r); });
      }
      every(n, "hog", 0, [](Random& r) { now_and_then([&] { compute(r, 3ms); }); });
      every(n, "kidnapper", 0, [](Random& r) {
        now_and_then([&] {
          std::optional<blocking_hint> hint;
          if (r() % 2 == 0) hint.emplace();
          sit_in_the_kernel(r);
        });
      });
      for (std::uint32_t i = 0; i < 3; ++i)
        n.spawn("receiver", [this, rx = parcels_.rx] {
          while (rx.recv()) received_.fetch_add(1);
        });
      for (std::uint32_t i = 0; i < 2; ++i)
        threads.emplace_back([this, i] { act_as_a_foreigner(i); });
      sleep_for(length_);
      over_ = true;
      // Not a join at once: a thread may wait for a fiber that waits for this worker.
      for (std::size_t i = 0; i < threads.size(); ++i) thread_ended_.acquire();
      all_rounds_ended_.acquire();
      parcels_.tx.close();
    });
  }

  void expect_balanced() {
    EXPECT_EQ(sent_.load(), received_.load());
    EXPECT_EQ(begun_.load(), ended_.load());
    EXPECT_EQ(called_.load(), returned_.load());
    EXPECT_EQ(posted_.load(), ran_.load());
    EXPECT_EQ(locked_.load(), under_the_lock_);
    EXPECT_EQ(permits_.available(), 2U);
    EXPECT_EQ(early_.load(), 0);
    EXPECT_EQ(moved_.load(), 0);
    EXPECT_EQ(live_.load(), 0);
  }

  // Nobody was left out.
  void expect_progress() {
    for (const auto& [kind, rounds] : rounds_) EXPECT_GT(rounds.load(), 0) << kind;
    for (const Count* some : {&sent_, &begun_, &called_, &posted_, &locked_, &timed_out_})
      EXPECT_GT(some->load(), 0);
  }

  void print(double seconds) const {
    std::printf("soak of %.1f s: %lld parcels, %lld fibers, %lld calls, %lld posts, %lld locks, "
                "%lld time-outs\n",
                seconds, number(sent_), number(begun_), number(called_), number(posted_),
                number(locked_), number(timed_out_));
  }

 private:
  static long long number(const Count& count) { return static_cast<long long>(count.load()); }

  struct Begun {
    Soak& soak;
    explicit Begun(Soak& in) : soak(in) { soak.begun_.fetch_add(1); }
    Begun(const Begun&) = delete;
    ~Begun() { soak.ended_.fetch_add(1); }
  };

  // A fiber that does the same over and over, each time with luck of its own.
  template <class F>
  void every(Nursery& n, const char* kind, std::uint32_t number, F f) {
    Count& rounds = rounds_[kind];
    going_round_.fetch_add(1);
    n.spawn(Name{std::string{kind}}, [this, number, f, &rounds] {
      Random random{number + 1};
      do {
        f(random);
        rounds.fetch_add(1);
      } while (!over_.load());
      if (going_round_.fetch_sub(1) == 1) all_rounds_ended_.release();
    });
  }

  // Sent, or as if it had never been tried.
  void send(Random& random) {
    if (random() % 32 == 0) sleep_for(Duration{random() % 500'000});  // let the others, too
    switch (random() % 3) {
      case 0: sent_.fetch_add(parcels_.tx.send(Parcel{live_})); return;
      case 1: {
        const SendStatus status = parcels_.tx.send_for(Parcel{live_}, Duration{random() % 20'000});
        sent_.fetch_add(status == SendStatus::ok);
        timed_out_.fetch_add(status == SendStatus::timed_out);
        return;
      }
      default:
        static_cast<void>(timeout(Duration{random() % 50'000}, [&] {
          for (int i = 0; i < 8; ++i) sent_.fetch_add(parcels_.tx.send(Parcel{live_}));
        }));
    }
  }

  // A rendezvous with a child, beside a timer and a send that may lose.
  void choose(Random& random) {
    nursery([&](Nursery& n) {
      Channel<Parcel> own;
      n.spawn([this, tx = std::move(own.tx), patience = Duration{random() % 100'000}] {
        const Begun begun{*this};
        sleep_for(patience);
        const bool taken = tx.send(Parcel{live_});
        handed_.fetch_add(taken);
      });
      auto mine = own.rx.on_recv();
      auto theirs = parcels_.tx.on_send(Parcel{live_});
      auto quiet = after(Duration{random() % 100'000});
      switch (select(mine, theirs, quiet)) {
        case 0: break;
        case 1: sent_.fetch_add(1); break;
        default: timed_out_.fetch_add(1);
      }
    });
  }

  // A tree whose branches may be cancelled, or fail.
  void grow(Random& random, int depth) {
    try {
      const NurseryOptions quiet{.on_suppressed = [](const std::exception_ptr&, FiberId) {}};
      nursery(quiet, [&](Nursery& n) {
        for (int i = 0; i < 3; ++i) {
          const auto seed = static_cast<std::uint32_t>(random() % 1'000'000 + 1);
          n.spawn([this, seed, depth] {
            const Begun begun{*this};
            Random own{seed};
            if (depth > 0) grow(own, depth - 1);
            if (own() % 8 == 0) compute(own, 300us);
            if (own() % 16 == 0) throw std::runtime_error{"on purpose"};
            sleep_for(Duration{own() % 200'000});
          });
        }
        if (random() % 4 == 0) n.cancel();
      });
    } catch (const std::runtime_error&) {
      failed_.fetch_add(1);
    }
  }

  void sleep(Random& random) {
    const Instant due = Clock::now() + Duration{random() % 3'000'000};
    if (random() % 2 == 0) {
      sleep_until(due);
      early_.fetch_add(Clock::now() < due);
    } else if (!deadline(due, [] { Event{}.wait(); })) {
      timed_out_.fetch_add(1);
      early_.fetch_add(Clock::now() < due);
    }
  }

  void lock(Random& random) {
    const std::scoped_lock lock{mutex_};
    locked_.fetch_add(1);
    ++under_the_lock_;
    if (random() % 4 == 0) this_fiber::yield();
    if (random() % 64 == 0) sleep_for(10us);
  }

  // Calls that were told of, some of which are wanted no more before they began.
  void call(Random& random) {
    const auto once = [&] {
      blocking([&] {
        called_.fetch_add(1);
        sit_in_the_kernel(random);
        returned_.fetch_add(1);
      });
    };
    const Semaphore::Permit permit = permits_.permit();
    if (random() % 2 == 0) once();
    else static_cast<void>(timeout(Duration{random() % 500'000}, once));
  }

  // Children that stay on one thread.
  void settle(Random& random) {
    const Migration how = random() % 2 == 0 ? Migration::pinned : Migration::until_started;
    nursery({.migration = how}, [&](Nursery& n) {
      for (int i = 0; i < 4; ++i)
        n.spawn([this, seed = static_cast<std::uint32_t>(random() % 1'000'000 + 1)] {
          const Begun begun{*this};
          Random own{seed};
          const pid_t home = thread_here();
          for (int k = 0; k < 4; ++k) {
            if (own() % 2 == 0) this_fiber::yield();
            else sleep_for(Duration{own() % 100'000});
            moved_.fetch_add(thread_here() != home);
          }
        });
    });
  }

  // A thread that belongs to no engine.
  void act_as_a_foreigner(std::uint32_t number) {
    Random random{number + 100};
    while (!over_.load()) {
      const bool accepted = io_.post([this, parcel = Parcel{live_}] {
        const Begun begun{*this};
        this_fiber::yield();
        ran_.fetch_add(1);
      });
      posted_.fetch_add(accepted);
      sent_.fetch_add(parcels_.tx.send(Parcel{live_}));
      sit_in_the_kernel(random);
    }
    thread_ended_.release();
  }

  FiberIo& io_;
  const Duration length_;
  std::atomic<bool> over_{false};
  Count live_{0};  // parcels
  Channel<Parcel> parcels_;
  Semaphore all_rounds_ended_{0}, thread_ended_{0}, permits_{2};
  Mutex mutex_;
  std::int64_t under_the_lock_ = 0;
  Count going_round_{0}, sent_{0}, received_{0}, handed_{0}, begun_{0}, ended_{0}, called_{0},
      returned_{0}, posted_{0}, ran_{0}, locked_{0}, timed_out_{0}, failed_{0}, early_{0},
      moved_{0};
  std::map<std::string, Count> rounds_;  // by kind; complete before anybody counts
};

Duration length_of_soak() {
  const char* const text = std::getenv("WEFT_SOAK_SECONDS");
  return std::chrono::seconds{text ? std::max(1L, std::strtol(text, nullptr, 10)) : 5};
}

// In runs of a second: engines also begin and end often.
TEST(Soak, EverythingAtOnceAndNothingIsLost) {
  FiberIo io{{.workers = 2, .scale_interval = 1ms, .temp_idle_timeout = 20ms}};
  Soak soak{io, 900ms};
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [begin] { return std::chrono::steady_clock::now() - begin; };
  while (passed() < length_of_soak() && !HasFailure()) {
    io.run([&] { soak.run(); });
    soak.expect_balanced();
    EXPECT_EQ(io.statistics().promotions, io.statistics().retirements);
  }
  soak.expect_progress();
  soak.print(std::chrono::duration<double>(passed()).count());
  std::printf("%s\n", to_string(io.statistics()).c_str());
}

}  // namespace
}  // namespace weft
