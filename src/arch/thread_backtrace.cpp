// One request at a time, in one place that is never freed: a thread may answer long after the asker
// has gone away.
//
//   free ──ask──► asked ──handler──► taking ──► taken ──asker──► free
//                   └────────── asker's patience ends ──────────► free
//
// The word holds the number of the request beside its phase, and the signal carries that number:
// who answers late, when another is being asked, finds that it is not meant.
#include "arch/thread_backtrace.hpp"

#include <weft/base/sync.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string_view>

namespace weft::arch {
namespace {

// ── what /proc tells ─────────────────────────────────────────────────────────────────────────────

struct Text {
  std::array<char, 512> room{};
  std::size_t size = 0;
  [[nodiscard]] std::string_view view() const noexcept { return {room.data(), size}; }
};

bool read_file_of(pid_t tid, const char* file, Text& text) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, file);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = ::read(fd, text.room.data(), text.room.size() - 1);
  ::close(fd);
  text.size = got > 0 ? static_cast<std::size_t>(got) : 0;
  return got > 0;
}

bool exists(pid_t tid) noexcept {
  return ::syscall(SYS_tgkill, ::getpid(), tid, 0) == 0;
}

}  // namespace

ThreadState state_of_thread(pid_t tid) noexcept {
  Text text;
  if (!read_file_of(tid, "stat", text))
    return exists(tid) ? ThreadState::running : ThreadState::gone;
  // "tid (name) state …": the name may hold brackets.
  const std::size_t at = text.view().rfind(')');
  if (at == std::string_view::npos || at + 2 >= text.size) return ThreadState::running;
  switch (text.view()[at + 2]) {
    case 'S':
    case 'D': return ThreadState::sleeping;
    case 'X':
    case 'Z': return ThreadState::gone;
    default: return ThreadState::running;
  }
}

std::string place_in_kernel(pid_t tid) {
  std::string place;
  Text text;
  // "number arguments… stack-pointer program-counter", "-1 …" in a fault, or "running".
  if (read_file_of(tid, "syscall", text) && text.view()[0] != 'r') {
    text.room[text.size] = '\0';
    const long number = std::strtol(text.room.data(), nullptr, 10);
    place = number >= 0 ? "system call " + std::to_string(number) : "a fault";
    if (const char* const last = std::strrchr(text.room.data(), ' ')) {
      const std::uintptr_t counter = std::strtoul(last, nullptr, 16);
      place += ", made at " + name_of_address(reinterpret_cast<const void*>(counter), true);
    }
  }
  if (read_file_of(tid, "wchan", text) && text.view() != "0")
    place += (place.empty() ? "" : ", ") + std::string{"waiting in "} + std::string{text.view()};
  return place;
}

bool peek(const void* from, void* to, std::size_t bytes) noexcept {
  // The kernel copies: memory that is not there is an error, not a fault.
  iovec local{to, bytes};
  iovec remote{const_cast<void*>(from), bytes};
  return ::syscall(SYS_process_vm_readv, ::getpid(), &local, 1UL, &remote, 1UL, 0UL) ==
         static_cast<long>(bytes);
}

// ── the request ──────────────────────────────────────────────────────────────────────────────────

namespace {

enum Phase : std::uint32_t { kFree, kAsked, kTaking, kTaken };
constexpr std::uint32_t kNumbers = 4096;

constexpr std::uint32_t word_of(std::uint32_t number, Phase phase) noexcept {
  return number << 2U | phase;
}

Lock asker_lock;  // one asker at a time
struct Request {
  Atomic<std::uint32_t> word{kFree};
  std::uint32_t number = 0;  // of the latest; guarded by asker_lock
  Backtrace trace;           // the rest belongs to who is at it, as `word` says
  Witness witness{};
} request;
// Sent and not yet handled. One that is not answered stays pending, perhaps for long.
Atomic<std::uint32_t> on_their_way{0};
// A request's number as an address: nobody else sends these with a signal.
std::array<char, kNumbers> number_marks;

void* program_counter_of(const void* context) noexcept {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return reinterpret_cast<void*>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return reinterpret_cast<void*>(machine.pc);
#endif
}

void answer(std::uint32_t number, const void* context) noexcept {
  std::uint32_t asked = word_of(number, kAsked);
  // acquire: pairs with take_backtrace_of(); we see whom to call.
  if (!request.word.compare_exchange_strong(asked, word_of(number, kTaking),
                                            std::memory_order_acq_rel))
    return;  // too late
  void* const counter = program_counter_of(context);
  request.trace.take(counter);
  request.trace.exact_first = request.trace.count != 0 && request.trace.frames[0] == counter;
  if (request.witness.see) request.witness.see(request.witness.at);
  request.word.store(word_of(number, kTaken), std::memory_order_release);  // pairs: the asker
  Sync::wake(request.word, 1);
}

// ── the handler ──────────────────────────────────────────────────────────────────────────────────

Lock handler_lock;
std::size_t answer_handlers = 0;   // these two guarded by handler_lock
bool installed = false;
struct sigaction previous {};      // constant while `ready`
Atomic<bool> ready{false};

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  if (!ready.load(std::memory_order_acquire)) return;  // pairs with the constructor
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler == SIG_IGN) return;
  if (previous.sa_handler != SIG_DFL) return previous.sa_handler(signal);
  // What the signal would have done without us: it ends the process, when we have returned.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  ::raise(signal);
}

extern "C" void weft_backtrace_handler(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto* const mark = static_cast<const char*>(info->si_value.sival_ptr);
  const bool ours = info->si_code == SI_QUEUE && info->si_pid == ::getpid() &&
                    !std::less<>{}(mark, number_marks.data()) &&
                    std::less<>{}(mark, number_marks.data() + kNumbers);
  if (ours) {
    answer(static_cast<std::uint32_t>(mark - number_marks.data()), context);
    on_their_way.fetch_sub(1, std::memory_order_release);  // pairs with ~BacktraceHandler()
  } else {
    pass_on(signal, info, context);
  }
  errno = saved_errno;
}

bool is_our_answer(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &weft_backtrace_handler;
}

bool handler_is_on_top() noexcept {
  struct sigaction now {};
  return ::sigaction(backtrace_signal(), nullptr, &now) == 0 && is_our_answer(now);
}

void install() noexcept {
  if (handler_is_on_top()) return;
  struct sigaction now {};
  ::sigaction(backtrace_signal(), nullptr, &now);
  // Beneath one that the program put on top last time, and still called through it: not twice.
  if (installed && now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) return;
  previous = now;
  ready.store(true, std::memory_order_release);  // pairs with pass_on()
  struct sigaction ours {};
  ours.sa_sigaction = &weft_backtrace_handler;
  // On the stack for signals: the interrupted one may be a fiber's, and nearly full. Nothing may
  // interrupt the walk.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigfillset(&ours.sa_mask);
  installed = ::sigaction(backtrace_signal(), &ours, nullptr) == 0;
}

}  // namespace

int backtrace_signal() noexcept { return SIGRTMAX - 4; }

BacktraceHandler::BacktraceHandler() noexcept {
  prepare_backtraces();
  const Locked hold(handler_lock);
  if (answer_handlers++ == 0) install();
}

BacktraceHandler::~BacktraceHandler() {
  const Locked hold(handler_lock);
  // A signal still on its way would meet the default action, which ends the process: then the
  // handler stays.
  if (--answer_handlers != 0 || !handler_is_on_top()) return;
  if (on_their_way.load(std::memory_order_acquire) != 0) return;
  ::sigaction(backtrace_signal(), &previous, nullptr);
  installed = false;
}

Answer take_backtrace_of(pid_t tid, Backtrace& trace, Witness witness) noexcept {
  const Locked hold(asker_lock);
  if ((request.word.load(std::memory_order_acquire) & 3U) != kFree || !handler_is_on_top())
    return Answer::not_asked;
  const std::uint32_t number = request.number = (request.number + 1) % kNumbers;
  request.witness = witness;
  request.word.store(word_of(number, kAsked), std::memory_order_release);  // pairs with answer()

  siginfo_t info{};
  info.si_signo = backtrace_signal();
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = number_marks.data() + number;
  on_their_way.fetch_add(1, std::memory_order_relaxed);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), tid, info.si_signo, &info) != 0) {
    on_their_way.fetch_sub(1, std::memory_order_relaxed);
    request.word.store(kFree, std::memory_order_relaxed);
    return Answer::not_asked;
  }
  constexpr unsigned kSliceMs = 5;
  const std::timespec slice{0, kSliceMs * 1'000'000};
  std::uint32_t seen = word_of(number, kAsked);
  for (unsigned waited = 0; waited < kAnswerWithinMs; waited += kSliceMs) {
    // acquire: pairs with answer().
    seen = request.word.load(std::memory_order_acquire);
    if (seen == word_of(number, kTaken)) break;
    Sync::sleep(request.word, seen, &slice);
  }
  seen = word_of(number, kAsked);
  if (request.word.compare_exchange_strong(seen, kFree, std::memory_order_acq_rel))
    return Answer::none_in_time;
  // It is at it, or done. The walk is short, but the thread may have lost its core.
  while ((seen = request.word.load(std::memory_order_acquire)) != word_of(number, kTaken))
    Sync::sleep(request.word, seen, &slice);
  trace = request.trace;
  request.word.store(kFree, std::memory_order_release);
  return Answer::taken;
}

}  // namespace weft::arch
