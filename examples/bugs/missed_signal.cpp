// Missed signal: the condition is looked at, then waited for; the notification comes in between.
//
// How one meets it: a consumer sleeps although its inbox has a message, until the next one comes
// and wakes it. Under load nobody notices. The last message of the day is found in the morning.
#include "gallery.hpp"

#include <deque>
#include <mutex>

namespace {

class Inbox {
 public:
  void put(int message) {
    std::scoped_lock lock{mutex_};
    messages_.push_back(message);
    news_.notify_one();
  }

  int take() {
    if (empty()) {
      std::unique_lock lock{mutex_};  // empty() has let go of it: put() may have been here
      news_.wait(lock);
    }
    std::scoped_lock lock{mutex_};
    return take_first();
  }

  // The condition belongs to the wait: one lock from the look to the sleep, and from the last look
  // to the message.
  int take_for_sure() {
    std::unique_lock lock{mutex_};
    news_.wait(lock, [&] { return !messages_.empty(); });
    return take_first();
  }

 private:
  bool empty() {
    std::scoped_lock lock{mutex_};
    return messages_.empty();
  }
  int take_first() {
    const int first = messages_.front();
    messages_.pop_front();
    return first;
  }

  weft::Mutex mutex_{"inbox"};
  weft::CondVar news_{"news"};
  std::deque<int> messages_;
};

void one_message(int (Inbox::*take)()) {
  Inbox inbox;
  weft::nursery({.name = "mail"}, [&](weft::Nursery& n) {
    n.spawn("consumer", [&] { (inbox.*take)(); });
    n.spawn("producer", [&] { inbox.put(1); });
  });
}

void buggy() { one_message(&Inbox::take); }
void fixed() { one_message(&Inbox::take_for_sure); }

}  // namespace

constinit const gallery::Bug gallery::missed_signal{
    .name = "missed_signal",
    .mistake = "a condition is looked at, then waited for, and is signalled in between",
    .kind = weft::Failure::Kind::deadlock,
    .schedule = weft::Schedule::exhaustive,
    .runs = 100,
    .buggy = buggy,
    .fixed = fixed,
};
