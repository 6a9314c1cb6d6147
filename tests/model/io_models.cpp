#include "io_models.hpp"

#include "model_engine.hpp"

#include <weft/core/cancel_scope.hpp>
#include <weft/core/io_call.hpp>

#include <cerrno>
#include <exception>
#include <memory>

namespace weft::model {
namespace {

// A kernel with one place in its queue. What it reads, it writes to `buffer`, at any time between
// submit() and its answer.
class OneCallKernel final : public Reactor {
 public:
  // What has happened so far.
  enum : std::uint32_t { kHanded = 1, kAskedBack = 2, kOver = 4 };

  Kernel& kernel() noexcept override { std::terminate(); }  // nobody asks
  Kernel::Answer watch(Watched&) noexcept override { return kOnDemand; }
  void forget(Watched&) noexcept override {}
  std::string_view kind() const noexcept override { return "model"; }

  bool submit(IoCall& call) noexcept override {
    const Locked locked{lock_};
    if (!call.take(lock_, this)) return false;
    call_.write(&call);
    happened(kHanded);
    return true;
  }
  void recall(IoCall&) noexcept override { happened(kAskedBack); }
  void abandon(Watched&) noexcept override {
    const Locked locked{lock_};
    if (call_.read()) happened(kAskedBack);
  }
  void over() noexcept { happened(kOver); }

  // Returns when one of `these` has happened: all that has.
  std::uint32_t wait_for(std::uint32_t these) noexcept {
    for (;;) {
      const std::uint32_t so_far = happened_.load(std::memory_order_acquire);
      if (so_far & these) return so_far;
      Sync::sleep(happened_, so_far);
    }
  }
  void answer(Kernel::Answer answer) noexcept {
    FiberList woken;
    lock_.lock();
    IoCall& call = *call_.read();
    call_.write(nullptr);
    call.complete(answer, false, woken);
    lock_.unlock();
    resume_all(std::move(woken));
  }

 private:
  void happened(std::uint32_t what) noexcept {
    happened_.fetch_or(what, std::memory_order_release);
    Sync::wake(happened_, 1);
  }

  Lock lock_;
  Var<IoCall*> call_{nullptr};
  Atomic<std::uint32_t> happened_{0};
};

struct Calling {
  Calling() { record.reactor = std::shared_ptr<Reactor>{std::shared_ptr<void>{}, &kernel}; }

  ModelEngine engine;
  CancelScope scope{nullptr};
  OneCallKernel kernel;
  Watched record;
  // Under quarantine, and not on the stack: a touch after the wait is noticed.
  Var<int>* buffer = make<Var<int>>(0);
  bool received = false, delivered = false, cancelled = false;
};

// Waits for the answer to a call, until the kernel has it or the scope is cancelled.
void calls_in_scope(void* at) {
  auto& to = *static_cast<Calling*>(at);
  auto* const call = make<IoCall>(to.record, to.record.in,
                                  IoCall::Request{.kind = IoCall::Kind::receive});
  try {
    const Entered entered{Fiber::current(), to.scope};
    checkpoint(Fiber::current());
    if (choose(2) == 0) wait_fused(Fiber::current(), *call);
    else wait(*call);
    to.received = call->answer() == 1;
    if (to.received) check(to.buffer->read() == 7, "the answer without the bytes");
  } catch (const Cancelled&) {
  }
  destroy(call);
  destroy(to.buffer);
  to.kernel.over();
}

void deliver(Calling& to) {
  to.buffer->write(7);
  to.delivered = true;
  to.kernel.answer(1);
}

// The answer comes as the wait for it is cancelled.
void cancelled_as_it_is_answered(Program& p) {
  auto& s = p.make<Calling>();
  s.engine.fiber(&calls_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("kernel", [&s] {
    const auto so_far = s.kernel.wait_for(OneCallKernel::kHanded | OneCallKernel::kOver);
    if (so_far & OneCallKernel::kHanded) deliver(s);
  });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { check(s.delivered == s.received, "bytes were lost"); });
}

// Bytes came though the wait was cancelled: it returns them, and the next one is cancelled.
void waits_on_in_scope(void* at) {
  auto& to = *static_cast<Calling*>(at);
  const Entered entered{Fiber::current(), to.scope};
  auto* const call = make<IoCall>(to.record, to.record.in,
                                  IoCall::Request{.kind = IoCall::Kind::receive});
  try {
    wait_fused(Fiber::current(), *call);
    to.record.out.wait_after(to.record.out.edges());  // where nothing ever happens
  } catch (const Cancelled&) {
    to.cancelled = true;
  }
  destroy(call);
  destroy(to.buffer);
  to.kernel.over();
}

void delivered_and_cancelled(Program& p) {
  auto& s = p.make<Calling>();
  s.engine.fiber(&waits_on_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("kernel", [&s] {
    const auto so_far = s.kernel.wait_for(OneCallKernel::kHanded | OneCallKernel::kOver);
    if (so_far & OneCallKernel::kHanded) s.kernel.answer(1);
  });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { check(s.cancelled, "never cancelled"); });
}

// The kernel answers when it is asked to give up, and then with or without bytes.
void asked_back(Program& p) {
  auto& s = p.make<Calling>();
  s.engine.fiber(&calls_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("kernel", [&s] {
    const auto so_far = s.kernel.wait_for(OneCallKernel::kAskedBack | OneCallKernel::kOver);
    if (!(so_far & OneCallKernel::kAskedBack)) return;
    if (choose(2) == 0) deliver(s);
    else s.kernel.answer(-ECANCELED);
  });
  p.thread("canceller", [&s] { s.scope.cancel(); });
  p.at_end([&s] { check(s.delivered == s.received, "bytes were lost"); });
}

// A second worker, which the fiber may go on with.
void answered_elsewhere(Program& p) {
  auto& s = p.make<Calling>();
  s.engine.fiber(&calls_in_scope, &s);
  p.thread("worker 1", [&s] { s.engine.work(); });
  p.thread("worker 2", [&s] { s.engine.work(); });
  p.thread("kernel", [&s] {
    s.kernel.wait_for(OneCallKernel::kHanded);
    deliver(s);
  });
  p.at_end([&s] { check(s.received, "bytes were lost"); });
}

// Nothing ever comes: only the closer can end the call, be it handed over or not.
void closed_as_it_is_handed_over(Program& p) {
  auto& s = p.make<Calling>();
  s.engine.fiber(&calls_in_scope, &s);
  p.thread("worker", [&s] { s.engine.work(); });
  p.thread("kernel", [&s] {
    const auto so_far = s.kernel.wait_for(OneCallKernel::kAskedBack | OneCallKernel::kOver);
    if (so_far & OneCallKernel::kAskedBack) s.kernel.answer(-ECANCELED);
  });
  p.thread("closer", [&s] {
    s.record.uses.close();
    s.kernel.abandon(s.record);
  });
}

constexpr CoreModel kIoModels[] = {
    {"call is cancelled as it is answered", cancelled_as_it_is_answered, false, Mode::bound, 1},
    {"call is answered, its wait cancelled, and the next one", delivered_and_cancelled, false,
     Mode::bound, 1},
    {"call is asked back", asked_back, false, Mode::bound, 1},
    {"call is answered elsewhere", answered_elsewhere, false, Mode::bound, 2},
    {"call is closed as it is handed over", closed_as_it_is_handed_over},
};

}  // namespace

std::span<const CoreModel> io_models() { return kIoModels; }

}  // namespace weft::model
