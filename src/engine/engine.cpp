#include <weft/engine.hpp>

namespace weft {
namespace {

struct Registry {
  Lock lock;
  List<Engine> engines;
};

Registry& registry() {
  static Registry* const kept = new Registry;  // never destroyed: engines may be static
  return *kept;
}

}  // namespace

void Engine::enlist() noexcept {
  Registry& all = registry();
  const Locked locked{all.lock};
  all.engines.push_back(*this);
}

void Engine::delist() noexcept {
  Registry& all = registry();
  const Locked locked{all.lock};
  all.engines.remove(*this);
}

void for_each_engine(void (*visit)(Engine&, void*), void* at) {
  Registry& all = registry();
  const Locked locked{all.lock};
  for (Engine* engine = all.engines.front(); engine; engine = all.engines.after(*engine))
    visit(*engine, at);
}

}  // namespace weft
