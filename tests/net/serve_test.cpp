#include <weft/net/serve.hpp>

#include <weft/cancel.hpp>
#include <weft/core/error.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fakes.hpp"

#include <support/engines.hpp>
#include <support/errors.hpp>

namespace weft::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::bytes_of;
using testing::FakeListener;
using testing::FakeStream;
using testing::let_others_block;
using testing::on_calm_seeds;
using testing::on_seeds;
using testing::on_workers;
using testing::text_in;
using testing::what;

static_assert(Listener<FakeListener>);
static_assert(!Listener<FakeStream>);

void echo(FakeStream peer) {
  std::vector<std::byte> room(100);
  for (;;) {
    const auto got = peer.read_some(room).value();
    if (got.empty()) return;
    if (!peer.write_all(got)) return;
  }
}

// Says something, and whether the same came back.
bool is_answered(FakeStream& stream, std::string_view text) {
  if (!stream.write_all(bytes_of(text))) return false;
  std::vector<std::byte> room(100);
  const auto got = stream.read_some(room);
  return got && text_in(*got) == text;
}

// ── as it should be ─────────────────────────────────────────────────────────────────────────────

TEST(Serve, RunsAHandlerForEachConnectionUntilTheListenerIsClosed) {
  const auto test = [] {
    FakeListener listener;
    Server server;
    nursery([&](Nursery& n) {
      n.spawn("clients", [&] {
        parallel_for(5, [&](std::size_t i) {
          FakeStream stream = listener.connect();
          EXPECT_TRUE(is_answered(stream, "over " + std::to_string(i)));
        });
        FakeStream last = listener.connect();
        EXPECT_TRUE(is_answered(last, "accepted"));
        listener.close();
        let_others_block();
        EXPECT_TRUE(is_answered(last, "handlers may finish"));
        EXPECT_EQ(server.live(), 1U);
      });
      EXPECT_TRUE(server.serve(listener, echo));
    });
    EXPECT_EQ(server.accepted(), 6U);
    EXPECT_EQ(server.live(), 0U);
    EXPECT_EQ(server.failed(), 0U);
  };
  on_seeds(test);
  on_workers(test);
}

TEST(Serve, ReturnsAtOnceIfTheListenerIsClosedAlready) {
  FakeListener listener;
  listener.close();
  testing::everywhere([&] { EXPECT_TRUE(serve(listener, echo)); });
}

TEST(Serve, TellsWhyAcceptingFailedForGood) {
  testing::everywhere([] {
    FakeListener listener;
    listener.accept_error = std::make_error_code(std::errc::permission_denied);
    EXPECT_EQ(serve(listener, echo).error(), std::errc::permission_denied);
    EXPECT_FALSE(listener.is_open());
  });
}

struct EagerListener : FakeListener {
  void accept_ahead() { ++asked; }
  int asked = 0;
};

// Who connects when there are as many as may be waits in the backlog, not with us.
TEST(Serve, AcceptsAheadUnlessThereIsALimit) {
  testing::everywhere([] {
    for (const std::size_t limit : {0U, 5U}) {
      EagerListener listener;
      listener.close();
      EXPECT_TRUE(serve(listener, echo, {.max_connections = limit}));
      EXPECT_EQ(listener.asked, limit == 0 ? 1 : 0);
    }
  });
}

TEST(Serve, TakesHandlersThatKnowThings) {
  on_seeds([] {
    FakeListener listener;
    Event served;
    nursery([&](Nursery& n) {
      n.spawn([&] {
        FakeStream stream = listener.connect();
        served.wait();
        listener.close();
      });
      EXPECT_TRUE(serve(listener, [&](FakeStream) { served.set(); }));
    });
  });
}

// ── the limit ───────────────────────────────────────────────────────────────────────────────────

TEST(Serve, AcceptsNoMoreThanTheLimit) {
  const auto test = [] {
    FakeListener listener;
    std::atomic<int> live{0};
    std::atomic<int> most{0};
    Server server{{.max_connections = 3}};
    nursery([&](Nursery& n) {
      n.spawn("clients", [&] {
        parallel_for(12, [&](std::size_t) {
          FakeStream stream = listener.connect();
          EXPECT_TRUE(is_answered(stream, "hello"));
          this_fiber::yield();
        });
        listener.close();
      });
      EXPECT_TRUE(server.serve(listener, [&](FakeStream stream) {
        const int now = ++live;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        echo(std::move(stream));
        --live;
      }));
    });
    EXPECT_LE(most, 3);
    EXPECT_EQ(server.accepted(), 12U);
  };
  on_seeds(test);
  on_workers(test);
}

// Calls `ends` while a server of one connection is full, and one more waits.
void while_full(const std::function<void(FakeListener&, Server&, CancelScope&)>& ends) {
  FakeListener listener;
  Server server{{.max_connections = 1}};
  Event let_go;
  cancel_scope([&](CancelScope& scope) {
    nursery([&](Nursery& n) {
      n.spawn("client", [&] {
        FakeStream first = listener.connect();
        EXPECT_TRUE(is_answered(first, "first"));
        FakeStream second = listener.connect();
        let_others_block();
        EXPECT_EQ(listener.waiting(), 1U);
        shielded([&] {
          ends(listener, server, scope);
          first.close().value();
          let_others_block();
          EXPECT_EQ(server.accepted(), 1U);
        });
      });
      EXPECT_TRUE(server.serve(listener, echo));
    });
  });
  EXPECT_FALSE(listener.is_open());
  EXPECT_EQ(server.live(), 0U);
}

TEST(Serve, NoticesWhileFullThatTheListenerIsClosed) {
  const auto test = [] {
    while_full([](FakeListener& listener, Server&, CancelScope&) { listener.close(); });
  };
  on_seeds(test);
  on_workers(test);
}

TEST(Serve, NoticesWhileFullThatItIsStopped) {
  const auto test = [] {
    while_full([](FakeListener& listener, Server& server, CancelScope&) {
      server.stop();
      let_others_block();
      EXPECT_FALSE(listener.is_open());
    });
  };
  on_seeds(test);
  on_workers({1U}, test);
}

TEST(Serve, NoticesWhileFullThatItIsCancelled) {
  const auto test = [] {
    while_full([](FakeListener&, Server&, CancelScope& scope) { scope.cancel(); });
  };
  on_seeds(test);
  on_workers(test);
}

// ── stopping ────────────────────────────────────────────────────────────────────────────────────

// What became of handlers of which one needs 10ms after the server was told to stop, one 1h.
struct Drained {
  bool quick = false;
  bool slow = false;
  bool was_told = false;
  Duration took{};
};

Drained drain(Duration grace, const std::function<void(Server&, CancelScope&)>& end) {
  Drained drained;
  FakeListener listener;
  Server server{{.drain_grace = grace}};
  const FakeStream quick = listener.connect();
  const FakeStream slow = listener.connect();
  std::atomic<int> number{0};
  Instant told{};
  cancel_scope([&](CancelScope& scope) {
    nursery([&](Nursery& n) {
      n.spawn([&] {
        settle();
        told = Clock::now();
        end(server, scope);
      });
      (void)server.serve(listener, [&](FakeStream) {
        if (number++ == 0) {
          sleep_for(10ms);
          drained.was_told = this_fiber::stopping();
          drained.quick = true;
        } else {
          sleep_for(1h);
          drained.slow = true;
        }
      });
    });
  });
  drained.took = Clock::now() - told;
  EXPECT_FALSE(listener.is_open());
  EXPECT_EQ(server.live(), 0U);
  EXPECT_EQ(server.failed(), 0U) << "to be cancelled is no failure";
  return drained;
}

void by_cancel(Server&, CancelScope& scope) { scope.cancel(); }
void by_stop(Server& server, CancelScope&) { server.stop(); }

TEST(Serve, GivesHandlersAGraceAndCancelsThemThen) {
  on_seeds([] {
    for (const auto end : {by_cancel, by_stop}) {
      const Drained drained = drain(1s, end);
      EXPECT_TRUE(drained.quick);
      EXPECT_TRUE(drained.was_told);
      EXPECT_FALSE(drained.slow);
      EXPECT_EQ(drained.took, 1s);
    }
  });
}

TEST(Serve, CancelsHandlersAtOnceWithoutAGrace) {
  on_seeds([] {
    for (const auto end : {by_cancel, by_stop}) {
      const Drained drained = drain(0s, end);
      EXPECT_FALSE(drained.quick);
      EXPECT_FALSE(drained.slow);
      EXPECT_EQ(drained.took, 0s);
    }
  });
}

TEST(Serve, LetsHandlersFinishIfTheGraceHasNoEnd) {
  on_seeds([] {
    for (const auto end : {by_cancel, by_stop}) {
      const Drained drained = drain(Duration::max(), end);
      EXPECT_TRUE(drained.quick);
      EXPECT_TRUE(drained.was_told);
      EXPECT_TRUE(drained.slow);
      EXPECT_EQ(drained.took, 1h);
    }
  });
}

TEST(Serve, EndsBeforeTheGraceIfTheHandlersDo) {
  on_seeds([] {
    for (const auto end : {by_cancel, by_stop}) EXPECT_EQ(drain(2h, end).took, 1h);
    testing::expect_no_timer_left();
  });
}

TEST(Serve, IsCancelledToItsCaller) {
  const auto test = [] {
    FakeListener listener;
    EXPECT_FALSE(timeout(1ms, [&] { (void)serve(listener, echo); }));
    EXPECT_FALSE(listener.is_open());
  };
  on_seeds(test);
  on_workers(test);
}

TEST(Serve, CanBeStoppedBeforeItBegins) {
  testing::everywhere([] {
    FakeListener listener;
    Server server;
    server.stop();
    EXPECT_TRUE(server.serve(listener, echo));
    EXPECT_FALSE(listener.is_open());
  });
}

TEST(Serve, CanBeStoppedByAThread) {
  on_workers([] {
    FakeListener listener;
    Server server;
    const FakeStream client = listener.connect();
    Event at_work;
    std::jthread admin{[&] {
      at_work.wait();
      server.stop();
    }};
    EXPECT_TRUE(server.serve(listener, [&](FakeStream stream) {
      at_work.set();
      echo(std::move(stream));
    }));
  });
}

TEST(Serve, ServesSeveralListenersAtOnce) {
  const auto test = [] {
    FakeListener one;
    FakeListener two;
    Server server{{.max_connections = 1}};
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_TRUE(server.serve(one, echo)); });
      n.spawn([&] { EXPECT_TRUE(server.serve(two, echo)); });
      FakeStream first = one.connect();
      EXPECT_TRUE(is_answered(first, "one"));
      FakeStream second = two.connect();
      EXPECT_TRUE(is_answered(second, "two"));
      EXPECT_EQ(server.live(), 2U);
      server.stop();
    });
    EXPECT_EQ(server.accepted(), 2U);
  };
  on_seeds(test);
  on_workers(test);
}

// ── failures ────────────────────────────────────────────────────────────────────────────────────

TEST(Serve, LivesOnWhenAHandlerFails) {
  const auto test = [] {
    FakeListener listener;
    std::atomic<int> errors{0};
    Server server{{.on_error = [&](const std::exception_ptr& error) {
      EXPECT_EQ(what(error), "bad request");
      ++errors;
    }}};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        for (int i = 0; i < 3; ++i) {
          FakeStream bad = listener.connect();
          ASSERT_TRUE(bad.write_all(bytes_of("bad")));
          std::vector<std::byte> room(10);
          EXPECT_TRUE(bad.read_some(room)->empty()) << "hung up";
        }
        FakeStream good = listener.connect();
        EXPECT_TRUE(is_answered(good, "good"));
        listener.close();
      });
      EXPECT_TRUE(server.serve(listener, [](FakeStream stream) {
        std::vector<std::byte> room(100);
        const auto got = stream.read_some(room).value();
        if (text_in(got) == "bad") throw std::runtime_error{"bad request"};
        (void)stream.write_all(got);
      }));
    });
    EXPECT_EQ(errors, 3);
    EXPECT_EQ(server.failed(), 3U);
    EXPECT_EQ(server.accepted(), 4U);
  };
  on_seeds(test);
  on_workers(test);
}

TEST(Serve, PrintsAFailureThatNobodyWantsToKnow) {
  ::testing::internal::CaptureStderr();
  SimIo{}.run([] {
    FakeListener listener;
    const FakeStream client = listener.connect();
    (void)serve(
        listener,
        [&](FakeStream) {
          listener.close();
          throw std::runtime_error{"no such page"};
        },
        {.name = "shop"});
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("a connection of server \"shop\" failed: no such page"));
}

TEST(Serve, EndsWhenOnErrorThrows) {
  const auto test = [] {
    FakeListener listener;
    const FakeStream idle = listener.connect();
    Event idles;
    Server server{{.drain_grace = 1h, .on_error = &std::rethrow_exception}};
    std::atomic<int> number{0};
    const auto serve_it = [&] {
      (void)server.serve(listener, [&](FakeStream stream) {
        if (number++ == 0) {
          idles.set();
          echo(std::move(stream));  // until it is cancelled: at once, not after the grace
        } else {
          throw std::runtime_error{"disk full"};
        }
      });
    };
    nursery([&](Nursery& n) {
      n.spawn([&] { EXPECT_EQ(testing::text_of<std::runtime_error>(serve_it), "disk full"); });
      idles.wait();
      const FakeStream failing = listener.connect();
    });
    EXPECT_FALSE(listener.is_open());
    EXPECT_EQ(server.failed(), 1U);
  };
  on_seeds(test);
  on_workers(test);
}

TEST(Serve, SurvivesThatThereIsNoStackForAConnection) {
  FiberIo io{{.workers = 1, .max_fibers = 4}};
  io.run([] {
    FakeListener listener;
    std::atomic<int> no_stack{0};
    Server server{{.on_error = [&](const std::exception_ptr& error) {
      EXPECT_THROW(std::rethrow_exception(error), OutOfStacks);
      ++no_stack;
    }}};
    nursery([&](Nursery& n) {
      n.spawn([&] {
        std::vector<FakeStream> many;
        for (int i = 0; i < 6; ++i) many.push_back(listener.connect());
        let_others_block();
        many.clear();
        let_others_block();
        FakeStream good = listener.connect();
        EXPECT_TRUE(is_answered(good, "still there"));
        listener.close();
      });
      EXPECT_TRUE(server.serve(listener, echo));
    });
    EXPECT_GT(no_stack, 0);
    EXPECT_EQ(server.failed(), static_cast<std::uint64_t>(no_stack));
    EXPECT_EQ(server.accepted(), 7U);
  });
}

}  // namespace
}  // namespace weft::net
