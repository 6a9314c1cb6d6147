// fiber_local<T>: a variable with a value for each fiber, which its children inherit.
//
//   weft::fiber_local<std::string> request{"none"};
//
//   request.with(id, [&] {
//     weft::nursery([&](weft::Nursery& n) {
//       n.spawn([&] { log(*request); });    // prints id, wherever the child runs
//     });
//   });
//
// A child sees what its parent had when it was spawned; what either sets later, the other does not
// see. Values are shared between fibers and therefore constant: replace them, do not change them.
// On a plain thread the values are the thread's, and an engine's run() inherits them. Fibers that
// use none of this pay nothing for it.
#pragma once

#include <weft/core/carrier.hpp>
#include <weft/core/locals.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace weft {

// What make_fiber() and fiber_local see of the running fiber.
inline Locals*& current_locals() noexcept { return Fiber::current().strand->locals; }

template <class T>
class fiber_local {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>);

 public:
  fiber_local() = default;
  explicit fiber_local(T initial) : initial_(std::move(initial)) {}
  fiber_local(const fiber_local&) = delete;
  fiber_local& operator=(const fiber_local&) = delete;
  // Values that fibers still have live until those end or set others.

  // The running fiber's value: what it has set, or else inherited, or else the initial one. Valid
  // until this fiber sets another. Takes as long as this fiber has variables set: keep them few.
  [[nodiscard]] const T& get() const noexcept {
    const Locals* const locals = current_locals();
    const void* const own = locals ? locals->find(key_) : nullptr;
    return own ? *static_cast<const T*>(own) : initial_;
  }
  [[nodiscard]] const T& operator*() const noexcept { return get(); }
  [[nodiscard]] const T* operator->() const noexcept { return &get(); }

  // For this fiber, and for the children that it spawns from now on. The old value is destroyed
  // when the last fiber that has it ends, on whichever thread that is. If it throws, nothing
  // changed.
  void set(T value) {
    auto made = std::make_shared<const T>(std::move(value));
    Locals::set(current_locals(), key_, std::move(made));
  }

  // Runs `f` with another value, and then returns to what was before: here and in every other
  // variable that `f` has set.
  template <std::invocable F>
  auto with(T value, F&& f) -> std::invoke_result_t<F> {
    const Restored restored;
    set(std::move(value));
    return std::invoke(std::forward<F>(f));
  }

 private:
  // All variables as they were, when destroyed.
  class Restored {
   public:
    Restored() noexcept : before_(current_locals()) {
      if (before_) before_->keep();
    }
    ~Restored() {
      if (Locals* const inner = std::exchange(current_locals(), before_)) inner->release();
    }
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;

   private:
    Locals* const before_;
  };

  const Locals::Key key_ = Locals::new_key();
  T initial_{};
};

}  // namespace weft
