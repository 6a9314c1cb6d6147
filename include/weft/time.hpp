// Waiting for time to pass.
#pragma once

#include <weft/core/time.hpp>
#include <weft/core/timer.hpp>
#include <weft/core/wait.hpp>

#include <chrono>

namespace weft {

// One instant as an operation. Completes when the engine's clock has reached it, never earlier.
class Alarm final : public Waitable, private Timer {
 public:
  explicit Alarm(Instant at) noexcept;
  bool try_complete() override;
  bool publish() noexcept override;
  void unpublish() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override;

 private:
  void fire(FiberList& woken) noexcept override;

  Io& io_;
};

// Returns when the engine's clock has reached `at`. Parks, or yields if that is now. Cancel point.
void sleep_until(Instant at);

// The same, from now on. Rounded up to nanoseconds; negative is zero, endless is endless.
template <class Rep, class Period>
void sleep_for(std::chrono::duration<Rep, Period> d) {
  sleep_until(saturating_add(Clock::now(), to_duration(d)));
}

}  // namespace weft
