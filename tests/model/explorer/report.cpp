#include "explorer/report.hpp"

#include <cxxabi.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace weft::model {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  std::va_list arguments;
  va_start(arguments, pattern);
  char buffer[1024];
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

const char* word(std::memory_order order) noexcept {
  switch (order) {
    case std::memory_order_relaxed: return "relaxed";
    case std::memory_order_consume: return "consume";
    case std::memory_order_acquire: return "acquire";
    case std::memory_order_release: return "release";
    case std::memory_order_acq_rel: return "acq_rel";
    case std::memory_order_seq_cst: return "seq_cst";
  }
  return "?";
}

const char* word(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::start: return "start";
    case OpKind::load: return "load";
    case OpKind::store: return "store";
    case OpKind::exchange: return "exchange";
    case OpKind::fetch_add: return "fetch_add";
    case OpKind::fetch_sub: return "fetch_sub";
    case OpKind::fetch_or: return "fetch_or";
    case OpKind::fetch_and: return "fetch_and";
    case OpKind::fetch_xor: return "fetch_xor";
    case OpKind::cas_weak: return "cas_weak";
    case OpKind::cas_strong: return "cas_strong";
    case OpKind::fence: return "fence";
    case OpKind::lock: return "lock";
    case OpKind::try_lock: return "try_lock";
    case OpKind::unlock: return "unlock";
    case OpKind::sleep: return "sleep";
    case OpKind::wake: return "wake";
    case OpKind::spin: return "spin";
    case OpKind::var_read: return "read";
    case OpKind::var_write: return "write";
    case OpKind::choose: return "choose";
  }
  return "?";
}

// File name and line, without the directories.
std::string at(Site site) {
  if (!site.file) return "-";
  const char* const slash = std::strrchr(site.file, '/');
  return format("%s:%u", slash ? slash + 1 : site.file, site.line);
}

// Small values as decimals, the rest (pointers, packed words) as hexadecimals.
std::string number(std::uint64_t value) {
  constexpr std::uint64_t kSmall = 100'000;
  return value < kSmall ? std::to_string(value)
                        : format("0x%llx", static_cast<unsigned long long>(value));
}

std::string demangled(const char* type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type;
}

class Writer {
 public:
  Writer(Execution& execution, const Trace& trace) : execution_(execution), trace_(trace) {}

  [[nodiscard]] std::string thread(ThreadId id) const {
    return id == kNoThread ? "nobody" : execution_.thread(id).name;
  }

  [[nodiscard]] std::string place(PlaceId id) const {
    if (id == kNoPlace) return "";
    if (const auto named = trace_.names.find(id); named != trace_.names.end()) return named->second;
    switch (execution_.memory()[id].kind) {
      case PlaceKind::atomic: return format("atomic%u", id);
      case PlaceKind::var: return format("var%u", id);
      case PlaceKind::lock: return format("lock%u", id);
      case PlaceKind::unknown: break;
    }
    return format("place%u", id);
  }

  [[nodiscard]] std::string line(const TraceEntry& entry) const {
    return format("%5u  %-10s %-26s %s", entry.step, thread(entry.thread).c_str(),
                  at(entry.site).c_str(), operation(entry).c_str());
  }

  [[nodiscard]] std::string standing(ThreadId id) const;

 private:
  [[nodiscard]] std::string operation(const TraceEntry& entry) const;
  [[nodiscard]] std::string read_from(const TraceValues& values) const {
    std::string text = format("#%d", values.from);
    text += values.writer_site.file
                ? " of " + thread(values.writer) + " (" + at(values.writer_site) + ")"
                : std::string(" (initial)");
    if (values.from != values.newest) text += format(", newest is #%d", values.newest);
    return text;
  }

  Execution& execution_;
  const Trace& trace_;
};

std::string Writer::operation(const TraceEntry& entry) const {
  const TraceValues& v = entry.values;
  const std::string name = word(entry.kind);
  const std::string where = place(entry.place);
  const std::string order = std::string(" ") + word(entry.order);
  switch (entry.kind) {
    case OpKind::load:
      return where + ".load" + order + " = " + number(v.value) + "   from " + read_from(v);
    case OpKind::store:
      return where + ".store " + number(v.value) + order + format("   as #%d", v.newest);
    case OpKind::exchange:
    case OpKind::fetch_add:
    case OpKind::fetch_sub:
    case OpKind::fetch_or:
    case OpKind::fetch_and:
    case OpKind::fetch_xor:
      return where + "." + name + " " + number(v.operand) + order + " = " + number(v.value) +
             "   from " + read_from(v) + format(", writes #%d", v.newest + 1);
    case OpKind::cas_weak:
    case OpKind::cas_strong:
      if (v.ending == Ending::plain)
        return where + "." + name + " " + number(v.value) + " -> " + number(v.operand) + order +
               " succeeds   from " + read_from(v) + format(", writes #%d", v.newest + 1);
      return where + "." + name + " expects " + number(v.operand) + order +
             (v.ending == Ending::spurious ? " fails spuriously"
                                           : " fails, reads " + number(v.value)) +
             "   from " + read_from(v);
    case OpKind::sleep:
      return where + ".sleep on " + number(v.operand) +
             (v.ending == Ending::slept      ? ": falls asleep   reading "
              : v.ending == Ending::returned ? ": returns, the value differs   reading "
                                             : ": returns early   reading ") +
             read_from(v);
    case OpKind::wake: return where + ".wake " + number(v.operand) + ": wakes " + number(v.value);
    case OpKind::fence: return name + order;
    case OpKind::try_lock:
      return where + ".try_lock" + (v.ending == Ending::failed ? " fails" : "");
    case OpKind::choose: return "choose " + number(v.value) + " of " + number(v.operand);
    case OpKind::spin:
    case OpKind::start: return name;
    case OpKind::lock:
    case OpKind::unlock:
    case OpKind::var_read:
    case OpKind::var_write: break;
  }
  return where + "." + name;
}

// Where a thread stands at the end, and what it waits for.
std::string Writer::standing(ThreadId id) const {
  if (id == execution_.fault().thread) return "fails here";
  const Thread& t = execution_.thread(id);
  const std::string where = at(t.site);
  switch (t.state) {
    case ThreadState::finished: return "finished";
    case ThreadState::asleep:
      return "asleep on " + place(t.place) + " (saw " + number(t.seen) + ", now " +
             number(execution_.memory()[t.place].newest->value) + ") at " + where;
    case ThreadState::spinning: return "spins at " + where;
    case ThreadState::ready:
      if (t.pending_kind == OpKind::lock && execution_.memory().held(t.place))
        return "waits for " + place(t.place) + ", held by " +
               thread(execution_.memory()[t.place].holder) + ", at " + where;
      return std::string("about to ") + word(t.pending_kind) + " " + place(t.place) + " at " +
             where;
    case ThreadState::runnable:
    case ThreadState::unused: break;
  }
  return "running";
}

std::string headline(const Writer& writer, const Fault& fault) {
  std::string text(to_string(fault.kind));
  text += ": ";
  text += fault.kind == Failure::leak ? "nobody destroyed " + demangled(fault.text) : fault.text;
  if (fault.place != kNoPlace) text += " [" + writer.place(fault.place) + "]";
  if (fault.thread != kNoThread) text += "\n  by " + writer.thread(fault.thread);
  if (fault.site.file) text += " at " + at(fault.site);
  if (fault.other != kNoThread) text += "\n  against " + writer.thread(fault.other);
  if (fault.other_site.file) text += " at " + at(fault.other_site);
  return text + "\n";
}

}  // namespace

std::string_view to_string(Failure kind) noexcept {
  switch (kind) {
    case Failure::none: return "no failure";
    case Failure::assertion: return "assertion";
    case Failure::race: return "race";
    case Failure::deadlock: return "deadlock";
    case Failure::livelock: return "livelock";
    case Failure::leak: return "leak";
    case Failure::use_after_free: return "use after free";
    case Failure::abandoned_lock: return "abandoned lock";
    case Failure::lock_misuse: return "lock misuse";
    case Failure::exception: return "exception";
    case Failure::limit: return "explorer limit";
    case Failure::replay: return "replay";
  }
  return "?";
}

std::string summary(const Options& options, const Result& result) {
  std::string mode;
  switch (options.mode) {
    case Mode::dpor: mode = "dpor"; break;
    case Mode::bound: mode = format("bound %u", options.bound); break;
    case Mode::pct: mode = format("pct %u", options.depth); break;
    case Mode::random: mode = "random"; break;
  }
  std::string outcome;
  switch (result.coverage) {
    case Coverage::complete: outcome = "complete"; break;
    case Coverage::bound: outcome = format("all within bound %u", options.bound); break;
    case Coverage::budget: outcome = "budget used up"; break;
    case Coverage::replay: outcome = "replayed"; break;
    case Coverage::failure:
      outcome = "FAILED: ";
      outcome += to_string(result.kind);
      break;
  }
  return format(
      "[model] %-44s %-8s executions %llu, pruned %llu, steps %llu, depth %u, %.2f s, %s",
      options.name.c_str(), mode.c_str(), static_cast<unsigned long long>(result.executions),
      static_cast<unsigned long long>(result.pruned), static_cast<unsigned long long>(result.steps),
      result.max_depth, result.seconds, outcome.c_str());
}

std::string describe_trace(Execution& execution, const Trace& trace) {
  const Writer writer(execution, trace);
  std::string text = " step  thread     where                      operation\n";
  for (const TraceEntry& entry : trace.entries) text += writer.line(entry) + "\n";
  return text;
}

std::string describe_failure(Execution& execution, const Trace& trace, const std::string& replay) {
  const Writer writer(execution, trace);
  std::string text = headline(writer, execution.fault());
  for (unsigned id = 1; id <= execution.threads(); ++id)
    text += format("  %-10s ", execution.thread(static_cast<ThreadId>(id)).name) +
            writer.standing(static_cast<ThreadId>(id)) + "\n";
  text += "replay with WEFT_REPLAY='" + replay + "'\n";
  return text + describe_trace(execution, trace);
}

}  // namespace weft::model
