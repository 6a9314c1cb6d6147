// What the ends of a broadcast or of a watch share. <weft/broadcast.hpp> and <weft/watch.hpp> are
// the manuals.
//
// Invariant: while anybody subscribes, value number n is in slot n % capacity for as long as it is
//            one of the last `capacity` that were sent. A subscriber is listed only while it has
//            seen all that was sent, and the feed is open.
// Race:      a subscriber finds nothing new and parks while a send or a close comes: both look and
//            list, or write and wake, under one lock. A subscriber copies a value while a send
//            overwrites it: it has counted itself among the note's holders, under that lock, and
//            copies without it.
// Rejected:  handing values to those who wait (nobody else takes what is new to a subscriber, so it
//            is enough to be told; an arm that loses then has nothing to give back); copying under
//            the lock (a copy may throw, wait, or send).
#pragma once

#include <weft/core/name.hpp>
#include <weft/core/object_lock.hpp>
#include <weft/core/time.hpp>
#include <weft/core/wait.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace weft::detail {

// One value that was sent, and how many hold on to it: the feed, and whoever copies it just now.
class Note {
 public:
  using Destroy = void (*)(Note& note) noexcept;

  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;

  // By who can be sure that somebody holds it.
  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept {
    // acq_rel: who destroys it sees that the others have read it.
    const auto order =
        mutant::kNoteDroppedRelaxed ? std::memory_order_relaxed : std::memory_order_acq_rel;
    if (holders_.fetch_sub(1, order) == 1) destroy_(*this);
  }

 protected:
  explicit Note(Destroy destroy) noexcept : destroy_(destroy) {}
  ~Note() = default;

 private:
  friend class FeedCore;
  Atomic<std::uint32_t> holders_{1};
  const Destroy destroy_;
  Var<Note*> next_{nullptr};  // of those taken out of the ring together
};

template <class T>
class NoteOf final : public Note {
 public:
  template <class From>
  explicit NoteOf(std::in_place_t, From&& from)
      : Note([](Note& note) noexcept { delete &static_cast<NoteOf&>(note); }),
        value(std::forward<From>(from)) {}
  T value;
};

// Somebody's hold on a note.
class NotePtr {
 public:
  NotePtr() = default;
  explicit NotePtr(Note* note) noexcept : note_(note) {}
  NotePtr(NotePtr&& other) noexcept : note_(std::exchange(other.note_, nullptr)) {}
  NotePtr& operator=(NotePtr other) noexcept {
    std::swap(note_, other.note_);
    return *this;
  }
  ~NotePtr() {
    if (note_) note_->drop();
  }
  explicit operator bool() const noexcept { return note_ != nullptr; }
  // By who made it, before it is sent; after that it is read only.
  template <class T>
  [[nodiscard]] T& edit() const noexcept {
    return static_cast<NoteOf<T>*>(note_)->value;
  }
  template <class T>
  [[nodiscard]] const T& read() const noexcept {
    return static_cast<const NoteOf<T>*>(note_)->value;
  }
  [[nodiscard]] Note& operator*() const noexcept { return *note_; }
  void release() noexcept { note_ = nullptr; }

 private:
  Note* note_ = nullptr;
};

// How far a subscriber has got. It is the subscriber's alone: who sends does not look at it.
struct Cursor {
  Var<std::uint64_t> next{0};  // the number of the next value
  Var<std::uint64_t> lost{0};  // overwritten before it came to them, and not reported yet

  // What was taken last is new again.
  void put_back() noexcept { next.write(next.read() - 1); }
};

// What a subscriber finds: something new, the end and nothing new before it, or nothing.
enum class News : std::uint8_t { some, ended, none };
// The same at the end of a wait.
enum class Waited : std::uint8_t { news, ended, timed_out, cancelled };

struct Taken {
  NotePtr note;        // null: see `ended`
  bool ended = false;  // nothing new, and never again
};

class FeedCore;

// The wait for something new, or for the end. It takes nothing.
class FeedOp : public Waitable {
 public:
  // `core` may be null: a disabled arm, which never completes.
  FeedOp(FeedCore* core, const Cursor& at) noexcept : core_(core), at_(at) {}
  bool try_complete() override;
  bool publish() noexcept override;
  void unpublish() noexcept override;
  [[nodiscard]] WaitReason reason() const noexcept override;

 protected:
  // When it has won: by the end, and not by something new.
  [[nodiscard]] bool ended() const noexcept { return ended_.read(); }

  FeedCore* core_;

 private:
  friend class FeedCore;
  const Cursor& at_;
  Var<bool> ended_{false};
};

// Everything but the type of the values.
class FeedCore {
 public:
  // Whether the last value is kept for those who come late, and what is waited for.
  enum class Kind : bool { broadcast, watch };

  // Throws std::invalid_argument for a capacity that is none.
  FeedCore(Kind kind, std::size_t capacity, Name name);
  FeedCore(const FeedCore&) = delete;
  FeedCore& operator=(const FeedCore&) = delete;

  // ── who sends ───────────────────────────────────────────────────────────────────────────────
  void add_sender() noexcept { senders_.fetch_add(1, std::memory_order_relaxed); }
  // The last one closes. acq_rel: it sees what the others did.
  void drop_sender() noexcept {
    if (senders_.fetch_sub(1, std::memory_order_acq_rel) == 1) last_sender_gone();
  }
  // True: the note is the feed's. False: it is closed, and the note is the caller's still.
  [[nodiscard]] bool publish(Note& note) noexcept;
  bool close(std::exception_ptr error) noexcept;

  // ── who subscribes ──────────────────────────────────────────────────────────────────────────
  // What is sent from now on is new to `at`.
  void subscribe(Cursor& at) noexcept;
  // Likewise what is new to `other`.
  void subscribe(Cursor& at, const Cursor& other) noexcept;
  void unsubscribe() noexcept;

  // The oldest that is kept and new. It is not new afterwards, unless it is put back.
  [[nodiscard]] Taken take(Cursor& at) noexcept;
  // The same, when there is something, or the end. Parks. Cancel point.
  [[nodiscard]] Taken recv(Cursor& at);
  // The last one. Nothing is new afterwards.
  [[nodiscard]] NotePtr latest() const noexcept;
  [[nodiscard]] NotePtr latest(Cursor& at) noexcept;
  void mark_seen(Cursor& at) noexcept;
  // How many were lost since the last call.
  [[nodiscard]] std::uint64_t lagged(Cursor& at) noexcept;

  // Until there is something new, or the end. Cancel points.
  [[nodiscard]] News look(const Cursor& at) const noexcept;
  [[nodiscard]] Waited wait_news(const Cursor& at);
  [[nodiscard]] Waited wait_news(const Cursor& at, no_throw_t);
  [[nodiscard]] Waited wait_news_until(const Cursor& at, Instant until);

  // ── either ──────────────────────────────────────────────────────────────────────────────────
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::size_t subscribers() const noexcept;
  [[nodiscard]] bool closed() const noexcept;
  [[nodiscard]] std::exception_ptr error() const noexcept;
  void throw_error() const;  // if there is one

 protected:
  virtual ~FeedCore();

 private:
  friend class FeedOp;

  void last_sender_gone() noexcept;
  void release() noexcept;
  Waited outcome(const FeedOp& operation) const noexcept;

  // Under the lock.
  [[nodiscard]] std::uint64_t oldest() const noexcept;
  [[nodiscard]] News look_locked(const Cursor& at) const noexcept;
  void skip(Cursor& at) const noexcept;
  [[nodiscard]] Note& kept(std::uint64_t number) const noexcept;
  [[nodiscard]] Note* empty_ring() noexcept;
  [[nodiscard]] Var<Note*>& slot(std::uint64_t number) const noexcept {
    return slots_[number % capacity_];
  }

  mutable ObjectLock lock_;  // protects all but the counts and the constants
  Var<bool> closed_{false};
  Var<std::uint64_t> sent_{0};
  Var<std::size_t> subscribers_{0};
  WaitList waiters_;
  std::exception_ptr error_;  // of close()

  const Kind kind_;
  const std::size_t capacity_;
  const std::unique_ptr<Var<Note*>[]> slots_;
  Atomic<std::uint32_t> senders_{1};
  Atomic<std::uint32_t> keepers_{1};  // all senders together, and each subscriber
  const Name name_;
};

}  // namespace weft::detail
