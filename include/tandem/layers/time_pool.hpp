// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LastRow and MeanOverTime: from the rows of a sequence to one vector, for classifiers of text.

#include <string_view>

#include <tandem/graph/layer.hpp>

namespace tandem {

namespace detail {

struct TimePool {
  static constexpr Fault fault(Shape in) {
    return in.timed && in.rank == 2 ? Fault::none : Fault::not_timed;
  }
  static constexpr Shape output(Shape in) { return vector_shape(in[1]); }
  static constexpr Kept kept(Shape) { return Kept::of(false, false); }
};

}  // namespace detail

/// y = x[length - 1], the last row of each sample that counts; PyTorch's x[:, -1] of samples
/// without padding. Of a causal network the one row that has seen all of the sample.
///
/// Shapes: x (B, T, C); y (B, C). Saves nothing.
struct LastRow : detail::TimePool {
  using layer = LastRow;
  static constexpr std::string_view name = "LastRow";
};

/// y = mean of x over the rows of each sample that count; PyTorch's x.mean(1) of samples without
/// padding.
///
/// Shapes: x (B, T, C); y (B, C). Saves nothing.
struct MeanOverTime : detail::TimePool {
  using layer = MeanOverTime;
  static constexpr std::string_view name = "MeanOverTime";
};

}  // namespace tandem
