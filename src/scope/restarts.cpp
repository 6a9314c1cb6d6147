#include "restarts.hpp"

#include <weft/core/io.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace weft {

// ── messages ────────────────────────────────────────────────────────────────────────────────────

std::string quoted(std::string_view name) { return '"' + std::string{name} + '"'; }

std::string what_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  } catch (...) {
    return "not a std::exception";
  }
  return "it returned";
}

namespace {

std::string in_words(Duration d) {
  constexpr std::pair<std::int64_t, const char*> kUnits[] = {
      {1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}};
  for (const auto& [size, unit] : kUnits)
    if (d.count() % size == 0) return std::to_string(d.count() / size) + unit;
  return std::to_string(d.count()) + " ns";
}

std::string summary(std::string_view supervisor, std::string_view child, std::size_t max_restarts,
                    Duration within, const std::exception_ptr& cause) {
  return "weft: supervisor " + quoted(supervisor) + " gives up on child " + quoted(child) +
         ": more than " + std::to_string(max_restarts) +
         (max_restarts == 1 ? " restart" : " restarts") + " within " + in_words(within) +
         "; the last failure: " + what_of(cause);
}

}  // namespace

RestartsExhausted::RestartsExhausted(std::string_view supervisor, std::string_view child,
                                     std::size_t max_restarts, Duration within,
                                     std::exception_ptr cause)
    : std::runtime_error(summary(supervisor, child, max_restarts, within, cause)),
      child_(std::make_shared<const std::string>(child)),
      max_restarts_(max_restarts),
      within_(within),
      cause_(std::move(cause)) {}

// ── options ─────────────────────────────────────────────────────────────────────────────────────

namespace {

void require(bool sound, const char* rule, const std::string& found) {
  if (!sound)
    throw std::invalid_argument{"weft::supervise(): " + std::string{rule} + ", not " + found};
}

}  // namespace

SupervisorOptions checked(SupervisorOptions options) {
  constexpr Duration kZero{0};
  const Backoff& backoff = options.backoff;
  require(options.within >= kZero, "`within` must not be negative", in_words(options.within));
  require(backoff.first >= kZero, "`backoff.first` must not be negative", in_words(backoff.first));
  require(backoff.most >= kZero, "`backoff.most` must not be negative", in_words(backoff.most));
  require(backoff.factor >= 1 && std::isfinite(backoff.factor),
          "`backoff.factor` must be a number of at least 1", std::to_string(backoff.factor));
  require(backoff.jitter >= 0 && backoff.jitter <= 1, "`backoff.jitter` must be between 0 and 1",
          std::to_string(backoff.jitter));
  return options;
}

// ── how long, and how many ──────────────────────────────────────────────────────────────────────

namespace {

// By integers in the end: the same seed must give the same delay on every machine.
Duration jittered(Duration delay, double jitter) {
  const std::int64_t room = Duration::max().count() - delay.count();
  const double part = static_cast<double>(delay.count()) * jitter;
  const bool all = !(part < static_cast<double>(delay.count()));
  const std::int64_t spread = std::min(all ? delay.count() : static_cast<std::int64_t>(part), room);
  if (spread == 0) return delay;
  const std::uint64_t places = 2 * static_cast<std::uint64_t>(spread) + 1;
  return delay - Duration{spread} + Duration{static_cast<std::int64_t>(io().random() % places)};
}

}  // namespace

Duration Streak::next_delay(const SupervisorOptions& options, Instant now) {
  const Backoff& backoff = options.backoff;
  if (now - started >= options.within) attempts = 0;
  const auto most = static_cast<double>(backoff.most.count());
  const double next =
      attempts == 0 ? static_cast<double>(backoff.first.count()) : delay * backoff.factor;
  const bool below = next < most;
  delay = below ? next : most;
  ++attempts;
  return jittered(below ? Duration{static_cast<std::int64_t>(next)} : backoff.most, backoff.jitter);
}

bool Intensity::one_more(const SupervisorOptions& options, Instant now) {
  if (options.max_restarts == std::numeric_limits<std::size_t>::max()) return true;
  while (!recent_.empty() && now - recent_.front() >= options.within) recent_.pop_front();
  if (recent_.size() >= options.max_restarts) return false;
  recent_.push_back(now);
  return true;
}

}  // namespace weft
