#include <support/replaced_new.hpp>

#include <weft/arch/sanitizer.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>

#if !defined(WEFT_TSAN)  // its runtime brings an operator new that cannot be replaced

namespace {

// Not inlined: a compiler that sees both halves takes them for a mismatched pair.
[[gnu::noinline]] void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
  using namespace weft::testing;
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (refuse_all.load(std::memory_order_relaxed)) return nullptr;
  if (allowed >= 0 && allowed-- == 0) return nullptr;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* const memory = try_allocate(bytes, alignment);
  if (!memory) throw std::bad_alloc{};
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

constexpr std::size_t kDefault = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, kDefault); }
void* operator new[](std::size_t bytes) { return allocate(bytes, kDefault); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return try_allocate(bytes, kDefault);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return try_allocate(bytes, kDefault);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t&) noexcept {
  return try_allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  release(memory);
}

#endif
