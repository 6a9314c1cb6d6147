#include <weft/inspect.hpp>

#include <weft/core/cancel_scope.hpp>
#include <weft/core/frame_pool.hpp>
#include <weft/core/waitable.hpp>

#include <algorithm>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace weft {
namespace {

using Fibers = std::vector<const Fiber*>;

const Home* home_of(const Fiber& fiber) {
  return static_cast<const Home*>(fiber.strand ? fiber.strand->home : fiber.scope);
}

Fibers fibers_of(const Io& io) {
  struct Search {
    const Io* io;
    Fibers found;
  } search{&io, {}};
  for_each_frame(
      [](Fiber& fiber, void* at) {
        auto& to = *static_cast<Search*>(at);
        if (fiber.io == to.io) to.found.push_back(&fiber);
      },
      &search);
  std::sort(search.found.begin(), search.found.end(),
            [](const Fiber* a, const Fiber* b) { return a->id < b->id; });
  return std::move(search.found);
}

class Dump {
 public:
  Dump(const Engine& engine, std::span<const Fiber* const> running, std::ostream& out)
      : fibers_(fibers_of(engine)), running_(running), out_(out) {
    out_ << engine.kind() << ": " << fibers_.size() << (fibers_.size() == 1 ? " fiber" : " fibers")
         << '\n';
    nurseries_of(nullptr, 1);
  }

 private:
  // The nurseries whose block `owner` is in, each with its fibers, each with theirs.
  void nurseries_of(const Fiber* owner, int depth) {
    std::vector<const Home*> homes;  // in the order of their oldest fiber
    for (const Fiber* fiber : fibers_) {
      const Home* const home = home_of(*fiber);
      if (home->owner() == owner && std::find(homes.begin(), homes.end(), home) == homes.end())
        homes.push_back(home);
    }
    for (const Home* home : homes) {
      indent(depth) << (owner ? "nursery" : "engine");
      if (!home->name().empty()) out_ << " \"" << home->name() << '"';
      out_ << ' ' << to_string(home->state()) << '\n';
      for (const Fiber* fiber : fibers_)
        if (home_of(*fiber) == home) describe(*fiber, depth + 1);
    }
  }

  void describe(const Fiber& fiber, int depth) {
    indent(depth) << '#' << fiber.id;
    if (!fiber.name().empty()) out_ << " \"" << fiber.name() << '"';
    out_ << ' ' << state_of(fiber) << '\n';
    nurseries_of(&fiber, depth + 1);
  }

  // In release builds RUNNING and RUNNABLE are not written to the word; the engine knows.
  std::string state_of(const Fiber& fiber) {
    if (!fiber.strand) return "runnable, not started";
    if (std::find(running_.begin(), running_.end(), &fiber) != running_.end()) return "running";
    for (const Fiber* other : fibers_)
      if (other->strand && other->strand->beneath == &fiber)
        return "joins #" + std::to_string(other->id) + " in place";
    if (fiber.word.state() != FiberState::parked) return "runnable";
    std::string text = "parked";
    const char* separator = " on ";
    for (const Waitable* arm : fiber.strand->waiting_for) {
      const WaitReason reason = arm->reason();
      text += separator + std::string{reason.verb};
      if (!reason.name.empty()) text += " \"" + std::string{reason.name} + '"';
      separator = " or ";
    }
    return text;
  }

  std::ostream& indent(int depth) {
    for (int i = 0; i < depth; ++i) out_ << "  ";
    return out_;
  }

  const Fibers fibers_;
  const std::span<const Fiber* const> running_;
  std::ostream& out_;
};

struct Request {
  const Engine& engine;
  std::ostream& out;
};

}  // namespace

void dump(Engine& engine, std::ostream& out) {
  Request request{engine, out};
  const bool answered = engine.inspect(
      [](std::span<const Fiber* const> running, void* at) {
        const auto& to = *static_cast<Request*>(at);
        Dump{to.engine, running, to.out};
      },
      &request);
  if (!answered)
    out << engine.kind() << ": no answer within a second; a worker runs a fiber that does not "
                            "give way\n";
  out.flush();
}

void dump_all(std::ostream& out) {
  for_each_engine(
      [](Engine& engine, void* at) { dump(engine, *static_cast<std::ostream*>(at)); }, &out);
}

}  // namespace weft
