// Part of every test program on the library: a test that exceeds its limit dumps the state of every
// engine before it dies.
#include <weft/inspect.hpp>

#include <support/watchdog.hpp>

#include <iostream>

namespace {

[[maybe_unused]] const bool kRegistered = [] {
  weft::testing::on_timeout([] { weft::dump_all(std::cerr); });
  return true;
}();

}  // namespace
