// Cancellation against everything else, threads on either side, and many values.
#include <weft/channel.hpp>

#include <weft/arch/sanitizer.hpp>
#include <weft/cancel.hpp>
#include <weft/engine.hpp>
#include <weft/nursery.hpp>
#include <weft/select.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <support/engines.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::everywhere;
using testing::let_others_block;
using testing::on_both_engines;
using testing::on_workers;

void on_every_engine(const std::function<void()>& f) {
  on_both_engines(f);
  on_workers({2U, 4U, 16U}, f);
}

// ── cancellation ────────────────────────────────────────────────────────────────────────────────

// Runs `f` in a scope that is cancelled already; true: it was unwound.
template <class F>
bool cancelled_in(F f) {
  return !cancel_scope([&](CancelScope& scope) {
    scope.cancel();
    f();
  });
}

TEST(ChannelCancel, InACancelledScopeEveryWaitingFormThrowsAlthoughItCouldComplete) {
  on_every_engine([] {
    Channel<std::string> ch{2};
    EXPECT_TRUE(ch.tx.send("there"));
    std::string value = "mine";
    std::vector<std::string> out;
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.tx.send(std::move(value))); }));
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.tx.send(std::as_const(value))); }));
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.tx.send_for(std::move(value), 1h)); }));
    EXPECT_TRUE(cancelled_in([&] { ch.tx.send_all(std::vector<std::string>{"x"}); }));
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.rx.recv()); }));
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.rx.recv_for(1h)); }));
    EXPECT_TRUE(cancelled_in([&] { static_cast<void>(ch.rx.begin()); }));
    EXPECT_TRUE(cancelled_in([&] { ch.rx.recv_many(std::back_inserter(out), 3); }));
    EXPECT_TRUE(cancelled_in([&] { select(ch.rx.on_recv()); }));
    EXPECT_EQ(value, "mine");
    EXPECT_TRUE(out.empty());
    EXPECT_EQ(ch.rx.size(), 1U) << "the data stays where it is";
    EXPECT_EQ(ch.rx.recv(), "there");
  });
}

TEST(ChannelCancel, NoThrowFormsSaySoAndTryFormsDoNotLook) {
  on_every_engine([] {
    Channel<std::string> ch{2};
    EXPECT_TRUE(ch.tx.send("there"));
    EXPECT_FALSE(cancelled_in([&] {
      std::string value = "mine";
      EXPECT_EQ(ch.tx.send(std::move(value), no_throw), SendStatus::cancelled);
      EXPECT_EQ(ch.tx.send(std::as_const(value), no_throw), SendStatus::cancelled);
      EXPECT_EQ(value, "mine");
      EXPECT_EQ(ch.rx.recv(no_throw).status(), RecvStatus::cancelled);
      EXPECT_EQ(ch.rx.size(), 1U);
      EXPECT_EQ(ch.tx.try_send(std::move(value)), SendStatus::ok);
      EXPECT_EQ(*ch.rx.try_recv(), "there");
    }));
    EXPECT_EQ(ch.rx.recv(no_throw).status(), RecvStatus::value);
  });
}

TEST(ChannelCancel, AParkedOperationIsUnwoundAndNothingHasMoved) {
  on_every_engine([] {
    Channel<std::string> out, in;
    std::string value = "mine";
    EXPECT_FALSE(timeout(1us, [&] { static_cast<void>(out.tx.send(std::move(value))); }));
    EXPECT_EQ(value, "mine");
    EXPECT_EQ(out.rx.try_recv().status(), RecvStatus::empty) << "nobody waits there any more";
    EXPECT_FALSE(timeout(1us, [&] { static_cast<void>(in.rx.recv()); }));
    EXPECT_EQ(in.tx.try_send("x"), SendStatus::full);
    EXPECT_TRUE(timeout(1us, [&] {
      EXPECT_EQ(in.rx.recv(no_throw).status(), RecvStatus::cancelled);
      EXPECT_EQ(out.tx.send(std::move(value), no_throw), SendStatus::cancelled);
    }));
    EXPECT_EQ(value, "mine");
  });
}

TEST(ChannelCancel, ACancelledSenderMakesRoomForTheNext) {
  on_both_engines([] {
    Channel<int> ch;
    nursery([&](Nursery& n) {
      CancelScope* first = nullptr;
      n.spawn([&] {
        cancel_scope([&](CancelScope& scope) {
          first = &scope;
          static_cast<void>(ch.tx.send(1));
        });
        first = nullptr;
      });
      let_others_block();
      n.spawn([&] { EXPECT_TRUE(ch.tx.send(2)); });
      let_others_block();
      first->cancel();
      EXPECT_EQ(ch.rx.recv(), 2) << "even before the first has been unwound";
      while (first) this_fiber::yield();
    });
  });
}

// Either the hand-off won, and both know it, or the cancel did, and neither has the value.
TEST(ChannelCancel, AgainstAHandOff) {
  everywhere([] {
    for (int round = 0; round < 12; ++round) {
      std::atomic<int> disposed{0};
      Channel<int> ch{{.capacity = std::size_t(round % 2),
                       .on_undelivered = [&](int&&) { ++disposed; }}};
      const bool cancels_sender = round % 4 < 2;
      std::stop_source stop;
      std::atomic<int> sent{0};
      std::atomic<int> received{0};
      const auto send = [&] { sent += ch.tx.send(1); };
      const auto receive = [&] { received += ch.rx.recv().has_value(); };
      nursery([&](Nursery& n) {
        n.spawn([&] {
          if (cancels_sender) with_stop(stop.get_token(), send);
          else send();
          ch.tx.drop();
        });
        n.spawn([&] {
          if (cancels_sender) receive();
          else with_stop(stop.get_token(), receive);
          if (const auto left = ch.rx.try_recv()) received += *left;
          ch.rx.drop();
        });
        n.spawn([&] {
          for (int i = 0; i < round / 4; ++i) this_fiber::yield();
          stop.request_stop();
        });
      });
      EXPECT_EQ(sent.load(), received.load() + disposed.load());
    }
  });
}

TEST(ChannelCancel, WhileAnExceptionUnwindsSendsAndReceivesStillWork) {
  on_every_engine([] {
    Channel<int> ch;
    struct Farewell {
      const Sender<int>& tx;
      ~Farewell() { EXPECT_TRUE(tx.send(1)); }
    };
    nursery([&](Nursery& n) {
      n.spawn([&] {
        EXPECT_TRUE(cancelled_in([&] {
          const Farewell farewell{ch.tx};
          this_fiber::checkpoint();
        }));
      });
      EXPECT_EQ(ch.rx.recv(), 1);
    });
  });
}

// ── threads, and many ───────────────────────────────────────────────────────────────────────────

TEST(Channel, ThreadsAreGoodOnEitherSide) {
  for (const std::size_t capacity : {0U, 3U}) {
    Channel<int> to_fibers{capacity}, to_threads{capacity};
    std::thread sender{[tx = std::move(to_fibers.tx)] {
      for (int i = 1; i <= 1'000; ++i) EXPECT_TRUE(tx.send(i));
    }};
    std::int64_t seen = 0;
    std::thread receiver{[&seen, rx = std::move(to_threads.rx)] {
      for (int v : rx) seen += v;
      EXPECT_EQ(rx.recv_for(1h).status(), RecvStatus::closed);
    }};
    FiberIo{{.workers = 2}}.run([&] {
      const Sender<int> tx = std::move(to_threads.tx);
      for (int v : to_fibers.rx) EXPECT_TRUE(tx.send(v));
    });
    sender.join();
    receiver.join();
    EXPECT_EQ(seen, 500'500);
  }
}

TEST(Channel, ThreadsAloneDoWithoutAnEngine) {
  Channel<int> ch;
  std::thread sender{[tx = std::move(ch.tx)] {
    for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(tx.send(i));
  }};
  int expected = 0;
  for (int v : ch.rx) EXPECT_EQ(v, expected++);
  EXPECT_EQ(expected, 1'000);
  sender.join();
  Channel<int> silent;
  EXPECT_EQ(silent.rx.recv_for(1ms).status(), RecvStatus::timed_out);
  EXPECT_EQ(silent.tx.send_for(1, 1ms), SendStatus::timed_out);
}

constexpr std::int64_t kValues = arch::kTsan || arch::kAsan ? 100'000 : 1'000'000;
constexpr std::int64_t kSenders = 4;

TEST(Channel, AMillionValuesArriveOnceEach) {
  for (const std::size_t capacity : {std::size_t{64}, SIZE_MAX, std::size_t{0}}) {
    const std::int64_t values = capacity == 0 ? kValues / 10 : kValues;
    on_workers({2U, 4U}, [=] {
      Channel<std::int64_t> ch{capacity};
      std::atomic<std::int64_t> sum{0};
      std::atomic<std::int64_t> count{0};
      nursery([&](Nursery& n) {
        for (std::int64_t s = 0; s < kSenders; ++s)
          n.spawn([s, tx = ch.tx, values] {
            for (std::int64_t v = s; v < values; v += kSenders) ASSERT_TRUE(tx.send(v));
          });
        for (int r = 0; r < 3; ++r)
          n.spawn([&sum, &count, rx = ch.rx] {
            std::int64_t mine = 0;
            std::int64_t received = 0;
            for (const std::int64_t v : rx) {
              mine += v;
              ++received;
            }
            sum += mine;
            count += received;
          });
        ch.tx.drop();
      });
      EXPECT_EQ(count.load(), values);
      EXPECT_EQ(sum.load(), values * (values - 1) / 2);
      EXPECT_EQ(ch.rx.size(), 0U);
    });
  }
}

}  // namespace
}  // namespace weft
