#include "capacity.hpp"
#include "tour.hpp"

#include <weft/weft.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

namespace weft::tour {
namespace {

constexpr long kLeaves = at_most(1'000, 1'000, 100);  // of each branch

// A root with branches, each of which is a fiber with a nursery of leaves.
struct Tree {
  Tree(long branch_count, Progress& progress) : branches(branch_count), bar(progress) {}

  const long branches;
  Event all_up{"all up"};
  Event never{"never"};
  std::atomic<long> up{0};
  std::atomic<long> leaves_unwound{0};
  std::atomic<bool> inside_out{true};

  std::mutex guard;  // protects the two below; not held over a wait
  Progress& bar;
  long branches_unwound = 0;

  // The bar fills while the leaves park, and empties while the branches unwind.
  void leaf_is_up() {
    const long now = ++up;
    if (now % kLeaves == 0) {
      const std::scoped_lock lock{guard};
      bar.show(up / kLeaves, branches);
    }
    if (now == branches * kLeaves) all_up.set();
  }
  void branch_is_unwound() {
    const std::scoped_lock lock{guard};
    bar.show(branches - ++branches_unwound, branches);
  }
};

void leaf(Tree& tree, std::atomic<long>& left) {
  struct Unwound {
    Tree& tree;
    std::atomic<long>& left;
    ~Unwound() {
      ++tree.leaves_unwound;
      --left;
    }
  } const unwound{tree, left};
  tree.leaf_is_up();
  tree.never.wait();
}

void branch(Tree& tree) {
  std::atomic<long> left{kLeaves};
  struct Unwound {
    Tree& tree;
    std::atomic<long>& left;
    ~Unwound() {
      if (left != 0) tree.inside_out = false;
      tree.branch_is_unwound();
    }
  } const unwound{tree, left};
  nursery({.name = "branch"}, [&](Nursery& leaves) {
    for (long i = 0; i < kLeaves; ++i) leaves.spawn([&tree, &left] { leaf(tree, left); });
  });
}

struct Times {
  double cancel = 0;   // until cancel() returned
  double unwound = 0;  // until the nursery did
};

Times cancel_tree(Page& page, long branches) {
  const long count = branches * kLeaves;
  Progress bar{page, "of " + grouped(count) + " fibers parked"};
  Tree tree{branches, bar};
  FiberIo io;
  Times times;
  io.run([&] {
    Instant begin;
    nursery({.name = "root"}, [&](Nursery& root) {
      for (long i = 0; i < branches; ++i) root.spawn([&tree] { branch(tree); });
      tree.all_up.wait();
      begin = Clock::now();
      times.cancel = seconds([&] { root.cancel(); });
    });
    times.unwound = std::chrono::duration<double>(Clock::now() - begin).count();
  });
  expect(tree.leaves_unwound == count, "a cancelled fiber was not unwound");
  expect(tree.branches_unwound == branches, "a branch of the tree was not unwound");
  expect(tree.inside_out, "a nursery ended before its children");
  return times;
}

}  // namespace

void cancelling(Page& page) {
  const bool kernel = has_kernel_guards();  // or else each stack costs mappings, of which few exist
  const long wanted = kernel ? at_most(100'000, 10'000, 1'000) : at_most(10'000, 10'000, 1'000);
  const long branches = std::max(affordable(wanted) / kLeaves, 1L);
  const long count = branches * kLeaves;
  page.say("A root nursery, a nursery in each of its " + grouped(branches) + " children, and " +
           grouped(kLeaves) + " fibers parked in each of");
  page.say("those. One call cancels the root; every destructor runs, the innermost nurseries end");
  page.say("first, and the root's returns when the last fiber has:");
  const Times times = cancel_tree(page, branches);
  const auto each = [](double seconds_taken, long of) {
    return seconds_taken * 1e9 / static_cast<double>(of);
  };
  page.figure("fibers parked, then unwound", grouped(count));
  page.figure("for cancel() to find and wake one", each(times.cancel, count), "ns");
  page.figure("to unwind and join one as well", each(times.unwound, count), "ns");
  page.figure("from the cancel to the end of the root", times.unwound * 1e3, "ms");
  if (branches < 10) return;
  const Times tenth = cancel_tree(page, branches / 10);
  page.figure("one, in a tree of a tenth", each(tenth.unwound, branches / 10 * kLeaves), "ns");
}

}  // namespace weft::tour
