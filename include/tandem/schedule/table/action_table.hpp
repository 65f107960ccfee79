// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ActionTable: the rows of all devices of a model replica, as a constexpr value or, as
/// std::vector<std::vector<Action>>, one that was read from a file.

#include <cstddef>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem {

/// Rows of at most @p Length actions, one a device.
template <int Devices, int Length>
struct ActionTable {
  static constexpr int devices = Devices;
  int length[static_cast<std::size_t>(Devices)] = {};
  Action action[static_cast<std::size_t>(Devices)]
               [static_cast<std::size_t>(Length > 0 ? Length : 1)] = {};

  constexpr void add(int device, Action a) { action[device][length[device]++] = a; }
};

/// What an algorithm reads of either form.
struct ActionSpan {
  Action const* data = nullptr;
  int size = 0;

  constexpr Action const& operator[](int i) const { return data[i]; }
  [[nodiscard]] constexpr Action const* begin() const { return data; }
  [[nodiscard]] constexpr Action const* end() const { return data + size; }
};

template <int Devices, int Length>
constexpr ActionSpan row_of(ActionTable<Devices, Length> const& table, int device) {
  return {table.action[device], table.length[device]};
}
template <int Devices, int Length>
constexpr int devices_of(ActionTable<Devices, Length> const&) {
  return Devices;
}

using ActionRows = std::vector<std::vector<Action>>;

inline ActionSpan row_of(ActionRows const& table, int device) {
  auto const& row = table[static_cast<std::size_t>(device)];
  return {row.data(), static_cast<int>(row.size())};
}
inline int devices_of(ActionRows const& table) { return static_cast<int>(table.size()); }

template <int Devices, int Length>
ActionRows rows_of(ActionTable<Devices, Length> const& table) {
  ActionRows rows;
  for (int device = 0; device < Devices; ++device) {
    ActionSpan const row = row_of(table, device);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

/// The table without the tails of its rows: passes and messages.
template <int Devices, int Length>
constexpr auto without_tail(ActionTable<Devices, Length> const& table) {
  ActionTable<Devices, Length> rows;
  for (int d = 0; d < Devices; ++d) {
    for (Action const& action : row_of(table, d)) {
      if (!is_tail(action.kind)) {
        rows.add(d, action);
      }
    }
  }
  return rows;
}
TANDEM_ONCE ActionRows without_tail(ActionRows const& table);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows without_tail(ActionRows const& table) {
  ActionRows rows(table.size());
  for (std::size_t d = 0; d < table.size(); ++d) {
    for (Action const& action : table[d]) {
      if (!is_tail(action.kind)) {
        rows[d].push_back(action);
      }
    }
  }
  return rows;
}

}  // namespace tandem

#endif
