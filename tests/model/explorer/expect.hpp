// GoogleTest glue.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>

#include "explorer/explore.hpp"

namespace weft::model {

// For models of deliberately broken code: succeeds only if the search finds a failure of that kind
// within its budget.
template <class Setup>
[[nodiscard]] ::testing::AssertionResult expect_bug(Options options, Setup&& setup, Failure kind) {
  options.minimise = false;
  const Result result = explore(options, std::forward<Setup>(setup));
  if (!result.failed)
    return ::testing::AssertionFailure()
           << options.name << ": no bug found in " << result.executions << " executions";
  if (result.kind != kind)
    return ::testing::AssertionFailure()
           << options.name << ": expected " << to_string(kind) << ", found another failure:\n"
           << result.report;
  return ::testing::AssertionSuccess()
         << options.name << ": found after " << result.executions << " executions";
}

}  // namespace weft::model
