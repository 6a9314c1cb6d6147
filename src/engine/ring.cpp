#include "ring.hpp"

#include <sched.h>

#include <cerrno>
#include <cstdlib>

namespace weft::engine {

int Ring::open(unsigned entries) noexcept {
  io_uring_params parameters{};
  // COOP_TASKRUN: a worker that runs is not interrupted; the flag says that there is something.
  parameters.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                     IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
  parameters.cq_entries = 4 * entries;
  const int error = io_uring_queue_init_params(entries, &ring_, &parameters);
  is_open_ = error == 0;
  constexpr unsigned kNeeded = IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE |
                               IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
  if (error == 0 && (ring_.features & kNeeded) != kNeeded) return -EINVAL;
  return error;
}

Ring::~Ring() {
  if (is_open_) io_uring_queue_exit(&ring_);
}

bool Ring::knows_all_operations() noexcept {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (!probe) return false;
  bool all = true;
  for (const int operation :
       {IORING_OP_NOP, IORING_OP_POLL_ADD, IORING_OP_ASYNC_CANCEL, IORING_OP_RECV,
        IORING_OP_RECVMSG, IORING_OP_SEND, IORING_OP_SENDMSG, IORING_OP_ACCEPT,
        IORING_OP_CONNECT})
    all = all && io_uring_opcode_supported(probe, operation) != 0;
  io_uring_free_probe(probe);
  return all;
}

int Ring::enter(unsigned answers, const std::timespec* timeout) noexcept {
  const int saved_errno = errno;
  __kernel_timespec longest{};
  io_uring_getevents_arg wait{};
  if (timeout) {
    longest.tv_sec = timeout->tv_sec;
    longest.tv_nsec = timeout->tv_nsec;
    wait.ts = reinterpret_cast<std::uintptr_t>(&longest);
  }
  const unsigned flags = IORING_ENTER_GETEVENTS | (timeout ? IORING_ENTER_EXT_ARG : 0U);
  const int told = io_uring_enter2(static_cast<unsigned>(ring_.ring_fd), pending(), answers, flags,
                                   timeout ? reinterpret_cast<sigset_t*>(&wait) : nullptr,
                                   timeout ? sizeof wait : 0);
  errno = saved_errno;
  return told;
}

// The kernel takes entries at once, unless it is out of memory.
void Ring::make_room() noexcept {
  if (enter(0, nullptr) <= 0) ::sched_yield();
}

}  // namespace weft::engine
