// Waiting for time to pass.
#pragma once

#include <weft/core/arm.hpp>
#include <weft/core/time.hpp>
#include <weft/core/timer.hpp>
#include <weft/core/wait.hpp>

#include <chrono>
#include <optional>

namespace weft {

// One instant as an operation. Completes when the engine's clock has reached it, never earlier.
class Alarm : public Waitable, private Timer {
 public:
  explicit Alarm(Instant at) noexcept;
  bool try_complete() override;
  bool publish() noexcept override;
  void unpublish() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override;

 private:
  [[nodiscard]] bool is_over() const noexcept;
  void fire(Fired& fired) noexcept override;

  Io& io_;
};

// Returns when the engine's clock has reached `at`. Parks, or yields if that is now. Cancel point.
void sleep_until(Instant at);

// False: our scope was cancelled meanwhile, and nothing is thrown.
[[nodiscard]] bool sleep_until(Instant at, no_throw_t);

// The same, from now on. Rounded up to nanoseconds; negative is zero, endless is endless.
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> d) {
  sleep_until(Clock::in(to_duration(d)));
}
template <class Rep, class Period>
[[nodiscard]] bool sleep_for(std::chrono::duration<Rep, Period> d, no_throw_t) {
  return sleep_until(Clock::in(to_duration(d)), no_throw);
}

// An arm that completes when `d` has passed, counted from this call.
template <class Rep, class Period>
[[nodiscard]] Alarm after(std::chrono::duration<Rep, Period> d) noexcept {
  return Alarm{Clock::in(to_duration(d))};
}
// The same; select runs `handler` if this arm wins.
template <class Rep, class Period, std::invocable Handler>
[[nodiscard]] Handled<Alarm, Handler> after(std::chrono::duration<Rep, Period> d, Handler handler) {
  return Handled<Alarm, Handler>{std::move(handler), Clock::in(to_duration(d))};
}

// Every so often, without drift: tick k is due at start + k * period.
class Ticker {
 public:
  // What becomes of ticks that were due while nobody waited.
  enum class Missed : std::uint8_t {
    skip,   // they are lost; the next one is the next that is due
    burst,  // they come at once, one after another
    delay,  // the next one comes a period after this one was taken
  };
  struct Options {
    Missed missed = Missed::skip;
  };

  // Throws std::invalid_argument for a period that is not positive.
  template <class Rep, class Period>
  explicit Ticker(std::chrono::duration<Rep, Period> period) : Ticker(period, Options{}) {}
  template <class Rep, class Period>
  Ticker(std::chrono::duration<Rep, Period> period, Options options)
      : Ticker(to_duration(period), options.missed, 0) {}

  // Waits for the next tick, and returns the instant it was due. Cancel point.
  Instant next();
  // Empty: our scope was cancelled meanwhile, and nothing is thrown. No tick was taken.
  [[nodiscard]] std::optional<Instant> next(no_throw_t);
  // The wait for it as an arm; tick() must be called when it has won.
  [[nodiscard]] Alarm on_tick() const noexcept { return Alarm{due_}; }
  Instant tick() noexcept;

 private:
  Ticker(Duration period, Missed missed, int);

  Duration period_;
  Missed missed_;
  Instant due_;
};

}  // namespace weft
