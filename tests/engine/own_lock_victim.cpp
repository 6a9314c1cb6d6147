// A program that stands in for the C library's locks itself, as allocators and profilers do.
#include <weft/weft.hpp>

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

static std::atomic<int> calls{0};

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  calls.fetch_add(1);
  void* const real = ::dlsym(RTLD_NEXT, "pthread_mutex_lock");
  return reinterpret_cast<int (*)(pthread_mutex_t*)>(real)(mutex);
}

int main() {
  std::mutex mutex;
  weft::run([&] {
    const std::lock_guard locked{mutex};
    weft::this_fiber::yield();
  });
  return calls.load() > 0 ? 0 : 1;
}
