// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of timed all-reduces, and fits links to what it accepts.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/plan/machine/calibrate.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/machine/timed_all_reduces.hpp>

#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::vector<tandem::TimedAllReduce> points;
  try {
    points = tandem::parse_all_reduces(fuzz::text_of(data, size), "input");
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    fuzz::require(error.path() == "input");
    fuzz::require_sentence(error.what());
    return 0;
  }
  try {
    tandem::Calibration const fitted = tandem::calibrate(tandem::dgx1_v100(), points);
    tandem::check_machine(fitted.machine);
    fuzz::require(std::isfinite(fitted.worst_error) && std::isfinite(fitted.median_error));
  } catch (tandem::ContractError const&) {
    return 0;  // no machine has links that are nearest to them
  }
  return 0;
}
