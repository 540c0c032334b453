// SPDX-License-Identifier: GPL-2.0-only
// A first-in first-out line of timed items with fixed storage.
#ifndef DRFQ_RING_HH
#define DRFQ_RING_HH

#include <array>
#include <cassert>

#include "core/units.hh"

namespace drfq {

template <class T, unsigned N>
class Ring {
  static_assert((N & (N - 1)) == 0, "a power of two");

 public:
  unsigned size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  /// kNever when empty.
  Ps front_time() const { return front_; }

  /// Times never decrease, so the front is always the earliest.
  void push(Ps at, const T &value) {
    assert(size() < N);
    assert(empty() || at >= items_[(tail_ - 1) % N].at);
    if (empty()) front_ = at;
    items_[tail_++ % N] = {at, value};
  }

  T pop() {
    assert(!empty());
    const T value = items_[head_++ % N].value;
    if (empty()) {
      // A short line stays in the first items, which the processor's cache holds.
      head_ = tail_ = 0;
      front_ = kNever;
    } else {
      front_ = items_[head_ % N].at;
    }
    return value;
  }

 private:
  struct Item {
    Ps at = 0;
    T value{};
  };
  std::array<Item, N> items_{};
  unsigned head_ = 0, tail_ = 0;  // free-running
  Ps front_ = kNever;
};

}  // namespace drfq

#endif
