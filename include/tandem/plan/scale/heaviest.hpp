// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// heaviest_of: how far the largest of some equal random loads is from their mean.

#include <cmath>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// Expected largest of @p count independent standard normal numbers, within 0.02. One has 0.
/// Source: Blom, "Statistical Estimates and Transformed Beta-Variables", 1958: the normal quantile
/// at (count - 3/8) / (count + 1/4).
/// @throws ContractError  count < 1
TANDEM_ONCE [[nodiscard]] double heaviest_of(int count);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double heaviest_of(int count) {
  expects(count >= 1, "heaviest_of(count): give one load or more");
  double const rest = 0.625 / (count + 0.25);  // of the distribution, above it
  double low = 0;
  double high = 10;
  for (int step = 0; count > 1 && step < 60; ++step) {
    double const middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > rest ? low : high) = middle;
  }
  return low;
}

}  // namespace tandem

#endif
