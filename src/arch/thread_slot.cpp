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

// Constant-initialised and without a destructor: it is there as long as the thread's memory is.
struct LastAct {
  void (*destroy)(void*) = nullptr;
  void* object = nullptr;
};
thread_local constinit LastAct last_act;

void perform(void* at) {
  const LastAct act = *static_cast<LastAct*>(at);
  act.destroy(act.object);
}

// A key, and not a thread_local object: keys are destroyed after every thread_local, and once more
// if a thread that is ending meets weft again.
pthread_key_t exit_key() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (::pthread_key_create(&made, &perform) != 0)
      std::abort();  // out of keys: a thread's last act would be forgotten
    return made;
  }();
  return key;
}

}  // namespace

[[gnu::noinline]] void set_thread_slot(void* value) noexcept { weft_thread_slot = value; }

void at_thread_exit(void (*destroy)(void*), void* object) {
  last_act = {destroy, object};
  ::pthread_setspecific(exit_key(), &last_act);
}

}  // namespace weft::arch
