// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How many boxes a launch of boxes.cuh has, and so how many launches there are.

#include <algorithm>

namespace tandem::cuda {

namespace detail {

/// As a kernel's parameters have room for: 4 KB in all.
inline constexpr int most_packed_boxes = 8;
inline constexpr int most_joined_boxes = 16;

}  // namespace detail

/// Launches of pack_boxes() for so many boxes.
constexpr int pack_boxes_launches(int boxes) {
  return (boxes + detail::most_packed_boxes - 1) / detail::most_packed_boxes;
}
/// Launches of place_boxes() and add_boxes() for what so many have.
constexpr int join_boxes_launches(int boxes) {
  return std::max(1, (boxes + detail::most_joined_boxes - 1) / detail::most_joined_boxes);
}

}  // namespace tandem::cuda
