// Controlled threads and the stacks they run on.
#include <gtest/gtest.h>

#include <cstddef>
#include <exception>

#include "explorer/context.hpp"
#include "explorer/expect.hpp"
#include "explorer/selftest/programs.hpp"
#include "model_sync.hpp"

namespace weft::model {
namespace {

using namespace selftest;

// A coroutine that is left on one controlled thread and resumed on another, as fibers are. The
// stack itself is plain data: whoever runs on it must have been handed it.
class Coroutine {
 public:
  explicit Coroutine(Litmus& litmus) : litmus_(litmus) {
    static std::byte* const stack_end = allocate_stack(64 * 1024);
    inside_ = make_context(stack_end, &enter, this);
  }

  void resume() {
    stack_.write(0);
    switch_context(outside_, inside_);
  }
  [[nodiscard]] bool done() const { return done_; }

 private:
  static void enter(void* self) {
    static_cast<Coroutine*>(self)->body();
    for (;;) static_cast<Coroutine*>(self)->suspend();
  }
  void suspend() { switch_context(inside_, outside_); }

  void body() {
    check(thread_slot() == &litmus_.r[0], "begins on the first thread");
    litmus_.x.fetch_add(1);  // scheduling points, on a stack no thread was born with
    litmus_.x.fetch_add(1);
    suspend();
    check(thread_slot() == &litmus_.r[1], "ends on the second");
    litmus_.x.fetch_add(1);
    done_ = true;
  }

  Litmus& litmus_;
  Sync::Var<int> stack_{0};
  Context inside_;
  Context outside_;
  bool done_ = false;
};

void migrating_coroutine(Program& p, std::memory_order hand_over) {
  auto& s = p.make<Litmus>();
  auto& coroutine = p.make<Coroutine>(s);
  p.thread("first", [&s, &coroutine, hand_over] {
    thread_slot() = &s.r[0];
    coroutine.resume();
    check(thread_slot() == &s.r[0], "back on the first thread");
    s.y.store(1, hand_over);
    s.x.fetch_add(1);
  });
  p.thread("second", [&s, &coroutine] {
    thread_slot() = &s.r[1];
    while (s.y.load(acquire) == 0) Sync::spin();
    coroutine.resume();
    check(coroutine.done(), "ran to its end");
  });
  p.at_end([&s] { check(s.x.load() == 4, "every step was taken once"); });
}

TEST(Stacks, ACoroutineMayMoveBetweenThreads) {
  for (const Mode mode : {Mode::dpor, Mode::bound, Mode::pct, Mode::random}) {
    const Result good = explore({.name = "migration", .mode = mode, .max_executions = 3'000},
                                [](Program& p) { migrating_coroutine(p, release); });
    EXPECT_FALSE(good.failed) << good.report;
    EXPECT_EQ(good.complete, mode == Mode::dpor || mode == Mode::bound);
    EXPECT_TRUE(expect_bug(
        {.name = "migration, relaxed", .mode = mode, .max_executions = 3'000},
        [](Program& p) { migrating_coroutine(p, relaxed); }, Failure::race));
  }
}

// Each controlled thread has its own exception state, as OS threads do.
TEST(Stacks, ExceptionsInFlightStayWithTheirThread) {
  const Result result = explore({.name = "exceptions"}, [](Program& p) {
    auto& s = p.make<Litmus>();
    for (int id = 1; id <= 2; ++id)
      p.thread("thrower", [&s, id] {
        try {
          try {
            throw id;
          } catch (int) {
            s.x.fetch_add(1);
            throw;
          }
        } catch (int caught) {
          check(caught == id, "its own exception");
          s.x.fetch_add(1);
          check(std::uncaught_exceptions() == 0, "none in flight");
        }
      });
  });
  EXPECT_FALSE(result.failed) << result.report;
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.executions, 6U);
}

}  // namespace
}  // namespace weft::model
