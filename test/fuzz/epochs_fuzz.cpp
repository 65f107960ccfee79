// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of "batch:epochs" pairs, and asks the curve through what it accepts.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/plan/epochs/epochs.hpp>

#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    auto const points = tandem::parse_epoch_points(fuzz::text_of(data, size));
    fuzz::require(!points.empty());
    auto const curve = tandem::EpochCurve::measured(points);
    for (double const batch : {1.0, points.front().batch, points.back().batch, 1e9}) {
      double const epochs = curve.epochs(batch);
      fuzz::require(epochs > 0 && std::isfinite(epochs));
    }
  } catch (tandem::ContractError const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
