// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Published training steps, as rows.txt has them, and what the planner says of each.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/scale/mesh_search.hpp>

namespace published {

/// A row of rows.txt: what was trained, by name, and in what time.
struct Row {
  std::string source{};
  std::string name{};
  bool fitted = false;
  std::map<std::string, std::string> of{};

  [[nodiscard]] bool has(std::string const& key) const { return of.contains(key); }
  [[nodiscard]] std::string text(std::string const& key) const {
    auto const found = of.find(key);
    return found == of.end() ? "" : found->second;
  }
  [[nodiscard]] double number(std::string const& key, double other = 0) const {
    return has(key) ? std::stod(text(key)) : other;
  }
  [[nodiscard]] int whole(std::string const& key, int other = 0) const {
    return static_cast<int>(number(key, other));
  }
};

/// @throws std::runtime_error  a line is none of those that rows.txt explains
inline std::vector<Row> read_rows(std::string const& text) {
  std::vector<Row> rows;
  Row all;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') {
      continue;
    }
    if (line[0] == '[') {
      all = {.source = line.substr(1, line.rfind(']') - 1)};
      continue;
    }
    std::istringstream words{line};
    std::string word;
    words >> word;
    bool const is_row = word == "row";
    if (!is_row && word != "all") {
      throw std::runtime_error{"rows.txt: a line begins with '" + word + "'"};
    }
    Row row = all;
    if (is_row) {
      words >> row.name;
    }
    while (words >> word) {
      std::size_t const equals = word.find('=');
      if (equals != word.npos) {
        row.of[word.substr(0, equals)] = word.substr(equals + 1);
      } else if (word == "fitted") {
        row.fitted = true;
      } else {
        throw std::runtime_error{"rows.txt: '" + word + "' is no key=value"};
      }
    }
    (is_row ? rows.emplace_back() : all) = row;
  }
  return rows;
}

/// The preset, with what the row says of it.
inline tandem::Machine machine_of(Row const& row) {
  tandem::Machine const* const known = tandem::find_machine(row.text("machine"));
  if (known == nullptr) {
    throw std::runtime_error{"rows.txt: no machine '" + row.text("machine") + "'"};
  }
  tandem::Machine machine = *known;
  machine.memory_bandwidth = 1e9 * row.number("memory_gbytes", machine.memory_bandwidth / 1e9);
  machine.adapters = row.whole("adapters", machine.adapters);
  if (row.has("between_gbytes")) {
    machine.between.bandwidth = tandem::link_share * 1e9 * row.number("between_gbytes");
  }
  return machine;
}

/// Of a row with net=gpt.
inline tandem::MeshTask task_of(Row const& row) {
  return {.sizes = {.layers = row.whole("layers"),
                    .width = row.whole("width"),
                    .heads = row.whole("heads"),
                    .context = row.whole("context"),
                    .vocabulary = row.whole("vocabulary"),
                    .key_heads = row.whole("key_heads"),
                    .hidden = row.whole("hidden"),
                    .gated = row.has("gated"),
                    .dropout = row.has("dropout"),
                    .tied = !row.has("untied"),
                    .causal = !row.has("encoder"),
                    .predicted = row.number("predicted", 1),
                    .attention = row.text("attention") == "separate"
                                     ? tandem::AttentionKernels::separate
                                     : tandem::AttentionKernels::fused},
          .machine = machine_of(row),
          .batch = row.whole("batch"),
          .gradient_bytes = row.number("gradient_bytes", 4),
          .spread = row.number("spread")};
}

inline tandem::MeshLimits limits_of(Row const& row) {
  using tandem::Recomputation;
  bool const all = row.has("overlap");
  tandem::MeshLimits limits{
      .pipeline = row.whole("pipeline", 1),
      .tensor = row.whole("tensor", 1),
      .sequence = row.whole("sequence", 1),
      .time_chunks = 1,
      .recomputation = row.text("recompute") == "full"        ? Recomputation::full
                       : row.text("recompute") == "selective" ? Recomputation::selective
                                                              : Recomputation::none,
      .sequence_rows = row.has("rows"),
      .shard = row.has("shard") ? tandem::Sharding::state : tandem::Sharding::none,
      .overlap = {all, all || row.has("overlap_messages"), all || row.has("overlap_sums")}};
  limits.memory = 1e9 * row.number("memory");
  if (row.has("chunks")) {
    limits.chunks = row.whole("chunks");
  }
  if (row.has("microbatch")) {
    limits.microbatch = row.whole("microbatch");
  }
  return limits;
}

/// Seconds as published. Operations are those of the source: with what is computed again
/// (Narayanan et al., equation 3), or the model's (Chowdhery et al., arXiv:2204.02311, appendix B).
inline double published_seconds(Row const& row) {
  if (row.has("seconds")) {
    return row.number("seconds");
  }
  tandem::TransformerSizes const sizes = task_of(row).sizes;
  double const tokens = row.number("batch") * row.number("context");
  double const l = row.number("layers"), h = row.number("width"), s = row.number("context");
  double const hardware =
      96 * tokens * l * h * h * (1 + s / (6 * h) + row.number("vocabulary") / (16 * l * h));
  double const model = tokens * (6 * sizes.parameters() + 12 * l * h * s);
  return (row.has("hardware") ? hardware : model) /
         (row.number("devices") * 1e12 * row.number(row.has("hardware") ? "hardware" : "model"));
}

/// The planner's of a row with net=gpt; none where nothing fits.
inline std::optional<tandem::MeshPlan> plan_of(Row const& row) {
  tandem::MeshSearch const found =
      tandem::search_meshes(task_of(row), row.whole("devices"), limits_of(row), 1);
  return found.plans.empty() ? std::nullopt : std::optional{found.plans.front()};
}

/// Of |predicted / published - 1|.
struct Errors {
  double median = 0;
  double worst = 0;
};

/// @pre there is one
inline Errors errors_of(std::vector<double> errors) {
  for (double& error : errors) {
    error = std::fabs(error);
  }
  std::sort(errors.begin(), errors.end());
  std::size_t const half = errors.size() / 2;
  return {(errors[half] + errors[(errors.size() - 1) / 2]) / 2, errors.back()};
}

}  // namespace published
