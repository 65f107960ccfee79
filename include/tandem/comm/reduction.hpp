// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Sum and Max: how a collective joins two ranks' elements; Reduction: what such an operation is.
///
/// They are element-wise functors, written once for host and device. The order in which ranks are
/// joined is the communicator's affair (comm/fixed_tree.hpp for the host).

#include <concepts>
#include <type_traits>

#include <tandem/core/config.hpp>

namespace tandem {

/// A trivially copyable functor that joins two T into one and never throws. It must be associative
/// up to rounding; it need not be commutative on the host, where the left argument has the lower
/// ranks.
template <class Op, class T>
concept Reduction = std::is_trivially_copyable_v<Op> && requires(Op const& op, T const& a) {
  { op(a, a) }
  noexcept->std::same_as<T>;
};

/// a + b.
struct Sum {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T a, T b) const noexcept {
    return static_cast<T>(a + b);
  }
};

/// a + b, rounded to a T, where the operands are wider: a tree of these gives what it gives where
/// T's stand between its levels.
template <class T>
struct RoundedSum {
  template <class Wide>
  TANDEM_HOST_DEVICE constexpr Wide operator()(Wide a, Wide b) const noexcept {
    return static_cast<Wide>(static_cast<T>(a + b));
  }
};

/// The larger of the two; a NaN on either side wins, so that it is not lost on the way.
struct Max {
  template <class T>
  TANDEM_HOST_DEVICE constexpr T operator()(T a, T b) const noexcept {
    return (b > a || b != b) ? b : a;
  }
};

}  // namespace tandem
