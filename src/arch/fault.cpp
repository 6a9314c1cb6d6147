#include <weft/arch/fault.hpp>

#include <sys/mman.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::arch {
namespace fault {
namespace {

using detail::SiteState;

Lock lock;  // guards `sites` and every change of detail::armed_sites
std::array<SiteState, kSiteNames.size()> sites;

SiteState& state_of(Site site) noexcept { return sites[static_cast<std::size_t>(site)]; }

// Puts `state` in force and returns what it replaced. Needs `lock`.
SiteState exchange(Site site, const SiteState& state) noexcept {
  const SiteState before = std::exchange(state_of(site), state);
  std::uint32_t armed = 0;
  for (std::size_t i = 0; i < sites.size(); ++i)
    if (sites[i].armed) armed |= 1U << i;
  detail::armed_sites.store(armed, std::memory_order_relaxed);  // see hit()
  return before;
}

// A well-mixed number for each pair, the same in every run: the plan's chance is reproducible even
// when several threads make the calls (splitmix64's finalizer).
std::uint64_t mixed(std::uint64_t seed, std::uint64_t call) noexcept {
  std::uint64_t x = seed + call * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

bool fails(const Plan& plan, std::uint64_t call) noexcept {
  if (plan.nth != 0) return call == plan.nth;
  if (plan.every != 0) return call % plan.every == 0;
  // 53 bits, all that a double holds: a chance of 1 then means always, 0 never.
  return static_cast<double>(mixed(plan.seed, call) >> 11U) * 0x1p-53 < plan.probability;
}

const Plan& checked(const Plan& plan) {
  const bool chance = plan.probability != 0;
  if ((plan.nth != 0) + (plan.every != 0) + chance != 1)
    throw std::invalid_argument("fault plan: set exactly one of nth, every and probability");
  if (chance && !(plan.probability > 0 && plan.probability <= 1))
    throw std::invalid_argument("fault plan: the probability must be above 0 and at most 1");
  if (plan.error <= 0) throw std::invalid_argument("fault plan: the error must be an errno");
  return plan;
}

// ── reading plans ────────────────────────────────────────────────────────────────────────────────

[[noreturn]] void refuse(std::string_view entry, const std::string& why) {
  throw std::invalid_argument("WEFT_FAULTS: \"" + std::string(entry) + "\": " + why);
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<Site> site_named(std::string_view name) {
  for (std::size_t i = 0; i < kSiteNames.size(); ++i)
    if (kSiteNames[i] == name) return static_cast<Site>(i);
  return std::nullopt;
}

std::optional<int> errno_named(std::string_view name) {
  for (int error = 1; error < 256; ++error)
    if (const char* known = ::strerrorname_np(error); known && name == known) return error;
  return std::nullopt;
}

// What precedes the next `separator`, which is taken away with it.
std::string_view cut(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return head;
}

// Fills in nth, every or probability; false if `when` is none of the forms.
bool read_when(std::string_view when, Plan& plan) {
  if (when.starts_with("every")) {
    plan.every = number<std::uint64_t>(when.substr(5)).value_or(0);
    return plan.every != 0;
  }
  if (when.starts_with("p")) {
    const bool seeded = when.find('@') != std::string_view::npos;
    std::string_view rest = when.substr(1);
    plan.probability = number<double>(cut(rest, '@')).value_or(0);
    const auto seed = number<std::uint64_t>(rest);
    if (seeded && !seed) return false;
    plan.seed = seed.value_or(plan.seed);
    return plan.probability > 0 && plan.probability <= 1;
  }
  plan.nth = number<std::uint64_t>(when).value_or(0);
  return plan.nth != 0;
}

std::string known_sites() {
  std::string list;
  for (const std::string_view name : kSiteNames) (list += list.empty() ? "" : ", ") += name;
  return list;
}

std::pair<Site, Plan> read_entry(std::string_view entry) {
  std::string_view rest = entry;
  const std::string_view site_text = cut(rest, ':');
  const std::string_view when = cut(rest, ':');
  const std::string_view error_text = rest;

  const auto site = site_named(site_text);
  if (!site)
    refuse(entry, "no site \"" + std::string(site_text) + "\" (there are " + known_sites() + ")");
  Plan plan;
  if (!read_when(when, plan))
    refuse(entry, "\"" + std::string(when) +
                      "\" is not N, everyN, pCHANCE or pCHANCE@SEED (N from 1, CHANCE up to 1)");
  const auto error = errno_named(error_text);
  if (!error) refuse(entry, "\"" + std::string(error_text) + "\" is not an errno such as ENOMEM");
  plan.error = *error;
  return {*site, plan};
}

}  // namespace

Scoped::Scoped(Site site, const Plan& plan) : site_(site) {
  const SiteState state{true, checked(plan), 0, 0};
  const Locked hold(lock);
  outer_ = exchange(site, state);
}

Scoped::~Scoped() {
  const Locked hold(lock);
  exchange(site_, outer_);
}

std::uint64_t Scoped::calls() const noexcept {
  const Locked hold(lock);
  return state_of(site_).calls;
}

std::uint64_t Scoped::failures() const noexcept {
  const Locked hold(lock);
  return state_of(site_).failures;
}

void load(std::string_view text) {
  std::vector<std::pair<Site, Plan>> plans;
  while (!text.empty()) plans.push_back(read_entry(cut(text, ',')));
  const Locked hold(lock);
  for (const auto& [site, plan] : plans) exchange(site, {true, plan, 0, 0});
}

void load_environment() {
  // Not std::call_once: an exception in it hangs where a sanitizer wraps pthread_once.
  static Lock once;
  static bool loaded = false;
  const Locked hold(once);
  if (loaded) return;
  if (const char* text = ::secure_getenv("WEFT_FAULTS")) load(text);
  loaded = true;
}

int detail::decide(Site site) noexcept {
  const Locked hold(lock);
  SiteState& state = state_of(site);
  if (!state.armed) return 0;
  if (!fails(state.plan, ++state.calls)) return 0;
  ++state.failures;
  return state.plan.error;
}

}  // namespace fault

void* sys_mmap(std::size_t bytes, int protection, int flags) noexcept {
  if (const int error = fault::hit(fault::Site::mmap)) {
    errno = error;
    return MAP_FAILED;
  }
  return ::mmap(nullptr, bytes, protection, flags, -1, 0);
}

int sys_mprotect(void* begin, std::size_t bytes, int protection) noexcept {
  if (const int error = fault::hit(fault::Site::mprotect)) {
    errno = error;
    return -1;
  }
  return ::mprotect(begin, bytes, protection);
}

int sys_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                       void* argument) noexcept {
  if (const int error = fault::hit(fault::Site::pthread_create)) return error;
  return ::pthread_create(thread, attributes, body, argument);
}

}  // namespace weft::arch
