// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads an action table from the CSV form that PyTorch's pipelining schedules use.
///
/// A line is a rank, a cell an action such as 0F3, 1SEND_B0 or 0U; an empty cell is an idle slot.
/// (0F7;7B3)OVERLAP_F_B are two passes, one behind the other. 0BW3 is 0B3; a 0B3 is 0I3 where 0W3
/// stands behind it in the row. In asynchronous tables 0F3@2 reads the weights after two updates.
/// Spaces and quotes around an action do not count, nor do PyTorch's WAIT_SEND_F, WAIT_SEND_B,
/// UNSHARD, RESHARD, REDUCE_GRAD without a number and WAIT_REDUCE_GRAD: the engine itself decides
/// when it gathers and sums. A pass behind the REDUCE_GRAD of its stage is refused.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// Where an action stands in its file; both count from 1, columns in bytes.
struct TextPlace {
  int line = 1;
  int column = 1;

  friend constexpr bool operator==(TextPlace const&, TextPlace const&) = default;
};

/// A table, and for each action of each rank where it was read.
struct ReadTable {
  ActionRows rows;
  std::vector<std::vector<TextPlace>> place;
  std::vector<TextPlace> end;  ///< of each rank's line: one behind its last character
};

/// A file of actions cannot be read, or describes a schedule that cannot run.
class TableError : public Error {
 public:
  TableError(std::string const& name, TextPlace at, std::string const& what)
      : Error{name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + what},
        place_{at} {}

  [[nodiscard]] TextPlace place() const noexcept { return place_; }

 private:
  TextPlace place_;
};

namespace detail {

inline constexpr char const* action_examples =
    "write a stage, a kind and a microbatch, such as 0F3, 0B3, 0I3, 0W3, 0SEND_F3, 1RECV_F3, "
    "1SEND_B3 or 0RECV_B3";

inline constexpr int most_rows = 32'767;  // ranks have numbers of 16 bits

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace detail

/// Empty lines at the end do not count.
/// @param name  of the file, for messages such as "table.csv:2:14: 'xF3' is no action; write ..."
/// @throws TableError  a cell is no action, @p text has none at all, or more than 32767 lines
TANDEM_ONCE ReadTable read_table_csv(std::string_view text, std::string const& name);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

// The number that text begins with, which it loses; -1 if there is none, -2 if it is above limit.
TANDEM_ONCE std::int64_t take_number(std::string_view& text, std::int64_t limit) {
  std::size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) {
    ++digits;
  }
  std::int64_t number = -1;
  if (digits > 0) {
    auto const result = std::from_chars(text.data(), text.data() + digits, number);
    number = result.ec == std::errc{} && number <= limit ? number : -2;
  }
  text.remove_prefix(digits);
  return number;
}

// What is wrong with the cell, "" if nothing; then action is what it says.
TANDEM_ONCE std::string parse_action(std::string_view cell, Action& action) {
  std::string const quoted = "'" + printable(cell.substr(0, 40)) + "'";
  std::int64_t const stage = take_number(cell, std::numeric_limits<std::int16_t>::max());
  std::size_t letters = 0;
  while (letters < cell.size() && is_letter(cell[letters])) {
    ++letters;
  }
  std::string_view word = cell.substr(0, letters);
  cell.remove_prefix(letters);
  std::int64_t const index = take_number(cell, std::numeric_limits<std::int32_t>::max());
  bool const versioned = !cell.empty() && cell.front() == '@';
  cell.remove_prefix(versioned ? 1 : 0);
  std::int64_t const version =
      versioned ? take_number(cell, std::numeric_limits<std::uint8_t>::max()) : 0;
  if (version == -2) {
    return quoted + " has too large a version; versions go to 255";
  }
  if (stage == -2 || index == -2) {
    return quoted + " has too large a number; stages go to 32767, microbatches to 2147483647";
  }
  if (word == "BW") {
    word = "B";
  }
  int kind = 0;
  while (kind < static_cast<int>(ActionKind::end) &&
         word != name_of(static_cast<ActionKind>(kind)).text) {
    ++kind;
  }
  if (stage < 0 || kind == static_cast<int>(ActionKind::end) || version < 0 || !cell.empty()) {
    return quoted + " is no action; " + action_examples;
  }
  action = {static_cast<ActionKind>(kind), 0, static_cast<std::int16_t>(stage), 0};
  bool const numbered = name_of(action.kind).numbered;
  if (!numbered && index >= 0) {
    return quoted + " takes no number; write '" + to_string(action) + "'";
  }
  if (numbered && index < 0) {
    return quoted + " lacks its microbatch; write one behind it, as in '" + to_string(action) + "'";
  }
  if (versioned && action.kind != ActionKind::forward && action.kind != ActionKind::backward) {
    return quoted + " takes no version; only F and B read weights of one";
  }
  action.version = static_cast<std::uint8_t>(version);
  action.index = numbered ? static_cast<std::int32_t>(index) : 0;
  return "";
}

// Whether a cell of PyTorch's says only when something is awaited, gathered or summed.
TANDEM_ONCE bool only_times(std::string_view cell) {
  std::int64_t const stage = take_number(cell, std::numeric_limits<std::int16_t>::max());
  std::string_view const word = cell.substr(0, cell.find_first_of("0123456789"));
  bool const sends = word == "WAIT_SEND_F" || word == "WAIT_SEND_B";
  bool const alone =
      cell == "UNSHARD" || cell == "RESHARD" || cell == "REDUCE_GRAD" || cell == "WAIT_REDUCE_GRAD";
  cell.remove_prefix(word.size());
  return stage >= 0 && (alone || (sends && cell.find_first_not_of("0123456789") == cell.npos));
}

// Reads the cells of one rank's row: each is an action, two that overlap, or none.
class CellReader {
 public:
  CellReader(ReadTable& table, std::string const& name) : table_{table}, name_{name} {}

  /// Returns how many actions there were.
  /// @param cell  not empty
  int read(std::string_view cell, TextPlace at) {
    if (cell.front() != '(') {
      return only_times(cell) ? skip(cell) : add(cell, at);
    }
    std::size_t const middle = cell.find(';');
    std::size_t const end = cell.find(')');
    if (middle == cell.npos || end == cell.npos || middle > end || middle == 1 ||
        end == middle + 1 || cell.substr(end + 1) != "OVERLAP_F_B") {
      refuse(cell, at);
    }
    auto const behind = [&at](std::size_t begin) {
      return TextPlace{at.line, at.column + static_cast<int>(begin)};
    };
    add(cell.substr(1, middle - 1), behind(1));
    add(cell.substr(middle + 1, end - middle - 1), behind(middle + 1));
    std::vector<Action> const& row = table_.rows.back();
    if (row[row.size() - 2].kind != ActionKind::forward ||
        (row.back().kind != ActionKind::backward &&
         row.back().kind != ActionKind::input_gradient)) {
      refuse(cell, at);
    }
    return 2;
  }

 private:
  [[noreturn]] void refuse(std::string_view cell, TextPlace at) const {
    throw TableError{name_, at,
                     "'" + printable(cell.substr(0, 40)) +
                         "' is no pair of passes; write a forward and a backward one as "
                         "(0F7;7B3)OVERLAP_F_B, or as two cells"};
  }

  int skip(std::string_view cell) {
    auto const stage = static_cast<std::size_t>(take_number(cell, most_rows));
    if (cell == "REDUCE_GRAD") {
      summed_.resize(std::max(summed_.size(), stage + 1));
      summed_[stage] = true;
    }
    return 0;
  }

  int add(std::string_view cell, TextPlace at) {
    Action action;
    std::string fault = parse_action(cell, action);
    auto const stage = static_cast<std::size_t>(action.stage);
    if (fault.empty() && stage < summed_.size() && summed_[stage] &&
        action.kind <= ActionKind::weight_gradient) {
      fault = to_string(action) +
              " stands behind the REDUCE_GRAD of its stage, which sums whole gradients; put that "
              "behind the stage's last pass";
    }
    if (!fault.empty()) {
      throw TableError{name_, at, fault};
    }
    table_.rows.back().push_back(action);
    table_.place.back().push_back(at);
    return 1;
  }

  ReadTable& table_;
  std::string const& name_;
  std::vector<bool> summed_;  // of the stages up to the highest that REDUCE_GRAD has summed
};

// A backward pass whose weight gradient stands behind it is an input gradient.
TANDEM_ONCE void split_backward_passes(std::vector<Action>& row) {
  std::vector<std::pair<std::int16_t, std::int32_t>> late;  // stage and microbatch of each W
  for (Action const& action : row) {
    if (action.kind == ActionKind::weight_gradient) {
      late.emplace_back(action.stage, action.index);
    }
  }
  std::sort(late.begin(), late.end());
  std::vector<bool> came(late.size());
  for (Action& action : row) {
    auto const found =
        std::lower_bound(late.begin(), late.end(), std::pair{action.stage, action.index});
    if (found == late.end() || *found != std::pair{action.stage, action.index}) {
      continue;
    }
    auto const at = static_cast<std::size_t>(found - late.begin());
    if (action.kind == ActionKind::weight_gradient) {
      came[at] = true;
    } else if (action.kind == ActionKind::backward && !came[at]) {
      action.kind = ActionKind::input_gradient;
    }
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE ReadTable read_table_csv(std::string_view text, std::string const& name) {
  ReadTable table;
  std::size_t const byte_order_mark = text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0;
  text.remove_prefix(byte_order_mark);
  auto const blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '"'; };
  std::int64_t actions = 0;
  std::size_t ranks = 0;
  for (int line = 1; !text.empty(); ++line) {
    std::size_t const length = text.find('\n');
    std::string_view const row = text.substr(0, length);
    text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
    if (line > detail::most_rows) {  // empty ones at the end do not count
      std::size_t const visible = row.find_first_not_of(" \t\r\",");
      if (visible != row.npos) {
        throw TableError{name,
                         {line, static_cast<int>(visible) + 1},
                         "a table has a line for each rank, and 32767 of them at most"};
      }
      continue;
    }
    table.rows.emplace_back();
    table.place.emplace_back();
    detail::CellReader cells{table, name};
    std::size_t visible = 0;
    for (std::size_t begin = 0; begin <= row.size();) {
      std::size_t const comma = row.find(',', begin);
      std::size_t end = comma == std::string_view::npos ? row.size() : comma;
      std::size_t const next = end + 1;
      while (end > begin && blank(row[end - 1])) {
        --end;
      }
      while (begin < end && blank(row[begin])) {
        ++begin;
      }
      if (begin < end) {
        actions += cells.read(row.substr(begin, end - begin),
                              TextPlace{line, static_cast<int>(begin) + 1});
      }
      visible = end > visible ? end : visible;
      begin = next;
    }
    detail::split_backward_passes(table.rows.back());
    table.end.push_back({line, static_cast<int>(visible) + 1});
    ranks = visible > 0 ? table.rows.size() : ranks;
  }
  if (actions == 0) {
    throw TableError{name, {}, std::string{"there is no action here; "} + detail::action_examples};
  }
  table.rows.resize(ranks);
  table.place.resize(ranks);
  table.end.resize(ranks);
  return table;
}

}  // namespace tandem

#endif
