// Report: a failed execution in words.
#pragma once

#include <string>

#include "explorer/execution.hpp"
#include "explorer/explore.hpp"
#include "explorer/trace.hpp"

namespace weft::model {

// One line of figures, printed for every exploration.
[[nodiscard]] std::string summary(const Options& options, const Result& result);

// What went wrong, where every thread stands, how to replay it, and the trace. `execution` must
// have just run with `trace`.
[[nodiscard]] std::string describe_failure(Execution& execution, const Trace& trace,
                                           const std::string& replay);

[[nodiscard]] std::string describe_trace(Execution& execution, const Trace& trace);

}  // namespace weft::model
