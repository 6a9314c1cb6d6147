// The pre-emption bound: plain depth-first search over all schedules in which at most N times a
// thread is stopped although it could go on. Most concurrency bugs need one or two such switches.
#include "explorer/decision_tree.hpp"
#include "explorer/search.hpp"

namespace weft::model {
namespace {

class BoundedSearch final : public Search {
 public:
  explicit BoundedSearch(unsigned preemptions) : bound_(preemptions) {}

  void begin() override {
    tree_.begin();
    preemptions_ = 0;
  }

  ThreadId pick_thread(ThreadSet enabled, ThreadId last) override {
    const bool last_could_go_on = last != kNoThread && has(enabled, last);
    const ThreadId chosen =
        tree_.on_path() ? tree_.follow_thread(enabled) : grow(enabled, last, last_could_go_on);
    if (last_could_go_on && chosen != last) ++preemptions_;
    return chosen;
  }

  unsigned pick_value(unsigned count) override { return tree_.pick_value(count); }
  bool next() override { return tree_.next(); }

 private:
  ThreadId grow(ThreadSet enabled, ThreadId last, bool last_could_go_on) {
    const ThreadId first = last_could_go_on ? last : lowest(enabled);
    const bool exhausted = last_could_go_on && preemptions_ >= bound_;
    tree_.grow(first, enabled, exhausted ? bit(first) : enabled, 0);
    return first;
  }

  DecisionTree tree_;
  unsigned bound_;
  unsigned preemptions_ = 0;
};

}  // namespace

std::unique_ptr<Search> bounded_search(unsigned preemptions) {
  return std::make_unique<BoundedSearch>(preemptions);
}

}  // namespace weft::model
