#include "pool_models.hpp"

#include "model_engine.hpp"
#include "model_thread.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/ordered_tasks.hpp>
#include <weft/pool.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace weft::model {
namespace lending {
namespace {

// ── ordered tasks ───────────────────────────────────────────────────────────────────────────────

// A line of tasks that are threads: what they have to say comes from anywhere, at any time.
struct Tasks {
  using Line = detail::TaskLine<int>;
  using Outcome = detail::TaskOutcome<int>;

  explicit Tasks(std::size_t width)
      : line(std::make_unique<Line>(reinterpret_cast<Nursery&>(nobody), width, Name{})),
        rx(detail::Shared<Outcome>::receiver(line->channel)) {}

  // Before the program runs: a task with a place, that has been spawned or is about to be.
  void submit(bool spawned = true) {
    check(line->places.try_acquire(), "there is room");
    const std::optional<std::uint64_t> number = line->admit();
    check(number.has_value(), "nobody has closed it");
    if (spawned) line->started(*number, true);
  }
  void deliver(int number) {
    Outcome outcome;
    outcome.what.emplace<1>(number);
    outcome.place = Semaphore::Permit{line->places};
    line->deliver(static_cast<std::uint64_t>(number), std::move(outcome));
  }
  // By whoever asks. -1: the end.
  int next() {
    std::optional<Outcome> outcome = rx.recv();
    return outcome ? outcome->take() : -1;
  }
  void account(std::size_t free_places) {
    check(line->places.available() == free_places, "a place was lost or doubled");
    rx.drop();
    line.reset();
    check(engine.all_frames_free(), "a frame is lost");
  }

  // Nobody spawns here: the line keeps a reference that it does not use.
  alignas(Nursery) std::byte nobody[sizeof(Nursery)]{};
  ModelEngine engine;
  std::unique_ptr<Line> line;
  Receiver<Outcome> rx;
};

template <void (*kBody)(Tasks&)>
Tasks& one_asks(Program& p, std::size_t width, std::size_t free_places) {
  auto& s = p.make<Tasks>(width);
  s.engine.fiber([](void* at) { kBody(*static_cast<Tasks*>(at)); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.at_end([&s, free_places] { s.account(free_places); });
  return s;
}

void takes_two(Tasks& s) {
  check(s.next() == 0, "the first comes first");
  check(s.next() == 1, "then the second");
}
void results_in_order(Program& p) {
  auto& s = one_asks<takes_two>(p, 2, 2);
  s.submit();
  s.submit();
  p.thread("first", [&s] { s.deliver(0); });
  p.thread("second", [&s] { s.deliver(1); });
}

// Whatever close() meets, what was submitted is delivered before the end.
void takes_one_and_the_end(Tasks& s) {
  check(s.next() == 0, "it was submitted before the close");
  check(s.next() == -1, "there is no other");
}
void close_against_last_result(Program& p) {
  auto& s = one_asks<takes_one_and_the_end>(p, 1, 2);  // one more is passed around for ever
  s.submit();
  p.thread("task", [&s] { s.deliver(0); });
  p.thread("closer", [&s] { check(s.line->close(), "nobody else does"); });
}

void is_refused(Tasks& s) {
  const Semaphore::Permit place = s.line->places.permit();
  check(!s.line->admit(), "nobody makes room but the close");
}
void close_against_submitter(Program& p) {
  auto& s = one_asks<is_refused>(p, 1, 1);
  s.submit();
  p.thread("closer", [&s] { check(s.line->close(), "nobody else does"); });
}

// The first could not be spawned: its place is free, and nobody hears of it.
void takes_the_second(Tasks& s) {
  check(s.next() == 1, "there was no first task");
  check(s.next() == -1, "there is no third");
}
void withdrawn_task(Program& p) {
  auto& s = one_asks<takes_the_second>(p, 2, 3);
  s.submit(false);
  s.submit();
  p.thread("submitter", [&s] {
    s.deliver(0);
    s.line->started(0, false);
    check(s.line->close(), "nobody else does");
  });
  p.thread("second", [&s] { s.deliver(1); });
}

// ── pools ───────────────────────────────────────────────────────────────────────────────────────

struct Lending;

// One at a time, and one user of it at a time.
class Tool {
 public:
  explicit Tool(Lending& of);
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  ~Tool();
  void use() noexcept { uses_.write(uses_.read() + 1); }

 private:
  Lending& of_;
  Var<int> uses_{0};
};

struct Lending {
  Lending()
      : pool(std::make_unique<Pool<Tool>>(
            PoolOptions<Tool>{.capacity = 1, .on_create = [this] { return Tool{*this}; }})) {}
  void account() {
    if (!pool->closed()) check(pool->try_acquire().has_value(), "the place is lost");
    pool.reset();
    check(alive.load(std::memory_order_relaxed) == 0, "a resource is left behind");
    check(engine.all_frames_free(), "a frame is lost");
  }

  ModelEngine engine;
  CancelScope scope{nullptr};
  Atomic<int> alive{0};
  Lease<Tool> lease;
  std::unique_ptr<Pool<Tool>> pool;
};

Tool::Tool(Lending& of) : of_(of) {
  check(of_.alive.fetch_add(1, std::memory_order_relaxed) == 0, "more alive than places");
}
Tool::~Tool() { of_.alive.fetch_sub(1, std::memory_order_relaxed); }

void uses_one_if_free(Lending& s) {
  if (std::optional<Lease<Tool>> lease = s.pool->try_acquire()) (*lease)->use();
}
void discard_against_acquire(Program& p) {
  auto& s = p.make<Lending>();
  s.lease = *s.pool->try_acquire();
  p.thread("owner", [&s] {
    s.lease->use();
    s.lease.discard();
  });
  p.thread("other", [&s] { uses_one_if_free(s); });
  p.at_end([&s] { s.account(); });
}
void return_against_acquire(Program& p) {
  auto& s = p.make<Lending>();
  s.lease = *s.pool->try_acquire();
  p.thread("owner", [&s] {
    s.lease->use();
    s.lease.reset();
  });
  p.thread("other", [&s] { uses_one_if_free(s); });
  p.at_end([&s] { s.account(); });
}
void return_against_close(Program& p) {
  auto& s = p.make<Lending>();
  s.lease = *s.pool->try_acquire();
  p.thread("owner", [&s] { s.lease.reset(); });
  p.thread("closer", [&s] { check(s.pool->close(), "nobody else does"); });
  p.at_end([&s] { s.account(); });
}

// Either the waiter has it, and gives it back, or the place stays where it is.
void acquires_in_a_scope(Lending& s) {
  Fiber& self = Fiber::current();
  try {
    const Entered entered{self, s.scope};
    s.pool->acquire()->use();
  } catch (const Cancelled&) {
  }
}
void return_against_cancel(Program& p) {
  auto& s = p.make<Lending>();
  s.lease = *s.pool->try_acquire();
  s.engine.fiber([](void* at) { acquires_in_a_scope(*static_cast<Lending*>(at)); }, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("owner", [&s] {
    s.lease->use();
    s.lease.reset();
  });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { s.account(); });
}

// ── the list ────────────────────────────────────────────────────────────────────────────────────

constexpr CoreModel within(unsigned bound, const char* name, void (*setup)(Program&)) {
  return {name, setup, true, Mode::bound, bound};
}

constexpr std::array kModels{
    within(2, "results in order", results_in_order),
    within(2, "close against the last result", close_against_last_result),
    CoreModel{"close against a submitter", close_against_submitter},
    within(2, "task that was withdrawn", withdrawn_task),
    CoreModel{"lease is discarded", discard_against_acquire},
    CoreModel{"lease is given back", return_against_acquire},
    CoreModel{"lease against close", return_against_close},
    within(2, "lease against cancel", return_against_cancel),
};

}  // namespace
}  // namespace lending

std::span<const CoreModel> pool_models() { return lending::kModels; }

}  // namespace weft::model
