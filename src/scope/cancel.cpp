#include <weft/cancel.hpp>

namespace weft::detail {

Fiber& fiber_with_scopes() {
  Fiber& self = Fiber::current();
  if (!self.scope) [[unlikely]] static_cast<void>(io());  // throws: not inside an engine
  return self;
}

}  // namespace weft::detail
