#include <weft/arch/thread_slot.hpp>

#include <pthread.h>

#include <cstdlib>

extern "C" {
// used: link-time optimisation does not read asm.
[[gnu::tls_model("initial-exec"), gnu::used]] thread_local constinit void* weft_thread_slot =
    nullptr;
}

namespace weft::arch {
namespace {

// A key, and not a thread_local object: keys are destroyed after every thread_local, and once more
// if a thread that is ending meets weft again.
pthread_key_t exit_key(void (*destroy)(void*)) {
  static const pthread_key_t key = [destroy] {
    pthread_key_t made{};
    if (::pthread_key_create(&made, destroy) != 0)
      std::abort();  // out of keys: a thread's last act would be forgotten
    return made;
  }();
  return key;
}

}  // namespace

[[gnu::noinline]] void set_thread_slot(void* value) noexcept { weft_thread_slot = value; }

void at_thread_exit(void (*destroy)(void*), void* object) {
  ::pthread_setspecific(exit_key(destroy), object);
}

}  // namespace weft::arch
