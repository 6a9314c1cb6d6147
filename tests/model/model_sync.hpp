// ModelSync: the explorer's twin of StdSync, member for member.
//
// The types are exactly as large as their twins and hold nothing but the value they were made with;
// all that happens to them inside an execution lives in the explorer, found by address.
// Outside an execution they are plain values for one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <type_traits>
#include <utility>

#include "explorer/api.hpp"
#include "explorer/hooks.hpp"

namespace weft::model {

// std::atomic as protocol code uses it: every order may be named, none need be. There are no
// operators and no conversions, because an access that is not spelled out has no line in a trace.
template <class T>
class ModelAtomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  using Order = std::memory_order;
  static constexpr Order kSeqCst = std::memory_order_seq_cst;

 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = true;

  constexpr ModelAtomic(Site site = Site::here()) noexcept : ModelAtomic(T{}, site) {}
  constexpr ModelAtomic(T value, Site site = Site::here()) noexcept : value_(value) {
    if (!std::is_constant_evaluated())
      hook::construct(this, hook::Object::atomic, bits(value), site);
  }
  constexpr ~ModelAtomic() {
    if (!std::is_constant_evaluated()) hook::destroy(this, Site{});
  }
  ModelAtomic(const ModelAtomic&) = delete;
  ModelAtomic& operator=(const ModelAtomic&) = delete;

  [[nodiscard]] T load(Order order = kSeqCst, Site site = Site::here()) const noexcept {
    if (!hook::active()) return value_;
    return value(hook::load(this, bits(value_), order, site));
  }

  void store(T desired, Order order = kSeqCst, Site site = Site::here()) noexcept {
    if (!hook::active()) {
      value_ = desired;
      return;
    }
    hook::store(this, bits(value_), bits(desired), order, site);
  }

  T exchange(T desired, Order order = kSeqCst, Site site = Site::here()) noexcept {
    if (!hook::active()) return std::exchange(value_, desired);
    return modify(hook::Modify::exchange, bits(desired), order, site);
  }

  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure,
                               Site site = Site::here()) noexcept {
    return compare_exchange(hook::CasStrength::strong, expected, desired, success, failure, site);
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = kSeqCst,
                               Site site = Site::here()) noexcept {
    return compare_exchange(hook::CasStrength::strong, expected, desired, order, weaker(order),
                            site);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure,
                             Site site = Site::here()) noexcept {
    return compare_exchange(hook::CasStrength::weak, expected, desired, success, failure, site);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = kSeqCst,
                             Site site = Site::here()) noexcept {
    return compare_exchange(hook::CasStrength::weak, expected, desired, order, weaker(order), site);
  }

  T fetch_add(T operand, Order order = kSeqCst,
              Site site = Site::here()) noexcept requires std::is_integral_v<T> {
    if (!hook::active()) return std::exchange(value_, static_cast<T>(value_ + operand));
    return modify(hook::Modify::add, bits(operand), order, site);
  }
  T fetch_sub(T operand, Order order = kSeqCst,
              Site site = Site::here()) noexcept requires std::is_integral_v<T> {
    if (!hook::active()) return std::exchange(value_, static_cast<T>(value_ - operand));
    return modify(hook::Modify::sub, bits(operand), order, site);
  }
  T fetch_or(T operand, Order order = kSeqCst,
             Site site = Site::here()) noexcept requires std::is_integral_v<T> {
    if (!hook::active()) return std::exchange(value_, static_cast<T>(value_ | operand));
    return modify(hook::Modify::bit_or, bits(operand), order, site);
  }
  T fetch_and(T operand, Order order = kSeqCst,
              Site site = Site::here()) noexcept requires std::is_integral_v<T> {
    if (!hook::active()) return std::exchange(value_, static_cast<T>(value_ & operand));
    return modify(hook::Modify::bit_and, bits(operand), order, site);
  }
  T fetch_xor(T operand, Order order = kSeqCst,
              Site site = Site::here()) noexcept requires std::is_integral_v<T> {
    if (!hook::active()) return std::exchange(value_, static_cast<T>(value_ ^ operand));
    return modify(hook::Modify::bit_xor, bits(operand), order, site);
  }

  // For Sync::sleep() alone: the value the object was constructed with.
  [[nodiscard]] std::uint64_t initial_bits() const noexcept { return bits(value_); }

 private:
  static constexpr std::uint64_t kMask = ~std::uint64_t{0} >>
                                         (8 * (sizeof(std::uint64_t) - sizeof(T)));

  static std::uint64_t bits(const T& value) noexcept {
    std::uint64_t result = 0;
    std::memcpy(&result, &value, sizeof(T));
    return result;
  }
  static T value(std::uint64_t bits) noexcept {
    T result;
    std::memcpy(&result, &bits, sizeof(T));
    return result;
  }
  // The failure order that a single order stands for.
  static constexpr Order weaker(Order order) noexcept {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    if (order == std::memory_order_release) return std::memory_order_relaxed;
    return order;
  }

  T modify(hook::Modify how, std::uint64_t operand, Order order, Site site) noexcept {
    return value(hook::modify(this, bits(value_), how, operand, kMask, order, site));
  }

  bool compare_exchange(hook::CasStrength strength, T& expected, T desired, Order success,
                        Order failure, Site site) noexcept {
    std::uint64_t expected_bits = bits(expected);
    bool done = false;
    if (hook::active()) {
      done = hook::compare_exchange(this, bits(value_), expected_bits, bits(desired), strength,
                                    success, failure, site);
    } else {
      done = bits(value_) == expected_bits;
      expected_bits = bits(value_);
      if (done) value_ = desired;
    }
    if (!done) expected = value(expected_bits);
    return done;
  }

  T value_;
};

// Plain data: every two accesses, one of them a write, must be ordered by happens-before.
template <class T>
class ModelVar {
 public:
  constexpr ModelVar(Site site = Site::here()) noexcept : ModelVar(T{}, site) {}
  constexpr explicit ModelVar(T value, Site site = Site::here()) noexcept
      : value_(std::move(value)) {
    if (!std::is_constant_evaluated()) hook::construct(this, hook::Object::var, 0, site);
  }
  constexpr ModelVar(const ModelVar& other) noexcept : ModelVar(other.read()) {}
  ModelVar& operator=(const ModelVar& other) noexcept {
    write(other.read());
    return *this;
  }
  constexpr ~ModelVar() {
    if (!std::is_constant_evaluated()) hook::destroy(this, Site{});
  }

  [[nodiscard]] const T& read(Site site = Site::here()) const noexcept {
    hook::read_var(this, site);
    return value_;
  }
  void write(T value, Site site = Site::here()) noexcept {
    hook::write_var(this, site);
    value_ = std::move(value);
  }

 private:
  T value_;
};

// A native lock: blocks without spinning, so that models of other protocols do not pay for it.
class ModelLock {
 public:
  constexpr ModelLock(Site site = Site::here()) noexcept {
    if (!std::is_constant_evaluated()) hook::construct(this, hook::Object::lock, 0, site);
  }
  constexpr ~ModelLock() {
    if (!std::is_constant_evaluated()) hook::destroy(this, Site{});
  }
  ModelLock(const ModelLock&) = delete;
  ModelLock& operator=(const ModelLock&) = delete;

  void lock(Site site = Site::here()) noexcept { hook::lock(this, site); }
  [[nodiscard]] bool try_lock(Site site = Site::here()) noexcept {
    return hook::try_lock(this, site);
  }
  void unlock(Site site = Site::here()) noexcept { hook::unlock(this, site); }

 private:
  [[maybe_unused]] std::uint32_t size_of_the_twin_ = 0;
};

struct ModelSync {
  template <class T>
  using Atomic = ModelAtomic<T>;
  template <class T>
  using Var = ModelVar<T>;
  template <class T>
  using Glimpsed = ModelVar<T>;
  template <class Look>
  static bool hunch(Look) noexcept {
    return choose(2) != 0;
  }
  using Lock = ModelLock;
  using KeptLock = ModelLock;

  static void fence(std::memory_order order, Site site = Site::here()) noexcept {
    hook::fence(order, site);
  }
  // The pair is a fence on both sides; who relies on two of the cheap half is not found out here.
  static void fence_here(Site site = Site::here()) noexcept {
    hook::fence(std::memory_order_seq_cst, site);
  }
  static bool has_fence_everywhere() noexcept { return true; }
  static void fence_everywhere(Site site = Site::here()) noexcept {
    hook::fence(std::memory_order_seq_cst, site);
  }

  // Waits until another thread writes; when nobody else can move, until all stores are visible.
  static void spin(Site site = Site::here()) noexcept { hook::spin(site); }

  // As in the product, only the low 32 bits of a 64-bit word are compared. With a time-out the
  // search may let it elapse at any moment.
  static void sleep(const Atomic<std::uint32_t>& word, std::uint32_t seen,
                    const std::timespec* timeout = nullptr, Site site = Site::here()) noexcept {
    hook::sleep(&word, word.initial_bits(), seen, timeout != nullptr, site);
  }
  static void sleep(const Atomic<std::uint64_t>& word, std::uint64_t seen,
                    const std::timespec* timeout = nullptr, Site site = Site::here()) noexcept {
    hook::sleep(&word, word.initial_bits(), seen, timeout != nullptr, site);
  }
  template <class T>
  static void wake(const Atomic<T>& word, unsigned sleepers, Site site = Site::here()) noexcept {
    hook::wake(&word, sleepers, site);
  }
};

static_assert(sizeof(ModelSync::Atomic<std::uint64_t>) == sizeof(std::uint64_t));
static_assert(sizeof(ModelSync::Var<void*>) == sizeof(void*));
static_assert(sizeof(ModelSync::Lock) == sizeof(std::uint32_t));

}  // namespace weft::model
