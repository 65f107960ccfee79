// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Permutation: in which order threads, blocks and nodes of a graph take their turn. It varies.

#include <cstdint>
#include <numeric>

namespace cuda_emulator {

/// A permutation of [0, n).
class Permutation {
 public:
  enum class Kind : unsigned char { scattered, backward, forward };

  Permutation(Kind kind, std::uint64_t offset, bool reversed, std::uint64_t n)
      : kind_{kind}, reversed_{reversed}, n_{n}, offset_{offset}, step_{n - n * 382 / 1000} {
    // A step of about 0.618 n puts about half of all neighbours in either order.
    while (step_ > 1 && std::gcd(step_, n) != 1) {
      --step_;
    }
  }

  /// The element whose turn is the @p i-th.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const {
    i = reversed_ ? n_ - 1 - i : i;
    switch (kind_) {
      case Kind::forward:
        return i;
      case Kind::backward:
        return n_ - 1 - i;
      case Kind::scattered:
        break;
    }
    return (i * step_ + offset_) % n_;
  }

 private:
  Kind kind_;
  bool reversed_;
  std::uint64_t n_;
  std::uint64_t offset_;
  std::uint64_t step_;
};

/// A permutation for every n.
struct Order {
  Permutation::Kind kind = Permutation::Kind::scattered;
  std::uint64_t offset = 0;
  bool reversed = false;

  [[nodiscard]] Permutation of(std::uint64_t n) const { return {kind, offset, reversed, n}; }

  /// The last comes first, so that of every two the other does.
  [[nodiscard]] Order reverse() const { return {kind, offset, !reversed}; }
};

/// Whether kernels shall run in two orders. @pre the lock is held
[[nodiscard]] bool orders_compared();

/// The order of the next launch: scattered, backward, forward, scattered...
[[nodiscard]] Order next_order();

}  // namespace cuda_emulator
