// Fault injection: a chosen system call fails on purpose, so that every error path has a test.
//
// A plan names a site and says which of its calls fail and how. Plans are set by a test, for a
// scope, or by the environment, for a whole run:
//
//   fault::Scoped no_memory{fault::Site::mmap, {.nth = 3, .error = ENOMEM}};
//   WEFT_FAULTS="mmap:3:ENOMEM,madvise_guard:every2:EINVAL,pthread_create:p0.1@42:EAGAIN"
//
// Without a plan a site costs one relaxed load, on paths that make a system call anyway.
#pragma once

#include <weft/base/sync.hpp>

#include <pthread.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::arch {

namespace fault {

enum class Site : std::uint8_t { mmap, madvise_guard, mprotect, pthread_create };

inline constexpr std::array<std::string_view, 4> kSiteNames{
    // indexed by Site
    "mmap", "madvise_guard", "mprotect", "pthread_create"};

// Which calls of a site fail. Exactly one of `nth`, `every` and `probability` is set.
struct Plan {
  std::uint64_t nth = 0;    // the nth call from now on, counted from 1, and no other
  std::uint64_t every = 0;  // each call whose number is a multiple of this; 1: all
  double probability = 0;   // each call with this chance, 0 to 1, decided by `seed` and its number
  std::uint64_t seed = 1;
  int error = ENOMEM;  // the errno it fails with
};

namespace detail {
struct SiteState {
  bool armed = false;
  Plan plan;
  std::uint64_t calls = 0;  // since the plan was set
  std::uint64_t failures = 0;
};
}  // namespace detail

// Sets the plan of `site` for a scope, and puts back the one that was there. Counts start anew.
//
// Throws std::invalid_argument if the plan is not well formed. Scopes of one site are left in the
// reverse order of their making; any thread may run into the plan meanwhile.
class [[nodiscard]] Scoped {
 public:
  Scoped(Site site, const Plan& plan);
  ~Scoped();
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

  [[nodiscard]] std::uint64_t calls() const noexcept;     // of the site, since the plan was set
  [[nodiscard]] std::uint64_t failures() const noexcept;  // how many of them it made fail

 private:
  Site site_;
  detail::SiteState outer_;
};

// Sets the plans that `text` lists, for the life of the process. An entry is SITE:WHEN:ERRNO, where
// WHEN is N, everyN, pCHANCE or pCHANCE@SEED; entries are separated by commas.
//
// Throws std::invalid_argument, which quotes the entry and says what is wrong with it; the plans
// before it are then not set either.
void load(std::string_view text);

// load(getenv("WEFT_FAULTS")), once per process; every StackPool asks for it. Throws like load.
void load_environment();

namespace detail {
inline constinit Atomic<std::uint32_t> armed_sites{0};  // bit per Site that has a plan
int decide(Site site) noexcept;
}  // namespace detail

// The errno that this call of `site` is to fail with, 0 for "go on". Counts the call.
[[nodiscard]] inline int hit(Site site) noexcept {
  // relaxed: a hint. Whoever sets a plan for another thread orders the two by other means, and
  // decide() reads the plan itself under its lock.
  if (detail::armed_sites.load(std::memory_order_relaxed) == 0) [[likely]]
    return 0;
  return detail::decide(site);
}

}  // namespace fault

// The system calls that can be made to fail, otherwise as their namesakes: MAP_FAILED or -1 with
// errno, and the error itself from sys_pthread_create.
[[nodiscard]] void* sys_mmap(std::size_t bytes, int protection, int flags) noexcept;
[[nodiscard]] int sys_mprotect(void* begin, std::size_t bytes, int protection) noexcept;
[[nodiscard]] int sys_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                     void* (*body)(void*), void* argument) noexcept;

}  // namespace weft::arch
