#include <weft/arch/overflow.hpp>

#include <weft/arch/fault.hpp>
#include <weft/base/sync.hpp>
#include "arch/stack_slab.hpp"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace weft::arch {
namespace {

// A handler that the program installed, and that weft's runs on behalf of, may want to print a
// backtrace. Only touched pages cost.
constexpr std::size_t kHandlerRoom = 64 * 1024;

Atomic<DescribeCurrent> describe_current{nullptr};

// ── the message ──────────────────────────────────────────────────────────────────────────────────

// Text in a fixed buffer: nothing here may allocate, lock or ask for the locale.
class Message {
 public:
  Message& operator<<(std::string_view text) noexcept {
    for (const char c : text) put(c);
    return *this;
  }
  Message& operator<<(std::uint64_t number) noexcept {
    std::array<char, 20> digits;
    std::size_t at = digits.size();
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << std::string_view(digits.data() + at, digits.size() - at);
  }
  // A name chosen by the program: bounded, and without what would confuse a terminal.
  Message& quote(const char* text) noexcept {
    constexpr std::size_t kLongest = 64;
    put('"');
    std::size_t i = 0;
    for (; i < kLongest && text[i] != '\0'; ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      put(c < 0x20 || c == 0x7f ? '?' : text[i]);
    }
    if (text[i] != '\0') *this << "...";
    put('"');
    return *this;
  }
  void send() const noexcept {
    std::size_t sent = 0;
    while (sent < size_) {
      const ssize_t wrote = ::write(STDERR_FILENO, text_.data() + sent, size_ - sent);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return;
      sent += static_cast<std::size_t>(wrote);
    }
  }

 private:
  void put(char c) noexcept {
    if (size_ < text_.size()) text_[size_++] = c;
  }
  std::array<char, 512> text_;
  std::size_t size_ = 0;
};

void name_current_fiber(Message& message) noexcept {
  // acquire: pairs with set_describe_current(); what the function needs was set up before it.
  const DescribeCurrent describe = describe_current.load(std::memory_order_acquire);
  OverflowNames names;
  if (describe == nullptr || !describe(names)) {
    message << "a fiber";
    return;
  }
  message << "fiber #" << names.id;
  if (names.name != nullptr && *names.name != '\0') (message << " ").quote(names.name);
}

std::uintptr_t stack_pointer_of(const void* context) noexcept {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return machine.sp;
#endif
}

// True if the fault was a fiber running into the guard below its stack. Then it has been said.
bool report_overflow(const siginfo_t& info, const void* context) noexcept {
  if (info.si_code <= 0) return false;  // sent by a process: there is no address
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  const GuardHit hit = find_guard(address);
  if (!hit.found) return false;

  // An overflowing fiber's stack pointer is in the cell whose guard was hit; or below it, if it was
  // just moved by more than the guard. Elsewhere, somebody's pointer went astray.
  const std::uintptr_t pointer = stack_pointer_of(context);
  const bool overflow = pointer <= hit.end && pointer >= hit.limit - 2 * hit.cell_bytes;
  Message message;
  message << (overflow ? "weft: stack overflow in " : "weft: stray access by ");
  name_current_fiber(message);
  if (overflow)
    message << " (stack " << hit.stack_bytes / 1024 << " KiB, guard hit " << hit.limit - address
            << " bytes below; raise Options::stack_bytes)\n";
  else
    message << " to the guard of another fiber's stack, " << hit.limit - address
            << " bytes below it: a wild pointer, not an overflow\n";
  message.send();
  return overflow;
}

// ── the handlers ─────────────────────────────────────────────────────────────────────────────────

// What weft found installed for one signal.
struct Previous {
  const int signal;
  struct sigaction action;  // constant while `ready`
  Atomic<bool> ready{false};
  Atomic<bool> spent{false};    // SA_RESETHAND: it has had its one call
  bool ours_installed = false;  // and not taken away by us; guarded by handlers_lock
};

Lock handlers_lock;
std::size_t handler_count = 0;  // guarded by handlers_lock
Previous previous_segv{SIGSEGV, {}};
Previous previous_bus{SIGBUS, {}};

void restore_default(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
}

// The end of the process. A fault of our own making happens again on return, now with the default
// action, and the core shows it where it happened. A signal that was sent must be sent again; it
// stays pending until the handler returns.
void die(const siginfo_t& info) noexcept {
  restore_default(info.si_signo);
  if (info.si_code <= 0) ::raise(info.si_signo);
}

// As if weft were not there.
void pass_on(Previous& previous, siginfo_t* info, void* context) noexcept {
  const struct sigaction& action = previous.action;
  const bool once = (action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0;
  // acq_rel exchange, or no call at all: of two threads that fault at once, one gets the handler.
  const bool none = !previous.ready.load(std::memory_order_acquire) ||  // pairs: install()
                    (once && previous.spent.exchange(true, std::memory_order_acq_rel));
  if (none) return die(*info);
  if ((action.sa_flags & SA_SIGINFO) != 0)
    return action.sa_sigaction(info->si_signo, info, context);
  if (action.sa_handler == SIG_DFL) return die(*info);
  if (action.sa_handler == SIG_IGN) {
    // The kernel does not let a fault be ignored, only a signal that was sent.
    if (info->si_code > 0) die(*info);
    return;
  }
  action.sa_handler(info->si_signo);
}

extern "C" void weft_overflow_handler(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  Previous& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  const bool overflow = report_overflow(*info, context);
  pass_on(previous, info, context);
  if (overflow) die(*info);  // nothing can have been mended
  errno = saved_errno;
}

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &weft_overflow_handler;
}

bool is_function(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void install(Previous& previous) noexcept {
  struct sigaction now {};
  ::sigaction(previous.signal, nullptr, &now);
  // Left in place last time, beneath a handler that the program put on top: it is still called
  // through that one. On top of it again, the two would call each other for ever.
  if (previous.ours_installed && is_function(now)) return;
  previous.action = now;
  previous.spent.store(false, std::memory_order_relaxed);
  previous.ready.store(true, std::memory_order_release);  // pairs with pass_on()

  // The program's handler keeps the mask and the nesting that it asked for.
  struct sigaction ours {};
  ours.sa_sigaction = &weft_overflow_handler;
  ours.sa_mask = previous.action.sa_mask;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous.action.sa_flags & (SA_NODEFER | SA_RESTART));
  previous.ours_installed = ::sigaction(previous.signal, &ours, nullptr) == 0;
}

void uninstall(Previous& previous) noexcept {
  struct sigaction now {};
  ::sigaction(previous.signal, nullptr, &now);
  if (!is_ours(now)) return;
  ::sigaction(previous.signal, &previous.action, nullptr);
  previous.ours_installed = false;
}

}  // namespace

void set_describe_current(DescribeCurrent describe) noexcept {
  describe_current.store(describe, std::memory_order_release);  // pairs with name_current_fiber()
}

OverflowHandler::OverflowHandler(OverflowReport report) noexcept
    : counted_(report == OverflowReport::on) {
  if (!counted_) return;
  const Locked hold(handlers_lock);
  if (handler_count++ != 0) return;
  install(previous_segv);
  install(previous_bus);
}

OverflowHandler::~OverflowHandler() {
  if (!counted_) return;
  const Locked hold(handlers_lock);
  if (--handler_count != 0) return;
  uninstall(previous_segv);
  uninstall(previous_bus);
}

// ── the alternate stack ──────────────────────────────────────────────────────────────────────────

// Where the thread's signal stack begins, if it is one of ours.
[[gnu::tls_model("initial-exec")]] static thread_local constinit void* ours_here = nullptr;

SignalStack::SignalStack(OverflowReport report) noexcept {
  if (report == OverflowReport::off) return;
  stack_t before{};
  ::sigaltstack(nullptr, &before);
  const bool had_one = (before.ss_flags & SS_DISABLE) == 0;
  if (had_one && before.ss_sp == ours_here) {
    bytes_ = before.ss_size;
    shared_ = true;
    return;
  }

  // The kernel's frame grows with the processor's registers, hence the question. A program that
  // wanted more than that for its handlers keeps what it wanted.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t bytes = ::getauxval(AT_MINSIGSTKSZ);
  bytes = std::max(bytes, static_cast<std::size_t>(std::max(::sysconf(_SC_SIGSTKSZ), 0L)));
  bytes = std::max(bytes + kHandlerRoom, had_one ? before.ss_size : 0);
  bytes = (bytes + page - 1) / page * page;

  void* const memory = sys_mmap(page + bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK);
  if (memory == MAP_FAILED) return;
  stack_t ours{};
  ours.ss_sp = static_cast<std::byte*>(memory) + page;
  ours.ss_size = bytes;
  if (sys_mprotect(memory, page, PROT_NONE) != 0 || ::sigaltstack(&ours, nullptr) != 0) {
    ::munmap(memory, page + bytes);
    return;
  }
  memory_ = memory;
  guard_bytes_ = page;
  ours_here = ours.ss_sp;
  bytes_ = bytes;
  before_memory_ = before.ss_sp;
  before_bytes_ = before.ss_size;
  before_flags_ = had_one ? 0 : SS_DISABLE;
}

SignalStack::~SignalStack() {
  if (memory_ == nullptr) return;
  stack_t now{};
  ::sigaltstack(nullptr, &now);
  // The program may have set another one meanwhile, which is not ours to take away.
  if (now.ss_sp == static_cast<std::byte*>(memory_) + guard_bytes_) {
    stack_t before{};
    before.ss_sp = before_memory_;
    before.ss_size = before_bytes_;
    before.ss_flags = before_flags_;
    ::sigaltstack(&before, nullptr);
  }
  ours_here = nullptr;
  ::munmap(memory_, guard_bytes_ + bytes_);
}

}  // namespace weft::arch
