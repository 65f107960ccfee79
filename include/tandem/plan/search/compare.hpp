// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// compare_results: what differs between two results that plan has written as JSON, a line each.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/io/report_text.hpp>

namespace tandem {

/// What differs between two results as plan writes them with `--format json`, a line each; nothing
/// where they say the same. Plans are told from others by their strategies, however their stages
/// are cut; all that has changed in one is one line, such as
/// "64 devices, DataParallel<64>: T 0.2672 -> 0.2545 (-4.75 %), C 585 -> 557 (-4.79 %)".
/// @throws FileError  a text is not JSON
TANDEM_ONCE [[nodiscard]] std::string compare_results(std::string_view one,
                                                      std::string const& one_path,
                                                      std::string_view other,
                                                      std::string const& other_path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

inline JsonValue const* json_member(JsonValue const& object, std::string_view key) {
  for (JsonValue const& member : object.member) {
    if (member.key == key) {
      return &member;
    }
  }
  return nullptr;
}

/// Writes the lines; `one` and `other` stand in them for the two files.
class ResultComparison {
 public:
  ResultComparison(std::string one, std::string other)
      : one_{std::move(one)}, other_{std::move(other)} {}

  [[nodiscard]] std::string text(JsonValue const& a, JsonValue const& b) {
    objects("", a, b);
    return lines_;
  }

 private:
  using Kind = JsonValue::Kind;

  void line(std::string const& where, std::string const& what) {
    lines_ += where.empty() ? what + "\n" : where + ": " + what + "\n";
  }

  static std::string inside(std::string const& where, std::string const& name) {
    return where.empty() || name.empty() ? where + name : where + ", " + name;
  }

  void objects(std::string const& where, JsonValue const& a, JsonValue const& b) {
    for (JsonValue const& member : a.member) {
      JsonValue const* const found = json_member(b, member.key);
      if (found == nullptr) {
        line(inside(where, member.key), shown(member) + " in " + one_ + " only");
      } else {
        values(inside(where, member.key), where, member, *found);
      }
    }
    for (JsonValue const& member : b.member) {
      if (json_member(a, member.key) == nullptr) {
        line(inside(where, member.key), shown(member) + " in " + other_ + " only");
      }
    }
  }

  /// @param above  where the object of both is
  void values(std::string const& where, std::string const& above, JsonValue const& a,
              JsonValue const& b) {
    if (a.kind == b.kind && a.kind == Kind::object) {
      objects(where, a, b);
    } else if (a.kind == b.kind && a.kind == Kind::list) {
      bool const named = !a.member.empty() && !name_of(a.member.front()).empty();
      named ? named_lists(above, a, b) : lists(where, a, b);
    } else if (std::string const change = change_of(a, b); !change.empty()) {
      line(where, change);
    }
  }

  void lists(std::string const& where, JsonValue const& a, JsonValue const& b) {
    std::size_t const both = std::min(a.member.size(), b.member.size());
    for (std::size_t i = 0; i < both; ++i) {
      values(inside(where, std::to_string(i)), where, a.member[i], b.member[i]);
    }
    if (a.member.size() != b.member.size()) {
      line(where,
           std::to_string(a.member.size()) + " -> " + std::to_string(b.member.size()) + " of them");
    }
  }

  /// Lists of plans, and of numbers of devices: an element is known by its name.
  void named_lists(std::string const& where, JsonValue const& a, JsonValue const& b) {
    auto const find = [](JsonValue const& list, std::string const& name) {
      auto const found = std::find_if(list.member.begin(), list.member.end(),
                                      [&](JsonValue const& e) { return key_of(e) == name; });
      return found == list.member.end() ? nullptr : &*found;
    };
    bool const plans = json_member(a.member.front(), "strategy") != nullptr;
    if (plans && !b.member.empty() && key_of(a.member.front()) != key_of(b.member.front())) {
      line(inside(where, "the first"),
           name_of(a.member.front()) + " -> " + name_of(b.member.front()));
    }
    for (JsonValue const& element : a.member) {
      std::string const name = inside(where, name_of(element));
      JsonValue const* const found = find(b, key_of(element));
      if (found == nullptr) {
        line(name, "in " + one_ + " only");
      } else if (plans) {
        plan(name, element, *found);
      } else {
        objects(name, element, *found);
      }
    }
    for (JsonValue const& element : b.member) {
      if (find(a, key_of(element)) == nullptr) {
        line(inside(where, name_of(element)), "in " + other_ + " only");
      }
    }
  }

  /// All that differs in one line; where only one of the two can be, why.
  void plan(std::string const& name, JsonValue const& a, JsonValue const& b) {
    JsonValue const* const problem_a = json_member(a, "problem");
    JsonValue const* const problem_b = json_member(b, "problem");
    if ((problem_a == nullptr) != (problem_b == nullptr)) {
      line(name, problem_a != nullptr ? "cannot be in " + one_ + ", " + problem_a->text
                                      : "cannot be in " + other_ + ", " + problem_b->text);
      return;
    }
    std::string changes;
    for (JsonValue const& member : a.member) {
      JsonValue const* const found = json_member(b, member.key);
      std::string const change =
          found == nullptr ? "in " + one_ + " only" : change_of(member, *found);
      changes += change.empty() ? "" : (changes.empty() ? "" : ", ") + member.key + " " + change;
    }
    for (JsonValue const& member : b.member) {
      if (json_member(a, member.key) == nullptr) {
        changes += (changes.empty() ? "" : ", ") + member.key + " in " + other_ + " only";
      }
    }
    if (!changes.empty()) {
      line(name, changes);
    }
  }

  /// "DataParallel<64>", "64 devices", or nothing.
  static std::string name_of(JsonValue const& element) {
    if (JsonValue const* const strategy = json_member(element, "strategy")) {
      return strategy->text;
    }
    JsonValue const* const devices = json_member(element, "devices");
    return devices != nullptr && devices->kind == Kind::number
               ? digits(devices->number, 9) + " devices"
               : "";
  }

  /// A strategy is the same when its stages are cut elsewhere.
  static std::string key_of(JsonValue const& element) {
    std::string key;
    std::string const name = name_of(element);
    for (std::size_t i = 0; i < name.size(); ++i) {
      bool const size = name[i] >= '0' && name[i] <= '9' && key.size() >= 6 &&
                        key.compare(key.size() - 6, 6, "Split<") == 0;
      key += size ? "" : std::string(1, name[i]);
    }
    return key;
  }

  static std::string shown(JsonValue const& value) {
    return value.kind == Kind::number   ? digits(value.number, 6)
           : value.kind == Kind::string ? value.text
           : value.kind == Kind::truth  ? (value.number > 0 ? "true" : "false")
           : value.kind == Kind::null   ? "null"
           : value.kind == Kind::list   ? "a list"
                                        : "an object";
  }

  /// "0.145 -> 0.14 (-3.45 %)"; nothing where they are equal.
  static std::string change_of(JsonValue const& a, JsonValue const& b) {
    bool const same = a.kind == b.kind && a.number == b.number && a.text == b.text;
    if (same || a.kind == Kind::object || a.kind == Kind::list) {
      return same || a.kind == b.kind ? "" : shown(a) + " -> " + shown(b);
    }
    if (a.kind != Kind::number || b.kind != Kind::number) {
      return shown(a) + " -> " + shown(b);
    }
    double const change = 100 * (b.number / a.number - 1);
    return shown(a) + " -> " + shown(b) +
           (a.number > 0 && b.number > 0
                ? std::string{" ("} + (change > 0 ? "+" : "") + digits(change, 3) + " %)"
                : "");
  }

  std::string one_;
  std::string other_;
  std::string lines_{};
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string compare_results(std::string_view one, std::string const& one_path,
                                        std::string_view other, std::string const& other_path) {
  using detail::JsonKinds;
  using detail::read_json;
  return detail::ResultComparison{one_path, other_path}.text(
      read_json(one, one_path, JsonKinds::any), read_json(other, other_path, JsonKinds::any));
}

}  // namespace tandem

#endif
