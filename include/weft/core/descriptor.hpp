// Descriptor: an open socket, pipe or file that fibers wait on. What sockets and files are made of.
#pragma once

#include <weft/core/io.hpp>
#include <weft/core/io_call.hpp>
#include <weft/core/reactor.hpp>
#include <weft/result.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace weft {

enum class Way : std::uint8_t { in, out };

// What may be concluded of a call that carried less than it was asked to.
enum class Carries : std::uint8_t {
  stream,    // TCP, pipes: nothing is left, or nothing more fits; need not be tried
  messages,  // all others: no more than that this one was short
};

// Movable, owns its descriptor. Calls from several fibers at once are fine; close() wakes them, and
// they fail with IoError::closed. It belongs to the engine in which it was made.
class Descriptor {
 public:
  Descriptor() = default;  // none
  Descriptor(Descriptor&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)), carries_(other.carries_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      release();
      record_ = std::exchange(other.record_, nullptr);
      carries_ = other.carries_;
    }
    return *this;
  }
  ~Descriptor() { release(); }

  // Takes `fd` over, which must not block, for the engine of the running fiber. If that fails, it
  // is closed. `reading` and `writing` are literals: what a fiber that waits says it is doing.
  static Result<Descriptor> adopt(int fd, Carries carries, std::string_view reading,
                                  std::string_view writing);
  // The kernel of the running fiber's engine. Fails with IoError::no_reactor.
  static Result<Kernel*> kernel_here();

  [[nodiscard]] bool is_open() const noexcept { return record_ && !record_->uses.is_closed(); }
  explicit operator bool() const noexcept { return is_open(); }
  [[nodiscard]] int fd() const noexcept { return record_ ? record_->fd : -1; }

  // Makes `attempt(kernel, fd)`, a call that answers as Kernel's do, as soon as it does not block:
  // waits for the next edge when it would have. `asked`: how many bytes would be all; 0: not bytes.
  // Cancel point, before anything is done.
  template <class Attempt>
  Result<std::size_t> call(Way way, std::size_t asked, Attempt attempt) const {
    const Use use{record_};
    if (!use) return Unexpected{IoError::closed};
    Readiness& ready = way == Way::in ? record_->in : record_->out;
    checkpoint(Fiber::current());
    for (;;) {
      const Readiness::Edges seen = ready.edges();
      if (!ready.is_drained(seen)) {
        const Kernel::Answer answer = attempt(record_->reactor->kernel(), record_->fd);
        if (answer > 0 || (answer == 0 && way == Way::in)) {
          const auto carried = static_cast<std::size_t>(answer);
          if (carries_ == Carries::stream && carried != 0 && carried < asked && is_told())
            ready.drained(seen);
          return carried;
        }
        if (answer == 0) return std::size_t{0};
        if (answer == -EINTR) continue;
        if (answer != -EAGAIN) return Unexpected::of(static_cast<int>(-answer));
        // First this, and only then is it true that an edge would come.
        if (!is_told()) [[unlikely]] record_->reactor->tell_from_now(*record_);
        ready.drained(seen);
      }
      if (record_->uses.is_closed()) return Unexpected{IoError::closed};
      ready.wait_after(seen);
    }
  }
  // A call that does not wait.
  template <class Attempt>
  Result<std::size_t> ask(Attempt attempt) const {
    const Use use{record_};
    if (!use) return Unexpected{IoError::closed};
    for (;;) {
      const Kernel::Answer answer = attempt(record_->reactor->kernel(), record_->fd);
      if (answer >= 0) return static_cast<std::size_t>(answer);
      if (answer != -EINTR) return Unexpected::of(static_cast<int>(-answer));
    }
  }

  // Bytes of a stream: at least one, or at the end none. Cancel point. The first two are for pipes
  // and terminals, the others for sockets.
  Result<std::size_t> read(std::span<const iovec> parts) const;
  Result<std::size_t> write(std::span<const iovec> parts) const;
  Result<std::size_t> receive(std::span<const iovec> parts) const;
  Result<std::size_t> send(std::span<const iovec> parts) const;
  // The descriptor of a new connection; where its peer is goes to `peer`, if wanted. Cancel point.
  Result<int> accept(SocketAddress* peer = nullptr) const;
  // From now on connections may be accepted before they are asked for, see Reactor. What nobody has
  // taken is closed with this. Nothing happens if it is closed.
  void accept_ahead() const noexcept;
  // Returns when the connection is made, or refused. Cancel point; cancelled, it may be made still.
  Result<void> connect(const SocketAddress& address) const;

  // An arm that completes when the next call in that direction would not block, be it because it
  // fails. It may block all the same: somebody else may be faster. Loses nothing when it loses.
  class Ready : public Waitable {
   public:
    Ready(const Descriptor& descriptor, Way way) noexcept;
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    Watched* const record_;  // null: no descriptor, so that any call would fail at once
    const Way way_;
    Readiness::Edges seen_ = 0;
  };
  [[nodiscard]] Ready on_ready(Way way) const noexcept { return Ready{*this, way}; }

  // An arm that completes when the descriptor is closed, by us. It may complete before that, after
  // something else has happened to it: ask is_open(). Loses nothing when it loses.
  class Closed final : public Waitable {
   public:
    explicit Closed(const Descriptor& descriptor) noexcept : record_(descriptor.record_) {}
    bool try_complete() override;
    bool publish() noexcept override;
    void unpublish() noexcept override;
    [[nodiscard]] WaitReason reason() const noexcept override;

   private:
    Watched* const record_;  // null: no descriptor, which is as good as closed
    Readiness::Edges seen_ = 0;
  };
  [[nodiscard]] Closed on_closed() const noexcept { return Closed{*this}; }

  // Wakes every call that is under way, and waits for them to leave; then the descriptor is closed.
  // Later calls fail. Idempotent; never a cancel point; the error is what close(2) says.
  Result<void> close() noexcept;

 private:
  // One call under way.
  class [[nodiscard]] Use {
   public:
    explicit Use(Watched* record) noexcept
        : record_(record && record->uses.enter() ? record : nullptr) {}
    ~Use() {
      if (record_ && record_->uses.leave()) [[unlikely]] tell_closer();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const noexcept { return record_ != nullptr; }

   private:
    [[gnu::cold]] void tell_closer() noexcept;
    Watched* const record_;
  };

  explicit Descriptor(Watched& record, Carries carries) noexcept
      : record_(&record), carries_(carries) {}
  [[nodiscard]] bool is_told() const noexcept {
    return record_->told.load(std::memory_order_relaxed);
  }
  // In a Use.
  template <class Attempt>
  std::optional<Result<std::size_t>> take_in(std::size_t asked, const IoCall::Request& request,
                                             Attempt attempt) const;
  // The call, made by the kernel while we wait, or what stands in the way of that.
  Kernel::Answer leave_to_kernel(Way way, const IoCall::Request& request, bool& left_more) const;
  void release() noexcept;

  Watched* record_ = nullptr;
  Carries carries_ = Carries::stream;
};

}  // namespace weft
