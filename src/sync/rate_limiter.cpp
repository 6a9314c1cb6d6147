#include <weft/rate_limiter.hpp>

#include <weft/time.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

std::int64_t checked(std::uint64_t count) {
  if (count > std::numeric_limits<std::int32_t>::max() * std::uint64_t{1'000'000})
    throw std::invalid_argument{"weft::RateLimiter: too many tokens"};
  return static_cast<std::int64_t>(count);
}

}  // namespace

RateLimiter::RateLimiter(Options options)
    : tokens_(checked(options.tokens)),
      period_(options.period.count()),
      burst_(checked(options.burst == 0 ? options.tokens : options.burst)),
      turn_(1, std::move(options.name)) {
  if (tokens_ <= 0) throw std::invalid_argument{"weft::RateLimiter: at least one token a period"};
  if (period_ <= 0) throw std::invalid_argument{"weft::RateLimiter: the period must be positive"};
  if (period_ > (std::int64_t{1} << 62) / (tokens_ + burst_))
    throw std::invalid_argument{"weft::RateLimiter: too many tokens in too long a period"};
}

// Counted among those who wait, so that nobody overtakes us.
class RateLimiter::InLine {
 public:
  explicit InLine(RateLimiter& limiter) noexcept : limiter_(limiter) { add(1); }
  ~InLine() { add(std::size_t{0} - 1); }
  InLine(const InLine&) = delete;
  InLine& operator=(const InLine&) = delete;

 private:
  void add(std::size_t n) noexcept {
    const Locked locked{limiter_.lock_};
    limiter_.in_line_.write(limiter_.in_line_.read() + n);
  }
  RateLimiter& limiter_;
};

void RateLimiter::check_size(std::uint64_t n) const {
  if (n > static_cast<std::uint64_t>(burst_))
    throw std::invalid_argument{"weft::RateLimiter: more at once than the burst"};
}

// Under the lock. Takes them if they are there; else returns when they will be, if nobody else
// takes any. Token k comes at since + k * period / tokens, rounded up, and `burst` of them are
// given ahead; whole periods are moved from `used` to `since`, so that the product stays small.
Instant RateLimiter::take(std::uint64_t n, Instant now) noexcept {
  const auto comes = [this](std::int64_t token) {
    const std::int64_t scaled = token * period_;
    return Duration{scaled / tokens_ + (scaled % tokens_ > 0 ? 1 : 0)};
  };
  const Instant since = since_.read().value_or(now);
  const std::int64_t used = used_.read();
  // All that was used has come again: the bucket is full, and what came since has run over.
  const bool full = !since_.read() || since + comes(used) < now;
  const Instant start = full ? now : since;
  const std::int64_t wanted = (full ? 0 : used) + static_cast<std::int64_t>(n);
  const Instant ready = start + comes(wanted - burst_);
  if (ready > now) return ready;
  const std::int64_t whole = wanted / tokens_;
  since_.write(start + Duration{whole * period_});
  used_.write(wanted - whole * tokens_);
  return ready;
}

bool RateLimiter::try_acquire(std::uint64_t n) {
  check_size(n);
  const Instant now = Clock::now();
  const Locked locked{lock_};
  return in_line_.read() == 0 && take(n, now) <= now;
}

template <class... NoThrow>
bool RateLimiter::wait_for_tokens(std::uint64_t n, std::optional<Instant> deadline,
                                  NoThrow... how) {
  const InLine in_line{*this};
  if (deadline) {
    if (!turn_.try_acquire_until(*deadline, how...)) return false;
  } else if constexpr (sizeof...(NoThrow) == 0) {
    turn_.acquire();
  } else if (!turn_.acquire(how...)) {
    return false;
  }
  const Semaphore::Permit turn{turn_};
  for (;;) {
    const Instant now = Clock::now();
    Instant ready;
    {
      const Locked locked{lock_};
      ready = take(n, now);
    }
    if (ready <= now) return true;
    if (deadline && ready > *deadline) return false;
    if constexpr (sizeof...(NoThrow) == 0) sleep_until(ready);
    else if (!sleep_until(ready, how...)) return false;
  }
}

void RateLimiter::acquire(std::uint64_t n) {
  checkpoint(Fiber::current());
  if (!try_acquire(n)) static_cast<void>(wait_for_tokens(n, std::nullopt));
}

bool RateLimiter::acquire(std::uint64_t n, no_throw_t) {
  check_size(n);
  return wait_for_tokens(n, std::nullopt, no_throw);
}

bool RateLimiter::try_acquire_until(Instant at, std::uint64_t n) {
  checkpoint(Fiber::current());
  return try_acquire(n) || wait_for_tokens(n, at);
}

bool RateLimiter::try_acquire_until(Instant at, std::uint64_t n, no_throw_t) {
  check_size(n);
  return wait_for_tokens(n, at, no_throw);
}

}  // namespace weft
