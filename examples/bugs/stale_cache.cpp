// Stale cache: a miss is answered from the database, and the answer is put into the cache after the
// entry has been invalidated.
//
// How one meets it: a user changes the name of an account and goes on seeing the old one, for as
// long as the entry lives, on this server only. Every access to the cache is under a lock; what is
// not is the time between two of them.
#include "gallery.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace {

class Accounts {
 public:
  int read() {
    if (std::optional<int> hit = look()) return *hit;
    const int value = query();
    std::scoped_lock lock{mutex_};
    cached_ = value;  // the query's: a write that came meanwhile is undone
    return value;
  }

  // The value may go into the cache only if nothing was invalidated since the miss.
  int read_with_lease() {
    unsigned lease = 0;
    if (std::optional<int> hit = look(&lease)) return *hit;
    const int value = query();
    std::scoped_lock lock{mutex_};
    if (invalidations_ == lease) cached_ = value;
    return value;
  }

  void write(int value) {
    stored_ = value;
    std::scoped_lock lock{mutex_};
    cached_.reset();
    ++invalidations_;
  }

  [[nodiscard]] bool is_stale() const { return cached_ && *cached_ != stored_; }

 private:
  std::optional<int> look(unsigned* lease = nullptr) {
    std::scoped_lock lock{mutex_};
    if (lease) *lease = invalidations_;
    return cached_;
  }
  [[nodiscard]] int query() const { return stored_; }

  std::atomic<int> stored_{1};  // in the database
  weft::Mutex mutex_{"cache"};
  std::optional<int> cached_;
  unsigned invalidations_ = 0;
};

void read_and_write(int (Accounts::*read)()) {
  Accounts accounts;
  weft::nursery([&](weft::Nursery& n) {
    n.spawn("reader", [&] { (accounts.*read)(); });
    n.spawn("writer", [&] { accounts.write(2); });
  });
  if (accounts.is_stale()) throw std::runtime_error{"the cache has kept the old value"};
}

void buggy() { read_and_write(&Accounts::read); }
void fixed() { read_and_write(&Accounts::read_with_lease); }

}  // namespace

constinit const gallery::Bug gallery::stale_cache{
    .name = "stale_cache",
    .mistake = "what was true at a cache miss is stored after the entry was invalidated",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::random,
    .runs = 250,
    .buggy = buggy,
    .fixed = fixed,
};
