#include "arch/stack_maker.hpp"

#include "arch/stack_guard.hpp"
#include "arch/stack_pages.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace weft::arch {
namespace {

// Slabs grow by fours: a small program maps little, a large one makes few calls.
constexpr std::size_t kSlabCellsFirst = 64;
constexpr std::size_t kSlabCellsLast = 4096;
constexpr std::size_t kSlabCellsLeast = 16;  // when memory is short
constexpr std::size_t kSlabBytesMost = std::size_t{4} << 30U;

const char* name_of(int error) noexcept {
  const char* const name = ::strerrorname_np(error);
  return name ? name : "?";
}
const char* text_of(int error) noexcept {
  const char* const text = ::strerrordesc_np(error);
  return text ? text : "unknown error";
}

// Errors that say "this kernel, or this memory, will never have such guards": the next rung.
bool means_unsupported(int error) noexcept {
  return error == EINVAL || error == ENOSYS || error == EPERM || error == EOPNOTSUPP;
}

constexpr double mib(std::size_t bytes) noexcept {
  return static_cast<double>(bytes) / (1024.0 * 1024.0);
}

}  // namespace

StackMaker::~StackMaker() {
  while (newest_ != nullptr) {
    Slab* const older = newest_->older;
    delete newest_;
    newest_ = older;
  }
}

StackChain StackMaker::make(std::size_t wanted) noexcept {
  const Locked hold(lock_);
  if (options_.stacks_max != 0) {
    if (guarded_ >= options_.stacks_max) {
      std::snprintf(why_.data(), why_.size(),
                    "all of the %zu stacks that max_fibers allows are in use",
                    options_.stacks_max);
      return {};
    }
    wanted = std::min(wanted, options_.stacks_max - guarded_);
  }
  if (guards_ == Guards::automatic && !choose_guards()) return {};
  if ((newest_ == nullptr || newest_->unguarded() == 0) && !reserve_slab()) return {};

  const std::size_t made = guard(*newest_, std::min(wanted, newest_->unguarded()));
  guarded_ += made;
  return newest_->open(made);
}

// The first rung of the ladder.
bool StackMaker::choose_guards() noexcept {
  const bool kernel = options_.guards != Guards::mprotect && kernel_guards_work();
  if (!kernel && options_.guards == Guards::kernel) {
    std::snprintf(why_.data(), why_.size(),
                  "no stack can be guarded: guard regions (MADV_GUARD_INSTALL, Linux 6.13 or "
                  "later) do not work here, and the options allow no other kind");
    return false;
  }
  guards_ = kernel ? Guards::kernel : Guards::mprotect;
  return true;
}

bool StackMaker::reserve_slab() noexcept {
  std::size_t cells = kSlabCellsFirst << std::min<std::size_t>(2 * slabs_, 16);
  cells = std::min(cells, kSlabCellsLast);
  cells = std::min(cells, std::max<std::size_t>(kSlabBytesMost / layout_.cell_bytes, 1));
  if (options_.stacks_max != 0) cells = std::min(cells, options_.stacks_max - reserved_);

  Slab* slab = Slab::map(layout_, cells, reserved_);
  while (slab == nullptr && cells > kSlabCellsLeast) {
    cells = std::max(cells / 4, kSlabCellsLeast);
    slab = Slab::map(layout_, cells, reserved_);
  }
  if (slab == nullptr) {
    explain_no_memory(cells, errno);
    return false;
  }
  slab->older = newest_;
  newest_ = slab;
  reserved_ += cells;
  ++slabs_;
  return true;
}

// Guards up to `wanted` cells, one rung lower if need be; returns how many, with a reason if none.
std::size_t StackMaker::guard(Slab& slab, std::size_t wanted) noexcept {
  if (guards_ == Guards::kernel) {
    const std::size_t made = guard_by_kernel(slab, wanted);
    if (made != 0 || guards_ == Guards::kernel) return made;
  }
  return guard_by_mprotect(slab, wanted);
}

std::size_t StackMaker::guard_by_kernel(Slab& slab, std::size_t wanted) noexcept {
  const GuardsMade made =
      make_kernel_guards({slab.next_cell(), layout_.guard_bytes, layout_.cell_bytes, wanted});
  if (made.count != 0) return made.count;
  if (options_.guards == Guards::automatic && means_unsupported(made.error)) {
    guards_ = Guards::mprotect;  // such as for memory that the program has locked
    return 0;
  }
  std::snprintf(why_.data(), why_.size(),
                "no further stack can be guarded: madvise(MADV_GUARD_INSTALL) failed: %s (%s), "
                "after %zu stacks",
                text_of(made.error), name_of(made.error), guarded_);
  return 0;
}

std::size_t StackMaker::guard_by_mprotect(Slab& slab, std::size_t wanted) noexcept {
  const std::size_t granted = take_mappings(wanted * kMappingsPerGuard) / kMappingsPerGuard;
  const GuardsMade made =
      make_mprotect_guards({slab.next_cell(), layout_.guard_bytes, layout_.cell_bytes, granted});
  give_mappings((granted - made.count) * kMappingsPerGuard);
  slab.mprotected += made.count;
  mprotected_ += made.count;
  if (made.count == 0) explain_no_mappings(made.error);
  return made.count;
}

void StackMaker::explain_no_memory(std::size_t cells, int error) noexcept {
  rlimit space{};
  ::getrlimit(RLIMIT_AS, &space);
  std::array<char, 96> limit{};
  if (space.rlim_cur != RLIM_INFINITY)
    std::snprintf(limit.data(), limit.size(), "; the address space limit (ulimit -v) is %.1f MiB",
                  mib(space.rlim_cur));
  std::snprintf(why_.data(), why_.size(),
                "no memory for further stacks: mmap of %.1f MiB for %zu stacks failed: %s (%s), "
                "after %zu stacks%s; the system's limits are vm.max_map_count = %zu mappings and, "
                "if vm.overcommit_memory is 2, the commit limit",
                mib(cells * layout_.cell_bytes), cells, text_of(error), name_of(error), guarded_,
                limit.data(), mappings_limit());
}

void StackMaker::explain_no_mappings(int error) noexcept {
  const std::size_t ours = mappings_limit() / 2;
  if (error == 0) {
    std::snprintf(why_.data(), why_.size(),
                  "no further stack can be guarded: with mprotect guards, %zu stacks use all the "
                  "mappings set aside for them (%zu, half of vm.max_map_count = %zu); raise "
                  "vm.max_map_count (sysctl -w vm.max_map_count=%zu) or run Linux 6.13 or later, "
                  "where guards need no mappings",
                  ours / kMappingsPerGuard, ours, mappings_limit(), 4 * mappings_limit());
    return;
  }
  std::snprintf(why_.data(), why_.size(),
                "no further stack can be guarded: mprotect failed: %s (%s), after %zu stacks; "
                "each guard needs two mappings, and vm.max_map_count = %zu limits them",
                text_of(error), name_of(error), guarded_, mappings_limit());
}

std::string StackMaker::why() const {
  const Locked hold(lock_);
  return why_.data();
}

void StackMaker::add_to(StackStatistics& statistics) const noexcept {
  const Locked hold(lock_);
  statistics.reserved += reserved_;
  statistics.guarded += guarded_;
  statistics.slabs += slabs_;
  statistics.mappings += slabs_ + mprotected_ * kMappingsPerGuard;
  statistics.guards = guards_;
}

void StackMaker::survey(HighWater& high_water) const noexcept {
  // A slab stays where it is, and a stack in it a stack, as long as the maker lives: the look at
  // the pages, which takes long, needs no lock.
  const Slab* slab;
  std::size_t stacks;
  {
    const Locked hold(lock_);
    slab = newest_;
    stacks = slab ? slab->guarded() : 0;
  }
  while (slab != nullptr) {
    for (std::size_t i = 0; i < stacks; ++i)
      high_water.add(touched_bytes(slab->stack(i), layout_.page_bytes));
    slab = slab->older;
    stacks = slab ? slab->guarded() : 0;
  }
}

}  // namespace weft::arch
