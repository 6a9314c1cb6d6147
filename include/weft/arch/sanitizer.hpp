// What AddressSanitizer and ThreadSanitizer must be told: of stacks they did not make, and of what
// passes through the kernel.
//
// Without these calls ASan takes a fiber's frames for wild memory as soon as an exception unwinds
// them, and TSan mixes the fibers of a thread into one. Every function is empty in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif

#if defined(WEFT_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack_save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack_save, const void** bottom_old,
                                     std::size_t* size_old);
}
#endif
#if defined(WEFT_TSAN)
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace weft::arch {

#if defined(WEFT_ASAN)
inline constexpr bool kAsan = true;
#else
inline constexpr bool kAsan = false;
#endif
#if defined(WEFT_TSAN)
inline constexpr bool kTsan = true;
#else
inline constexpr bool kTsan = false;
#endif

// The kernel hands a thing from the thread that registers it to the one that hears of it. Its own
// locks order the two; TSan does not look into system calls that it does not know.
inline void hand_to_kernel([[maybe_unused]] void* what) noexcept {
#if defined(WEFT_TSAN)
  __tsan_release(what);
#endif
}
inline void take_from_kernel([[maybe_unused]] void* what) noexcept {
#if defined(WEFT_TSAN)
  __tsan_acquire(what);
#endif
}

// One per stack that code runs on, an OS thread's own included.
class StackShadow {
 public:
  // The stack's extent; an OS thread's is learnt when it is first left.
  void describe([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(WEFT_ASAN)
    bottom_ = bottom;
    bytes_ = bytes;
#endif
  }

  // A fresh fiber begins on this stack; `thread`: the calling thread's own stack.
  void begin([[maybe_unused]] bool thread) noexcept {
#if defined(WEFT_TSAN)
    fiber_ = thread ? __tsan_get_current_fiber() : __tsan_create_fiber(0);
#endif
  }
  // The last fiber on this stack has left it.
  void end() noexcept {
#if defined(WEFT_TSAN)
    __tsan_destroy_fiber(fiber_);
    fiber_ = nullptr;
#endif
  }

  // Just before the switch from this stack to `to`.
  [[gnu::always_inline]] void leave([[maybe_unused]] StackShadow& to,
                                    [[maybe_unused]] bool for_ever) noexcept {
#if defined(WEFT_ASAN)
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#endif
#if defined(WEFT_TSAN)
    __tsan_switch_to_fiber(to.fiber_, 0);
#endif
  }
  // Just after the switch that came to this stack from `from`.
  [[gnu::always_inline]] void arrive([[maybe_unused]] StackShadow& from) noexcept {
#if defined(WEFT_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack_, &from.bottom_, &from.bytes_);
#endif
  }

 private:
#if defined(WEFT_ASAN)
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
#endif
#if defined(WEFT_TSAN)
  void* fiber_ = nullptr;
#endif
};

}  // namespace weft::arch
