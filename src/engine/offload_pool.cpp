#include "offload_pool.hpp"

#include "scheduler.hpp"

#include <weft/arch/fault.hpp>

#include <algorithm>

namespace weft::engine {

OffloadPool::OffloadPool(Scheduler& scheduler, unsigned threads_max)
    : scheduler_(scheduler), queue_(threads_max) {
  threads_.reserve(threads_max);
  gone_.reserve(threads_max);
}

void OffloadPool::submit(OffloadJob& job) noexcept {
  if (!queue_.push(job) || start()) return;
  // No thread for it. Others that were being started, or run calls, will come to it; if there are
  // none, this worker is blocked instead: slow, but right.
  for (bool first = true; OffloadJob* const stranded = queue_.pop_stranded(first); first = false)
    make(*stranded);
}

bool OffloadPool::withdraw(OffloadJob& job) noexcept {
  const bool withdrawn = queue_.withdraw(job);
  if (withdrawn && queue_.in_flight() == 0) scheduler_.rouse_the_watch();
  return withdrawn;
}

bool OffloadPool::start() noexcept {
  const Locked locked{lock_};
  join(gone_);
  pthread_t thread{};
  if (arch::sys_pthread_create(&thread, nullptr, &body, this) != 0) return false;
  threads_.push_back(thread);
  return true;
}

void* OffloadPool::body(void* at) {
  ::pthread_setname_np(::pthread_self(), "weft-blocking");
  static_cast<OffloadPool*>(at)->work();
  return nullptr;
}

void OffloadPool::work() noexcept {
  constexpr std::timespec kPatience{
      .tv_sec = std::chrono::duration_cast<std::chrono::seconds>(policy::kOffloadIdle).count(),
      .tv_nsec = 0};
  while (OffloadJob* const job = queue_.pop(&kPatience)) make(*job);
  const Locked locked{lock_};
  const auto self = std::find_if(threads_.begin(), threads_.end(), [](pthread_t thread) {
    return ::pthread_equal(thread, ::pthread_self()) != 0;
  });
  if (self == threads_.end()) return;  // close() has us in hand
  gone_.push_back(*self);
  threads_.erase(self);
}

void OffloadPool::make(OffloadJob& job) noexcept {
  job.run();
  // Who looked for a deadlock meanwhile went to sleep: it may look again.
  if (queue_.made()) scheduler_.rouse_the_watch();
}

void OffloadPool::close() noexcept {
  queue_.stop();
  std::vector<pthread_t> threads;
  {
    const Locked locked{lock_};
    threads.swap(threads_);
    join(gone_);
  }
  join(threads);
  threads_.swap(threads);  // for the memory
}

void OffloadPool::join(std::vector<pthread_t>& threads) noexcept {
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  threads.clear();
}

}  // namespace weft::engine
