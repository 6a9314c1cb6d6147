// What docs/locks.md shows, as a program.
#include <weft/weft.hpp>

#include <array>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

using namespace std::chrono_literals;

namespace {

// ── a mutex ─────────────────────────────────────────────────────────────────────────────────────

class Account {
 public:
  void deposit(long amount) {
    std::scoped_lock lock{mutex_};
    balance_ += amount;
  }
  // Both or neither, and in whichever order two fibers ask for the two.
  static void transfer(Account& from, Account& to, long amount) {
    std::scoped_lock lock{from.mutex_, to.mutex_};
    from.balance_ -= amount;
    to.balance_ += amount;
  }
  // False: somebody has held it for too long.
  bool try_deposit(long amount) {
    if (!mutex_.try_lock_for(10ms)) return false;
    std::scoped_lock lock{std::adopt_lock, mutex_};
    balance_ += amount;
    return true;
  }
  long balance() {
    std::scoped_lock lock{mutex_};
    return balance_;
  }

 private:
  weft::Mutex mutex_{"account"};
  long balance_ = 0;
};

long transfers() {
  Account a, b;
  a.deposit(100);
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 10; ++i) {
      n.spawn([&] { Account::transfer(a, b, 7); });
      n.spawn([&] { Account::transfer(b, a, 2); });
    }
  });
  return a.try_deposit(1) ? a.balance() : -1;
}

// ── readers and writers ─────────────────────────────────────────────────────────────────────────

class Cache {
 public:
  std::optional<int> find(const std::string& key) {
    std::shared_lock lock{mutex_};
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional{found->second};
  }
  void put(const std::string& key, int value) {
    std::unique_lock lock{mutex_};
    values_[key] = value;
  }

 private:
  weft::SharedMutex mutex_{"cache"};
  std::unordered_map<std::string, int> values_;
};

// ── a condition ─────────────────────────────────────────────────────────────────────────────────

class Inbox {
 public:
  void put(int message) {
    {
      std::scoped_lock lock{mutex_};
      messages_.push_back(message);
    }
    not_empty_.notify_one();
  }
  // Empty: none came in time.
  std::optional<int> take_within(weft::Duration time) {
    std::unique_lock lock{mutex_};
    if (!not_empty_.wait_for(lock, time, [&] { return !messages_.empty(); })) return std::nullopt;
    const int message = messages_.front();
    messages_.pop_front();
    return message;
  }

 private:
  weft::Mutex mutex_;
  weft::CondVar not_empty_{"not empty"};
  std::deque<int> messages_;
};

int messages_in_time() {
  Inbox inbox;
  int count = 0;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn([&] {
      for (int i = 1; i <= 5; ++i) {
        weft::sleep_for(i * 1ms);
        inbox.put(i);
      }
    });
    while (inbox.take_within(4500us)) ++count;
  });
  return count;
}

// ── phases ──────────────────────────────────────────────────────────────────────────────────────

int generations() {
  constexpr std::size_t kCells = 4;
  std::array<int, kCells> now{1, 0, 0, 0}, next{};
  int generation = 0;
  weft::Barrier barrier{kCells, [&] {  // by the last to arrive, before anybody goes on
                          now = next;
                          ++generation;
                        }};
  weft::nursery([&](weft::Nursery& n) {
    for (std::size_t i = 0; i < kCells; ++i)
      n.spawn([&, i] {
        for (int k = 0; k < 10; ++k) {
          next[i] = now[i] + now[(i + 1) % kCells];
          barrier.arrive_and_wait();
        }
      });
  });
  return generation;
}

// ── so many per second ──────────────────────────────────────────────────────────────────────────

weft::Duration time_for_25_requests() {
  weft::RateLimiter limiter{{.tokens = 10, .period = 1s, .burst = 5}};
  const weft::Instant start = weft::Clock::now();
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 25; ++i) n.spawn([&] { limiter.acquire(); });
  });
  return weft::Clock::now() - start;
}

// ── once ────────────────────────────────────────────────────────────────────────────────────────

struct Config {
  weft::Once once;
  std::string text;
  int loads = 0;

  std::string_view get() {
    once.call([this] {
      ++loads;
      weft::sleep_for(1ms);  // reads it from somewhere; who comes meanwhile waits
      text = "verbose";
    });
    return text;
  }
};

}  // namespace

int main() {
  weft::SimIo io{{.seed = 9}};
  io.run([] {
    std::printf("balance %ld\n", transfers());
    Cache cache;
    cache.put("answer", 42);
    std::printf("answer %d\n", cache.find("answer").value());
    std::printf("%d messages came in time\n", messages_in_time());
    std::printf("%d generations\n", generations());
    std::printf("25 requests took %lld ms\n",
                static_cast<long long>(time_for_25_requests() / 1ms));
    Config config;
    weft::nursery([&](weft::Nursery& n) {
      for (int i = 0; i < 3; ++i) n.spawn([&] { config.get(); });
    });
    std::printf("loaded %d time: %s\n", config.loads, config.text.c_str());
  });
}
