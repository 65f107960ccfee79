// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// JsonFields: the values of a JSON object that must have certain keys, may have others, and no
/// more.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/json/value.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// An object whose keys are known, and what their values may be.
class JsonFields {
 public:
  /// @p path names the file in errors. It and @p object must outlive this.
  /// @throws FileError  one of @p keys is missing, or a key is neither among them nor @p optional
  JsonFields(JsonValue const& object, std::initializer_list<std::string_view> keys,
             std::string const& path, std::initializer_list<std::string_view> optional = {})
      : object_{object}, path_{path} {
    for (JsonValue const& member : object.member) {
      auto const is = [&](std::string_view key) { return key == member.key; };
      if (std::none_of(keys.begin(), keys.end(), is) &&
          std::none_of(optional.begin(), optional.end(), is)) {
        std::string const more = optional.size() > 0 ? ", or " + listed(optional) : "";
        fail_json(path, member.key_at,
                  "the key \"" + printable(member.key) + "\" is not known; expected " +
                      listed(keys) + more);
      }
    }
    for (std::string_view const key : keys) {
      if (find(key) == nullptr) {
        fail_json(
            path, object.at,
            "the object lacks the key \"" + std::string{key} + "\"; expected " + listed(keys));
      }
    }
  }

  /// Whether an optional key is there.
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

  [[nodiscard]] std::string const& string(std::string_view key) const {
    return of_kind(key, JsonValue::Kind::string, "a string").text;
  }
  [[nodiscard]] JsonValue const& object(std::string_view key) const {
    return of_kind(key, JsonValue::Kind::object, "an object");
  }
  /// From @p least to @p most, so that what is computed of it is finite.
  [[nodiscard]] double positive(std::string_view key, double least, double most) const {
    std::string const what = "a positive number from " + text_of(least) + " to " + text_of(most);
    return number(key, what.c_str(), [&](double x) { return x >= least && x <= most; });
  }
  /// Above 0, at most 1.
  [[nodiscard]] double share(std::string_view key) const {
    return number(key, "a number above 0 and not above 1, and 1e-06 at least",
                  [](double x) { return x >= 1e-6 && x <= 1; });
  }
  [[nodiscard]] double not_negative(std::string_view key, double most) const {
    std::string const what = "a number that is not negative, and at most " + text_of(most);
    return number(key, what.c_str(), [&](double x) { return x >= 0 && x <= most; });
  }
  /// An integer from @p least to @p most.
  [[nodiscard]] std::int64_t whole(std::string_view key, std::int64_t least,
                                   std::int64_t most) const {
    std::string const what =
        "an integer from " + std::to_string(least) + " to " + std::to_string(most);
    return static_cast<std::int64_t>(number(key, what.c_str(), [&](double x) {
      return x == std::floor(x) && x >= static_cast<double>(least) &&
             x <= static_cast<double>(most);
    }));
  }

 private:
  static std::string text_of(double value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
  }

  static std::string listed(std::initializer_list<std::string_view> keys) {
    std::string out;
    for (std::string_view const key : keys) {
      out += out.empty() ? "" : ", ";
      out += key;
    }
    return out;
  }

  [[nodiscard]] JsonValue const* find(std::string_view key) const {
    auto const at = std::find_if(object_.member.begin(), object_.member.end(),
                                 [&](JsonValue const& member) { return member.key == key; });
    return at == object_.member.end() ? nullptr : &*at;
  }

  [[nodiscard]] JsonValue const& of_kind(std::string_view key, JsonValue::Kind kind,
                                         char const* what) const {
    JsonValue const& value = *find(key);
    if (value.kind != kind) {
      fail_json(path_, value.at, "\"" + value.key + "\" must be " + what);
    }
    return value;
  }

  template <class Allowed>
  [[nodiscard]] double number(std::string_view key, char const* what,
                              Allowed const& allowed) const {
    JsonValue const& value = of_kind(key, JsonValue::Kind::number, what);
    if (!allowed(value.number)) {
      fail_json(path_, value.at, "\"" + value.key + "\" must be " + what);
    }
    return value.number;
  }

  JsonValue const& object_;
  std::string const& path_;
};

}  // namespace tandem::detail

#endif
