// Fibers and plain threads: the same Event, waited for and set from both sides.
#include <weft/weft.hpp>

#include <atomic>
#include <cstdio>
#include <thread>

int main() {
  weft::Event question{"question"};
  weft::Event answer{"answer"};

  // A thread that has nothing to do with any engine waits as a fiber does; it sleeps in the kernel.
  std::thread oracle{[&] {
    question.wait();
    std::puts("thread: 42");
    answer.set();
  }};

  weft::FiberIo io;
  io.run([&] {
    std::puts("fiber: what is it?");
    question.set();
    answer.wait();  // the worker has nothing else to run: it sleeps until the thread wakes it
    std::puts("fiber: I see");
  });
  oracle.join();

  // A thread hands functions to a running engine. Each becomes a fiber, a child of run()'s root.
  std::atomic<int> ran{0};
  std::thread poster;
  io.run([&] {
    weft::Event done{"done"};
    poster = std::thread{[&] {
      int accepted = 0;
      for (int i = 0; i < 100; ++i) accepted += io.post([&ran] { ++ran; }) ? 1 : 0;
      std::printf("thread: %d accepted\n", accepted);
      done.set();
    }};
    done.wait();
  });
  poster.join();
  std::printf("%d ran\n", ran.load());
  std::printf("after run(): %s\n", io.post([] {}) ? "accepted" : "refused");
}
