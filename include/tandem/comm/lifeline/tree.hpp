// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LifelineTree: which processes are connected to which.

namespace tandem::detail {

/// Process 0 has all others as children while they are few; else each has `width`, in order.
struct LifelineTree {
  /// Half of the descriptors that a process mostly may have.
  static constexpr int few = 512;

  int processes = 1;
  int width = few;

  constexpr explicit LifelineTree(int count, int most_at_one = few, int below = 64)
      : processes{count}, width{count <= most_at_one ? most_at_one : below} {}

  /// -1 of process 0.
  [[nodiscard]] constexpr int parent(int process) const {
    return process == 0 ? -1 : (process - 1) / width;
  }
  [[nodiscard]] constexpr int children(int process) const {
    long long const left = processes - 1 - static_cast<long long>(process) * width;
    return static_cast<int>(left < 0 ? 0 : left < width ? left : width);
  }
};

}  // namespace tandem::detail
