// SPDX-License-Identifier: Apache-2.0
// Fuzzes TrainerOptions::rows: the first byte chooses the stages, then each eight bytes are an
// action, and one of kind `end` is the end of a row. What is accepted runs to its end,
// and so does the step that complete() makes of it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/verify/step.hpp>
#include <tandem/train/ranks/imported_table.hpp>

#include "require.hpp"

namespace {

tandem::ActionRows rows_of(std::uint8_t const* data, std::size_t size) {
  tandem::ActionRows rows(1);
  for (; size >= 8; data += 8, size -= 8) {
    tandem::Action action;
    std::memcpy(&action.stage, data + 2, 2);
    std::memcpy(&action.index, data + 4, 4);
    action.kind = static_cast<tandem::ActionKind>(data[0] % 14);
    action.version = data[1];
    if (action.kind == tandem::ActionKind::end) {
      rows.emplace_back();
    } else {
      rows.back().push_back(action);
    }
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  tandem::ActionRows const rows = rows_of(data + 1, size - 1);
  tandem::Batching batching{};
  batching.reproducible = (data[0] & 4U) != 0;
  batching.microbatches = batching.leaves = 4;
  tandem::RuntimeMap const maps[] = {tandem::make_map("gpipe", 2), tandem::make_map("chimera", 2),
                                     tandem::make_map("interleaved", 2, 2)};
  try {
    if (data[0] % 4 == 3) {
      static_cast<void>(tandem::detail::import_passes(rows, batching));
    } else {
      tandem::RuntimeMap const& map = maps[data[0] % 4];
      tandem::ImportedTable const table = tandem::detail::import_rows(rows, map, batching, true);
      fuzz::require(tandem::simulate(table.rows, map).finished);
      for (int const replicas : {1, 2}) {
        tandem::StepRules const rules{.replicas = replicas};
        tandem::ActionRows const whole = tandem::complete(table.rows, map, rules);
        fuzz::require(static_cast<bool>(tandem::verify(whole, map, table.microbatches, rules)));
      }
    }
  } catch (tandem::ContractError const& error) {  // any other exception is a finding
    fuzz::require(std::string_view{error.what()}.find("TrainerOptions: .rows") == 0 ||
                  std::string_view{error.what()}.find("lower(table, map)") == 0);
  }
  return 0;
}
