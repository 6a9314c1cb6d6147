#include <weft/net/resolve.hpp>

#include <algorithm>

namespace weft::net {
namespace {

// Whether it will be the same in a while: not if it is the name server that has a problem.
bool is_lasting(std::error_code error) noexcept {
  return error == ResolveError::host_not_found || error == ResolveError::no_address ||
         error == ResolveError::no_such_family;
}

}  // namespace

std::optional<ResolverCache::Answer> ResolverCache::find(std::string_view host) {
  const Instant now = Clock::now();
  const Locked locked{lock_};
  const auto at = entries_.find(host);
  if (at == entries_.end()) return {};
  if (at->second.until > now) return at->second.answer;
  entries_.erase(at);
  return {};
}

void ResolverCache::remember(std::string_view host, const Answer& answer) {
  if (!answer && !is_lasting(answer.error())) return;
  const Duration ttl = answer ? options_.ttl : options_.negative_ttl;
  if (ttl <= Duration::zero() || options_.max_entries == 0) return;
  const Instant now = Clock::now();
  const Locked locked{lock_};
  if (entries_.find(host) == entries_.end()) make_room(now);
  entries_.insert_or_assign(std::string{host}, Entry{answer, saturating_add(now, ttl)});
}

void ResolverCache::make_room(Instant now) {
  if (entries_.size() < options_.max_entries) return;
  std::erase_if(entries_, [now](const auto& entry) { return entry.second.until <= now; });
  if (entries_.size() < options_.max_entries) return;
  const auto is_older = [](const auto& a, const auto& b) {
    return a.second.until < b.second.until;
  };
  entries_.erase(std::min_element(entries_.begin(), entries_.end(), is_older));
}

void ResolverCache::forget(std::string_view host) {
  const Locked locked{lock_};
  if (const auto at = entries_.find(host); at != entries_.end()) entries_.erase(at);
}

void ResolverCache::clear() {
  const Locked locked{lock_};
  entries_.clear();
}

std::size_t ResolverCache::size() const {
  const Locked locked{lock_};
  return entries_.size();
}

}  // namespace weft::net
