// A program and a shared library, both with their symbols hidden, as many projects compile theirs:
// what weft keeps once for the process must be one thing for both.
#include <weft/base/biased_lock.hpp>
#include <weft/base/sync.hpp>
#include <weft/core/cancel_scope.hpp>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include "module_victim.hpp"

namespace weft {
namespace {

namespace there = testing::other_module;

TEST(Modules, SeeTheSameSeatsOfObjectLocks) {
  EXPECT_EQ(there::lock_seats_there(), static_cast<const void*>(lock_seats<Sync>.data()));
}

TEST(Modules, SeeTheCancelsOfOthers) {
  FiberIo{}.run([] {
    cancel_scope([](CancelScope& scope) {
      EXPECT_FALSE(there::cancelled_there(scope));
      EXPECT_FALSE(there::cancelled_there(scope)) << "what it remembers";
      scope.cancel();
      EXPECT_TRUE(there::cancelled_there(scope));
    });
  });
}

}  // namespace
}  // namespace weft
