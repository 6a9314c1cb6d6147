// The heap of a model: what the code under test allocates with `new` is under quarantine like what
// model::make() makes. So leaks and late uses of its own objects are found, and an execution that
// is given up in the middle gives everything back.
#include <cstdlib>
#include <new>

#include "explorer/api.hpp"
#include "explorer/hooks.hpp"

void* operator new(std::size_t bytes) {
  namespace hook = weft::model::hook;
  if (hook::program_runs()) return hook::make(bytes, alignof(std::max_align_t), "heap memory");
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc{};
}

void operator delete(void* memory) noexcept {
  namespace hook = weft::model::hook;
  if (!hook::is_made(memory)) return std::free(memory);
  if (hook::program_runs()) hook::unmake(memory, weft::model::Site::here());
}

void operator delete(void* memory, std::size_t) noexcept { ::operator delete(memory); }
