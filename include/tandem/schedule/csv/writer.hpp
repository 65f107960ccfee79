// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes an action table in the CSV form of PyTorch's pipelining schedules.
///
/// A line is a rank, a cell an action; read_table_csv reads both forms back.

#include <string>

#include <tandem/core/contract.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/time/simulate.hpp>

namespace tandem {

/// One action after another, as for tables with sends and receives: "0F0,0SEND_F0,...". A rank
/// without any has a comma, since an empty line at the end would be none.
template <class Table>
std::string to_csv(Table const& table) {
  std::string text;
  for (int device = 0; device < devices_of(table); ++device) {
    char const* separator = "";
    for (Action const& action : row_of(table, device)) {
      text += separator + to_string(action);
      separator = ",";
    }
    text += *separator == '\0' ? ",\n" : "\n";
  }
  return text;
}

/// The same of passes only, with PyTorch's pairs: a forward and the whole backward pass of another
/// stage directly behind it stand in one cell, "(0F7;7B3)OVERLAP_F_B", for a runtime that overlaps
/// them.
template <class Table>
std::string to_csv_in_pairs(Table const& table) {
  std::string text;
  for (int device = 0; device < devices_of(table); ++device) {
    ActionSpan const row = row_of(table, device);
    for (int i = 0; i < row.size; ++i) {
      text += i > 0 ? "," : "";
      bool const pair = i + 1 < row.size && row[i].kind == ActionKind::forward &&
                        row[i + 1].kind == ActionKind::backward && row[i].stage != row[i + 1].stage;
      if (pair) {
        text += "(" + to_string(row[i]) + ";" + to_string(row[i + 1]) + ")OVERLAP_F_B";
        ++i;
      } else {
        text += to_string(row[i]);
      }
    }
    text += row.size == 0 ? ",\n" : "\n";
  }
  return text;
}

/// Columns are times, for tables of passes only: the i-th cell of each line is what its rank does
/// in slot i, empty where it waits. Each action takes one slot.
/// @throws ContractError  there would be more than 2^28 cells
template <class Table>
std::string to_csv_by_time(Table const& table, StageMapView const& map) {
  auto const timeline = simulate(table, map, {.backward = 1, .update = 1, .sum = 1});
  expects(timeline.makespan <= (Ticks{1} << 28) / devices_of(table),
          "to_csv_by_time(table, map): ranks times slots would be more than 268435456 cells; give "
          "fewer stages or microbatches, or take to_csv() of the lowered table");
  std::string text;
  for (int device = 0; device < devices_of(table); ++device) {
    ActionSpan const row = row_of(table, device);
    Ticks column = 0;
    for (int i = 0; i < row.size; ++i, ++column) {
      text += i > 0 ? "," : "";
      for (; column < timeline.action[device][i].begin; ++column) {
        text += ',';
      }
      text += to_string(row[i]);
    }
    text += row.size == 0 ? ",\n" : "\n";
  }
  return text;
}

}  // namespace tandem
