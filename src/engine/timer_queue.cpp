#include <weft/engine/timer_queue.hpp>

namespace weft {

void TimerQueue::arm(Timer& timer) noexcept {
  timer.order_ = armed_so_far_++;
  timer.child_ = timer.after_ = timer.before_ = nullptr;
  timer.armed_ = true;
  root_ = meld(root_, &timer);
  ++size_;
}

void TimerQueue::disarm(Timer& timer) noexcept {
  if (timer.armed_) remove(timer);
}

std::size_t TimerQueue::fire_due(Instant now, Fired& fired) noexcept {
  std::size_t count = 0;
  while (root_ && root_->when <= now) {
    Timer& timer = *root_;
    remove(timer);
    timer.fire(fired);
    ++count;
  }
  return count;
}

Timer* TimerQueue::meld(Timer* a, Timer* b) noexcept {
  if (!a || !b) return a ? a : b;
  if (before(*b, *a)) {
    Timer* const sooner = b;
    b = a;
    a = sooner;
  }
  b->after_ = a->child_;
  b->before_ = a;
  if (a->child_) a->child_->before_ = b;
  a->child_ = b;
  return a;
}

// Two passes, left to right in pairs and then right to left: the classic pairing.
Timer* TimerQueue::meld_siblings(Timer* first) noexcept {
  Timer* pairs = nullptr;  // melded pairs, last one first, through after_
  while (first) {
    Timer* const second = first->after_;
    Timer* const rest = second ? second->after_ : nullptr;
    first->after_ = first->before_ = nullptr;
    if (second) second->after_ = second->before_ = nullptr;
    Timer* const pair = meld(first, second);
    pair->after_ = pairs;
    pairs = pair;
    first = rest;
  }
  Timer* all = nullptr;
  while (pairs) {
    Timer* const next = pairs->after_;
    pairs->after_ = nullptr;
    all = meld(all, pairs);
    pairs = next;
  }
  return all;
}

void TimerQueue::remove(Timer& timer) noexcept {
  if (&timer != root_) {
    if (timer.before_->child_ == &timer) timer.before_->child_ = timer.after_;
    else timer.before_->after_ = timer.after_;
    if (timer.after_) timer.after_->before_ = timer.before_;
  }
  Timer* const orphans = meld_siblings(timer.child_);
  root_ = &timer == root_ ? orphans : meld(root_, orphans);
  if (root_) root_->before_ = root_->after_ = nullptr;
  timer.child_ = timer.after_ = timer.before_ = nullptr;
  timer.armed_ = false;
  --size_;
}

}  // namespace weft
