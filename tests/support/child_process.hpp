// Running a program and looking at how it ended.
#pragma once

#include <string>
#include <vector>

namespace weft::testing {

struct ChildResult {
  int exit_code = -1;  // -1: it did not exit
  int signal = 0;      // 0: no signal ended it
  std::string output;  // stdout and stderr, as they came
};

// Runs `arguments` (the program first) with `environment` ("NAME=value") added to ours, and returns
// when it has ended. Core dumps are off in the child. Throws std::system_error if it cannot start.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& environment = {});

// The path of a program that lies beside the running one: all test programs share a directory.
[[nodiscard]] std::string sibling_program(const std::string& name);

}  // namespace weft::testing
