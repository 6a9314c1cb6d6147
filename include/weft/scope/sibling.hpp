// How a fiber starts another one beside itself, without a Nursery in its hands.
#pragma once

#include <weft/core/closure.hpp>
#include <weft/core/io.hpp>
#include <weft/nursery.hpp>

#include <concepts>
#include <utility>

namespace weft::detail {

// A child of the engine's root, as `self` is.
template <class F>
void spawn_in_root(Fiber& self, Home& root, Name name, F&& f, Site site) {
  if (!root.child_added()) throw NurseryClosed{};
  Fiber* child = nullptr;
  try {
    child = &make_fiber(*self.io, root, std::forward<F>(f), site);
    if (!name.empty()) child->set_name(std::move(name));
    self.io->start(*child);
  } catch (...) {
    if (child) discard_fiber(*child);
    root.children_ended(1);  // not the last: `self` lives
    throw;
  }
}

// Starts `f` in the nursery that the running fiber is a child of: not in one whose body it runs.
// The function that run() was given is a child of the engine's root. Throws what Nursery::spawn()
// does, and std::logic_error outside an engine. Cancel point.
template <std::invocable F>
void spawn_sibling(Name name, F f, Site site) {
  static_cast<void>(io());  // throws: not inside an engine
  Fiber& self = Fiber::current();
  checkpoint(self);
  Home& home = const_cast<Home&>(static_cast<Home&>(*self.strand->home).family());
  if (!home.owner()) return spawn_in_root(self, home, std::move(name), std::move(f), site);
  try {
    static_cast<Nursery&>(home).spawn(std::move(name), std::move(f), site);
  } catch (const NurseryClosed&) {
    checkpoint(self);  // cancelled since: that is no failure
    throw;
  }
}

}  // namespace weft::detail
