#include "tour.hpp"

#include <weft/weft.hpp>

#include <stdexcept>
#include <string>

namespace weft::tour {
namespace {

using namespace std::chrono_literals;

std::string two_children() {
  std::string first;  // one each: they may run at the same time
  std::string second;
  nursery([&](Nursery& n) {
    n.spawn([&] { first = "warp\n"; });
    n.spawn([&] { second = "weft\n"; });
  });
  return first + second + "cloth\n";
}

// The first failure ends the others; the nursery throws it once they have ended.
std::string one_child_fails(bool& sibling_unwound) {
  struct Unwound {
    bool& flag;
    ~Unwound() { flag = true; }
  };
  try {
    nursery([&](Nursery& n) {
      n.spawn("sleeper", [&] {
        const Unwound unwound{sibling_unwound};
        sleep_for(1h);
      });
      n.spawn("reader", [] {
        sleep_for(1ms);
        throw std::runtime_error{"disk on fire"};
      });
    });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

void hello(Page& page) {
  FiberIo io;
  const std::string said = io.run(two_children);
  expect(said.size() == 16 && said.ends_with("cloth\n"), "a child was missing at the join");
  page.say("Two children, and the line after the nursery. Both have ended by then, always:");
  page.quote(said);

  bool sibling_unwound = false;
  std::string error;
  const double taken =
      seconds([&] { error = io.run([&] { return one_child_fails(sibling_unwound); }); });
  expect(error == "disk on fire", "the failure of a child was lost");
  expect(sibling_unwound, "the sibling of a failed child was not unwound");
  page.say("One child throws while its sibling sleeps for an hour. The sibling is cancelled, its");
  page.say("destructors run, and the nursery throws \"" + error + "\":");
  page.figure("from the start to the catch", taken * 1e3, "ms");
}

}  // namespace weft::tour
