// Compiled into a program, into a shared library, and by disassembly_test.py in yet other ways. The
// functions have C names, and stay what they are, so that a disassembler finds them.
#include "slot_victim.hpp"

#include <weft/arch/thread_slot.hpp>
#include <weft/core/carrier.hpp>

using weft::testing::BareFiber;
using weft::testing::switch_bare;

namespace {
thread_local int plain = 0;
}

extern "C" {

[[gnu::noinline]] void weft_look_at_slot(BareFiber& self, BareFiber& to,
                                         const void** seen) noexcept {
  seen[0] = weft::arch::thread_slot();
  switch_bare(self, to);
  seen[1] = weft::arch::thread_slot();
}

[[gnu::noinline]] void weft_look_at_carrier(BareFiber& self, BareFiber& to,
                                            const void** seen) noexcept {
  seen[0] = &weft::Carrier::here();
  switch_bare(self, to);
  seen[1] = &weft::Carrier::here();
}

[[gnu::noinline]] void weft_look_at_fiber(BareFiber& self, BareFiber& to,
                                          const void** seen) noexcept {
  seen[0] = &weft::Fiber::current();
  switch_bare(self, to);
  seen[1] = &weft::Fiber::current();
}

[[gnu::noinline]] void weft_look_at_thread_local(BareFiber& self, BareFiber& to,
                                                 const void** seen) noexcept {
  seen[0] = &plain;
  switch_bare(self, to);
  seen[1] = &plain;
}

}  // extern "C"

namespace weft::testing {
namespace {

template <auto kLook>
TwoLooks twice(BareFiber& self, BareFiber& to) noexcept {
  const void* seen[2] = {};
  kLook(self, to, seen);
  return {seen[0], seen[1]};
}

}  // namespace

TwoLooks look_at_slot(BareFiber& self, BareFiber& to) noexcept {
  return twice<&weft_look_at_slot>(self, to);
}
TwoLooks look_at_carrier(BareFiber& self, BareFiber& to) noexcept {
  return twice<&weft_look_at_carrier>(self, to);
}
TwoLooks look_at_fiber(BareFiber& self, BareFiber& to) noexcept {
  return twice<&weft_look_at_fiber>(self, to);
}
TwoLooks look_at_thread_local(BareFiber& self, BareFiber& to) noexcept {
  return twice<&weft_look_at_thread_local>(self, to);
}
const void* thread_local_here() noexcept { return &plain; }

}  // namespace weft::testing
