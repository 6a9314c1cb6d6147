// The heap of a model: what the code under test allocates with `new` is under quarantine like what
// model::make() makes. So leaks and late uses of its own objects are found, and an execution that
// is given up in the middle gives everything back.
#include <cstddef>
#include <cstdlib>
#include <new>

#include "explorer/api.hpp"
#include "explorer/hooks.hpp"

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  namespace hook = weft::model::hook;
  if (hook::program_runs()) return hook::make(bytes, alignment, "heap memory");
  const std::size_t whole = (bytes + alignment) / alignment * alignment;  // more than 0
  if (void* const memory = std::aligned_alloc(alignment, whole)) return memory;
  throw std::bad_alloc{};
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept {
  namespace hook = weft::model::hook;
  if (!hook::is_made(memory)) return std::free(memory);
  if (hook::program_runs()) hook::unmake(memory, weft::model::Site::here());
}

void operator delete(void* memory, std::size_t) noexcept { ::operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ::operator delete(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  ::operator delete(memory);
}
