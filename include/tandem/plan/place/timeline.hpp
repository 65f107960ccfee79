// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlacementTimeline: when each pass of a placed graph runs, and each tensor on a link.

#include <vector>

namespace tandem {

/// From when to when something runs, in seconds since the step's begin.
struct PlacementSpan {
  double begin = 0;
  double end = 0;

  friend bool operator==(PlacementSpan const&, PlacementSpan const&) = default;
};

/// A tensor on a link between two devices.
struct PlacementTransfer {
  int node = 0;  ///< whose output it is
  int from = 0;  ///< device
  int to = 0;    ///< device
  bool gradient = false;
  PlacementSpan span{};

  friend bool operator==(PlacementTransfer const&, PlacementTransfer const&) = default;
};

/// A step of a placed graph.
struct PlacementTimeline {
  std::vector<int> device{};                  ///< by node
  std::vector<PlacementSpan> forward{};       ///< by node
  std::vector<PlacementSpan> backward{};      ///< by node
  std::vector<PlacementTransfer> transfer{};  ///< by begin
  double step = 0;                            ///< end of the last backward
};

}  // namespace tandem
