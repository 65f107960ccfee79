// SPDX-License-Identifier: Apache-2.0
// Fuzzes the planner's JSON: the first byte chooses a machine, a profile or any object, the rest is
// the file. What is accepted passes the checks of its own, and a profile is read as it is written.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/json.hpp>

#include "require.hpp"

namespace {

using fuzz::require;

std::string const name = "input";  // of the file

void check_value(tandem::detail::JsonValue const& value) {
  require(value.at.line >= 1 && value.at.column >= 1);
  require(std::isfinite(value.number));
  for (tandem::detail::JsonValue const& member : value.member) {
    require(tandem::detail::is_utf8(member.key) && tandem::detail::is_utf8(member.text));
    check_value(member);
  }
}

void check_machine_file(std::string_view text) {
  tandem::Machine const machine = tandem::parse_machine(text, "input");
  tandem::check_machine(machine);
  int const devices = machine.has(3) ? 3 : machine.has(2) ? 2 : 1;
  require(std::isfinite(tandem::all_reduce_seconds(machine, {devices, 1}, 1e15)));
}

void check_profile_file(std::string_view text) {
  tandem::NetworkProfile const profile = tandem::parse_profile(text, "input");
  require(tandem::parse_profile(tandem::profile_json(profile), "again") == profile);
  for (int const samples : {1, 1'000'000}) {
    tandem::CostGraph const graph = tandem::measured_costs(profile, samples);
    require(std::isfinite(graph.time()) && graph.time() >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  std::string_view const text = fuzz::text_of(data + 1, size - 1);
  try {
    if (data[0] % 3 == 0) {
      check_value(tandem::detail::read_json(text, name));
    } else if (data[0] % 3 == 1) {
      check_machine_file(text);
    } else {
      check_profile_file(text);
    }
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    require(error.path() == "input");
    fuzz::require_sentence(error.what());
  }
  return 0;
}
