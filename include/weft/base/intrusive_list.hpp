// Intrusive lists: membership costs two words inside the element and never allocates.
//
// List<T> is a doubly linked FIFO with O(1) removal from the middle, for elements that may leave
// early (waiters, scopes). Chain<T> is a singly linked FIFO through `T::link`, for elements that
// are in at most one queue at a time (fibers on their way to run).
#pragma once

#include <weft/base/inspected.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace weft {

template <class T>
class List;

// Base of an element. An element is in at most one list, and knows whether it is.
template <class T>
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  [[nodiscard]] bool is_linked() const noexcept { return before_ != nullptr; }

 protected:
  ~ListNode() = default;

 private:
  friend class List<T>;
  ListNode* before_ = nullptr;  // null: in no list
  ListNode* after_;             // means nothing then; scopes are made by the million
};

template <class T>
class List {
 public:
  List() = default;
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  [[nodiscard]] bool empty() const noexcept { return first() == nullptr; }
  [[nodiscard]] T* front() const noexcept { return static_cast<T*>(first()); }
  [[nodiscard]] T* back() const noexcept { return empty() ? nullptr : static_cast<T*>(last_); }
  [[nodiscard]] T* after(const T& element) const noexcept {
    return static_cast<T*>(static_cast<const Node&>(element).after_);
  }

  [[gnu::always_inline]] void push_back(T& element) noexcept {
    Node& node = element;
    node.after_ = nullptr;
    if (empty()) {
      node.before_ = nobody();
      first_ = &node;
    } else {
      node.before_ = last_;
      last_->after_ = &node;
    }
    last_ = &node;
  }

  // Idempotent: an element that is not linked is left alone.
  void remove(T& element) noexcept {
    Node& node = element;
    if (!node.before_) return;
    if (node.before_ == nobody()) first_ = node.after_;
    else node.before_->after_ = node.after_;
    (node.after_ ? node.after_->before_ : last_) = node.before_;
    node.before_ = nullptr;
  }

  // Takes the first `most` out, or all there are, and calls `visit(element, next)` for each. Of
  // `next`, null behind the last, nothing has been touched yet. True: nobody is left.
  template <class Visit>
  bool drain(Visit visit, std::size_t most = SIZE_MAX) noexcept {
    Node* node = first();
    for (; node && most != 0; --most) {
      Node* const next = node->after_;
      node->before_ = nullptr;
      visit(static_cast<T&>(*node), static_cast<T*>(next));
      node = next;
    }
    first_ = node;
    if (node) node->before_ = nobody();
    return !node;
  }

  T* pop_front() noexcept {
    Node* const node = first();
    if (!node) return nullptr;
    Node* const next = node->after_;
    first_ = next;
    if (next) next->before_ = nobody();
    node->before_ = nullptr;
    return static_cast<T*>(node);
  }

 private:
  using Node = ListNode<T>;
  // Before the first: no node's address.
  static Node* nobody() noexcept { return reinterpret_cast<Node*>(std::uintptr_t{1}); }

  [[nodiscard]] Node* first() const noexcept { return first_; }

  Inspected<Node*> first_ = nullptr;  // whether there is anybody can be asked without a lock
  Node* last_;  // means nothing while the list is empty
};

// FIFO through T::link. Movable, because batches are passed by value.
template <class T>
class Chain {
 public:
  Chain() = default;
  explicit Chain(T& only) noexcept : first_(&only), last_(&only) { only.link = nullptr; }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  Chain(Chain&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
  Chain& operator=(Chain&& other) noexcept {
    first_ = std::exchange(other.first_, nullptr);
    last_ = std::exchange(other.last_, nullptr);
    return *this;
  }

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  // The element, if it is the only one.
  [[nodiscard]] T* single() const noexcept { return first_ == last_ ? first_ : nullptr; }

  // Counts them, one by one.
  [[nodiscard]] std::size_t length() const noexcept {
    std::size_t count = 0;
    for (const T* at = first_; at; at = at->link) ++count;
    return count;
  }

  void push_back(T& element) noexcept {
    element.link = nullptr;
    if (last_) last_->link = &element;
    else first_ = &element;
    last_ = &element;
  }

  T* pop_front() noexcept {
    T* element = first_;
    if (!element) return nullptr;
    first_ = element->link;
    if (!first_) last_ = nullptr;
    element->link = nullptr;
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace weft
