// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes a NetworkProfile as JSON and reads it. All keys but "scale" are there, in any order, such
/// as
///
///     {"backend": "host-onednn", "precision": "fp32", "threads": 1, "samples": "8 16",
///      "message": {"bandwidth": 8e9, "latency": 2e-5},
///      "reduction": {"bandwidth": 3e9, "latency": 3e-5},
///      "nodes": {"0": {"name": "input", "part": 0, "output_bytes": 12288, "parameter_bytes": 0,
///                      "inputs": ""}, …},
///      "alone": {"rest": {"fixed": 1e-4, "per_sample": 1e-6}, "update": 1e-10,
///                "scale": "1.02 0.99",
///                "nodes": {"0": {"forward": {"fixed": 0, "per_sample": 0}, "input_gradient": …,
///                                "weight_gradient": …, "added_gradient": …}, …}},
///      "together": …}
///
/// Nodes are numbered in their order; units and meaning are those of the members of NetworkProfile.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/fields.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/plan/machine/json.hpp>

namespace tandem {

namespace detail {

/// The shortest text that is read as the same number.
template <class T>
std::string exact(T value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

/// "3 5 8".
template <class T>
std::string list_text(std::vector<T> const& numbers) {
  std::string text;
  for (T const number : numbers) {
    text += (text.empty() ? "" : " ") + exact(number);
  }
  return text;
}

inline std::string json_of(AffineTime const& time) {
  return "{\"fixed\": " + exact(time.fixed) + ", \"per_sample\": " + exact(time.per_sample) + "}";
}
inline std::string json_of(LinkSpeed const& link) {
  return "{\"bandwidth\": " + exact(link.bandwidth) + ", \"latency\": " + exact(link.latency) + "}";
}
TANDEM_ONCE std::string json_of(DeviceTimes const& times);

}  // namespace detail

/// The text of a profile file; parse_profile() reads the same profile from it.
TANDEM_ONCE [[nodiscard]] std::string profile_json(NetworkProfile const& profile);

/// Reads the text of a profile file; @p path names it in errors.
/// @throws FileError  one sentence with line and column: the text is not JSON, a key is missing,
///                    unknown or twice there, a value is of another type or range
TANDEM_ONCE [[nodiscard]] NetworkProfile parse_profile(std::string_view text,
                                                       std::string const& path);

/// Reads a profile file.
/// @throws FileError  the file cannot be read, is larger than 4 MiB, or as parse_profile()
TANDEM_ONCE [[nodiscard]] NetworkProfile read_profile(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Reads the parts of a profile file.
class ProfileReader {
 public:
  explicit ProfileReader(std::string const& path) : path_{path} {}

  [[nodiscard]] NetworkProfile read(JsonValue const& file) const {
    JsonFields const fields{file,
                            {"backend", "precision", "threads", "samples", "message", "reduction",
                             "nodes", "alone", "together"},
                            path_};
    NetworkProfile profile{.backend = fields.string("backend"),
                           .precision = fields.string("precision"),
                           .threads = static_cast<int>(fields.whole("threads", 1, 1'000'000)),
                           .samples = numbers(fields, file, "samples", 1, most),
                           .message = link_of_json(fields.object("message"), path_),
                           .reduction = link_of_json(fields.object("reduction"), path_)};
    for_nodes(fields.object("nodes"), [&](JsonValue const& node) {
      auto const least = profile.node.empty() ? 0 : profile.node.back().part;
      profile.node.push_back(this->node(node, static_cast<int>(profile.node.size()), least));
    });
    if (profile.node.empty()) {
      fail_json(path_, fields.object("nodes").at, "\"nodes\" must have one node or more");
    }
    profile.alone = times(fields.object("alone"), profile);
    profile.together = times(fields.object("together"), profile);
    return profile;
  }

 private:
  static constexpr int most = 1'000'000;
  static constexpr std::int64_t largest = 1'000'000'000'000;  // of a million samples still 64 bits

  // f(value) for each member, which must be numbered from 0.
  template <class F>
  void for_nodes(JsonValue const& nodes, F const& f) const {
    for (std::size_t n = 0; n < nodes.member.size(); ++n) {
      JsonValue const& node = nodes.member[n];
      if (node.key != std::to_string(n)) {
        fail_json(path_, node.key_at,
                  "expected the key \"" + std::to_string(n) + "\", nodes being numbered from 0");
      }
      if (node.kind != JsonValue::Kind::object) {
        fail_json(path_, node.at, "\"" + node.key + "\" must be an object");
      }
      f(node);
    }
  }

  [[nodiscard]] ProfiledNode node(JsonValue const& object, int index, int least_part) const {
    JsonFields const fields{
        object, {"name", "part", "output_bytes", "parameter_bytes", "inputs"}, path_};
    return {.name = fields.string("name"),
            .part = static_cast<int>(fields.whole("part", least_part, 100'000)),
            .output_bytes = fields.whole("output_bytes", 0, largest),
            .parameter_bytes = fields.whole("parameter_bytes", 0, largest),
            .inputs = numbers(fields, object, "inputs", 0, index - 1)};
  }

  [[nodiscard]] DeviceTimes times(JsonValue const& object, NetworkProfile const& profile) const {
    JsonFields const fields{object, {"rest", "update", "nodes"}, path_, {"scale"}};
    DeviceTimes times{.scale = scales(fields, object, profile.samples.size()),
                      .rest = affine(fields.object("rest")),
                      .update = fields.not_negative("update", most_seconds)};
    std::size_t const nodes = profile.node.size();
    for_nodes(fields.object("nodes"), [&](JsonValue const& node) {
      JsonFields const passes{
          node, {"forward", "input_gradient", "weight_gradient", "added_gradient"}, path_};
      times.node.push_back({.forward = affine(passes.object("forward")),
                            .input_gradient = affine(passes.object("input_gradient")),
                            .weight_gradient = affine(passes.object("weight_gradient")),
                            .added_gradient = affine(passes.object("added_gradient"))});
    });
    if (times.node.size() != nodes) {
      fail_json(path_, fields.object("nodes").at,
                "expected the times of " + std::to_string(nodes) + " nodes, as the network has, " +
                    "not of " + std::to_string(times.node.size()));
    }
    return times;
  }

  [[nodiscard]] AffineTime affine(JsonValue const& object) const {
    JsonFields const fields{object, {"fixed", "per_sample"}, path_};
    return {fields.not_negative("fixed", most_seconds),
            fields.not_negative("per_sample", most_seconds)};
  }

  // One for each of the sizes that were measured, or none.
  [[nodiscard]] std::vector<double> scales(JsonFields const& fields, JsonValue const& object,
                                           std::size_t count) const {
    std::vector<double> list;
    if (!fields.has("scale")) {
      return list;
    }
    bool const sound = read_list(fields.string("scale"), list, [](double scale) {
      return scale >= 1e-6 && scale <= most;  // no NaN
    });
    if (!sound || list.size() != count) {
      fail_member(object, "scale",
                  std::to_string(count) + " positive numbers from 1e-6 to 1e6 with a blank " +
                      "between them, one for each of \"samples\"");
    }
    return list;
  }

  // Integers, ascending.
  [[nodiscard]] std::vector<int> numbers(JsonFields const& fields, JsonValue const& object,
                                         std::string_view key, int least, int last) const {
    std::vector<int> list;
    bool const sound = read_list(fields.string(key), list, [&](int number) {
      return number >= least && number <= last && (list.empty() || number > list.back());
    });
    if (!sound) {
      fail_member(object, key,
                  last < least ? std::string{"empty, since there is no earlier node"}
                               : "ascending integers from " + std::to_string(least) + " to " +
                                     std::to_string(last) + " with a blank between them");
    }
    return list;
  }

  // Numbers with one blank between them; false if there is anything else, or one is not valid.
  template <class T, class Valid>
  static bool read_list(std::string_view text, std::vector<T>& list, Valid const& valid) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      T number{};
      auto const [end, error] =
          std::from_chars(text.data() + at, text.data() + text.size(), number);
      at = static_cast<std::size_t>(end - text.data());
      if (error != std::errc{} || !valid(number) ||
          (at < text.size() && (text[at] != ' ' || at + 1 == text.size()))) {
        return false;
      }
      list.push_back(number);
    }
    return true;
  }

  [[noreturn]] void fail_member(JsonValue const& object, std::string_view key,
                                std::string const& wanted) const {
    std::size_t member = 0;
    while (object.member[member].key != key) {
      ++member;
    }
    fail_json(path_, object.member[member].at, "\"" + std::string{key} + "\" must be " + wanted);
  }

  std::string const& path_;
};

/// A string with its quotes. Names have no characters that JSON wants escaped by number.
TANDEM_ONCE std::string profile_text(std::string_view name) {
  constexpr std::string_view special = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  std::string quoted = "\"";
  for (char const c : name) {
    std::size_t const which = special.find(c);
    quoted += which == special.npos ? std::string{c} : std::string{'\\', letters[which]};
  }
  return quoted + "\"";
}

TANDEM_ONCE std::string json_of(DeviceTimes const& times) {
  std::string json =
      "{\"rest\": " + json_of(times.rest) + ", \"update\": " + exact(times.update) +
      (times.scale.empty() ? "" : ", \"scale\": \"" + list_text(times.scale) + "\"") +
      ", \"nodes\": {";
  for (std::size_t n = 0; n < times.node.size(); ++n) {
    PassTimes const& node = times.node[n];
    json += (n > 0 ? ",\n    \"" : "\n    \"") + std::to_string(n) +
            "\": {\"forward\": " + json_of(node.forward) +
            ", \"input_gradient\": " + json_of(node.input_gradient) +
            ",\n      \"weight_gradient\": " + json_of(node.weight_gradient) +
            ", \"added_gradient\": " + json_of(node.added_gradient) + "}";
  }
  return json + "}}";
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string profile_json(NetworkProfile const& profile) {
  std::string json = "{\n  \"backend\": " + detail::profile_text(profile.backend) +
                     ", \"precision\": " + detail::profile_text(profile.precision) +
                     ", \"threads\": " + std::to_string(profile.threads) + ", \"samples\": \"" +
                     detail::list_text(profile.samples) +
                     "\",\n  \"message\": " + detail::json_of(profile.message) +
                     ",\n  \"reduction\": " + detail::json_of(profile.reduction) +
                     ",\n  \"nodes\": {";
  for (std::size_t n = 0; n < profile.node.size(); ++n) {
    ProfiledNode const& node = profile.node[n];
    json += (n > 0 ? ",\n    \"" : "\n    \"") + std::to_string(n) +
            "\": {\"name\": " + detail::profile_text(node.name) +
            ", \"part\": " + std::to_string(node.part) +
            ", \"output_bytes\": " + std::to_string(node.output_bytes) +
            ", \"parameter_bytes\": " + std::to_string(node.parameter_bytes) + ", \"inputs\": \"" +
            detail::list_text(node.inputs) + "\"}";
  }
  return json + "},\n  \"alone\": " + detail::json_of(profile.alone) +
         ",\n  \"together\": " + detail::json_of(profile.together) + "\n}\n";
}

TANDEM_ONCE NetworkProfile parse_profile(std::string_view text, std::string const& path) {
  return detail::ProfileReader{path}.read(detail::read_json(text, path));
}

TANDEM_ONCE NetworkProfile read_profile(std::string const& path) {
  return parse_profile(detail::characters_of(read_file(path, std::size_t{1} << 22)), path);
}

}  // namespace tandem

#endif
