// One fiber, the manager, decides everything. Others only leave word for it, under the lock: a
// child was added, an incarnation has ended, stop.
//
// Invariant: a child is waiting, running, or forgotten; who is doomed is running. Only the manager
//            starts, tells and forgets, so an incarnation never meets another one of its child.
// Race:      an outer cancel ends a child, which leaves word, while the manager has not noticed the
//            cancel yet. It looks at the scope after it took the word and before it acts on it: a
//            child that ended because of the cancel has seen the flag, and so does the manager.
// Rejected:  restarting on the child's own fiber (a group needs somebody who outlives its members);
//            sleeping through a back-off in the manager (the failure of another child would wait
//            for it); cancelling a group at once (who depends on an older child could not put its
//            things away while that still runs).
#include <weft/supervisor.hpp>

#include "restarts.hpp"

#include <weft/core/error.hpp>
#include <weft/time.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

namespace weft {

class Supervisor::Core {
 public:
  explicit Core(SupervisorOptions options) : options_(checked(std::move(options))) {}
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void begin(Nursery& nursery);
  void body_ended() noexcept;
  void add(ChildOptions options, std::unique_ptr<detail::ChildFunction> function);
  void stop() noexcept;
  void suppress(std::string_view whose, const std::exception_ptr& error) noexcept;

  [[nodiscard]] const SupervisorOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::size_t restarts() const noexcept {
    return restarts_.load(std::memory_order_relaxed);
  }
  // acquire: pairs with forget(); who sees that a child is gone sees what it did.
  [[nodiscard]] std::size_t live() const noexcept { return live_.load(std::memory_order_acquire); }

 private:
  using Order = std::uint64_t;
  class Change;
  class Incarnation;

  struct Child : ListNode<Child> {
    Child(ChildOptions options, std::unique_ptr<detail::ChildFunction> function_in)
        : name(std::move(options.name)),
          restart(options.restart),
          function(std::move(function_in)) {}

    const Name name;
    const Restart restart;
    const std::unique_ptr<detail::ChildFunction> function;
    // The manager's.
    Order order = 0;
    Streak streak{};
    bool begun = false;
    bool running = false;
    // Under the lock.
    CancelScope* scope = nullptr;  // of the incarnation, while it runs
    bool told = false;             // to end; written by the manager alone
    std::exception_ptr error{};    // of the incarnation that has ended
  };
  enum class Ending : std::uint8_t { none, stopped, exhausted };

  // On the manager's fiber.
  void manage();
  void take_news();
  Child* take(List<Child>& from);
  [[nodiscard]] bool nobody_left();
  void settle(Child& child);
  void settle_doomed(Child& child, const std::exception_ptr& error);
  void restart(Child& child, std::exception_ptr error);
  void doom_from(Order first);
  void tell_the_next();
  Instant start_those_due();
  void start(Child& child);
  void await_start(Child& child, Instant due);
  void forget(Child& child) noexcept;
  void end(Ending how);
  void finish();
  void wait_for_change(Instant due);

  // On a child's fiber.
  void incarnate(Child& child);

  // With the lock held: there is news for the manager.
  void notify(FiberList& woken) noexcept {
    changed_ = true;
    waiters_.wake_all(woken);
  }
  [[nodiscard]] bool is_group() const noexcept {
    return options_.strategy != Strategy::one_for_one;
  }

  const SupervisorOptions options_;
  Nursery* nursery_ = nullptr;
  Atomic<std::size_t> restarts_{0};
  Atomic<std::size_t> live_{0};

  Lock lock_;  // protects what others leave here for the manager
  bool changed_ = false;
  bool closed_ = false;  // takes no more children
  bool stop_ = false;
  bool body_ended_ = false;
  List<Child> added_;  // and owned
  List<Child> ended_;
  WaitList waiters_;

  // The manager's. A child is known by its place in the order of start.
  std::map<Order, std::unique_ptr<Child>> children_;
  std::map<std::pair<Instant, Order>, Child*> waiting_;  // of a group, with no instant each
  std::map<Order, Child*> doomed_;                       // run, and are to end
  std::size_t running_ = 0;
  Order last_order_ = 0;
  Streak streak_{};  // of the group
  Instant group_due_{};
  Intensity intensity_;
  Ending ending_ = Ending::none;
  std::exception_ptr failure_{};
};

// ── what others leave for the manager ───────────────────────────────────────────────────────────

void Supervisor::Core::begin(Nursery& nursery) {
  nursery_ = &nursery;
  nursery.spawn("supervisor", [this] { manage(); });
}

void Supervisor::Core::body_ended() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    body_ended_ = true;
    notify(woken);
  }
  resume_all(std::move(woken));
}

void Supervisor::Core::add(ChildOptions options, std::unique_ptr<detail::ChildFunction> function) {
  auto child = std::make_unique<Child>(std::move(options), std::move(function));
  FiberList woken;
  {
    const Locked locked{lock_};
    if (!closed_) {
      added_.push_back(*child.release());
      live_.fetch_add(1, std::memory_order_relaxed);
      notify(woken);
    }
  }
  if (child) throw SupervisorStopped{};
  resume_all(std::move(woken));
}

void Supervisor::Core::stop() noexcept {
  FiberList woken;
  {
    const Locked locked{lock_};
    closed_ = true;
    stop_ = true;
    notify(woken);
  }
  resume_all(std::move(woken));
}

// The scope of one incarnation, known to the manager while it runs.
class Supervisor::Core::Incarnation {
 public:
  Incarnation(Core& core, Child& child, CancelScope& scope) noexcept : core_(core), child_(child) {
    const Locked locked{core_.lock_};
    child_.scope = &scope;
    wanted_ = !child_.told;
  }
  ~Incarnation() {
    const Locked locked{core_.lock_};
    child_.scope = nullptr;
  }
  Incarnation(const Incarnation&) = delete;
  Incarnation& operator=(const Incarnation&) = delete;

  [[nodiscard]] bool is_wanted() const noexcept { return wanted_; }

 private:
  Core& core_;
  Child& child_;
  bool wanted_;
};

// A cancel from further out leaves no word: the whole supervisor is being unwound.
void Supervisor::Core::incarnate(Child& child) {
  std::exception_ptr error;
  try {
    Fiber& self = Fiber::current();
    CancelScope scope{self.scope};
    const Incarnation incarnation{*this, child, scope};
    if (incarnation.is_wanted()) detail::run_in(self, scope, [&] { child.function->run(); });
  } catch (const Cancelled&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  FiberList woken;
  {
    const Locked locked{lock_};
    child.error = std::move(error);
    ended_.push_back(child);
    notify(woken);
  }  // the child may be forgotten from here on
  resume_all(std::move(woken));
}

// ── the manager ─────────────────────────────────────────────────────────────────────────────────

class Supervisor::Core::Change final : public Waitable {
 public:
  explicit Change(Core& core) noexcept : core_(core) {}

  bool try_complete() override {
    const Locked locked{core_.lock_};
    return core_.changed_;
  }
  bool publish() noexcept override {
    const Locked locked{core_.lock_};
    if (core_.changed_) return false;
    core_.waiters_.link(*this);
    return true;
  }
  void unpublish() noexcept override {
    const Locked locked{core_.lock_};
    core_.waiters_.unlink(*this);
  }
  [[nodiscard]] WaitReason reason() const noexcept override {
    return {.verb = "children", .name = core_.options_.name.view(), .object = &core_};
  }

 private:
  Core& core_;
};

void Supervisor::Core::manage() {
  for (;;) {
    take_news();
    while (Child* const child = take(ended_)) settle(*child);
    if (ending_ != Ending::none && running_ == 0) return finish();
    tell_the_next();
    const Instant due = start_those_due();
    if (nobody_left()) return;
    wait_for_change(due);
  }
}

void Supervisor::Core::take_news() {
  bool stop = false;
  {
    const Locked locked{lock_};
    changed_ = false;
    stop = stop_;
  }
  while (Child* const added = take(added_)) {
    std::unique_ptr<Child> child{added};
    child->order = ++last_order_;
    Child& one = *children_.emplace(child->order, std::move(child)).first->second;
    await_start(one, Instant{});
  }
  if (stop && ending_ == Ending::none) end(Ending::stopped);
}

// Neither the body nor a child is left that could add one.
bool Supervisor::Core::nobody_left() {
  const Locked locked{lock_};
  return children_.empty() && body_ended_ && added_.empty();
}

Supervisor::Core::Child* Supervisor::Core::take(List<Child>& from) {
  const Locked locked{lock_};
  return from.pop_front();
}

void Supervisor::Core::settle(Child& child) {
  const std::exception_ptr error = std::exchange(child.error, nullptr);
  child.running = false;
  --running_;
  if (nursery_->cancelled()) {
    if (error) suppress(child.name.view(), error);
    attend(Fiber::current());
  }
  if (doomed_.erase(child.order) != 0) return settle_doomed(child, error);
  const bool again =
      child.restart == Restart::always || (child.restart == Restart::on_failure && error);
  if (again) return restart(child, error);
  if (error) suppress(child.name.view(), error);
  forget(child);
}

// It ended on the way to a restart of its group, or to the end of all. Told to, or failed, it
// starts with its group; returned before it was told, it is done.
void Supervisor::Core::settle_doomed(Child& child, const std::exception_ptr& error) {
  if (error) suppress(child.name.view(), error);
  const bool done = !child.told && !error && child.restart == Restart::on_failure;
  if (done || child.restart == Restart::never || ending_ != Ending::none) return forget(child);
  await_start(child, Instant{});
}

void Supervisor::Core::restart(Child& child, std::exception_ptr error) {
  const Instant now = Clock::now();
  if (!intensity_.one_more(options_, now)) {
    failure_ = std::make_exception_ptr(RestartsExhausted{options_.name.view(), child.name.view(),
                                                         options_.max_restarts, options_.within,
                                                         std::move(error)});
    forget(child);
    return end(Ending::exhausted);
  }
  Streak& streak = is_group() ? streak_ : child.streak;
  const Duration delay = streak.next_delay(options_, now);
  const Instant due = saturating_add(now, delay);
  streak.started = due;
  restarts_.fetch_add(1, std::memory_order_relaxed);
  await_start(child, due);
  if (is_group()) {
    group_due_ = std::max(group_due_, due);
    doom_from(options_.strategy == Strategy::one_for_all ? 0 : child.order);
  }
  if (options_.on_restart)
    options_.on_restart({child.name.view(), streak.attempts, std::move(error), delay});
}

void Supervisor::Core::await_start(Child& child, Instant due) {
  waiting_.emplace(std::pair{is_group() ? Instant{} : due, child.order}, &child);
}

// Those that run, from `first` on, are to end.
void Supervisor::Core::doom_from(Order first) {
  for (auto at = children_.lower_bound(first); at != children_.end(); ++at)
    if (at->second->running) doomed_.emplace(at->first, at->second.get());
}

// One at a time, the newest first.
void Supervisor::Core::tell_the_next() {
  if (doomed_.empty()) return;
  Child& child = *doomed_.rbegin()->second;
  if (child.told) return;
  const bool asked = ending_ == Ending::stopped;
  Fired fired;
  {
    const Locked locked{lock_};
    child.told = true;
    // Under the lock, so that the scope is there; nobody takes ours while holding a scope's.
    if (child.scope)
      child.scope->cancel(asked ? CancelReason::requested : CancelReason::sibling_failed, fired);
  }
  resume_all(std::move(fired.woken));
  CancelScope::tell(fired.hooks);
}

// The instant at which the next one is due.
Instant Supervisor::Core::start_those_due() {
  const Instant now = Clock::now();
  if (!doomed_.empty()) return Instant::max();  // of a group, nobody before all have ended
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    const Instant due = is_group() ? group_due_ : first->first.first;
    if (due > now) return due;
    Child& child = *first->second;
    waiting_.erase(first);
    start(child);
  }
  return Instant::max();
}

void Supervisor::Core::start(Child& child) {
  if (std::exchange(child.begun, true))
    (is_group() ? streak_ : child.streak).started = Clock::now();
  child.told = false;
  try {
    nursery_->spawn(Name{child.name}, [this, &child] { incarnate(child); });
  } catch (const NurseryClosed&) {
    return attend(Fiber::current());  // the body has failed, and all is being unwound
  }
  child.running = true;
  ++running_;
}

void Supervisor::Core::forget(Child& child) noexcept {
  const Order order = child.order;  // not by reference: it dies with the child
  children_.erase(order);
  live_.fetch_sub(1, std::memory_order_release);
}

void Supervisor::Core::end(Ending how) {
  {
    const Locked locked{lock_};
    closed_ = true;
  }
  ending_ = how;
  for (const auto& [key, child] : std::exchange(waiting_, {})) forget(*child);
  doom_from(0);
}

void Supervisor::Core::finish() {
  if (failure_) std::rethrow_exception(failure_);  // which cancels the body
  nursery_->cancel();
}

void Supervisor::Core::wait_for_change(Instant due) {
  Change change{*this};
  if (due == Instant::max()) return wait(change);
  Alarm alarm{due};
  Waitable* const arms[] = {&change, &alarm};
  wait(arms);
}

// ── failures that nobody answers ────────────────────────────────────────────────────────────────

namespace {

// Part of something that is told elsewhere, or a consequence of it.
bool is_an_echo(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Deadlock&) {
    return true;
  } catch (const SupervisorStopped&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Supervisor::Core::suppress(std::string_view whose, const std::exception_ptr& error) noexcept {
  if (options_.on_suppressed) return options_.on_suppressed(whose, error);
  if (is_an_echo(error)) return;
  std::fprintf(stderr, "weft: %s of supervisor %s failed, and is not started again for it: %s\n",
               quoted(whose).c_str(), quoted(options_.name.view()).c_str(), what_of(error).c_str());
}

// Whatever was left when a cancel or a failure of the body took the manager away.
Supervisor::Core::~Core() {
  while (const Child* const child = ended_.pop_front())
    if (child->error) suppress(child->name.view(), child->error);
  while (const Child* const child = added_.pop_front()) delete child;
  while (!children_.empty()) children_.erase(std::prev(children_.end()));
}

// ── the shell ───────────────────────────────────────────────────────────────────────────────────

Supervisor::Supervisor(SupervisorOptions options)
    : core_(std::make_unique<Core>(std::move(options))) {}
Supervisor::~Supervisor() = default;

NurseryOptions Supervisor::nursery_options() const {
  NurseryOptions options{.name = core_->options().name};
  if (core_->options().on_suppressed)
    options.on_suppressed = [core = core_.get()](const std::exception_ptr& error, FiberId) {
      core->suppress(core->options().name.view(), error);
    };
  return options;
}

void Supervisor::add(ChildOptions options, std::unique_ptr<detail::ChildFunction> function) {
  core_->add(std::move(options), std::move(function));
}
void Supervisor::stop() noexcept { core_->stop(); }
std::string_view Supervisor::name() const noexcept { return core_->options().name.view(); }
std::size_t Supervisor::restarts() const noexcept { return core_->restarts(); }
std::size_t Supervisor::live() const noexcept { return core_->live(); }

Supervisor::BodyRuns::BodyRuns(Supervisor& supervisor, Nursery& nursery)
    : core_(*supervisor.core_) {
  core_.begin(nursery);
}
Supervisor::BodyRuns::~BodyRuns() { core_.body_ended(); }

}  // namespace weft
