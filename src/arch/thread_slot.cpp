#include <weft/arch/thread_slot.hpp>

extern "C" {
// used: link-time optimisation does not read asm.
[[gnu::tls_model("initial-exec"), gnu::used]] thread_local constinit void* weft_thread_slot =
    nullptr;
}

namespace weft::arch {
namespace {

struct ExitHook {
  void (*destroy)(void*) = nullptr;
  void* object = nullptr;

  ExitHook() = default;
  ExitHook(const ExitHook&) = delete;  // a copy would destroy the object a second time
  ExitHook& operator=(const ExitHook&) = delete;
  ~ExitHook() {
    if (destroy) destroy(object);
  }
};

thread_local ExitHook exit_hook;

}  // namespace

[[gnu::noinline]] void set_thread_slot(void* value) noexcept { weft_thread_slot = value; }

void at_thread_exit(void (*destroy)(void*), void* object) {
  exit_hook.destroy = destroy;
  exit_hook.object = object;
}

}  // namespace weft::arch
