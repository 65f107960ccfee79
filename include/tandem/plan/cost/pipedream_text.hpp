// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The lines of a graph in PipeDream's format, checked one by one; pipedream_graph.hpp makes a
/// CostGraph of them.
///
/// A line is a node (its name, what it is, its costs, perhaps its stage, which is not used) or,
/// if it is indented, an edge:
///
///     node1 -- ReLU(inplace) -- forward_compute_time=0.361, backward_compute_time=0.214,
///         activation_size=51380224.000, parameter_size=0.000 -- stage_id=0     (all on one line)
///         node1 -- node2
///
/// Times are in milliseconds, sizes in bytes; the size of several outputs is a list, [8.0; 4.0].
/// Source: github.com/msr-fiddle/pipedream, graph/graph.py.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/core/utf8.hpp>
#include <tandem/plan/cost/cost_graph.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

inline constexpr char const* pipedream_example =
    "node1 -- ReLU -- forward_compute_time=0.3, backward_compute_time=0.2, "
    "activation_size=1024.0, parameter_size=0.0";

// The text must outlive it. A template, so that it is compiled where it is used.
class PipedreamText {
 public:
  struct Node {
    std::string_view name{};
    std::string_view description{};
    CostNode cost{};  ///< without a name
  };
  struct Edge {
    std::string_view from{};
    std::string_view to{};
  };

  /// @throws FileError  a line is neither a node nor an edge
  PipedreamText(std::string_view text, std::string const& path) : text_{text}, path_{path} {
    if (std::size_t const good = text_length(text); good < text.size()) {
      fail(text.data() + good, "a byte of value " +
                                   std::to_string(static_cast<unsigned char>(text[good])) +
                                   "; this is no text, write the graph as plain text in UTF-8");
    }
    text.remove_prefix(text.substr(0, 3) == "\xEF\xBB\xBF" ? 3 : 0);  // byte order mark
    while (!text.empty()) {
      std::size_t const length = std::min(text.find('\n'), text.size());
      std::string_view const row = text.substr(0, length);
      text.remove_prefix(std::min(length + 1, text.size()));
      if (std::string_view const line = trimmed(row); !line.empty()) {
        row.front() == '\t' || row.front() == ' ' ? read_edge(line) : read_node(line);
      }
    }
    if (node_.empty()) {
      fail(text_.data(), std::string{"there is no node; write '"} + pipedream_example + "'");
    }
  }

  /// In the order of the file.
  [[nodiscard]] std::vector<Node> const& node() const { return node_; }
  [[nodiscard]] std::vector<Edge> const& edge() const { return edge_; }

  /// Throws; @p at points into the text.
  [[noreturn]] void fail(char const* at, std::string const& what) const {
    std::string_view const before = text_.substr(0, static_cast<std::size_t>(at - text_.data()));
    std::size_t const line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    auto const line = 1 + std::count(before.begin(), before.end(), '\n');
    throw FileError{path_, "line " + std::to_string(line) + ", column " +
                               std::to_string(before.size() - line_begin + 1) + ": " + what};
  }

  static std::string quoted(std::string_view text) {
    return text.empty() ? "the end of the line" : "'" + printable(text.substr(0, 40)) + "'";
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    auto const blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && blank(text.front())) {
      text.remove_prefix(1);
    }
    while (!text.empty() && blank(text.back())) {
      text.remove_suffix(1);
    }
    return text;
  }

  static char const* end_of(std::string_view text) { return text.data() + text.size(); }

  void check_name(std::string_view name) const {
    if (name.empty() || name.find_first_of(" \t") != name.npos) {
      fail(name.data(),
           "expected the name of a node, one word such as node1, found " + quoted(name));
    }
  }

  void read_edge(std::string_view line) {
    std::size_t const dashes = line.find("--");
    if (dashes == line.npos) {
      fail(end_of(line), "an edge lacks its second node; write it as 'node1 -- node2'");
    }
    Edge const edge{trimmed(line.substr(0, dashes)), trimmed(line.substr(dashes + 2))};
    check_name(edge.from);
    check_name(edge.to);
    if (edge.from == edge.to) {
      fail(edge.to.data(), quoted(edge.to) + " reads itself; an edge leads to another node");
    }
    edge_.push_back(edge);
  }

  void read_node(std::string_view line) {
    std::size_t const dashes = line.find(" -- ");
    if (dashes == line.npos) {
      fail(end_of(line), std::string{"this is no node; write it as '"} + pipedream_example + "'");
    }
    std::string_view const name = trimmed(line.substr(0, dashes));
    check_name(name);
    std::string_view const key = "forward_compute_time=";
    std::size_t const costs = line.rfind(key);  // since a description may hold anything
    if (costs == line.npos) {
      fail(end_of(line), quoted(name) + " lacks its costs; write '" + std::string{key} +
                             "0.3, ...' behind what it is");
    }
    std::string_view description = trimmed(line.substr(dashes + 3, costs - dashes - 3));
    if (description.size() < 2 || description.substr(description.size() - 2) != "--") {
      fail(line.data() + costs, "expected ' -- ' between what the node is and its costs");
    }
    description = trimmed(description.substr(0, description.size() - 2));
    CostNode cost;
    std::string_view rest = line.substr(costs);
    cost.forward = field(rest, key) / 1000;
    cost.backward = field(rest, ", backward_compute_time=") / 1000;
    cost.output_bytes = static_cast<std::int64_t>(field(rest, ", activation_size=") + 0.5);
    cost.parameter_bytes = static_cast<std::int64_t>(field(rest, ", parameter_size=") + 0.5);
    if (!rest.empty() && rest.substr(0, 2) != "--") {
      fail(rest.data(), "expected the end of the line or ' -- stage_id=0', found " + quoted(rest));
    }
    node_.push_back({name, description, cost});
  }

  // The value behind `key`, with which rest begins; rest loses both.
  double field(std::string_view& rest, std::string_view key) const {
    if (rest.substr(0, key.size()) != key) {
      fail(rest.data(), "expected '" + std::string{key} + "' and a number, found " + quoted(rest));
    }
    rest.remove_prefix(key.size());
    bool const list = key == ", activation_size=" && rest.substr(0, 1) == "[";
    rest.remove_prefix(list ? 1 : 0);
    double sum = number(rest, 0);
    while (list && rest.substr(0, 1) == ";") {
      rest.remove_prefix(1);
      sum = number(rest, sum);
    }
    if (list && rest.substr(0, 1) != "]") {
      fail(rest.data(), "the list of sizes is not closed; write it as '[8.0; 4.0]'");
    }
    rest = trimmed(rest.substr(list ? 1 : 0));
    return sum;
  }

  // sum and the number that text begins with, which text loses, and the blanks around it.
  double number(std::string_view& text, double sum) const {
    constexpr double largest = 1e12;  // a million nodes' sum is still finite, and an integer
    text = trimmed(text);
    double value = 0;
    auto const [end, error] = std::from_chars(text.data(), end_of(text), value);
    std::string_view const digits = text.substr(0, static_cast<std::size_t>(end - text.data()));
    if (digits.empty()) {
      fail(end, "expected a number, found " + quoted(text));
    }
    if (error != std::errc{} || !(value >= 0 && sum + value <= largest)) {  // nan too
      fail(text.data(), quoted(digits) + " is no cost; write a number from 0 to 1e12");
    }
    text = trimmed(text.substr(digits.size()));
    return sum + value;
  }

  std::string_view text_;
  std::string const& path_;
  std::vector<Node> node_{};
  std::vector<Edge> edge_{};
};

}  // namespace tandem::detail

#endif
