// SPDX-License-Identifier: Apache-2.0
// Fuzzes the command line of the example plan, a line an argument; no file is read. What is
// accepted is in the ranges that the flags say.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>

#include "../../examples/plan_command_line.hpp"
#include "../../examples/plan_help.hpp"
#include "require.hpp"

namespace {

using fuzz::require;

void check(PlanArguments const& a) {
  if (a.help) {
    require(!plan_help().empty());
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
  std::vector<std::string> words;
  std::string_view text = fuzz::text_of(data, size);
  while (!text.empty()) {
    std::size_t const end = text.find('\n');
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  try {
    check(parse_plan_arguments(words));
  } catch (std::runtime_error const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
