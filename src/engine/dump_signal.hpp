// DumpSignal: while one lives, a signal has every engine dumped to standard error.
#pragma once

#include <string>

namespace weft::engine {

class [[nodiscard]] DumpSignal {
 public:
  // 0: no signal. Throws std::system_error if the signal cannot be had, or no thread for it.
  explicit DumpSignal(int signal);
  ~DumpSignal();  // the last one for a signal restores what was done with it before
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;

  // The threads that wait for such signals: one, or none.
  [[nodiscard]] static unsigned threads() noexcept;

 private:
  const int signal_;
};

// What the thread writes. By the layer above: src/inspect/dump.cpp.
std::string dump_of_all();

}  // namespace weft::engine
