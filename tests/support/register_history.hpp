// Whether what several clients saw of a register could have happened one after the other.
//
// The search is that of linearizability.hpp, for a register that is read and written: of the calls
// that may come next it takes one after the other, and goes back when none fits. A call that was
// never answered may have happened at any time after it began, or not at all.
#pragma once

#include <support/linearizability.hpp>

#include <weft/time.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::testing {

struct RegisterCall {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t client = 0;
  bool writes = false;
  std::int64_t value = 0;  // what was written, or read
  std::uint64_t called = 0, returned = kNever;
  Instant since{};
};

// By the fibers of one simulation.
class RegisterHistory {
 public:
  // A call begins: its number.
  std::size_t begin(std::uint64_t client, bool writes, std::int64_t value) {
    calls_.push_back({.client = client,
                      .writes = writes,
                      .value = value,
                      .called = ++moments_,
                      .since = Clock::now()});
    return calls_.size() - 1;
  }
  void done(std::size_t call) { calls_[call].returned = ++moments_; }
  void done(std::size_t call, std::int64_t value) {
    calls_[call].value = value;
    done(call);
  }

  [[nodiscard]] std::size_t done_so_far() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        calls_, [](const RegisterCall& one) { return one.returned != RegisterCall::kNever; }));
  }

  [[nodiscard]] Linearizable check() const {
    std::vector<RegisterCall> calls = calls_;
    // A read that was never answered says nothing.
    std::erase_if(calls, [](const RegisterCall& one) {
      return !one.writes && one.returned == RegisterCall::kNever;
    });
    if (calls.size() > kCallsMax) return Linearizable::too_much_to_search;
    Search search{calls, {}, kStatesMax};
    if (search.from({0, 0})) return Linearizable::yes;
    return search.left == 0 ? Linearizable::too_much_to_search : Linearizable::no;
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    for (const RegisterCall& one : calls_) {
      text += "  [" + std::to_string(one.called) + ", ";
      text += one.returned == RegisterCall::kNever ? "never" : std::to_string(one.returned);
      text += "] client " + std::to_string(one.client) + (one.writes ? " writes " : " reads ") +
              std::to_string(one.value) + '\n';
    }
    return text;
  }

 private:
  static constexpr std::size_t kCallsMax = 64;
  static constexpr std::size_t kStatesMax = 1'000'000;
  using State = std::pair<std::uint64_t, std::int64_t>;  // who had their turn, and the value

  struct Search {
    const std::vector<RegisterCall>& calls;
    std::set<State> seen;
    std::size_t left;

    bool from(const State& state) {
      const auto [taken, value] = state;
      std::uint64_t horizon = RegisterCall::kNever;  // who has not begun by then comes later
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (!(taken >> i & 1)) horizon = std::min(horizon, calls[i].returned);
      if (horizon == RegisterCall::kNever) return true;  // the rest need never have happened
      if (left == 0 || !seen.insert(state).second) return false;
      --left;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const RegisterCall& call = calls[i];
        if ((taken >> i & 1) || call.called >= horizon) continue;
        if (!call.writes && call.value != value) continue;
        if (from({taken | std::uint64_t{1} << i, call.writes ? call.value : value})) return true;
      }
      return false;
    }
  };

  std::vector<RegisterCall> calls_;
  std::uint64_t moments_ = 0;
};

}  // namespace weft::testing
