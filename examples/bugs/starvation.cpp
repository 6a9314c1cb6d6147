// Starvation: a lock that lets readers in whenever readers are in.
//
// How one meets it: a new price list takes effect within a millisecond, except at noon, when it
// takes minutes. Two readers are enough: if each comes before the other has gone, the moment
// without readers, for which the writer waits, never comes.
#include "gallery.hpp"

#include <mutex>
#include <shared_mutex>
#include <stdexcept>

namespace {

constexpr int kAllowed = 5;

enum class First { readers, writers };

class PriceLock {
 public:
  explicit PriceLock(First first) : readers_first_(first == First::readers) {}

  void lock_shared() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return !writing_ && (readers_first_ || writers_waiting_ == 0); });
    ++readers_;
    if (writers_waiting_ > 0) ++overtakings_;
  }
  void unlock_shared() {
    std::scoped_lock lock{mutex_};
    if (--readers_ == 0) changed_.notify_all();
  }
  void lock() {
    std::unique_lock lock{mutex_};
    ++writers_waiting_;
    changed_.wait(lock, [&] { return !writing_ && readers_ == 0; });
    --writers_waiting_;
    writing_ = true;
  }
  void unlock() {
    std::scoped_lock lock{mutex_};
    writing_ = false;
    changed_.notify_all();
  }
  [[nodiscard]] int overtakings() const { return overtakings_; }

 private:
  const bool readers_first_;
  weft::Mutex mutex_;
  weft::CondVar changed_;
  int readers_ = 0, writers_waiting_ = 0;
  bool writing_ = false;
  int overtakings_ = 0;  // readers let in while a writer waited
};

void prices(First first) {
  PriceLock lock{first};
  weft::nursery([&](weft::Nursery& n) {
    for (int i = 0; i < 2; ++i)
      n.spawn("reader", [&] {
        for (int k = 0; k < 10; ++k) std::shared_lock reading{lock};
      });
    n.spawn("writer", [&] { std::unique_lock writing{lock}; });
  });
  if (lock.overtakings() > kAllowed) throw std::runtime_error{"the writer was overtaken too often"};
}

void buggy() { prices(First::readers); }

// Readers do not overtake a writer that waits. (Many writers could keep them out now. In a
// weft::SharedMutex everybody comes in order of arrival.)
void fixed() { prices(First::writers); }

}  // namespace

constinit const gallery::Bug gallery::starvation{
    .name = "starvation",
    .mistake = "readers are let in as long as there are readers, and a writer waits for none",
    .kind = weft::Failure::Kind::exception,
    .schedule = weft::Schedule::pct,
    .runs = 300,
    .buggy = buggy,
    .fixed = fixed,
};
