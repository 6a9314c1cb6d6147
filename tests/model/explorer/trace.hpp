// Trace: what one execution did, recorded as data while it runs and printed afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "explorer/fault.hpp"
#include "explorer/limits.hpp"
#include "explorer/operation.hpp"

namespace weft::model {

// How an operation ended that can end in several ways.
enum class Ending : std::uint8_t {
  plain,
  failed,    // compare-exchange, try_lock
  spurious,  // compare-exchange: failed for no reason
  slept,
  returned,  // sleep: the word held another value
  early,     // sleep: for no reason, or by time-out
};

struct TraceValues {
  std::uint64_t value = 0;      // read, written, or chosen
  std::uint64_t operand = 0;    // of a read-modify-write; the expected value of a compare-exchange
  Stamp from = 0;               // the store that was read
  Stamp newest = 0;             // the newest store at that moment
  ThreadId writer = kNoThread;  // whose store was read
  Site writer_site{};
  Ending ending = Ending::plain;
};

struct TraceEntry {
  unsigned step;
  ThreadId thread;
  OpKind kind;
  std::memory_order order;
  PlaceId place;
  Site site;
  TraceValues values;
};

struct Trace {
  std::vector<TraceEntry> entries;
  std::map<PlaceId, std::string> names;  // model::name()
};

}  // namespace weft::model
