// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// read_graph_file: a measured graph in any of the formats that other planners read.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/json_graph.hpp>
#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/cost/piper_graph.hpp>
#include <tandem/plan/cost/placement_instance.hpp>

namespace tandem {

/// Who writes a graph so.
enum class GraphFormat {
  pipedream,  ///< PipeDream's profiler: lines, see pipedream_text.hpp
  piper,      ///< Piper: JSON, see piper_graph.hpp
  placement   ///< the placement instances of NeurIPS 2020: JSON, see placement_instance.hpp
};

/// A graph, and what it was read as.
struct GraphFile {
  CostGraph graph{};
  GraphFormat format = GraphFormat::pipedream;

  /// Whether bytes of weights are told from others, so that sums of gradients are known.
  [[nodiscard]] bool knows_weights() const { return format != GraphFormat::placement; }
};

/// The graph that @p text describes. What begins with '{' is JSON: a placement instance where it
/// has "maxFPGAs", else Piper's.
/// @param name  of the file, for messages such as "'graph.json': line 3, column 7: ..."
/// @throws FileError  parse_pipedream_graph() refuses it; or it is not JSON, lacks what its format
///                    has, has a number that is negative or above 1e12, two nodes of one number, an
///                    edge whose node is missing, or a cycle
TANDEM_ONCE [[nodiscard]] GraphFile parse_graph_file(std::string_view text,
                                                     std::string const& name);

/// The graph of a file.
/// @throws FileError  see parse_graph_file(); or the file cannot be read, or is larger than
///                    text_file_limit
TANDEM_ONCE [[nodiscard]] GraphFile read_graph_file(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE GraphFile parse_graph_file(std::string_view text, std::string const& name) {
  std::size_t const begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos || text[begin] != '{') {
    return {parse_pipedream_graph(text, name), GraphFormat::pipedream};
  }
  detail::JsonValue const file = detail::read_json(text, name, detail::JsonKinds::any);
  if (detail::JsonRecord{file, "the file", name}.find("maxFPGAs") != nullptr) {
    return {detail::PlacementInstance{file, name}.graph(), GraphFormat::placement};
  }
  return {detail::piper_graph(file, name), GraphFormat::piper};
}

TANDEM_ONCE GraphFile read_graph_file(std::string const& path) {
  std::vector<std::uint8_t> const bytes = read_file(path, text_file_limit);
  return parse_graph_file({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, path);
}

}  // namespace tandem

#endif
