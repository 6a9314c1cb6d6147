#include "uring_reactor.hpp"

#include "reactor_hook.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace weft::engine {
namespace {

// Whom an answer is for: an address, and in its lowest bits what is there.
enum Tag : std::uint64_t { kNobody = 0, kPoll = 1, kCall = 2, kAccept = 3 };
constexpr std::uint64_t kTags = 3;

std::uint64_t address_of(const IoCall& call) noexcept {
  return reinterpret_cast<std::uint64_t>(&call) | kCall;
}

// More are told to the kernel at once: those who run next may take their time.
constexpr unsigned kPendingMost = 16;

constexpr unsigned kEdges = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;
constexpr int kAccepted = SOCK_CLOEXEC | SOCK_NONBLOCK;

// Null: `record` does not accept ahead. acquire: pairs with accept_ahead().
Inflow* inflow_of(const Watched& record) noexcept {
  return reinterpret_cast<Inflow*>(record.of_reactor.load(std::memory_order_acquire));
}

// An entry has 32 bits for the length: more would be cut to something else, or to nothing.
std::size_t length_of(const iovec& part) noexcept {
  return std::min(part.iov_len, std::size_t{1} << 30);
}

void fill(io_uring_sqe& entry, const IoCall& call) noexcept {
  const IoCall::Request& request = call.request();
  const int fd = call.fd();
  switch (request.kind) {
    case IoCall::Kind::receive: {
      const msghdr& message = *request.message;
      const bool plain = message.msg_iovlen == 1 && !message.msg_name && !message.msg_control;
      const iovec& part = *message.msg_iov;
      if (plain) io_uring_prep_recv(&entry, fd, part.iov_base, length_of(part), 0);
      else io_uring_prep_recvmsg(&entry, fd, request.message, MSG_CMSG_CLOEXEC);
      if (request.would_block) entry.ioprio |= IORING_RECVSEND_POLL_FIRST;
      break;
    }
    case IoCall::Kind::send: {
      const msghdr& message = *request.message;
      const bool plain = message.msg_iovlen == 1 && !message.msg_name && !message.msg_control;
      const iovec& part = *message.msg_iov;
      if (plain) io_uring_prep_send(&entry, fd, part.iov_base, length_of(part), MSG_NOSIGNAL);
      else io_uring_prep_sendmsg(&entry, fd, request.message, MSG_NOSIGNAL);
      break;
    }
    case IoCall::Kind::accept:
      if (request.address) request.address->length = sizeof request.address->storage;
      io_uring_prep_accept(&entry, fd, request.address ? request.address->get() : nullptr,
                           request.address ? &request.address->length : nullptr, kAccepted);
      break;
    case IoCall::Kind::connect:
      io_uring_prep_connect(&entry, fd, request.address->get(), request.address->length);
      break;
  }
  entry.user_data = address_of(call);
}

// Nobody wants to know how that went, unless it fails, and then nobody minds.
void fill_cancel(io_uring_sqe& entry) noexcept {
  entry.user_data = kNobody;
  entry.flags |= IOSQE_CQE_SKIP_SUCCESS;
}

void push_poll(Ring& ring, const Watched& record) noexcept {
  ring.push([&](io_uring_sqe& entry) {
    io_uring_prep_poll_multishot(&entry, record.fd, kEdges);
    entry.user_data = record.key() | kPoll;
  });
}

std::string refusal(int error) {
  const std::string text = std::generic_category().message(error);
  switch (error) {
    case ENOSYS: return "the kernel has no io_uring (" + text + ")";
    case EPERM:
    case EACCES:
      return "io_uring is forbidden here, by a sandbox or the sysctl kernel.io_uring_disabled (" +
             text + ")";
    case EINVAL: return "the kernel's io_uring is older than that of Linux 5.19 (" + text + ")";
    default: return "no io_uring can be set up (" + text + ")";
  }
}

// By behaviour: sandboxes exist that let one make a ring, and answer nothing.
std::string try_out(Ring& ring) {
  static char landing;  // not on our stack: who answers nothing now may do so later
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return refusal(errno);
  const Locked locked{ring.lock};
  ring.push([](io_uring_sqe& entry) {
    io_uring_prep_nop(&entry);
    entry.user_data = kNobody;
  });
  ring.push([&](io_uring_sqe& entry) {
    io_uring_prep_read(&entry, ends[0], &landing, 1, 0);
    entry.user_data = kCall;
  });
  ring.enter();
  bool done = ::write(ends[1], "w", 1) != 1, answered = false;
  for (unsigned i = 0; i < 100 && !done; ++i) {
    constexpr std::timespec kAWhile{0, 10'000'000};
    ring.sleep(&kAWhile);
    while (const auto answer = ring.pop())
      if (answer->to == kCall) done = true, answered = answer->result == 1 && landing == 'w';
  }
  ::close(ends[0]);
  ::close(ends[1]);
  return answered ? "" : "io_uring can be set up, but does not read from a pipe";
}

std::string open_and_try(Ring& ring, unsigned entries) {
  if (const int error = ring.open(entries); error != 0) return refusal(-error);
  if (!ring.knows_all_operations()) return refusal(EINVAL);
  return try_out(ring);
}

}  // namespace

// ── making one ──────────────────────────────────────────────────────────────────────────────────

std::string UringReactor::probe() {
  Ring ring;
  return open_and_try(ring, 4);
}

std::shared_ptr<UringReactor> UringReactor::make(const Io& engine, unsigned workers,
                                                 unsigned entries, std::string& reason) {
  std::shared_ptr<UringReactor> made{new UringReactor{engine, workers}};
  reason = open_and_try(*made->rings_[0], entries);
  for (std::size_t i = 1; i < workers && reason.empty(); ++i)
    if (const int error = made->rings_[i]->open(entries); error != 0) reason = refusal(-error);
  return reason.empty() ? made : nullptr;
}

UringReactor::UringReactor(const Io& engine, unsigned workers)
    : kernel_(kernel_for_reactors()), engine_(&engine) {
  for (unsigned i = 0; i < workers; ++i) rings_.push_back(std::make_unique<Ring>());
}

// ── edges ───────────────────────────────────────────────────────────────────────────────────────

// Most connections never wait for an edge: they receive by calls, and what they send fits.
Kernel::Answer UringReactor::watch(Watched&) noexcept { return kOnDemand; }

template <class Push>
void UringReactor::begin(Watched& record, Push push) noexcept {
  Ring* const own = ring_here();
  Ring& ring = own ? *own : ring_of(0);
  const Locked locked{ring.lock};
  if (!record.uses.enter()) return;  // closed: whoever waits will be told so
  push(ring);
  if (!own) ring.enter_all();
}

void UringReactor::tell_from_now(Watched& record) noexcept {
  if (record.told.exchange(true, std::memory_order_relaxed)) return;
  begin(record, [&](Ring& ring) { push_poll(ring, record); });
}

// What a poll says may be long gone, and whoever waits for an edge waits for what comes after that.
// Nor is all of it true: TCP says that there is something urgent whenever there is something.
std::uint32_t UringReactor::events_now(const Watched& record, int answer) noexcept {
  if (answer < 0) return POLLIN | POLLOUT;  // they try, and see
  const auto told = static_cast<std::uint32_t>(answer);
  const Kernel::Answer now = kernel_.poll(record.fd, kEdges);
  return now < 0 ? told : static_cast<std::uint32_t>(now) & (told | POLLERR | POLLHUP);
}

// The poll is a call on the record, so that it is whose it was.
void UringReactor::take_poll(Ring& ring, const Ring::Answer& answer, FiberList& woken) noexcept {
  const Watched::Key key = answer.to & ~kTags;
  Watched& record = Watched::of(key);
  const bool goes_on = (answer.flags & IORING_CQE_F_MORE) != 0;
  const bool refused = answer.result < 0 && answer.result != -ECANCELED;
  if (!goes_on && refused) record.told.store(false, std::memory_order_relaxed);
  if (const std::uint32_t events = events_now(record, answer.result); events != 0)
    Watched::tell(key, events, woken);
  if (goes_on) return;
  if (!refused && !record.uses.is_closed()) return push_poll(ring, record);
  if (record.uses.leave()) record.quiet.tell(woken);  // an edge too many does nobody harm
}

// ── connections, before they are asked for ──────────────────────────────────────────────────────

// Who has found nothing so far, and not begun the operation, is woken, and looks again. Nobody
// waits to write to a listener, so that it needs no poll.
void UringReactor::accept_ahead(Watched& record) noexcept {
  if (!takes_calls() || inflow_of(record)) return;
  std::unique_ptr<Inflow> made;
  try {
    made = std::make_unique<Inflow>();
  } catch (const std::bad_alloc&) {
    return;  // as before, then
  }
  std::uintptr_t none = 0;
  // release: pairs with inflow_of().
  if (!record.of_reactor.compare_exchange_strong(none, reinterpret_cast<std::uintptr_t>(made.get()),
                                                 std::memory_order_acq_rel))
    return;
  static_cast<void>(made.release());  // forget() deletes it
  record.accepts_ahead.store(true, std::memory_order_relaxed);
  record.told.store(true, std::memory_order_relaxed);
  FiberList woken;
  record.in.tell(woken);
  resume_all(std::move(woken));
}

void UringReactor::accept_given_up(Watched& record) noexcept {
  if (kernel_.poll(record.fd, POLLIN) == 0) return;
  FiberList woken;
  ask_all_back(record, woken);
  resume_all(std::move(woken));
}

void UringReactor::begin_accepting(Watched& record) noexcept {
  begin(record, [&](Ring& ring) {
    ring.push([&](io_uring_sqe& entry) {
      io_uring_prep_multishot_accept(&entry, record.fd, nullptr, nullptr, kAccepted);
      entry.user_data = record.key() | kAccept;
    });
  });
}

Kernel::Answer UringReactor::accept(Watched& record, SocketAddress* peer) noexcept {
  Inflow* const inflow = inflow_of(record);
  if (!inflow) return Reactor::accept(record, peer);
  const Inflow::Found found = inflow->take();
  if (found.begin) begin_accepting(record);
  if (found.answer < 0 || !peer) return found.answer;
  const auto fd = static_cast<int>(found.answer);
  if (kernel_.peer_address(fd, *peer) >= 0) return fd;
  static_cast<void>(kernel_.close(fd));
  return -ECONNABORTED;  // as if it had been in the backlog when it broke
}

// What the backlog has will be here soon.
Kernel::Answer UringReactor::poll(Watched& record, short events) noexcept {
  Inflow* const inflow = (events & POLLIN) != 0 ? inflow_of(record) : nullptr;
  if (inflow) {
    const Inflow::Found found = inflow->look();
    if (found.begin) begin_accepting(record);
    if (found.answer != 0) return found.answer;
  }
  return Reactor::poll(record, events);
}

// The operation is a call on the record, as a poll is, and may be the last one.
void UringReactor::take_accepted(Ring& ring, const Ring::Answer& answer,
                                 FiberList& woken) noexcept {
  const Watched::Key key = answer.to & ~kTags;
  Watched& record = Watched::of(key);
  Inflow& inflow = *inflow_of(record);
  const bool goes_on = (answer.flags & IORING_CQE_F_MORE) != 0;
  if (answer.result >= 0) {
    const Inflow::Kept kept = inflow.keep(answer.result);
    if (kept == Inflow::Kept::no_room) static_cast<void>(kernel_.close(answer.result));
    if (kept == Inflow::Kept::enough && goes_on) {
      ring.push([&](io_uring_sqe& entry) {
        io_uring_prep_cancel64(&entry, answer.to, 0);
        fill_cancel(entry);
      });
      ring.enter();  // now: while answers come, all others can wait
    }
  }
  if (!goes_on) inflow.ended(answer.result);
  Watched::tell(key, POLLIN, woken);
  if (!goes_on && record.uses.leave()) record.quiet.tell(woken);
}

void UringReactor::forget(Watched& record) noexcept {
  const std::unique_ptr<Inflow> inflow{inflow_of(record)};
  if (!inflow) return;
  record.of_reactor.store(0, std::memory_order_relaxed);
  inflow->close_all([&](int fd) { static_cast<void>(kernel_.close(fd)); });
}

// ── calls ───────────────────────────────────────────────────────────────────────────────────────

// A kernel that a test has put in between would not see them.
bool UringReactor::takes_calls() const noexcept { return &kernel_ == &system_kernel(); }

void UringReactor::tell(Ring& ring) noexcept {
  ring.pace.tell(arch::ticks());
  ring.enter();
  ring.pace.go_on(arch::ticks());
}

bool UringReactor::submit(IoCall& call) noexcept {
  Ring* const ring = ring_here();
  if (!ring) return false;
  {
    const Locked locked{ring->lock};
    // It would wait for a connection of its own, beside those that wait for somebody to take them.
    if (call.request().kind == IoCall::Kind::accept && inflow_of(call.record())) return false;
    if (!call.take(ring->lock, ring)) return false;
    ring->push([&](io_uring_sqe& entry) { fill(entry, call); });
    ring->pace.call(arch::ticks());
  }
  if (ring->pending() >= kPendingMost) tell(*ring);
  return true;
}

// Who answers a peer goes along with those who wait for the next question, and there are not many
// system calls then. But the answer waits for whoever runs before: not if somebody was at work for
// long of late.
bool UringReactor::gathers_calls() const noexcept {
  const Ring* const ring = ring_here();
  if (!ring) return false;
  return (ring->pending() != 0 && ring->pace.is_quick(arch::ticks())) ||
         all_calls_are_gathered.load(std::memory_order_relaxed);
}

// In the ring that has it, whose worker may be asleep. Calls at the same address that come later
// are behind us in that ring, and not meant.
void UringReactor::recall(IoCall& call) noexcept {
  Ring& ring = *static_cast<Ring*>(call.queue());
  ring.push([&](io_uring_sqe& entry) {
    io_uring_prep_cancel64(&entry, address_of(call), 0);
    fill_cancel(entry);
  });
  if (&ring != ring_here() || ring.in_bed) ring.enter_all();
}

void UringReactor::ask_all_back(const Watched& record, FiberList& woken) noexcept {
  for (const auto& ring : rings_) {
    const Locked locked{ring->lock};
    ring->push([&](io_uring_sqe& entry) {
      io_uring_prep_cancel_fd(&entry, record.fd, IORING_ASYNC_CANCEL_ALL);
      fill_cancel(entry);
    });
    ring->enter_all();
    if (!ring->in_bed) take_answers(*ring, woken);
  }
}

void UringReactor::abandon(Watched& record) noexcept {
  if (record.uses.is_quiet()) return;  // not even a poll
  FiberList woken;
  ask_all_back(record, woken);
  resume_all(std::move(woken));
  // Outside the engine, which may have ended, nobody would hear that it is quiet.
  while (!ring_here() && !record.uses.is_quiet()) {
    constexpr std::timespec kAWhile{0, 100'000};
    Atomic<std::uint32_t> never{0};
    Sync::sleep(never, 0, &kAWhile);
    FiberList others;
    hear_all(others);
    resume_all(std::move(others));
  }
}

// ── answers ─────────────────────────────────────────────────────────────────────────────────────

void UringReactor::take(Ring& ring, const Ring::Answer& answer, FiberList& woken) noexcept {
  const std::uint64_t tag = answer.to & kTags;
  if (tag == kPoll) return take_poll(ring, answer, woken);
  if (tag == kAccept) return take_accepted(ring, answer, woken);
  if (tag != kCall) return;
  IoCall& call = *reinterpret_cast<IoCall*>(answer.to & ~kTags);
  call.complete(answer.result, (answer.flags & IORING_CQE_F_SOCK_NONEMPTY) != 0, woken);
}

bool UringReactor::take_answers(Ring& ring, FiberList& woken) noexcept {
  for (;;) {
    while (const auto answer = ring.pop()) take(ring, *answer, woken);
    if (!ring.has_overflown()) return !woken.empty();
    ring.enter();  // those for which there was no room
  }
}

// What is there is taken first: the more is asked for at once, the better.
bool UringReactor::hear(unsigned place, FiberList& woken) noexcept {
  Ring& ring = ring_of(place);
  if (!ring.has_answers()) {
    if (ring.pending() != 0) tell(ring);
    else if (ring.has_more()) ring.enter();
    if (!ring.has_answers()) return false;
  }
  const Locked locked{ring.lock};
  const bool any = !ring.in_bed && take_answers(ring, woken);
  if (ring.pending() >= kPendingMost) ring.enter();  // a stream of answers must not hold them back
  if (any) ring.pace.go_on(arch::ticks());
  return any;
}

bool UringReactor::hear_all(FiberList& woken) noexcept {
  for (const auto& ring : rings_) {
    if (ring->pending() == 0 && !ring->has_answers() && !ring->has_overflown()) continue;
    if (!ring->lock.try_lock()) continue;
    if (ring->pending() != 0) ring->enter();
    if (!ring->in_bed) take_answers(*ring, woken);
    ring->lock.unlock();
  }
  return !woken.empty();
}

void UringReactor::flush(unsigned place) noexcept {
  Ring& ring = ring_of(place);
  if (ring.pending() != 0) tell(ring);
}

void UringReactor::flush_late() noexcept {
  for (const auto& ring : rings_)
    if (ring->pending() != 0 && ring->pace.is_late(arch::ticks())) ring->enter();
}

// ── sleep ───────────────────────────────────────────────────────────────────────────────────────

// All, so that what is for a worker wakes that worker; but a temporary one has no ring of its own.
bool UringReactor::take_bed(unsigned place, bool) noexcept {
  if (place >= rings_.size()) {
    flush(place);
    return false;
  }
  Ring& ring = ring_of(place);
  const Locked locked{ring.lock};
  ring.in_bed = true;
  return true;
}

// Answers are taken when the worker is up: a fiber that waits no more, in the hands of a worker
// that counts as asleep, would look like a deadlock.
bool UringReactor::sleep(unsigned place, const std::timespec* timeout, FiberList&) noexcept {
  Ring& ring = ring_of(place);
  ring.sleep(timeout);
  return ring.has_answers() || ring.has_overflown();
}

void UringReactor::leave_bed(unsigned place) noexcept {
  Ring& ring = ring_of(place);
  const Locked locked{ring.lock};
  ring.in_bed = false;
}

void UringReactor::rouse(unsigned place) noexcept {
  Ring& ring = ring_of(place);
  const Locked locked{ring.lock};
  ring.push([](io_uring_sqe& entry) {
    io_uring_prep_nop(&entry);
    entry.user_data = kNobody;
  });
  ring.enter_all();
}

}  // namespace weft::engine
