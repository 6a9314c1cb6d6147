#include <weft/inspect.hpp>

#include <weft/blocking.hpp>
#include <weft/channel.hpp>
#include <weft/csp.hpp>
#include <weft/event.hpp>
#include <weft/future.hpp>
#include <weft/nursery.hpp>
#include <weft/ordered_tasks.hpp>
#include <weft/sim.hpp>
#include <weft/this_fiber.hpp>
#include <weft/time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <support/child_process.hpp>
#include <support/watchdog.hpp>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string dump_of(Engine& engine, Duration patience = 1s) {
  std::ostringstream out;
  dump(engine, out, patience);
  return out.str();
}

// Until a dump says so. A worker that is kept from its core does not answer within a second.
void await(Engine& engine, const std::string& what) {
  while (dump_of(engine).find(what) == std::string::npos) std::this_thread::yield();
}

std::string without_sites(const std::string& text) {
  return std::regex_replace(text, std::regex{", (spawned|run) at [a-z_/]*\\.[ch]pp:[0-9]+"}, "");
}

std::string at_line(unsigned line) {
  return "spawned at inspect/dump_test.cpp:" + std::to_string(line) + "\n";
}

// ── the tree ────────────────────────────────────────────────────────────────────────────────────

TEST(Dump, ShowsTheTreeWithNamesStatesReasonsAndAges) {
  SimIo io;
  const std::string text = io.run([&] {
    Event go{"go"};
    return nursery({.name = "jobs"}, [&](Nursery& n) {
      n.spawn("reader", [&] { go.wait(); });
      n.spawn(std::string{"either"}, [&] {
        sleep_for(100ms);
        auto set = go.on_set();
        Alarm late{Clock::now() + 1h};
        Waitable* const arms[] = {&set, &late};
        EXPECT_EQ(wait(arms), 0U);
      });
      n.spawn("parent", [&] {
        nursery({.name = "inner"}, [&](Nursery& m) { m.spawn("child", [&] { go.wait(); }); });
      });
      sleep_for(350ms);
      n.spawn("unborn", [] {});
      std::string seen = dump_of(io);
      go.set();
      return seen;
    });
  });
  EXPECT_EQ(without_sites(text),
            "SimIo: 6 fibers\n"
            "  worker 0 active, runs #1; ready 1, timers 1\n"
            "  engine \"root\" open\n"
            "    #1 \"main\" running\n"
            "      nursery \"jobs\" open\n"
            "        #2 \"reader\" parked on event wait \"go\" for 350 ms\n"
            "        #3 \"either\" parked on event wait \"go\" or timer for 250 ms\n"
            "        #4 \"parent\" parked on nursery join \"inner\" for 350 ms\n"
            "          nursery \"inner\" open\n"
            "            #5 \"child\" parked on event wait \"go\" for 350 ms\n"
            "        #6 \"unborn\" runnable, not started\n");
}

TEST(Dump, AgesBeginWithTheWaitAndAreExactInVirtualTime) {
  SimIo io;
  io.run([&] {
    Event go{"go"};
    Channel<int> ch{{.name = "numbers"}};
    nursery([&](Nursery& n) {
      n.spawn("long", [&] { go.wait(); });
      n.spawn("again", [&] {
        for (int i = 0; i < 4; ++i) sleep_for(1h);
        go.wait();
      });
      n.spawn("reader", [&, rx = std::move(ch.rx)] {
        static_cast<void>(rx.recv());
        static_cast<void>(rx.recv());
      });
      sleep_for(5h);
      EXPECT_TRUE(ch.tx.send(1));
      sleep_for(12us + 500ns);
      const std::string text = dump_of(io);
      EXPECT_THAT(text, HasSubstr("\"long\" parked on event wait \"go\" for 18000 s"));
      EXPECT_THAT(text, HasSubstr("\"again\" parked on event wait \"go\" for 3600 s"));
      EXPECT_THAT(text, HasSubstr("\"reader\" parked on channel recv \"numbers\" (1 sender live) "
                                  "for 12.5 us"));
      go.set();
      ch.tx = {};
    });
  });
}

TEST(Dump, ObjectsWithoutANameAreNumbered) {
  SimIo io;
  io.run([&] {
    Event one, other;
    Channel<int> ch;
    nursery([&](Nursery& n) {
      n.spawn("a", [&] { one.wait(); });
      n.spawn("b", [&] { other.wait(); });
      n.spawn("c", [&] { one.wait(); });
      n.spawn("d", [rx = std::move(ch.rx)] { static_cast<void>(rx.recv()); });
      auto copy = ch.tx;
      settle();
      const std::string text = dump_of(io);
      EXPECT_THAT(text, HasSubstr("\"a\" parked on event wait @1 for"));
      EXPECT_THAT(text, HasSubstr("\"b\" parked on event wait @2 for"));
      EXPECT_THAT(text, HasSubstr("\"c\" parked on event wait @1 for"));
      EXPECT_THAT(text, HasSubstr("\"d\" parked on channel recv @3 (2 senders live) for"));
      one.set();
      other.set();
      copy = {};
      ch.tx = {};
    });
  });
}

TEST(Dump, ShowsWhoJoinsWhomInPlace) {
  if (arch::kTsan) GTEST_SKIP() << "ThreadSanitizer builds run no child in place";
  FiberIo io{{.workers = 1}};
  io.run([&] {
    nursery([&](Nursery& n) {
      n.spawn("child", [&] {
        const std::string text = dump_of(io);
        EXPECT_THAT(text, HasSubstr("#1 \"main\" joins #2 in place, run at "));
        EXPECT_THAT(text, HasSubstr("#2 \"child\" running, spawned at "));
      });
    });
  });
}

// ── where fibers were spawned ───────────────────────────────────────────────────────────────────

void wait_for(Event* event) { event->wait(); }

TEST(Dump, ShowsWhereEachWasSpawned) {
  SimIo io;
  Event go;
  io.run([&] {
    nursery([&](Nursery& n) {
      std::vector<unsigned> lines;
      lines.push_back(__LINE__ + 1);
      n.spawn([&] { go.wait(); });
      lines.push_back(__LINE__ + 1);
      n.spawn("named", [&] { go.wait(); });
      lines.push_back(__LINE__ + 1);
      n.spawn({.name = "optioned"}, [&] { go.wait(); });
      lines.push_back(__LINE__ + 1);
      EXPECT_TRUE(n.try_spawn([&] { go.wait(); }));
      lines.push_back(__LINE__ + 1);
      auto future = n.async([&] { go.wait(); });
      n.spawn("limits", [&] {
        nursery({.max_live = 3}, [&](Nursery& m) {
          lines.push_back(__LINE__ + 1);
          m.spawn([&] { go.wait(); });
          lines.push_back(__LINE__ + 1);
          EXPECT_TRUE(m.try_spawn([&] { go.wait(); }));
        });
      });
      lines.push_back(__LINE__ + 1);
      auto spawned = csp::spawn([&] { go.wait(); });
      OrderedTasks<int> tasks{n, 2};
      lines.push_back(__LINE__ + 1);
      EXPECT_TRUE(tasks.submit([&] { return go.wait(), 1; }));
      settle();
      const std::string text = dump_of(io);
      for (const unsigned line : lines) EXPECT_THAT(text, HasSubstr(at_line(line)));
      go.set();
    });
  });
}

TEST(Dump, TheFirstPlaceStandsForFunctionsThatAreNoLambdas) {
  SimIo io;
  Event go;
  io.run([&] {
    nursery([&](Nursery& n) {
      const unsigned line = __LINE__ + 1;
      n.spawn(std::bind(&wait_for, &go));
      n.spawn(std::bind(&wait_for, &go));
      settle();
      const std::string text = dump_of(io);
      EXPECT_THAT(text, HasSubstr(at_line(line)));
      EXPECT_THAT(text, Not(HasSubstr(at_line(line + 1))));
      go.set();
    });
  });
}

TEST(Dump, APlaceCanBePassedOn) {
  SimIo io;
  Event go;
  io.run([&] {
    nursery([&](Nursery& n) {
      const auto start = [&](auto f, Site site = Site::here()) { n.spawn(std::move(f), site); };
      const unsigned line = __LINE__ + 1;
      start([&] { go.wait(); });
      settle();
      EXPECT_THAT(dump_of(io), HasSubstr(at_line(line)));
      go.set();
    });
  });
}

// ── workers and queues ──────────────────────────────────────────────────────────────────────────

TEST(Dump, ShowsWorkersAndQueues) {
  FiberIo io{{.workers = 1, .max_blocking = 1}};
  std::atomic<int> begun = 0;
  std::atomic<bool> end = false;
  io.run([&] {
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn([&] {
          blocking([&] {
            ++begun;
            while (!end) std::this_thread::yield();
          });
        });
      n.spawn([&] { EXPECT_TRUE(sleep_for(1h, no_throw) || true); });
      while (begun == 0) this_fiber::yield();
      for (int i = 0; i < 10; ++i) this_fiber::yield();
      for (int i = 0; i < 3; ++i) n.spawn([] {});
      const std::string text = dump_of(io);
      EXPECT_THAT(text, HasSubstr("\n  worker 0 active, runs #1; fresh 3, timers 1\n"));
      EXPECT_THAT(text, HasSubstr("\n  blocking 1 thread, 2 calls, of which 1 queued\n"));
      end = true;
      n.cancel();
    });
  });
}

TEST(Dump, AnEngineThatDoesNotRunIsEmpty) {
  FiberIo io{{.workers = 4}};
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n");
  io.run([] {});
  EXPECT_EQ(dump_of(io), "FiberIo: 0 fibers\n");
}

TEST(Dump, AllEnginesAtOnce) {
  FiberIo first;
  SimIo second;
  first.run([&] {
    second.run([&] {
      std::ostringstream out;
      dump_all(out);
      EXPECT_THAT(out.str(), HasSubstr("SimIo: 1 fiber\n"));
      EXPECT_THAT(out.str(), HasSubstr("FiberIo: "));
    });
  });
}

// ── at any moment ───────────────────────────────────────────────────────────────────────────────

TEST(Dump, FromAnotherThreadAsleepAndBusy) {
  FiberIo io{{.workers = 4}};
  std::atomic<bool> stop{false};
  Event go{"go"};
  std::atomic<int> phase{0};
  std::thread asker;
  io.run([&] {
    asker = std::thread{[&] {
      while (phase != 1) std::this_thread::yield();
      await(io, "\"sleeper\" parked on event wait \"go\"");  // it may be on its way there
      go.set();
      while (phase != 2) std::this_thread::yield();
      await(io, "\"busy\"");
      stop = true;
    }};
    nursery([&](Nursery& n) {
      n.spawn("sleeper", [&] {
        phase = 1;
        go.wait();
      });
    });
    nursery([&](Nursery& n) {
      n.spawn("busy", [&] {
        phase = 2;
        while (!stop) this_fiber::yield();
      });
      n.spawn([&] {
        while (!stop) this_fiber::yield();
      });
    });
  });
  asker.join();
}

// The program of one that computes and computes, and of those that wait for it.
void be_busy(Engine& io, const std::function<void()>& when_all_wait) {
  Event go{"go"};
  nursery({.name = "jobs"}, [&](Nursery& n) {
    n.spawn("patient", [&] { go.wait(); });
    n.spawn("parent", [&] {
      nursery({.name = "inner"}, [&](Nursery& m) { m.spawn("child", [&] { go.wait(); }); });
    });
    const auto wait_all = [&] {
      const std::string text = dump_of(io);
      return text.find("\"patient\" parked") != std::string::npos &&
             text.find("\"child\" parked") != std::string::npos;
    };
    while (!wait_all()) this_fiber::yield();
    when_all_wait();
    go.set();
  });
}

template <class AnyEngine>
void a_fiber_that_does_not_give_way(AnyEngine& io) {
  std::string text;
  io.run([&] {
    be_busy(io, [&] {
      std::atomic<bool> seen = false;
      std::thread asker{[&] {
        text = dump_of(io, 20ms);
        seen = true;
      }};
      while (!seen) std::this_thread::yield();
      asker.join();
    });
  });
  EXPECT_THAT(text, ContainsRegex("  worker [0-9]+ active, runs #1 and does not give way\n"));
  EXPECT_THAT(text, ContainsRegex("\n  #1 \"main\" running on worker [0-9]+, and does not give "
                                  "way, run at inspect/dump_test.cpp:[0-9]+\n"
                                  "    nursery \"jobs\" open\n"
                                  "      #[0-9]+ \"patient\" parked on event wait \"go\" for "));
  EXPECT_THAT(text, HasSubstr("\n        nursery \"inner\" open\n")) << text;
  EXPECT_THAT(text, Not(HasSubstr("not shown")));
  EXPECT_THAT(text, HasSubstr(" \"child\" parked on event wait \"go\" for "));
  EXPECT_THAT(without_sites(dump_of(io)), ::testing::EndsWith("Io: 0 fibers\n"))
      << "the engine is none the worse";
}

TEST(Dump, AFiberThatDoesNotGiveWayHidesNoOther) {
  for (const unsigned workers : {1U, 4U}) {
    FiberIo io{{.workers = workers}};
    a_fiber_that_does_not_give_way(io);
  }
}

TEST(Dump, SoDoesASimulationThatIsLookedAtByAnotherThread) {
  SimIo io;
  a_fiber_that_does_not_give_way(io);
}

TEST(Dump, ASimulationThatGoesOnForEverCanBeLookedAt) {
  SimIo io;
  std::atomic<bool> seen = false;
  std::thread asker;
  io.run([&] {
    asker = std::thread{[&] {
      const std::string text = dump_of(io, 20s);
      EXPECT_THAT(text, HasSubstr("\"restless\""));
      EXPECT_THAT(text, Not(HasSubstr("does not give way")));
      seen = true;
    }};
    nursery([&](Nursery& n) {
      for (int i = 0; i < 2; ++i)
        n.spawn("restless", [&] {
          while (!seen) this_fiber::yield();
        });
    });
  });
  asker.join();
}

// Whatever the workers are in the midst of: they spawn, join in place, park, wake and end, or do
// not come to their gates for longer than the dump wants to wait.
TEST(Dump, InTheMidstOfEverything) {
  FiberIo io{{.workers = 3}};
  std::atomic<bool> stop{false};
  std::vector<std::thread> askers;
  std::atomic<int> partial = 0, complete = 0, looking = 2;
  const auto look_on = [&](Duration patience) {
    // Until both kinds were seen: who dumps how much is up to the machine.
    for (int left = ::weft::testing::scaled(300); left > 0 || partial == 0 || complete == 0;) {
      const std::string text = dump_of(io, patience);
      if (text == "FiberIo: 0 fibers\n") continue;  // between two runs
      --left;
      ++(text.find("does not give way") == std::string::npos ? complete : partial);
      EXPECT_THAT(text, HasSubstr("  worker 0 "));
    }
    if (--looking == 0) stop = true;
  };
  for (const Duration patience : {Duration{1us}, Duration{1ms}})
    askers.emplace_back(look_on, patience);
  while (!stop) {
    io.run([&] {
      nursery([&](Nursery& n) {
        for (int w = 0; w < 4; ++w)
          n.spawn("worker " + std::to_string(w), [&, w] {
            for (int round = 0; round < 50 && !stop; ++round) {
              Event inner_done{"inner"};
              nursery({.name = "inner"}, [&](Nursery& m) {
                for (int i = 0; i < 5; ++i)
                  m.spawn(std::string{"child"}, [&, i] {
                    nursery([&](Nursery& deep) {
                      deep.spawn([&] { this_fiber::set_name(std::string{"renamed"}); });
                      deep.spawn([&] { static_cast<void>(inner_done.is_set()); });
                    });
                    if (i == 4) inner_done.set();
                    else inner_done.wait();
                  });
              });
              const Instant until = Clock::now() + w * 20us;
              while (Clock::now() < until || (w == 3 && partial == 0)) {  // does not give way
              }
            }
          });
      });
    });
  }
  for (std::thread& asker : askers) asker.join();
  EXPECT_GT(partial, 0);
  EXPECT_GT(complete, 0);
}

// ── by signal ───────────────────────────────────────────────────────────────────────────────────

std::atomic<int> other_handler_calls = 0;

// In a process of its own, whose standard error the parent reads.
TEST(DumpSignal, DumpsToStandardErrorAndRestoresWhatWasThere) {
  if (std::getenv("WEFT_TEST_SIGNALLED") == nullptr) {
    for (const char* const name : {"USR1", "SIGUSR1", "10"}) {
      const ::weft::testing::ChildResult child = ::weft::testing::run_child(
          {::weft::testing::sibling_program("dump_test"),
           "--gtest_filter=DumpSignal.DumpsToStandardErrorAndRestoresWhatWasThere"},
          {"WEFT_TEST_SIGNALLED=1", std::string{"WEFT_DUMP_SIGNAL="} + name});
      EXPECT_EQ(child.exit_code, 0) << child.output;
      EXPECT_THAT(child.output, HasSubstr("\"patient\" parked on event wait \"a signal\" for "));
    }
    return;
  }
  struct sigaction counting {};
  counting.sa_handler = [](int) { ++other_handler_calls; };
  ASSERT_EQ(::sigaction(SIGUSR1, &counting, nullptr), 0);
  {
    FiberIo io;
    FiberIo second;
    EXPECT_EQ(io.options().dump_signal, SIGUSR1);
    io.run([] {
      Event go{"a signal"};
      nursery([&](Nursery& n) {
        n.spawn("patient", [&] { go.wait(); });
        sleep_for(10ms);
        ::raise(SIGUSR1);
        sleep_for(500ms);  // for the dump; without it the parent misses the text, and says so
        go.set();
      });
    });
    EXPECT_EQ(other_handler_calls, 0);
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(other_handler_calls, 1);
}

}  // namespace
}  // namespace weft
