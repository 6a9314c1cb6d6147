// What a model may call while it runs, besides the Sync operations themselves.
#pragma once

#include <cstddef>
#include <new>
#include <typeinfo>
#include <utility>

#include "explorer/site.hpp"

namespace weft::model {

// Fails the execution if `holds` is false. `message` is copied.
void check(bool holds, const char* message = "check", Site site = Site::here());

// A free choice: explores every value in [0, count).
[[nodiscard]] unsigned choose(unsigned count, Site site = Site::here());

// One pointer per controlled thread, as thread-local storage is to an OS thread. Ask anew after
// anything that may have moved the caller to another thread.
[[nodiscard]] void*& thread_slot() noexcept;

// Gives an Atomic, Var or Lock a name for the trace.
void name(const void* object, const char* text);

namespace hook {
[[nodiscard]] void* make(std::size_t bytes, std::size_t alignment, const char* type);
void unmake(void* object, Site site);
}  // namespace hook

// Heap objects under quarantine: an object that is never destroyed is a leak, and using one of its
// Atomics, Vars or Locks after destroy() is a failure, since its memory is not used again.
template <class T, class... Args>
[[nodiscard]] T* make(Args&&... args) {
  void* const memory = hook::make(sizeof(T), alignof(T), typeid(T).name());
  return ::new (memory) T(std::forward<Args>(args)...);
}

template <class T>
void destroy(T* object, Site site = Site::here()) {
  if (!object) return;
  object->~T();
  hook::unmake(object, site);
}

}  // namespace weft::model
