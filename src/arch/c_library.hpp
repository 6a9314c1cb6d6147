// Functions of ours in the place of the C library's, which call the real ones.
#pragma once

#include <weft/base/sync.hpp>

#include <dlfcn.h>

#include <cerrno>

namespace weft::arch {

// The next definition after ours: the C library's, or that of a library loaded before it.
template <class Result = int>
struct Real {
  const char* name;
  Result failure = static_cast<Result>(ENOSYS);  // returned if there is none
  Atomic<void*> cache{nullptr};

  // Not noexcept: a thread that is cancelled in it unwinds through us.
  template <class... Arguments>
  Result operator()(Arguments... arguments) {
    // relaxed: whoever comes first, all find the same.
    void* found = cache.load(std::memory_order_relaxed);
    if (!found) {
      found = ::dlsym(RTLD_NEXT, name);
      cache.store(found, std::memory_order_relaxed);
    }
    if (!found) {
      errno = ENOSYS;
      return failure;
    }
    return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
  }
};

}  // namespace weft::arch
