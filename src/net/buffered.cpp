#include <weft/net/buffered.hpp>

#include <cstdio>

namespace weft::net::detail {

Extent PieceSearch::in(std::string_view text, Piece& found) noexcept {
  const std::size_t at = text.find(delimiter, begun);
  if (at != std::string_view::npos) {
    const bool has_cr = drop_cr && at > 0 && text[at - 1] == '\r';
    found = {at - has_cr, delimiter.size() + has_cr};
    return found.text > limit ? Extent::too_long : Extent::whole;
  }
  // The delimiter may have begun at the very end.
  begun = text.size() - std::min(text.size(), delimiter.size() - 1);
  const bool may_be_cr = drop_cr && !text.empty() && text.back() == '\r';
  return begun - (may_be_cr ? 1 : 0) > limit ? Extent::too_long : Extent::part;
}

void complain_unflushed(std::size_t bytes) noexcept {
  std::fprintf(stderr,
               "weft: a BufferedWriter is destroyed with %zu bytes that were never sent; call "
               "flush(), or release() if they are not wanted\n",
               bytes);
}

}  // namespace weft::net::detail
