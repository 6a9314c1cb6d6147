// powser1: power series as streams of coefficients. Each operation is a fiber that computes the
// next coefficient when it is asked for it; a series that is defined by itself is fed back through
// a fork. Guards against requests and answers that get out of step, in a net of fibers with cycles
// that grows while it runs and is torn down as a whole.
#include <weft/channel.hpp>

#include <weft/nursery.hpp>
#include <weft/select.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using ::testing::ElementsAre;
using testing::on_seeds;
using testing::on_workers;

// A fraction in lowest terms, with a positive denominator.
class Rational {
 public:
  Rational(std::int64_t whole) noexcept : Rational(whole, 1) {}
  Rational(std::int64_t above, std::int64_t below) noexcept {
    const std::int64_t common = std::gcd(above, below) * (below < 0 ? -1 : 1);
    above_ = above / common;
    below_ = below / common;
  }
  friend Rational operator+(Rational a, Rational b) noexcept {
    return {a.above_ * b.below_ + b.above_ * a.below_, a.below_ * b.below_};
  }
  friend Rational operator*(Rational a, Rational b) noexcept {
    return {a.above_ * b.above_, a.below_ * b.below_};
  }
  [[nodiscard]] Rational inverse() const noexcept { return {below_, above_}; }
  friend bool operator==(Rational, Rational) = default;
  friend std::ostream& operator<<(std::ostream& out, Rational r) {
    return out << r.above_ << '/' << r.below_;
  }

 private:
  std::int64_t above_ = 0;
  std::int64_t below_ = 1;
};

struct Request {};

// Thrown where a stream ends that more is wanted of: while everything is torn down.
struct Ended {};

// The consumer's side of a stream. One request at a time, so that asking never waits.
struct Series {
  Sender<Request> ask;
  Receiver<Rational> answer;

  void request() const {
    const SendStatus status = ask.try_send(Request{});
    if (status == SendStatus::closed) throw Ended{};
    EXPECT_EQ(status, SendStatus::ok) << "two requests at a time";
  }
  [[nodiscard]] Rational next() const {
    request();
    const std::optional<Rational> got = answer.recv();
    if (!got) throw Ended{};
    return *got;
  }
};

// The producer's side.
struct Source {
  Receiver<Request> asked;
  Sender<Rational> answer;

  // Answers one request with what `f` computes. False: nobody wants more.
  template <class F>
  [[nodiscard]] bool give(F f) const {
    return asked.recv() && answer.send(f());
  }
};

struct Stream {
  Channel<Request> requests{1};
  Channel<Rational> answers;
  [[nodiscard]] Series series() { return {std::move(requests.tx), std::move(answers.rx)}; }
  [[nodiscard]] Source source() { return {std::move(requests.rx), std::move(answers.tx)}; }
};

// Makes series; its fibers are children of one nursery.
class Algebra {
 public:
  explicit Algebra(Nursery& n) : n_(n) {}

  Series constant(Rational c) {
    return from([c](const Source& out) {
      bool first = true;
      while (out.give([&] { return std::exchange(first, false) ? c : Rational{0}; })) {}
    });
  }
  // 1 + x + x² + …
  Series ones() {
    return from([](const Source& out) {
      while (out.give([] { return 1; })) {}
    });
  }
  Series add(Series u, Series v) {
    return from([u = std::move(u), v = std::move(v)](const Source& out) {
      while (out.give([&] { return u.next() + v.next(); })) {}
    });
  }
  Series scale(Rational c, Series u) {
    return from([c, u = std::move(u)](const Source& out) {
      while (out.give([&] { return c * u.next(); })) {}
    });
  }
  // x · u
  Series shift(Series u) {
    return from([u = std::move(u)](const Source& out) {
      if (!out.give([] { return 0; })) return;
      while (out.give([&] { return u.next(); })) {}
    });
  }
  Series multiply(Series u, Series v) {
    return from([u = std::move(u), v = std::move(v)](const Source& out) {
      std::vector<Rational> us;
      std::vector<Rational> vs;
      while (out.give([&] {
        us.push_back(u.next());
        vs.push_back(v.next());
        Rational sum = 0;
        for (std::size_t i = 0; i < us.size(); ++i) sum = sum + us[i] * vs[vs.size() - 1 - i];
        return sum;
      })) {
      }
    });
  }
  Series differentiate(Series u) {
    return from([u = std::move(u)](const Source& out) {
      static_cast<void>(u.next());
      for (std::int64_t n = 1; out.give([&] { return Rational{n} * u.next(); }); ++n) {}
    });
  }
  Series integrate(Rational c, Series u) {
    return from([c, u = std::move(u)](const Source& out) {
      if (!out.give([&] { return c; })) return;
      for (std::int64_t n = 1; out.give([&] { return Rational{1, n} * u.next(); }); ++n) {}
    });
  }
  // 1 / u
  Series reciprocal(Series u) {
    return from([u = std::move(u)](const Source& out) {
      std::vector<Rational> us;
      std::vector<Rational> zs;
      while (out.give([&] {
        us.push_back(u.next());
        Rational sum = zs.empty() ? 1 : 0;
        for (std::size_t i = 0; i < zs.size(); ++i)
          sum = sum + Rational{-1} * us[us.size() - 1 - i] * zs[i];
        zs.push_back(sum * us[0].inverse());
        return zs.back();
      })) {
      }
    });
  }
  // The same series twice, read at different speeds.
  std::pair<Series, Series> fork(Series u) {
    Stream a;
    Stream b;
    std::pair<Series, Series> both{a.series(), b.series()};
    start([u = std::move(u), outs = std::array{a.source(), b.source()}] { serve(u, outs); });
    return both;
  }
  // e to the power of u, for u(0) = 0: z = ∫ z u′ is defined by itself.
  Series exponential(Series u) {
    Stream z;
    const Source out = z.source();
    auto [back, front] = fork(z.series());
    Series grown = integrate(1, multiply(std::move(back), differentiate(std::move(u))));
    start([out, grown = std::move(grown)] {
      while (out.give([&] { return grown.next(); })) {}
    });
    return std::move(front);
  }
  // u(v), for v(0) = 0: its tail is the tail of v times the same of the tail of u. Each coefficient
  // that is asked for makes fibers for the next.
  Series substitute(Series u, Series v) {
    return from([this, u = std::move(u), v = std::move(v)](const Source& out) {
      if (!out.give([&] { return u.next(); })) return;
      std::optional<Series> rest;
      while (out.give([&] {
        if (!rest) {
          auto [factor, again] = fork(v);
          static_cast<void>(factor.next());  // it is zero
          rest = multiply(std::move(factor), substitute(u, std::move(again)));
        }
        return rest->next();
      })) {
      }
    });
  }

 private:
  template <class F>
  void start(F f) {
    n_.spawn([f = std::move(f)] {
      try {
        f();
      } catch (const Ended&) {
      }
    });
  }
  Series from(std::function<void(const Source&)> produce) {
    Stream stream;
    Series series = stream.series();
    start([produce = std::move(produce), out = stream.source()] { produce(out); });
    return series;
  }

  // While one side waits for a coefficient that is not known yet, the other is served with those
  // that are: in a cycle the first depends on it.
  static void serve(const Series& u, const std::array<Source, 2>& outs) {
    std::array<std::deque<Rational>, 2> known;
    std::array<bool, 2> wants{false, false};
    bool asked = false;
    const Receiver<Request> nobody;
    const Receiver<Rational> nothing;
    for (;;) {
      for (const std::size_t i : {0U, 1U}) {
        if (wants[i] && !known[i].empty()) {
          wants[i] = false;
          if (!outs[i].answer.send(known[i].front())) return;
          known[i].pop_front();
        }
        if (wants[i] && !asked) {
          u.request();
          asked = true;
        }
      }
      auto first = (wants[0] ? nobody : outs[0].asked).on_recv();
      auto second = (wants[1] ? nobody : outs[1].asked).on_recv();
      auto next = (asked ? u.answer : nothing).on_recv();
      switch (select(first, second, next)) {
        case 0:
          if (!first.value()) return;
          wants[0] = true;
          break;
        case 1:
          if (!second.value()) return;
          wants[1] = true;
          break;
        default:
          if (!next.value()) return;
          known[0].push_back(*next.value());
          known[1].push_back(*next.value());
          asked = false;
      }
    }
  }

  Nursery& n_;
};

std::vector<Rational> first_of(std::size_t count, const Series& series) {
  std::vector<Rational> coefficients;
  for (std::size_t i = 0; i < count; ++i) coefficients.push_back(series.next());
  return coefficients;
}

// The first six coefficients of a series, in a nursery that ends with it.
std::vector<Rational> six_of(const std::function<Series(Algebra&)>& make) {
  std::vector<Rational> coefficients;
  nursery([&](Nursery& n) {
    Algebra& algebra = n.make<Algebra>(n);
    coefficients = first_of(6, make(algebra));
    n.cancel();  // cycles do not end by themselves
  });
  return coefficients;
}

using R = Rational;

void everywhere(const std::function<void()>& f) {
  on_seeds(f, 10);
  on_workers({1U, 2U, 4U}, f);
  testing::on_blocking(f);
}

TEST(GoPowser1, SumsAndProducts) {
  everywhere([] {
    EXPECT_THAT(six_of([](Algebra& a) { return a.add(a.ones(), a.scale(2, a.ones())); }),
                ElementsAre(R{3}, R{3}, R{3}, R{3}, R{3}, R{3}));
    EXPECT_THAT(six_of([](Algebra& a) { return a.multiply(a.ones(), a.ones()); }),
                ElementsAre(R{1}, R{2}, R{3}, R{4}, R{5}, R{6}));
    EXPECT_THAT(six_of([](Algebra& a) { return a.multiply(a.constant(2), a.shift(a.ones())); }),
                ElementsAre(R{0}, R{2}, R{2}, R{2}, R{2}, R{2}));
  });
}

TEST(GoPowser1, DerivativesAndIntegralsUndoEachOther) {
  everywhere([] {
    EXPECT_THAT(six_of([](Algebra& a) { return a.differentiate(a.ones()); }),
                ElementsAre(R{1}, R{2}, R{3}, R{4}, R{5}, R{6}));
    EXPECT_THAT(six_of([](Algebra& a) { return a.integrate(0, a.ones()); }),
                ElementsAre(R{0}, R{1}, R{1, 2}, R{1, 3}, R{1, 4}, R{1, 5}));
    EXPECT_THAT(six_of([](Algebra& a) { return a.differentiate(a.integrate(7, a.ones())); }),
                ElementsAre(R{1}, R{1}, R{1}, R{1}, R{1}, R{1}));
  });
}

TEST(GoPowser1, AReciprocal) {
  everywhere([] {
    EXPECT_THAT(six_of([](Algebra& a) { return a.reciprocal(a.ones()); }),
                ElementsAre(R{1}, R{-1}, R{0}, R{0}, R{0}, R{0}));
    EXPECT_THAT(six_of([](Algebra& a) {
                  auto [u, v] = a.fork(a.add(a.ones(), a.constant(1)));
                  return a.multiply(std::move(u), a.reciprocal(std::move(v)));
                }),
                ElementsAre(R{1}, R{0}, R{0}, R{0}, R{0}, R{0}));
  });
}

TEST(GoPowser1, AForkIsReadAtTwoSpeeds) {
  everywhere([] {
    nursery([](Nursery& n) {
      Algebra algebra{n};
      auto [fast, slow] = algebra.fork(algebra.integrate(1, algebra.ones()));
      const auto ahead = first_of(20, fast);
      EXPECT_EQ(first_of(20, slow), ahead);
      EXPECT_EQ(fast.next(), slow.next());
    });
  });
}

TEST(GoPowser1, TheExponentialIsDefinedByItself) {
  everywhere([] {
    EXPECT_THAT(six_of([](Algebra& a) { return a.exponential(a.shift(a.constant(1))); }),
                ElementsAre(R{1}, R{1}, R{1, 2}, R{1, 6}, R{1, 24}, R{1, 120}));
    EXPECT_THAT(six_of([](Algebra& a) {
                  return a.multiply(a.exponential(a.shift(a.constant(1))),
                                    a.exponential(a.shift(a.constant(-1))));
                }),
                ElementsAre(R{1}, R{0}, R{0}, R{0}, R{0}, R{0}));
  });
}

TEST(GoPowser1, Substitution) {
  everywhere([] {
    // e to the power of 2x
    EXPECT_THAT(six_of([](Algebra& a) {
                  return a.substitute(a.exponential(a.shift(a.constant(1))),
                                      a.shift(a.constant(2)));
                }),
                ElementsAre(R{1}, R{2}, R{2}, R{4, 3}, R{2, 3}, R{4, 15}));
    // the integral of 1 / (1 + x²)
    EXPECT_THAT(six_of([](Algebra& a) {
                  return a.integrate(0, a.substitute(a.ones(), a.shift(a.shift(a.constant(-1)))));
                }),
                ElementsAre(R{0}, R{1}, R{0}, R{-1, 3}, R{0}, R{1, 5}));
  });
}

}  // namespace
}  // namespace weft
