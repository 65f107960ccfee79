// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PictureBar: something that a rank does, and when; PictureCosts: how long things take.

#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/time/timeline.hpp>

namespace tandem {

/// Something that a rank does; `beside` its passes if other threads or links do it.
struct PictureBar {
  Action action;
  Interval time;
  bool beside = false;
};

/// How long things take in a picture: a backward pass twice as long as a forward one.
struct PictureCosts {
  Ticks forward = 2;
  Ticks backward = 4;
  Ticks half_backward = 2;  ///< an input gradient, a weight gradient
  Ticks update = 1;
  Ticks message = 2;  ///< a reduction, an exchange

  [[nodiscard]] constexpr Ticks of(ActionKind kind) const {
    return kind == ActionKind::forward    ? forward
           : kind == ActionKind::backward ? backward
           : is_compute(kind)             ? half_backward
           : kind == ActionKind::update   ? update
                                          : message;
  }
};

}  // namespace tandem
