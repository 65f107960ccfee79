// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Action tables with one thing changed, to judge verify() by.

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include <tandem/schedule/table/action_table.hpp>

namespace mutations {

using tandem::Action;
using tandem::ActionRows;
using Random = std::mt19937;

inline std::size_t below(Random& random, std::size_t end) { return random() % end; }

inline std::vector<Action>& any_row(ActionRows& rows, Random& random) {
  return rows[below(random, rows.size())];
}

inline void drop(std::vector<Action>& row, std::size_t i) {
  row.erase(row.begin() + static_cast<std::ptrdiff_t>(i));
}
inline void put(std::vector<Action>& row, std::size_t i, Action const& action) {
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(i), action);
}
/// Position @p to is one of the row without the action.
inline void move(std::vector<Action>& row, std::size_t from, std::size_t to) {
  Action const action = row[from];
  drop(row, from);
  put(row, to, action);
}

inline ActionRows dropped(ActionRows rows, Random& random) {
  auto& row = any_row(rows, random);
  drop(row, below(random, row.size()));
  return rows;
}
inline ActionRows doubled(ActionRows rows, Random& random) {
  auto& row = any_row(rows, random);
  Action const action = row[below(random, row.size())];
  put(row, below(random, row.size() + 1), action);
  return rows;
}
inline ActionRows swapped(ActionRows rows, Random& random) {
  auto& row = any_row(rows, random);
  if (row.size() > 1) {
    std::size_t const i = below(random, row.size() - 1);
    std::swap(row[i], row[i + 1]);
  }
  return rows;
}
inline ActionRows moved(ActionRows rows, Random& random) {
  auto& row = any_row(rows, random);
  std::size_t const from = below(random, row.size());
  move(row, from, below(random, row.size()));
  return rows;
}
inline ActionRows altered(ActionRows rows, Random& random) {
  auto& row = any_row(rows, random);
  Action& action = row[below(random, row.size())];
  switch (below(random, 4)) {
    case 0:
      action.kind = static_cast<tandem::ActionKind>(
          below(random, static_cast<std::size_t>(tandem::ActionKind::end)));
      break;
    case 1:
      action.stage = static_cast<std::int16_t>(action.stage + (random() % 2 == 0 ? 1 : -1));
      break;
    case 2:
      action.index += 1 - 2 * static_cast<int>(random() % 2);
      break;
    default:
      action.version = 1;
      break;
  }
  return rows;
}

}  // namespace mutations
