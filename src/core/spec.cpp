#include <weft/core/spec.hpp>

#include <weft/base/sync.hpp>

#include <cstdio>
#include <cstdlib>

namespace weft::spec {

namespace {

constexpr std::array kDecisions{
    Decision{"S0 F3: PARKING is not claimable; S1 completes a wait in that window",
             "the stack is never claimed while PARKING, but a verdict may be latched",
             "exact hand-off without retry; F4 stays intact"},
    Decision{"S0 §4.2, §9: F commits PARKED on its own stack, and claims itself",
             "Wk does both, on the far side of the switch (S1)",
             "between commit and switch another worker could run the same stack"},
    Decision{"S0 §9: F or N performs PARKING -> RUNNING", "N latches a verdict, F aborts",
             "only the parker can unpublish its arms"},
    Decision{"S0 §9: F or Wk performs a yield", "Wk, on the far side of the switch",
             "a thief could run a stack that is still in use"},
    Decision{"S0 §8: a 64-bit ticket beside the state", "48 bits inside the compare-exchange",
             "checked beside it, a stale timeout can end the next wait"},
    Decision{"S0 §9: rows that need no CAS",
             "an RMW from begin_park to the end of the wait; other writes are not made in release",
             "wakers and cancellers share the word of a fiber that waits"},
    Decision{"S0 §1.2: cancellation is lazy", "eager, through the standard claim",
             "a timeout on a parked fiber needs it; S0 allows it"},
    Decision{"S1: a rendezvous must not abort after commit; S0 and S3 cancel parked fibers",
             "the claim is the point of no return: a cancel wins it, or the operation completed",
             "no value is lost, none doubled"},
    Decision{"S3 §4.2: a cancelled child that has not started is left open",
             "RUNNABLE -> CANCELLED by its worker; the body never runs", "no work after cancel"},
    Decision{"S3 §7: nursery state and completed count are separate words",
             "one word: state, waiter bit, live count",
             "the last child and the closer can miss each other"},
    Decision{"S3 §5.1: awaiting closes first",
             "nursery(body) joins open; after the last child OPEN -> CLOSING -> CLOSED at once",
             "children may spawn siblings until the last one is done"},
    Decision{"S0 §5.3: close wakes every waiter; S0 §5.2: admitted senders are still delivered",
             "close wakes receivers; parked senders stay until received or the receivers are gone",
             "closing does not discard what was admitted"},
};

// One line in one write, so that the words of several dying threads do not mix; then SIGABRT, which
// a parent process can tell from every other end.
[[noreturn]] void die(std::initializer_list<std::string_view> words, Where where) {
  std::array<char, 512> line{};
  std::size_t used = 0;
  for (const std::string_view word : words)
    used += word.copy(line.data() + used, line.size() - 1 - used);
#if defined(WEFT_MODEL)
  model::check(false, line.data());  // with a trace and a replay string
#endif
  std::fprintf(stderr, "weft: spec violated: %s (%s:%u)\n", line.data(), where.file, where.line);
  std::abort();
}

}  // namespace

std::span<const Decision> decisions() { return kDecisions; }

void violated(Rule rule, Where where) {
  const RuleText& broken = kRules[static_cast<std::size_t>(rule)];
  die({broken.name, ": ", broken.text}, where);
}

void violated(std::string_view machine, std::string_view from, std::string_view to,
              std::string_view actor, Where where) {
  die({"no ", machine, " edge ", from, " -> ", to, actor.empty() ? "" : " by ", actor}, where);
}

}  // namespace weft::spec
