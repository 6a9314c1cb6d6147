// What weft throws, besides what programs throw themselves. See also Cancelled.
#pragma once

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

namespace weft {

// Nothing can run, no timer is armed, and nobody outside can wake anybody. what() names each fiber
// and what it waits for.
class Deadlock : public std::exception {
 public:
  explicit Deadlock(std::string report)
      : report_(std::make_shared<std::string>(std::move(report))) {}
  [[nodiscard]] const char* what() const noexcept override { return report_->c_str(); }

 private:
  std::shared_ptr<const std::string> report_;
};

// A fiber could not be given a stack: the system has no memory or no mappings left. what() says
// which limit was met. The fiber never ran; it counts as a failed child of its nursery.
class OutOfStacks : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft
