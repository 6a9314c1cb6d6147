// Offload: where calls go that would block a worker.
#pragma once

#include <weft/base/intrusive_list.hpp>

namespace weft {

// One call, on its caller's stack.
class OffloadJob : public ListNode<OffloadJob> {
 public:
  // Once, on a thread that may be blocked. Its last step tells the caller, who then lets go of it.
  virtual void run() noexcept = 0;

 protected:
  OffloadJob() = default;
  ~OffloadJob() = default;
};

// Threads for such calls.
class Offload {
 public:
  // Runs `job` soon. Where no thread can be had, that is here and now.
  virtual void submit(OffloadJob& job) noexcept = 0;
  // True: it had not begun, and will not.
  [[nodiscard]] virtual bool withdraw(OffloadJob& job) noexcept = 0;

 protected:
  Offload() = default;
  ~Offload() = default;
};

}  // namespace weft
