// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command line of plan, a line an argument; no file is read. What is
// accepted is in the ranges that the flags say.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <tandem/core/error.hpp>

#include "../../examples/plan/arguments.hpp"
#include "require.hpp"

namespace {

using fuzz::require;

void check(PlanArguments const& a) {
  if (!a.help.empty()) {
    return;
  }
  require(a.batch >= 1 && a.batch <= 1'000'000 && a.graphs() <= 1 && a.depth >= 0);
  for (int const count : a.counts) {
    require(count >= 1 && count <= 1024);
  }
  for (double const number : {a.samples, a.link_gbps, a.latency_us, a.memory, a.seconds}) {
    require(std::isfinite(number));
  }
  require(static_cast<std::size_t>(a.parts) <= a.loads.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    check(parse_plan_arguments(fuzz::words_of(data, size)));
  } catch (std::runtime_error const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
