// Part of every test program on the library: how a test knows that it is alone. On real workers a
// number of turns tells nothing, for the kernel may keep a worker from its core: the dump tells.
#include <weft/inspect.hpp>

#include <support/engines.hpp>

#include <algorithm>
#include <atomic>
#include <istream>
#include <sstream>
#include <string>
#include <string_view>

namespace weft::testing {
namespace {

// Of a dump, the lines of fibers that could go on: `#7 "name" runnable, spawned at …`.
int busy_in(std::istream& dump) {
  int busy = 0;
  for (std::string line; std::getline(dump, line);) {
    std::string_view rest = line;
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (!rest.starts_with('#')) continue;
    rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    if (rest.starts_with('"')) rest.remove_prefix(rest.find('"', 1) + 2);
    if (!rest.starts_with("parked") && !rest.starts_with("joins")) ++busy;
  }
  return busy;
}

// Of several that let others block each counts the rest as parked: else none would ever leave.
struct Here {
  Here() { ++count; }
  ~Here() { --count; }  // a turn may end in cancellation
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;
  static inline std::atomic<int> count{0};
};

}  // namespace

void let_others_block() {
  if (in_place()) return;  // there are none
  if (simulated()) return settle();
  const Here self;
  constexpr int kTurns = 20;
  constexpr int kRounds = 10'000;
  for (int round = 0, quiet = 0; quiet < 2; ++round) {
    for (int i = 0; i < kTurns; ++i) this_fiber::yield();
    std::stringstream seen;
    dump_all(seen);
    quiet = busy_in(seen) <= Here::count ? quiet + 1 : 0;
    if (round < kRounds) continue;
    ADD_FAILURE() << "the others do not block\n" << seen.str();
    return;
  }
}

}  // namespace weft::testing
