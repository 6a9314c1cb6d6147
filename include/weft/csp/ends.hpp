// The ends of channels in the CSP idiom. They are weft's, with operators.
#pragma once

#include <weft/csp/chanop.hpp>

#include <concepts>
#include <stdexcept>

namespace weft::csp {

class microthread_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a channel carries that carries no more than the fact. `r >> poke` drops what comes, whatever
// it is, as `r >> nullptr` does.
struct poke_t {
  explicit operator bool() const noexcept { return false; }
  friend bool operator==(poke_t, poke_t) noexcept { return true; }
};
inline constexpr poke_t poke{};

template <class T>
class reader;
template <class T, class U>
class channel;

// A Sender, and to be used as one wherever weft asks for it.
template <class T = poke_t>
class writer : public Sender<T> {
 public:
  writer() = default;  // null: its operations are null
  writer(Sender<T> tx) noexcept : Sender<T>(std::move(tx)) {}
  // One whose reader is dead.
  static writer dead() { return Channel<T>{}.tx; }

  // Sends. Done when it was received.
  chanop<detail::Send<T>> operator<<(T&& value) const {
    return chanop<detail::Send<T>>{std::in_place, *this, std::move(value)};
  }
  chanop<detail::Send<T>> operator<<(const T& value) const {
    return chanop<detail::Send<T>>{std::in_place, *this, value};
  }
  // The death of the last reader. Never `done`.
  chanop<detail::Death<Sender<T>>> operator~() const {
    return chanop<detail::Death<Sender<T>>>{std::in_place, *this};
  }
  // Gives a null writer a channel, and returns the reader of that.
  reader<T> operator--();
};

// A Receiver, and to be used as one. A range, too.
template <class T = poke_t>
class reader : public Receiver<T> {
 public:
  reader() = default;
  reader(Receiver<T> rx) noexcept : Receiver<T>(std::move(rx)) {}
  static reader dead() { return Channel<T>{}.rx; }

  // Receives. The value is assigned to `into` when it is done, and not otherwise. If the channel
  // was closed with an error, that is thrown.
  template <class U>
    requires std::is_assignable_v<U&, T&&>
  chanop<detail::Recv<T, U>> operator>>(U& into) const {
    return chanop<detail::Recv<T, U>>{std::in_place, *this, &into};
  }
  chanop<detail::Recv<T, T>> operator>>(const poke_t&) const { return *this >> nullptr; }
  chanop<detail::Recv<T, T>> operator>>(std::nullptr_t) const {
    return chanop<detail::Recv<T, T>>{std::in_place, *this, nullptr};
  }
  chanop<detail::Death<Receiver<T>>> operator~() const {
    return chanop<detail::Death<Receiver<T>>>{std::in_place, *this};
  }
  // The next value. Throws microthread_error if there will be none.
  T read() const {
    std::optional<T> value;
    if (*this) value = this->recv();
    if (!value) throw microthread_error{"weft::csp: read() from a reader that has ended"};
    return *std::move(value);
  }
  // What copies everything to `out`, until either end is dead: to be called, or spawned.
  template <class U>
  [[nodiscard]] auto stream_to(writer<U> out) const {
    return [in = *this, out = std::move(out)] {
      for (std::optional<T> value; prialt(~out, in >> value) > 0;)
        if (!(out << *std::move(value))) return;
    };
  }
  // Gives a null reader a channel, and returns the writer of that.
  writer<T> operator++();
};

// Both ends: of one channel or, from spawn_filter(), of what stands between two.
template <class T = poke_t, class U = T>
class channel {
 public:
  channel()
    requires std::same_as<T, U>
      : channel(Channel<T>{}) {}
  channel(Channel<T> ends)
    requires std::same_as<T, U>
      : w_(std::move(ends.tx)), r_(std::move(ends.rx)) {}
  channel(writer<T> w, reader<U> r) noexcept : w_(std::move(w)), r_(std::move(r)) {}

  // The ends, to be used here or copied.
  const writer<T>& operator+() const noexcept { return w_; }
  writer<T>& operator+() noexcept { return w_; }
  const reader<U>& operator-() const noexcept { return r_; }
  reader<U>& operator-() noexcept { return r_; }
  // The ends, moved out: what is left here is null.
  writer<T> operator++() noexcept { return std::move(w_); }
  reader<U> operator--() noexcept { return std::move(r_); }
  void release() noexcept {
    w_.drop();
    r_.drop();
  }

  template <class V>
  auto operator<<(V&& value) const {
    return w_ << std::forward<V>(value);
  }
  template <class V>
  auto operator>>(V&& into) const {
    return r_ >> std::forward<V>(into);
  }

 private:
  writer<T> w_;
  reader<U> r_;
};

template <class T>
reader<T> writer<T>::operator--() {
  if (*this) throw microthread_error{"weft::csp: --w of a writer that has a channel"};
  Channel<T> made;
  *this = writer{std::move(made.tx)};
  return std::move(made.rx);
}

template <class T>
writer<T> reader<T>::operator++() {
  if (*this) throw microthread_error{"weft::csp: ++r of a reader that has a channel"};
  Channel<T> made;
  *this = reader{std::move(made.rx)};
  return std::move(made.tx);
}

template <class T>
void make_channel(writer<T>& w, reader<T>& r) {
  channel<T> made;
  w = ++made;
  r = --made;
}

// The last arm of a prialt that does not wait: prialt(r >> x, ~skip) is -2 if there is nothing.
struct skip_t {
  operator reader<>() const { return reader<>::dead(); }
  chanop<detail::Dead> operator~() const { return chanop<detail::Dead>{std::in_place}; }
  template <class U>
  chanop<detail::Dead> operator>>(U&&) const {
    return chanop<detail::Dead>{std::in_place};
  }
};
inline constexpr skip_t skip{};

}  // namespace weft::csp
