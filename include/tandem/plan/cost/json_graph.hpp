// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the graphs of others that are JSON have in common: nodes with numbers of their own, and
/// edges between them. Keys that are not read are no fault: their files have notes of all kinds.

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/cost_graph.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// An object of a graph's file, and what it must have. A value that is not as it must be throws a
/// FileError with its line and column.
class JsonRecord {
 public:
  /// @param what  "a node", as sentences name it
  JsonRecord(JsonValue const& value, std::string_view what, std::string const& path)
      : value_{value}, what_{what}, path_{path} {
    if (value.kind != JsonValue::Kind::object) {
      fail(value.at, what_ + " must be an object, {...}");
    }
  }

  [[noreturn]] void fail(JsonPlace at, std::string const& what) const {
    fail_json(path_, at, what);
  }

  [[nodiscard]] JsonPlace place() const { return value_.at; }

  /// Null where there is none.
  [[nodiscard]] JsonValue const* find(std::string_view key) const {
    for (JsonValue const& member : value_.member) {
      if (member.key == key) {
        return &member;
      }
    }
    return nullptr;
  }

  [[nodiscard]] JsonValue const& at(std::string_view key) const {
    if (JsonValue const* const found = find(key)) {
      return *found;
    }
    fail(value_.at, what_ + " lacks \"" + std::string{key} + "\"; add it");
  }

  /// Seconds or bytes, in whatever unit, as a graph may have them: so that sums are finite.
  [[nodiscard]] double cost(std::string_view key) const {
    JsonValue const& found = at(key);
    if (found.kind != JsonValue::Kind::number || !(found.number >= 0 && found.number <= 1e12)) {
      fail(found.at, quoted(key) + " is no cost; write a number from 0 to 1e12");
    }
    return found.number;
  }

  /// true, false, 1 or 0.
  [[nodiscard]] bool truth(std::string_view key) const {
    JsonValue const& found = at(key);
    bool const number = found.kind == JsonValue::Kind::number;
    if ((found.kind != JsonValue::Kind::truth && !number) ||
        (found.number != 0 && found.number != 1)) {
      fail(found.at, quoted(key) + " must be true or false");
    }
    return found.number == 1;
  }

  /// A number that names something.
  [[nodiscard]] std::int64_t number(std::string_view key) const {
    JsonValue const& found = at(key);
    if (found.kind != JsonValue::Kind::number || std::floor(found.number) != found.number ||
        std::fabs(found.number) > 1e15) {
      fail(found.at, quoted(key) + " must be a whole number");
    }
    return static_cast<std::int64_t>(found.number);
  }

  /// One or more.
  [[nodiscard]] std::vector<JsonValue> const& list(std::string_view key) const {
    JsonValue const& found = at(key);
    if (found.kind != JsonValue::Kind::list || found.member.empty()) {
      fail(found.at, quoted(key) + " must be a list, [...], with one or more in it");
    }
    return found.member;
  }

  /// @p key names something; where it is missing, @p otherwise.
  [[nodiscard]] std::string text(std::string_view key, std::string const& otherwise) const {
    JsonValue const* const found = find(key);
    return found != nullptr && found->kind == JsonValue::Kind::string ? found->text : otherwise;
  }

 private:
  static std::string quoted(std::string_view key) { return "\"" + std::string{key} + "\""; }

  JsonValue const& value_;
  std::string what_;
  std::string const& path_;
};

/// The numbers of nodes as places in the file's list of them.
class JsonNodeNumbers {
 public:
  explicit JsonNodeNumbers(std::string const& path) : path_{path} {}

  /// The next node.
  void add(JsonRecord const& node) {
    std::int64_t const number = node.number("id");
    if (!place_.emplace(number, static_cast<int>(place_.size())).second) {
      fail_json(path_, node.at("id").at,
                "node " + std::to_string(number) +
                    " is here for a second time; each node needs a number of its own");
    }
  }

  /// The place of the node that @p edge has under @p key.
  [[nodiscard]] int place(JsonRecord const& edge, std::string_view key) const {
    auto const found = place_.find(edge.number(key));
    if (found == place_.end()) {
      fail_json(path_, edge.at(key).at,
                "there is no node " + std::to_string(edge.number(key)) +
                    "; write it or leave out this edge");
    }
    return found->second;
  }

  /// Both nodes of an edge.
  [[nodiscard]] CostEdge edge(JsonRecord const& edge) const {
    CostEdge const read{place(edge, "sourceId"), place(edge, "destId")};
    if (read.from == read.to) {
      fail_json(path_, edge.place(), "a node reads itself; an edge leads to another node");
    }
    return read;
  }

 private:
  std::map<std::int64_t, int> place_{};
  std::string const& path_;
};

}  // namespace tandem::detail

#endif
