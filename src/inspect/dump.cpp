// The dump: what the engine shows of itself, and every fiber in the nursery it was spawned in.
//
// Invariant: nothing is read that changes meanwhile. While all workers stand still, that is every
//            fiber. While one runs on, it can start, wake and pick nobody, so parked and queued
//            fibers stay what they are, and so do their homes: a nursery waits for its children.
//            Of all others only what may be read at any moment is read, which is in their frames.
// Race:      the fiber that runs on ends a child in place, whose frame then serves another. The
//            dump may show that one's name; frames are never given back.
#include <weft/inspect.hpp>

#include "../engine/dump_signal.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/core/describe.hpp>
#include <weft/core/frame_pool.hpp>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {
namespace {

using Fibers = std::vector<const Fiber*>;

constexpr int kDepthMax = 64;  // of the tree: a dump may be asked for on a fiber's stack

const Home* home_of(const Fiber& fiber) {
  return &static_cast<const Home*>(fiber.strand ? fiber.strand->home : fiber.scope)->family();
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
  return std::move(search.found);
}

// acquire: pairs with the commit of its park; we see the fiber as it went to rest.
bool is_parked(const Fiber& fiber) {
  return ControlWord::state_of(fiber.word.bits().load(std::memory_order_acquire)) ==
         FiberState::parked;
}

std::string counted(std::size_t count, std::string_view what) {
  return std::to_string(count) + ' ' + std::string{what} + (count == 1 ? "" : "s");
}

class Dump {
 public:
  Dump(const Engine& engine, const EngineSight& sight, std::ostream& out)
      : engine_(engine), sight_(sight), out_(out), words_(sight.now, sight.clock_grain) {
    Fibers all;
    if (!sight.workers.empty()) all = fibers_of(engine);
    out_ << engine.kind() << ": " << counted(all.size(), "fiber") << '\n';
    for (const WorkerSight& worker : sight.workers) describe(worker);
    if (sight.injected != 0) out_ << "  injector " << sight.injected << '\n';
    if (sight.blocking_threads != 0 || sight.blocking_calls != 0)
      out_ << "  blocking " << counted(sight.blocking_threads, "thread") << ", "
           << counted(sight.blocking_calls, "call") << ", of which " << sight.blocking_queued
           << " queued\n";
    sort_out(std::move(all));
    nurseries_of(nullptr, 1);
    show_going();
    if (const std::size_t unseen = all_ - shown_.size(); unseen != 0)
      out_ << "  " << counted(unseen, "fiber") << " not shown: on the way, or too deep\n";
  }

 private:
  // Who stands still, and who belongs to whom.
  void sort_out(Fibers all) {
    all_ = all.size();
    if (!sight_.complete) keep_standing(all);
    // Who has told its home that it has ended, and looks for a successor, has no home any more.
    all_ -= std::erase_if(all, [](const Fiber* fiber) { return !fiber->scope; });
    std::sort(all.begin(), all.end(), [](const Fiber* a, const Fiber* b) { return a->id < b->id; });
    for (const Fiber* const fiber : all) {
      standing_.insert(fiber);
      const Home* const home = home_of(*fiber);
      Fibers& children = children_[home];
      if (children.empty()) homes_[home->owner()].push_back(home);  // by their oldest fiber
      children.push_back(fiber);
      if (const Fiber* const below = beneath(*fiber)) above_[below] = fiber;
    }
    // Owners of nurseries whose children stand still cannot end, whatever else they do.
    for (const auto& [owner, homes] : homes_)
      if (owner && !standing_.contains(owner)) going_.emplace(owner, nullptr);
  }

  void keep_standing(Fibers& all) {
    std::set<const Fiber*> known(sight_.queued.begin(), sight_.queued.end());
    for (const WorkerSight& worker : sight_.workers) {
      if (!worker.running) continue;
      if (!worker.stands_still) {
        going_[worker.running] = &worker;
        continue;
      }
      known.insert(worker.running);
    }
    for (const Fiber* const fiber : all)
      if (is_parked(*fiber)) known.insert(fiber);
    // Below who stands still on a stack, so does everybody.
    Fibers below;
    for (const Fiber* const fiber : known)
      for (const Fiber* at = beneath(*fiber); at; at = beneath(*at)) below.push_back(at);
    known.insert(below.begin(), below.end());
    std::erase_if(all, [&](const Fiber* fiber) { return !known.contains(fiber); });
  }
  static const Fiber* beneath(const Fiber& fiber) {
    return fiber.strand ? fiber.strand->beneath : nullptr;
  }

  void describe(const WorkerSight& worker) {
    out_ << "  worker " << worker.index << ' ' << to_string(worker.state);
    if (worker.running) out_ << ", runs #" << worker.running->id;
    if (!worker.stands_still) out_ << " and does not give way";
    const char* separator = "; ";
    const auto add = [&](const char* what, std::size_t count) {
      if (count == 0) return;
      out_ << separator << what << ' ' << count;
      separator = ", ";
    };
    add("next", worker.next ? 1 : 0);
    add("fresh", worker.fresh);
    add("ready", worker.ready);
    add("inbox", worker.inbox);
    add("pinned", worker.pinned);
    add("timers", worker.timers);
    if (!worker.queues_known) out_ << " (about)";
    out_ << '\n';
  }

  // The nurseries whose block `owner` is in, each with its fibers, each with theirs.
  void nurseries_of(const Fiber* owner, int depth) {
    const auto found = homes_.find(owner);
    if (found == homes_.end() || depth > kDepthMax) return;
    for (const Home* const home : found->second) {
      indent(depth) << (owner ? "nursery" : "engine");
      if (!home->name().empty()) out_ << " \"" << home->name() << '"';
      out_ << ' ' << to_string(home->state()) << '\n';
      for (const Fiber* const fiber : children_[home]) describe(*fiber, depth + 1);
    }
  }

  void describe(const Fiber& fiber, int depth) {
    shown_.insert(&fiber);
    head(fiber, depth) << ' ' << state_of(fiber) << origin_of(fiber) << '\n';
    nurseries_of(&fiber, depth + 1);
  }

  // Those that may be anywhere by now; where they were spawned cannot be asked.
  void show_going() {
    std::vector<std::pair<const Fiber*, const WorkerSight*>> all(going_.begin(), going_.end());
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.first->id < b.first->id; });
    for (const auto& [fiber, worker] : all) {
      shown_.insert(fiber);
      head(*fiber, 1);
      if (worker) out_ << " running on worker " << worker->index << ", and does not give way";
      else out_ << " not standing still";
      out_ << origin_of(*fiber) << '\n';
      nurseries_of(fiber, 2);
    }
  }

  std::ostream& head(const Fiber& fiber, int depth) {
    indent(depth) << '#' << fiber.id;
    if (const std::string name = fiber.copy_name(); !name.empty()) out_ << " \"" << name << '"';
    return out_;
  }

  // The function that run() was given has one type for all.
  std::string origin_of(const Fiber& fiber) const {
    const Site site = fiber.closure->spawned_at.get();
    return site ? Words::origin(", spawned at ", site)
                : Words::origin(", run at ", engine_.run_site());
  }

  // In release builds RUNNING and RUNNABLE are not written to the word; the engine knows.
  std::string state_of(const Fiber& fiber) {
    if (!fiber.strand) return "runnable, not started";
    for (const WorkerSight& worker : sight_.workers)
      if (worker.running == &fiber) return "running";
    if (const auto above = above_.find(&fiber); above != above_.end())
      return "joins #" + std::to_string(above->second->id) + " in place";
    const Waiting* const waiting = is_parked(fiber) ? fiber.waiting() : nullptr;
    return waiting ? "parked on " + words_.wait_of(*waiting) : "runnable";
  }

  std::ostream& indent(int depth) {
    for (int i = 0; i < depth; ++i) out_ << "  ";
    return out_;
  }

  const Engine& engine_;
  const EngineSight& sight_;
  std::ostream& out_;
  Words words_;
  std::size_t all_ = 0;
  std::set<const Fiber*> standing_, shown_;
  std::map<const Fiber*, const WorkerSight*> going_;
  std::map<const Home*, Fibers> children_;  // by id
  std::map<const Fiber*, std::vector<const Home*>> homes_;
  std::map<const Fiber*, const Fiber*> above_;  // who runs in place, on whose stack
};

struct Request {
  const Engine& engine;
  std::ostream& out;
};

}  // namespace

void dump(Engine& engine, std::ostream& out, Duration patience) {
  Request request{engine, out};
  const bool answered = engine.inspect(
      [](const EngineSight& sight, void* at) {
        const auto& to = *static_cast<Request*>(at);
        Dump{to.engine, sight, to.out};
      },
      &request, patience);
  if (!answered) out << engine.kind() << ": no answer; somebody else is looking at it\n";
  out.flush();
}

void dump_all(std::ostream& out) {
  for_each_engine(
      [](Engine& engine, void* at) { dump(engine, *static_cast<std::ostream*>(at)); }, &out);
}

std::string engine::dump_of_all() {
  std::ostringstream text;
  dump_all(text);
  return std::move(text).str();
}

}  // namespace weft
