// Whether what several callers saw of a channel could have happened one after the other.
//
// The search is Wing's and Gong's, with Lowe's memory of the states it has been in: of the
// operations that may come next (nobody returned before they were called) it takes one after the
// other, asks a sequential channel whether the answer fits, and goes back when none does.
//
// The sequential channel is a queue of what was admitted. A send that waits is admitted when it
// joins the queue, and may return once it is among the first `capacity` of it, or has been
// received; so at capacity 0 it meets its receive, and a close in between takes nothing from it.
#pragma once

#include <weft/sync/channel_core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weft::testing {

// One operation of one caller. A select counts as the arm that won.
struct ChannelCall {
  enum class Verb : std::uint8_t { send, recv, close };
  // For a receive: done, a value; closed, the end; refused, there was none. For a send: refused, it
  // was full. failed: closed or full, the caller was not told. For a close: done, or closed before.
  enum class Answer : std::uint8_t { done, closed, refused, failed };

  Verb verb = Verb::send;
  Answer answer = Answer::done;
  int value = 0;       // each is sent once
  bool waits = false;  // it could be found waiting by others
  std::uint64_t called = 0, returned = 0;
  unsigned caller = 0;
};

struct ChannelRules {
  std::size_t capacity = 0;
  Overflow overflow = Overflow::block;
};

enum class Linearizable : std::uint8_t { yes, no, too_much_to_search };

class LinearizabilityChecker {
 public:
  static constexpr std::size_t kCallsMax = 64;

  LinearizabilityChecker(ChannelRules rules, std::vector<ChannelCall> calls)
      : rules_(rules), calls_(std::move(calls)) {
    std::ranges::sort(calls_, {}, &ChannelCall::called);
  }

  [[nodiscard]] Linearizable check() {
    if (calls_.size() > kCallsMax) return Linearizable::too_much_to_search;
    if (search(State{})) return Linearizable::yes;
    return left_ == 0 ? Linearizable::too_much_to_search : Linearizable::no;
  }

  // For a person to read, in the order of the calls.
  [[nodiscard]] std::string history() const {
    static constexpr const char* kVerbs[] = {"send", "recv", "close"};
    static constexpr const char* kAnswers[] = {"done", "closed", "refused", "failed"};
    std::ostringstream out;
    out << "capacity " << rules_.capacity << ", overflow " << static_cast<int>(rules_.overflow)
        << '\n';
    for (const ChannelCall& call : calls_)
      out << "  [" << call.called << ", " << call.returned << "] caller " << call.caller << ": "
          << kVerbs[static_cast<std::size_t>(call.verb)] << ' ' << call.value
          << (call.waits ? " (waits)" : "") << " -> "
          << kAnswers[static_cast<std::size_t>(call.answer)] << '\n';
    return out.str();
  }

 private:
  using Verb = ChannelCall::Verb;
  using Answer = ChannelCall::Answer;

  struct State {
    std::uint64_t taken = 0;  // the calls that have had their turn
    bool closed = false;
    std::vector<int> queue;   // admitted, and not received
    friend auto operator<=>(const State&, const State&) = default;
  };

  [[nodiscard]] static bool has(const State& state, std::size_t i) {
    return (state.taken >> i & 1) != 0;
  }
  static void take(State& state, std::size_t i) { state.taken |= std::uint64_t{1} << i; }

  // Admitted, but there is no place for its value yet: it cannot have returned.
  [[nodiscard]] bool still_waits(const State& state, const ChannelCall& call) const {
    if (call.verb != Verb::send || call.answer != Answer::done) return false;
    const auto at = std::ranges::find(state.queue, call.value);
    return at != state.queue.end() &&
           static_cast<std::size_t>(at - state.queue.begin()) >= rules_.capacity;
  }

  // Who was called after this had not been called when somebody returned who is not done yet.
  [[nodiscard]] std::uint64_t horizon(const State& state) const {
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      if (!has(state, i) || still_waits(state, calls_[i]))
        earliest = std::min(earliest, calls_[i].returned);
    return earliest;
  }

  bool search(const State& state) {
    const std::uint64_t all = calls_.size() == kCallsMax
                                  ? ~std::uint64_t{0}
                                  : (std::uint64_t{1} << calls_.size()) - 1;
    const std::uint64_t until = horizon(state);
    if (state.taken == all && until == std::numeric_limits<std::uint64_t>::max()) return true;
    if (left_ == 0 || !seen_.insert(state).second) return false;
    --left_;
    for (std::size_t i = 0; i < calls_.size() && calls_[i].called < until; ++i) {
      if (has(state, i)) continue;
      State next = state;
      take(next, i);
      if (apply(next, calls_[i], until) && search(next)) return true;
    }
    return false;
  }

  // False: a channel in this state does not answer so.
  bool apply(State& state, const ChannelCall& call, std::uint64_t until) const {
    switch (call.verb) {
      case Verb::close:
        if (state.closed != (call.answer == Answer::closed)) return false;
        state.closed = true;
        return true;
      case Verb::send: return apply_send(state, call, until);
      case Verb::recv: return apply_recv(state, call);
    }
    return false;
  }

  bool apply_send(State& state, const ChannelCall& call, std::uint64_t until) const {
    const bool full = state.queue.size() >= rules_.capacity;
    switch (call.answer) {
      case Answer::closed: return state.closed;
      case Answer::refused: return !state.closed && full && rules_.overflow != Overflow::drop_old;
      case Answer::failed: return state.closed || full;
      case Answer::done: break;
    }
    if (state.closed) return false;
    if (full && rules_.overflow == Overflow::drop_old) state.queue.erase(state.queue.begin());
    else if (full && !call.waits) return rules_.capacity == 0 && meet(state, call, until);
    state.queue.push_back(call.value);
    return true;
  }

  // A send that does not wait, without a buffer: there is somebody who waits to receive.
  bool meet(State& state, const ChannelCall& send, std::uint64_t until) const {
    if (!state.queue.empty()) return false;
    for (std::size_t i = 0; i < calls_.size() && calls_[i].called < until; ++i)
      if (const ChannelCall& recv = calls_[i];
          !has(state, i) && recv.verb == Verb::recv && recv.waits &&
          recv.answer == Answer::done && recv.value == send.value) {
        take(state, i);
        return true;
      }
    return false;
  }

  static bool apply_recv(State& state, const ChannelCall& call) {
    switch (call.answer) {
      case Answer::done:
        if (state.queue.empty() || state.queue.front() != call.value) return false;
        state.queue.erase(state.queue.begin());
        return true;
      case Answer::closed: return state.closed && state.queue.empty();
      case Answer::refused: return !state.closed && state.queue.empty();
      case Answer::failed: return false;
    }
    return false;
  }

  const ChannelRules rules_;
  std::vector<ChannelCall> calls_;
  std::set<State> seen_;
  std::size_t left_ = 500'000;  // states; a history of thirty calls needs some hundred
};

}  // namespace weft::testing
