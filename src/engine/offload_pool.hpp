// OffloadPool: as many threads for blocking calls as are needed, up to a limit.
#pragma once

#include "offload_queue.hpp"

#include <weft/core/offload.hpp>

#include <pthread.h>

#include <vector>

namespace weft::engine {

class Scheduler;

class OffloadPool final : public Offload {
 public:
  OffloadPool(Scheduler& scheduler, unsigned threads_max);

  void submit(OffloadJob& job) noexcept override;
  [[nodiscard]] bool withdraw(OffloadJob& job) noexcept override;

  // Around a run of the engine. When close() has returned, no thread of ours is left.
  void open() noexcept { queue_.open(); }
  void close() noexcept;

  [[nodiscard]] std::uint32_t in_flight() const noexcept { return queue_.in_flight(); }
  [[nodiscard]] unsigned queued() const noexcept { return queue_.queued(); }
  [[nodiscard]] unsigned threads() const noexcept { return queue_.threads(); }

 private:
  static void* body(void* at);
  void work() noexcept;
  bool start() noexcept;
  void make(OffloadJob& job) noexcept;
  void join(std::vector<pthread_t>& threads) noexcept;

  Scheduler& scheduler_;
  OffloadQueue queue_;
  Lock lock_;  // protects the two below, which never grow beyond what they are made for
  std::vector<pthread_t> threads_;
  std::vector<pthread_t> gone_;  // went home, and are to be joined
};

}  // namespace weft::engine
