#include <weft/core/descriptor.hpp>

#include <sys/epoll.h>

#include <new>
#include <optional>

namespace weft {

// ── records ─────────────────────────────────────────────────────────────────────────────────────

struct WatchedPool {
  static WatchedPool& get() {
    static WatchedPool* const kept = new WatchedPool;  // never destroyed: events may come late
    return *kept;
  }
  Watched* take() noexcept {
    const Locked locked{lock};
    Watched* const record = free;
    if (record) free = record->next_free_;
    return record;
  }
  void give(Watched& record) noexcept {
    const Locked locked{lock};
    record.next_free_ = free;
    free = &record;
  }

  Lock lock;
  Watched* free = nullptr;
};

Watched& Watched::make(int fd, std::shared_ptr<Reactor> reactor) {
  Watched* record = WatchedPool::get().take();
  if (!record) record = new Watched;
  record->fd = fd;
  record->reactor = std::move(reactor);
  record->told.store(false, std::memory_order_relaxed);
  record->takes_calls = record->reactor->takes_calls();
  record->likely_empty.store(false, std::memory_order_relaxed);
  record->accepts_ahead.store(false, std::memory_order_relaxed);
  record->uses.reopen();
  return *record;
}

void Watched::recycle(Watched& record) noexcept {
  record.generation_.fetch_add(1, std::memory_order_relaxed);
  record.fd = -1;
  record.reactor.reset();
  WatchedPool::get().give(record);
}

// At worst an edge too many: who is told tries, and waits again.
void Watched::tell(Key key, std::uint32_t events, FiberList& woken) noexcept {
  Watched& record = of(key);
  if (record.key() != key) return;
  const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  // Urgent data ends a read before all there is has been read; it must be tried again.
  const bool in_ends = broken || (events & (EPOLLRDHUP | EPOLLPRI)) != 0;
  if (in_ends || (events & EPOLLIN)) record.in.tell(woken, in_ends);
  if (broken || (events & EPOLLOUT)) record.out.tell(woken, broken);
}

// ── descriptors ─────────────────────────────────────────────────────────────────────────────────

Result<Kernel*> Descriptor::kernel_here() {
  const std::shared_ptr<Reactor> reactor = io().reactor();
  if (!reactor) return Unexpected{IoError::no_reactor};
  return &reactor->kernel();
}

Result<Descriptor> Descriptor::adopt(int fd, Carries carries, std::string_view reading,
                                     std::string_view writing) {
  std::shared_ptr<Reactor> reactor = io().reactor();
  if (!reactor) {
    static_cast<void>(system_kernel().close(fd));
    return Unexpected{IoError::no_reactor};
  }
  Kernel& kernel = reactor->kernel();
  Watched* record = nullptr;
  try {
    record = &Watched::make(fd, std::move(reactor));
  } catch (const std::bad_alloc&) {
    static_cast<void>(kernel.close(fd));
    return Unexpected{std::errc::not_enough_memory};
  }
  record->in.begin({.verb = reading, .object = record, .from_outside = true});
  record->out.begin({.verb = writing, .object = record, .from_outside = true});
  // The kernel may have a call, too, or a poll: its last word comes from outside.
  record->quiet.begin({.verb = "close", .object = record, .from_outside = true});
  Descriptor descriptor{*record, carries};
  const Kernel::Answer answer = record->reactor->watch(*record);
  if (answer != Reactor::kOnDemand) record->told.store(true, std::memory_order_relaxed);
  if (answer >= 0 || answer == -EPERM) return descriptor;
  return Unexpected::of(static_cast<int>(-answer));
}

namespace {

std::size_t bytes_in(std::span<const iovec> parts) noexcept {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

msghdr message_of(std::span<const iovec> parts) noexcept {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // which the kernel only reads
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

Result<std::size_t> Descriptor::read(std::span<const iovec> parts) const {
  return call(Way::in, bytes_in(parts), [&](Kernel& kernel, int fd) {
    return kernel.read(fd, parts.data(), static_cast<int>(parts.size()));
  });
}

Result<std::size_t> Descriptor::write(std::span<const iovec> parts) const {
  return call(Way::out, bytes_in(parts), [&](Kernel& kernel, int fd) {
    return kernel.write(fd, parts.data(), static_cast<int>(parts.size()));
  });
}

// If there seems to be nothing yet, the kernel makes the call, once, when there is. Else we make it
// ourselves, and save the way through the queue. Nothing: the kernel does not take it.
template <class Attempt>
std::optional<Result<std::size_t>> Descriptor::take_in(std::size_t asked,
                                                       const IoCall::Request& request,
                                                       Attempt attempt) const {
  for (;;) {
    checkpoint(Fiber::current());
    const bool by_kernel = record_->likely_empty.load(std::memory_order_relaxed);
    bool left_more = carries_ != Carries::stream;
    const Kernel::Answer answer =
        by_kernel ? leave_to_kernel(Way::in, request, left_more)
                  : attempt(record_->reactor->kernel(), record_->fd);
    const bool is_short = answer > 0 && static_cast<std::size_t>(answer) < asked;
    // A listener stays as it is: the kernel looks before it waits.
    const bool likely = answer == -EAGAIN || (asked == 0 ? by_kernel : is_short && !left_more);
    if (likely != by_kernel) record_->likely_empty.store(likely, std::memory_order_relaxed);
    if (answer >= 0) return static_cast<std::size_t>(answer);
    if (record_->uses.is_closed()) return Unexpected{IoError::closed};
    if (by_kernel && answer == -EAGAIN) return std::nullopt;
    if (answer != -EAGAIN && answer != -EINTR && answer != -ECANCELED)
      return Unexpected::of(static_cast<int>(-answer));
  }
}

Kernel::Answer Descriptor::leave_to_kernel(Way way, const IoCall::Request& request,
                                           bool& left_more) const {
  IoCall made{*record_, way == Way::in ? record_->in : record_->out, request};
  wait_fused(Fiber::current(), made);
  left_more = made.left_more();
  return made.was_refused() ? -EAGAIN : made.answer();
}

Result<std::size_t> Descriptor::receive(std::span<const iovec> parts) const {
  msghdr message = message_of(parts);
  const std::size_t asked = bytes_in(parts);
  const auto attempt = [&](Kernel& kernel, int fd) { return kernel.receive(fd, message, 0); };
  const Use use{record_};
  if (use && record_->takes_calls && asked != 0)
    if (auto taken = take_in(asked,
                             {.kind = IoCall::Kind::receive,
                              .message = &message,
                              .would_block = true},
                             attempt))
      return *std::move(taken);
  return call(Way::in, asked, attempt);
}

Result<std::size_t> Descriptor::send(std::span<const iovec> parts) const {
  msghdr message = message_of(parts);
  const std::size_t asked = bytes_in(parts);
  const Use use{record_};
  if (use && record_->takes_calls && asked != 0 && record_->reactor->gathers_calls()) {
    checkpoint(Fiber::current());
    bool left_more = false;
    const Kernel::Answer answer =
        leave_to_kernel(Way::out, {.kind = IoCall::Kind::send, .message = &message}, left_more);
    if (answer >= 0) return static_cast<std::size_t>(answer);
    if (record_->uses.is_closed()) return Unexpected{IoError::closed};
    if (answer != -EAGAIN && answer != -EINTR && answer != -ECANCELED)
      return Unexpected::of(static_cast<int>(-answer));
  }
  return call(Way::out, asked, [&](Kernel& kernel, int fd) {
    return kernel.send(fd, message, 0);
  });
}

Result<int> Descriptor::accept(SocketAddress* peer) const {
  const auto attempt = [&](Kernel&, int) { return record_->reactor->accept(*record_, peer); };
  const Use use{record_};
  std::optional<Result<std::size_t>> taken;
  // A hint: a call that is left to the kernel all the same is refused.
  if (use && record_->takes_calls && !record_->accepts_ahead.load(std::memory_order_relaxed)) {
    try {
      taken = take_in(0, {.kind = IoCall::Kind::accept, .address = peer}, attempt);
    } catch (...) {
      record_->reactor->accept_given_up(*record_);
      throw;
    }
  }
  if (!taken) taken = call(Way::in, 0, attempt);
  if (!*taken) return taken->failure();
  return static_cast<int>(**taken);
}

void Descriptor::accept_ahead() const noexcept {
  const Use use{record_};
  if (use) record_->reactor->accept_ahead(*record_);
}

// The first call begins it. That it is over shows as an edge, and what came of it in SO_ERROR.
Result<void> Descriptor::connect(const SocketAddress& address) const {
  bool begun = false, came_back = false, no_room = false;
  const Use use{record_};
  if (use && record_->takes_calls) {
    checkpoint(Fiber::current());
    SocketAddress to = address;
    bool left_more = false;
    const Kernel::Answer answer =
        leave_to_kernel(Way::out, {.kind = IoCall::Kind::connect, .address = &to}, left_more);
    if (answer == 0) return {};
    if (record_->uses.is_closed()) return Unexpected{IoError::closed};
    begun = answer == -EINPROGRESS || answer == -EALREADY;
    came_back = answer == -EAGAIN || answer == -EINTR || answer == -ECANCELED;
    if (!begun && !came_back) return Unexpected::of(static_cast<int>(-answer));
  }
  const Result<std::size_t> made = call(Way::out, 0, [&](Kernel& kernel, int fd) -> Kernel::Answer {
    if (!begun) {
      begun = true;
      const Kernel::Answer answer = kernel.connect(fd, address.get(), address.length);
      if (answer == -EISCONN && came_back) return 0;
      if (answer == -EAGAIN) {  // no room, and no edge when there is: try again later
        no_room = true;
        return 0;
      }
      const bool begins = answer == -EINPROGRESS || answer == -EALREADY || answer == -EINTR;
      return begins ? -EAGAIN : answer;
    }
    if (kernel.poll(fd, EPOLLOUT) == 0) return -EAGAIN;
    int error = 0;
    socklen_t length = sizeof error;
    const Kernel::Answer answer = kernel.get_option(fd, SOL_SOCKET, SO_ERROR, &error, length);
    return answer < 0 ? answer : -error;
  });
  if (no_room) return Unexpected{std::errc::resource_unavailable_try_again};
  if (!made) return made.failure();
  return {};
}

Result<void> Descriptor::close() noexcept {
  if (!record_ || !record_->uses.close()) return {};
  Watched& record = *record_;
  FiberList woken;
  record.tell_all(woken);
  resume_all(std::move(woken));
  record.reactor->abandon(record);
  for (;;) {
    const Readiness::Edges seen = record.quiet.edges();
    if (record.uses.is_quiet()) break;
    Readiness::Wait last{record.quiet, seen};
    wait_shielded(last);
  }
  record.reactor->forget(record);
  const Kernel::Answer answer = record.reactor->kernel().close(std::exchange(record.fd, -1));
  if (answer < 0 && answer != -EINTR) return Unexpected::of(static_cast<int>(-answer));
  return {};
}

void Descriptor::release() noexcept {
  if (!record_) return;
  static_cast<void>(close());
  Watched::recycle(*std::exchange(record_, nullptr));
}

// The record may be another descriptor's by now: an edge too many does its closer no harm.
void Descriptor::Use::tell_closer() noexcept {
  FiberList woken;
  record_->quiet.tell(woken);
  resume_all(std::move(woken));
}

// ── readiness as an arm ─────────────────────────────────────────────────────────────────────────

namespace {

Readiness& direction(Watched& record, Way way) noexcept {
  return way == Way::in ? record.in : record.out;
}

}  // namespace

Descriptor::Ready::Ready(const Descriptor& descriptor, Way way) noexcept
    : record_(descriptor.record_), way_(way) {}

bool Descriptor::Ready::try_complete() {
  const Use use{record_};
  if (!use) return true;
  Readiness& ready = direction(*record_, way_);
  seen_ = ready.edges();
  if (record_->uses.is_closed()) return true;  // else its edge is yet to come
  // The kernel is asked though no edge was heard since the last call: it may be on its way.
  const short events = way_ == Way::in ? EPOLLIN : EPOLLOUT;
  if (record_->reactor->poll(*record_, events) != 0) return true;
  if (!record_->told.load(std::memory_order_relaxed)) record_->reactor->tell_from_now(*record_);
  ready.drained(seen_);
  return false;
}

bool Descriptor::Ready::publish() noexcept {
  return direction(*record_, way_).link_after(seen_, *this);
}
void Descriptor::Ready::unpublish() noexcept { direction(*record_, way_).unlink(*this); }

WaitReason Descriptor::Ready::reason() const noexcept {
  return direction(*record_, way_).reason();
}

// Closing is an edge, too. The edges are counted before it is asked for.
bool Descriptor::Closed::try_complete() {
  if (!record_) return true;
  seen_ = record_->in.edges();
  return record_->uses.is_closed();
}

bool Descriptor::Closed::publish() noexcept { return record_->in.link_after(seen_, *this); }
void Descriptor::Closed::unpublish() noexcept { record_->in.unlink(*this); }
WaitReason Descriptor::Closed::reason() const noexcept {
  return {.verb = "until closed", .object = record_};
}

}  // namespace weft
