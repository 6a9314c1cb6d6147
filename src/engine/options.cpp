// Options: what the program says, else what the environment says, else what fits the machine.
#include <weft/engine.hpp>

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

constexpr unsigned kWorkersMax = 1024;
constexpr unsigned kBlockingMax = 1024;
constexpr unsigned kRingEntriesMax = 32'768;
constexpr std::string_view kOnDeadlockNames[] = {"automatic", "report", "raise"};
constexpr std::string_view kReactorNames[] = {"auto", "uring", "epoll"};

[[noreturn]] void refuse(std::string_view what, std::string_view value, std::string_view expected) {
  throw std::invalid_argument{"weft: " + std::string{what} + " is \"" + std::string{value} +
                              "\", expected " + std::string{expected}};
}

std::optional<std::string_view> from_environment(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || !*text) return std::nullopt;
  return text;
}

// A whole number, or bytes with K, M or G behind it.
std::size_t to_number(std::string_view variable, std::string_view text) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  std::string_view unit{stopped, static_cast<std::size_t>(end - stopped)};
  unsigned shift = 0;
  if (unit == "K") shift = 10;
  else if (unit == "M") shift = 20;
  else if (unit == "G") shift = 30;
  else if (!unit.empty()) refuse(variable, text, "a whole number, or one followed by K, M or G");
  if (error != std::errc{} || value > std::numeric_limits<std::size_t>::max() >> shift)
    refuse(variable, text, "a whole number, or one followed by K, M or G");
  return value << shift;
}

// "10ms", "2s", "500us", or a number of milliseconds.
Duration to_duration(std::string_view variable, std::string_view text) {
  constexpr std::string_view kExpected = "a duration such as 10ms, 2s or 500us";
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit{stopped, static_cast<std::size_t>(end - stopped)};
  std::int64_t factor = 0;
  if (unit.empty() || unit == "ms") factor = 1'000'000;
  else if (unit == "s") factor = 1'000'000'000;
  else if (unit == "us") factor = 1'000;
  if (error != std::errc{} || factor == 0 || value < 0 ||
      value > std::numeric_limits<std::int64_t>::max() / factor)
    refuse(variable, text, kExpected);
  return Duration{value * factor};
}

void take_duration(Duration& option, Duration standard, const char* variable) {
  if (option != standard) return;
  if (const auto text = from_environment(variable)) option = to_duration(variable, *text);
}

// "10ms": what to_duration() reads.
std::string to_text(Duration duration) {
  const std::int64_t count = duration.count();
  if (count % 1'000'000'000 == 0) return std::to_string(count / 1'000'000'000) + "s";
  if (count % 1'000'000 == 0) return std::to_string(count / 1'000'000) + "ms";
  return std::to_string(count / 1'000) + "us";
}

template <class T>
void take_number(T& option, T standard, const char* variable) {
  if (option != standard) return;
  const auto text = from_environment(variable);
  if (!text) return;
  const std::size_t value = to_number(variable, *text);
  if (value > std::numeric_limits<T>::max()) refuse(variable, *text, "a smaller number");
  option = static_cast<T>(value);
}

template <class Enum, std::size_t kCount>
void take_name(Enum& option, const std::string_view (&names)[kCount], const char* variable,
               std::string_view expected) {
  if (option != Enum{}) return;
  const auto text = from_environment(variable);
  if (!text) return;
  const auto* const found = std::find(std::begin(names), std::end(names), *text);
  if (found == std::end(names)) refuse(variable, *text, expected);
  option = static_cast<Enum>(found - std::begin(names));
}

// ── signals ─────────────────────────────────────────────────────────────────────────────────────

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},
                                   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM},
                                   {"WINCH", SIGWINCH}, {"PWR", SIGPWR}, {"IO", SIGIO}};

std::string signal_name(int signal) {
  if (signal == 0) return "none";
  for (const SignalName& known : kSignals)
    if (known.number == signal) return "SIG" + std::string{known.name};
  return std::to_string(signal);
}

void take_signal(int& option) {
  if (option != 0) return;
  const auto text = from_environment("WEFT_DUMP_SIGNAL");
  if (!text) return;
  std::string_view name = *text;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (const SignalName& known : kSignals)
    if (known.name == name) {
      option = known.number;
      return;
    }
  const char* const end = text->data() + text->size();
  const auto [stopped, error] = std::from_chars(text->data(), end, option);
  if (error != std::errc{} || stopped != end)
    refuse("WEFT_DUMP_SIGNAL", *text, "a signal's name, as USR1, or its number");
}

// Those that tell of a fault must reach whom they concern, and two cannot be had at all.
bool can_ask_for_a_dump(int signal) noexcept {
  for (const int no : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP})
    if (signal == no) return false;
  return signal >= 0 && signal <= SIGRTMAX;
}

// ── the machine ─────────────────────────────────────────────────────────────────────────────────

unsigned cores_in_mask() noexcept {
  // Larger machines than the usual set can describe: ask with more room until it fits.
  for (int cores = 1024; cores <= 1 << 18; cores *= 4) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(cores));
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cores));
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<unsigned>(std::max(count, 1));
  }
  return 1;
}

// Time this process's control group may use, in cores, rounded up; 0: no limit known.
unsigned cores_in_quota() {
  // Version 2: one file, "max 100000" or "150000 100000", at our group or any above it.
  std::string group = "/";
  std::ifstream membership{"/proc/self/cgroup"};
  for (std::string line; std::getline(membership, line);)
    if (line.starts_with("0::")) group = line.substr(3);
  unsigned cores = 0;
  for (std::string at = group;;) {
    std::ifstream file{"/sys/fs/cgroup" + (at == "/" ? "" : at) + "/cpu.max"};
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) {
      const double allowed = std::strtod(quota.c_str(), nullptr) / period;
      const auto whole = static_cast<unsigned>(std::max(1.0, allowed + 0.999));
      cores = cores == 0 ? whole : std::min(cores, whole);
    }
    if (at == "/" || at.empty()) break;
    at.resize(at.find_last_of('/'));
    if (at.empty()) at = "/";
  }
  return cores;
}

}  // namespace

unsigned usable_cores() noexcept {
  const unsigned mask = cores_in_mask();
  try {
    const unsigned quota = cores_in_quota();
    return quota == 0 ? mask : std::min(mask, quota);
  } catch (...) {
    return mask;
  }
}

Options resolve(const Options& options) {
  Options result = options;
  const Options standard;
  take_number(result.workers, standard.workers, "WEFT_WORKERS");
  take_number(result.max_workers, standard.max_workers, "WEFT_MAX_WORKERS");
  take_duration(result.scale_interval, standard.scale_interval, "WEFT_SCALE_INTERVAL");
  take_duration(result.temp_idle_timeout, standard.temp_idle_timeout, "WEFT_TEMP_IDLE_TIMEOUT");
  take_number(result.stack_bytes, standard.stack_bytes, "WEFT_STACK_BYTES");
  take_number(result.max_fibers, standard.max_fibers, "WEFT_MAX_FIBERS");
  take_number(result.max_blocking, standard.max_blocking, "WEFT_MAX_BLOCKING");
  take_name(result.on_deadlock, kOnDeadlockNames, "WEFT_ON_DEADLOCK",
            "automatic, report or raise");
  take_duration(result.shutdown_report_after, standard.shutdown_report_after,
                "WEFT_SHUTDOWN_REPORT_AFTER");
  take_duration(result.stall_report_after, standard.stall_report_after, "WEFT_STALL_REPORT_AFTER");
  take_signal(result.dump_signal);
  take_name(result.reactor, kReactorNames, "WEFT_IO", "auto, uring or epoll");
  take_number(result.ring_entries, standard.ring_entries, "WEFT_RING_ENTRIES");
  if (!can_ask_for_a_dump(result.dump_signal))
    throw std::invalid_argument{"weft::Options::dump_signal is " +
                                std::to_string(result.dump_signal) +
                                ": must be 0, or a signal that tells of no fault"};
  const bool one_asked_for = result.workers == 1;
  if (result.workers == 0)
    result.workers = Sync::has_fence_everywhere() ? std::min(usable_cores(), kWorkersMax) : 1;
  if (result.workers > kWorkersMax)
    throw std::invalid_argument{"weft::Options::workers is " + std::to_string(result.workers) +
                                ": must be 1 to " + std::to_string(kWorkersMax) +
                                ", or 0 for the usable cores"};
  if (result.max_workers == 0)
    result.max_workers = one_asked_for || !Sync::has_fence_everywhere() ? result.workers
                                                                        : 2 * result.workers;
  if (result.max_workers < result.workers || result.max_workers > 2 * kWorkersMax)
    throw std::invalid_argument{"weft::Options::max_workers is " +
                                std::to_string(result.max_workers) +
                                ": must be at least workers (" + std::to_string(result.workers) +
                                ") and at most " +
                                std::to_string(2 * kWorkersMax) + ", or 0 for twice workers"};
  if (result.scale_interval < Duration{} || result.temp_idle_timeout < Duration{})
    throw std::invalid_argument{
        "weft::Options: scale_interval and temp_idle_timeout must not be negative"};
  if (result.max_blocking == 0 || result.max_blocking > kBlockingMax)
    throw std::invalid_argument{"weft::Options::max_blocking is " +
                                std::to_string(result.max_blocking) + ": must be 1 to " +
                                std::to_string(kBlockingMax)};
  if (result.ring_entries == 0 || result.ring_entries > kRingEntriesMax)
    throw std::invalid_argument{"weft::Options::ring_entries is " +
                                std::to_string(result.ring_entries) + ": must be 1 to " +
                                std::to_string(kRingEntriesMax)};
  if (result.shutdown_report_after < Duration{})
    throw std::invalid_argument{"weft::Options::shutdown_report_after is negative"};
  if (result.stall_report_after < Duration::zero())
    throw std::invalid_argument{"weft::Options::stall_report_after is " +
                                to_text(result.stall_report_after) +
                                ": must be a time, or 0 for no reports"};
  return result;
}

std::vector<OptionLine> describe(const Options& options) {
  return {
      {"workers", "WEFT_WORKERS", "threads that run fibers; 0: usable cores",
       std::to_string(options.workers)},
      {"max_workers", "WEFT_MAX_WORKERS",
       "with temporary ones for workers that are blocked; 0: twice workers",
       std::to_string(options.max_workers)},
      {"scale_interval", "WEFT_SCALE_INTERVAL", "between two temporary workers",
       to_text(options.scale_interval)},
      {"temp_idle_timeout", "WEFT_TEMP_IDLE_TIMEOUT", "idle or needless this long, they go",
       to_text(options.temp_idle_timeout)},
      {"stack_bytes", "WEFT_STACK_BYTES", "virtual size of a fiber's stack",
       std::to_string(options.stack_bytes)},
      {"max_fibers", "WEFT_MAX_FIBERS", "fibers started and not ended, at most; 0: no limit",
       std::to_string(options.max_fibers)},
      {"max_blocking", "WEFT_MAX_BLOCKING", "threads for blocking calls, at most",
       std::to_string(options.max_blocking)},
      {"on_deadlock", "WEFT_ON_DEADLOCK", "automatic, report or raise",
       std::string{kOnDeadlockNames[static_cast<std::size_t>(options.on_deadlock)]}},
      {"shutdown_report_after", "WEFT_SHUTDOWN_REPORT_AFTER",
       "a stopped run says after so long who keeps it",
       to_text(options.shutdown_report_after)},
      {"stall_report_after", "WEFT_STALL_REPORT_AFTER",
       "how long a fiber may keep its worker unreported; 0: for ever",
       to_text(options.stall_report_after)},
      {"reactor", "WEFT_IO", "auto (io_uring if it works here, else epoll), uring or epoll",
       std::string{kReactorNames[static_cast<std::size_t>(options.reactor)]}},
      {"ring_entries", "WEFT_RING_ENTRIES", "of a worker's io_uring",
       std::to_string(options.ring_entries)},
      {"dump_signal", "WEFT_DUMP_SIGNAL", "has every engine dumped to standard error",
       signal_name(options.dump_signal)},
  };
}

}  // namespace weft
