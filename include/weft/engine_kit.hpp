// What engines are made of, for whoever writes one. docs/engines.md tells how it is put together,
// examples/lifo_io.hpp is a whole engine.
#pragma once

#include <weft/core/closure.hpp>
#include <weft/core/switch.hpp>
#include <weft/engine.hpp>
#include <weft/engine/timer_queue.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace weft {

// A thread that carries the fibers of an engine, gives them stacks, and knows when the last one of
// a run has ended. It is the thread that calls run(); its own stack, where the engine looks for
// work, is the fiber base().
class EngineThread {
 public:
  // For a member of `engine`. Throws std::invalid_argument if such stacks make no sense.
  explicit EngineThread(Engine& engine, std::size_t stack_bytes = 256 * 1024);
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // All that Engine::run_root() has to do: makes the root fiber, start()s it, and switches from
  // base() to whoever successor() names, until over(). When that is base() itself, calls `idle`:
  // nobody can run, so it waits for something to happen. Throws what the run has failed with, what
  // start() throws, and std::logic_error if a run is under way.
  template <std::move_constructible Body, std::invocable Idle>
  void run(Body body, Idle idle) {
    const Run under_way{*this};
    Fiber& root = make_fiber(engine_, home(), std::move(body), Site{});
    root.set_name("main");
    begin(root);
    while (!over()) {
      Fiber& next = engine_.successor(base(), Departure::none);
      if (&next != &base()) switch_fibers(Carrier::here(), base(), next, Departure::none);
      else idle();
    }
    throw_failure();
  }

  // Whether every fiber of the run has ended, or none was begun. From any thread.
  [[nodiscard]] bool over() const noexcept;
  // Whether the calling thread carries our fibers: not so inside an engine that one of them runs.
  [[nodiscard]] bool is_here() const noexcept;
  [[nodiscard]] Fiber& base() noexcept;
  // Who runs; null: base(), or a run is not under way. By this thread.
  [[nodiscard]] const Fiber* running() const noexcept;

  // `fiber`, with a stack if it had none. Null: none is to be had; the fiber has failed with
  // OutOfStacks, and its home has been told. Successors must be prepared.
  [[nodiscard]] Fiber* prepare(Fiber& fiber) noexcept;
  // Takes back the stack and the frame of a fiber that departed() for ever.
  void release(Fiber& fiber) noexcept;
  // What time it is, as often as the engine knows: waits are stamped with it, for reports.
  void note_time(Instant now) noexcept;

 private:
  struct Parts;
  // Between the two, a run is under way.
  class [[nodiscard]] Run {
   public:
    explicit Run(EngineThread& thread) : thread_(thread) { thread_.enter(); }
    ~Run() { thread_.leave(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    EngineThread& thread_;
  };
  void enter();
  void leave() noexcept;
  [[nodiscard]] Home& home() noexcept;
  void begin(Fiber& root);
  void throw_failure() const;

  Engine& engine_;
  const std::unique_ptr<Parts> parts_;
};

namespace engine {

// ── when nothing can ever run again ─────────────────────────────────────────────────────────────

// Who waits for what, in the words of a dump. Ages are told at `now`, rounded down to multiples of
// `grain`.
std::string describe_deadlock(const Io& io, Instant now, Duration grain);

// Ends every wait of `io`'s fibers with the verdict `deadlock`, except joins: those end by
// themselves, once the children that were waited for have failed. Such a wait calls
// Io::raise_deadlock(). False: there was none to end.
bool raise_deadlock_in_waits(Io& io) noexcept;

}  // namespace engine
}  // namespace weft
