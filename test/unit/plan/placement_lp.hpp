// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// placement_lp: the best placement of a dataflow graph as a mixed-integer program, which a solver
/// such as CBC answers exactly for small graphs: what a search can be judged by.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/numbered.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/graph_neighbours.hpp>
#include <tandem/plan/place/critical_path.hpp>
#include <tandem/plan/place/list_schedule.hpp>
#include <tandem/plan/place/placement.hpp>

namespace tandem::test::detail {

using namespace tandem::detail;

/// [i][j]: 1 if op j waits for op i, directly or not. Cost: O(ops (nodes + edges)) steps.
inline Numbered<Numbered<char>> reached_ops(StepOps const& ops) {
  Numbered<Numbered<char>> reached(ops.time.size(), Numbered<char>(ops.time.size()));
  for (int i = ops.ops(); i-- > 0;) {
    for (int const next : ops.after[i]) {
      reached[i][next] = 1;
      for (int j = next + 1; j < ops.ops(); ++j) {
        reached[i][j] = reached[i][j] != 0 || reached[next][j] != 0;
      }
    }
  }
  return reached;
}

inline constexpr char const* placement_lp_comment =
    R"(Placement of a dataflow graph: which device runs which node, such that a step is shortest.
step: the end of the last backward, in milliseconds, as are all times.
x_i_d: 1 if node i is on device d. Devices are alike: node i is on one of the first i + 1.
f_i, b_i: the begin of node i's forward and backward.
y_i_k_d: 1 if node i is on device k and a reader of it on device d.
s_i_d, g_i_d: the begin of sending node i's output to device d, and its gradient from there back.
o_p_q: 1 if p ends before q begins.)";

/// Variables are at least 0; they come to be by being named.
class LpText {
 public:
  struct Term {
    double factor = 1;
    std::string variable{};
  };

  /// Each line of @p comment stands behind a backslash.
  LpText(std::string_view comment, std::string const& minimized) {
    while (!comment.empty()) {
      std::size_t const length = comment.find('\n');
      text_.append("\\ ").append(comment.substr(0, length)).append("\n");
      comment.remove_prefix(length == comment.npos ? comment.size() : length + 1);
    }
    text_ += "Minimize\n obj: " + minimized + "\nSubject To\n";
  }

  void at_least(std::vector<Term> const& sum, double bound) { row(sum, ">=", bound); }
  void at_most(std::vector<Term> const& sum, double bound) { row(sum, "<=", bound); }
  void equal(std::vector<Term> const& sum, double value) { row(sum, "=", value); }

  void zero_or_one(std::string const& variable) { binaries_ += " " + variable + "\n"; }

  [[nodiscard]] std::string str() const { return text_ + "Binaries\n" + binaries_ + "End\n"; }

 private:
  void number(double value) {
    char digits[32] = {};  // the shortest that reads back as the same number has at most 24
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  void row(std::vector<Term> const& sum, char const* relation, double bound) {
    std::size_t written = 0;
    for (auto const& [factor, variable] : sum) {
      if (factor == 0) {
        continue;
      }
      text_ += factor < 0 ? " - " : " + ";
      if (factor != 1 && factor != -1) {
        number(factor < 0 ? -factor : factor);
        text_ += " ";
      }
      text_ += variable;
      text_ += ++written % 8 == 0 ? "\n " : "";  // readers limit the length of lines
    }
    if (written > 0) {
      text_.append(" ").append(relation).append(" ");
      number(bound);
      text_ += "\n";
    }
  }

  std::string text_{};
  std::string binaries_{};
};

class PlacementLp {
 public:
  PlacementLp(CostGraph const& graph, PlacementTask const& task, char const* comment)
      : graph_{graph},
        task_{task},
        ops_{graph},
        neighbours_{graph},
        reaches_{reached_ops(ops_)},
        text_{comment, "step"} {
    std::vector<int> const one_device(graph.node.size());
    horizon_ = 1000 * graph.time();
    if (!fits_memory(graph, task, one_device)) {
      for (int i = 0; i < nodes(); ++i) {
        horizon_ += 2 * (task.devices - 1) * way(i);
      }
    }
  }

  std::string str() {
    place();
    for (int i = 0; i < nodes(); ++i) {
      wait(i);
      for (int d = 0; d < task_.devices; ++d) {
        send(i, d);
      }
    }
    share_devices();
    for (int k = 0; k < task_.devices; ++k) {
      for (int d = 0; d < task_.devices; ++d) {
        if (k != d) {
          share_link(k, d);
        }
      }
    }
    return text_.str();
  }

 private:
  using Terms = std::vector<LpText::Term>;
  struct Job {
    std::string begin{};
    double duration = 0;  // ms
  };
  struct Sending {
    int node = 0;
    bool gradient = false;
    Job job{};
    std::string is_sent{};
  };

  static std::string name(char const* kind, int i) { return kind + std::to_string(i); }
  static std::string name(char const* kind, int i, int d) {
    return name(kind, i) + "_" + std::to_string(d);
  }
  static std::string x(int i, int d) { return name("x_", i, d); }
  static std::string y(int i, int k, int d) { return name("y_", i, k) + "_" + std::to_string(d); }

  int nodes() const { return graph_.nodes(); }
  CostNode const& node(int i) const { return graph_.node[static_cast<std::size_t>(i)]; }
  double way(int i) const { return 1000 * transfer_time(node(i), task_); }
  Job op(int o) const {
    return {name(o < nodes() ? "f_" : "b_", ops_.node(o)), 1000 * ops_.time[o]};
  }

  void place() {
    for (int i = 0; i < nodes(); ++i) {
      Terms somewhere;
      for (int d = 0; d < task_.devices; ++d) {
        (d <= i) ? somewhere.push_back({1, x(i, d)}) : text_.equal({{1, x(i, d)}}, 0);
        text_.zero_or_one(x(i, d));
      }
      text_.equal(somewhere, 1);
    }
    auto const memory = static_cast<double>(task_.memory);
    double const unit = std::max(memory, 1.0);  // solvers see differences from 1e-6 on
    for (int d = 0; d < task_.devices; ++d) {
      Terms left{{1, "step"}};
      Terms bytes;
      for (int i = 0; i < nodes(); ++i) {
        left.push_back({-1000 * node(i).time(), x(i, d)});
        bytes.push_back({bytes_on_device(node(i), task_) / unit, x(i, d)});
      }
      text_.at_least(left, 0);  // follows from the other rows, and makes a solver faster
      if (task_.memory >= 0) {
        text_.at_most(bytes, memory / unit);
      }
    }
  }

  // What holds wherever nodes are.
  void wait(int i) {
    Job const backward = op(ops_.backward(i));
    text_.at_least({{1, "step"}, {-1, backward.begin}}, backward.duration);
    for (int const o : {i, ops_.backward(i)}) {
      for (int const p : ops_.before[o]) {
        text_.at_least({{1, op(o).begin}, {-1, op(p).begin}}, op(p).duration);
      }
    }
  }

  // Output i to device d, and its gradient back. If it is not sent, s_i_d is free to be the end of
  // the forward, and g_i_d the begin of the backward.
  void send(int i, int d) {
    Terms forward{{1, ""}, {-1, name("s_", i, d)}, {-horizon_, ""}};
    Terms backward{{1, op(ops_.backward(i)).begin}, {-1, name("g_", i, d)}};
    Terms sent;
    for (int k = 0; k < task_.devices; ++k) {
      if (k != d) {
        forward.push_back({-way(i), y(i, k, d)});
        backward.push_back({-way(i), y(i, k, d)});
        sent.push_back({1, y(i, k, d)});
      }
    }
    if (neighbours_.readers(i).empty() || sent.empty()) {
      return;
    }
    text_.at_least({{1, name("s_", i, d)}, {-1, op(i).begin}}, op(i).duration);
    text_.at_least(backward, 0);
    for (int const v : neighbours_.readers(i)) {
      Terms row = sent;  // y is at least what its comment says; more is of no use
      row.push_back({-1, x(v, d)});
      row.push_back({1, x(i, d)});
      text_.at_least(row, 0);
      for (int k = 0; k < task_.devices; ++k) {
        if (k != d) {
          text_.at_least({{1, y(i, k, d)}, {-1, x(v, d)}, {-1, x(i, k)}}, -1);
        }
      }
      forward[0].variable = op(v).begin;
      forward[2].variable = x(v, d);
      text_.at_least(forward, -horizon_);
      Job const b = op(ops_.backward(v));
      text_.at_least({{1, name("g_", i, d)}, {-1, b.begin}, {-horizon_, x(v, d)}},
                     b.duration - horizon_);
    }
  }

  void share_devices() {
    for (int p = 0; p < ops_.ops(); ++p) {
      for (int q = p + 1; q < ops_.ops(); ++q) {
        if (reaches_[p][q] != 0) {
          continue;
        }
        order(op(p), op(q), horizon_);
        for (int d = 0; d < task_.devices; ++d) {
          one_first(op(p), op(q), x(ops_.node(p), d), x(ops_.node(q), d));
        }
      }
    }
  }

  // The link from k to d. An order of two outputs is the same on all links to d, and an order of
  // two gradients on all links from k: it is written with the first of them.
  void share_link(int k, int d) {
    std::vector<Sending> sending;
    for (bool const gradient : {false, true}) {
      for (int i = 0; i < nodes(); ++i) {
        if (!neighbours_.readers(i).empty()) {
          Job const job{gradient ? name("g_", i, k) : name("s_", i, d), way(i)};
          sending.push_back({i, gradient, job, gradient ? y(i, d, k) : y(i, k, d)});
        }
      }
    }
    for (std::size_t p = 0; p < sending.size(); ++p) {
      for (std::size_t q = p + 1; q < sending.size(); ++q) {
        Sending const& a = sending[p];
        Sending const& b = sending[q];
        if (a.node == b.node || in_order(a, b)) {
          continue;
        }
        int const end = a.gradient ? d : k;
        int const first_end = (a.gradient ? k : d) == 0 ? 1 : 0;
        if (a.gradient != b.gradient || end == first_end) {
          order(a.job, b.job, horizon_ + std::max(a.job.duration, b.job.duration));
        }
        one_first(a.job, b.job, a.is_sent, b.is_sent);
      }
    }
  }

  // Whether the one waits for the other anyway.
  bool in_order(Sending const& a, Sending const& b) const {
    if (a.gradient == b.gradient) {
      return read_before(a.node, b.node) || read_before(b.node, a.node);
    }
    for (int const r : neighbours_.readers(a.node)) {  // a is the output, b the gradient
      for (int const s : neighbours_.readers(b.node)) {
        if (reaches_[r][ops_.backward(s)] == 0) {
          return false;
        }
      }
    }
    return true;
  }

  // Whether j waits for all readers of i, or is one.
  bool read_before(int i, int j) const {
    for (int const r : neighbours_.readers(i)) {
      if (r != j && reaches_[r][j] == 0) {
        return false;
      }
    }
    return true;
  }

  static std::string precedes(Job const& p, Job const& q) { return "o_" + p.begin + "_" + q.begin; }

  void order(Job const& p, Job const& q, double large) {
    for (auto const& [a, b] : {std::pair{&p, &q}, std::pair{&q, &p}}) {
      std::string const o = precedes(*a, *b);
      text_.at_least({{1, b->begin}, {-1, a->begin}, {-large, o}}, a->duration - large);
      text_.zero_or_one(o);
    }
  }

  // If both uses are 1, one of the two ends before the other begins.
  void one_first(Job const& p, Job const& q, std::string const& use_p, std::string const& use_q) {
    text_.at_least({{1, precedes(p, q)}, {1, precedes(q, p)}, {-1, use_p}, {-1, use_q}}, -1);
  }

  CostGraph const& graph_;
  PlacementTask const& task_;
  StepOps ops_;
  GraphNeighbours neighbours_;
  Numbered<Numbered<char>> reaches_;
  double horizon_ = 0;  // ms; some best step ends by then
  LpText text_;
};

}  // namespace tandem::test::detail

namespace tandem::test {

/// The mixed-integer program, as text in CPLEX's LP format, whose optimum is the shortest step over
/// all placements, orders of a device's passes and orders of a link's transfers. A comment at its
/// top says what its variables are. To solve it: cbc graph.lp solve solution graph.sol.
///
/// Cost:   O(V^2 devices + V^2 devices^2) rows, for graphs of up to about ten nodes.
/// @throws ContractError  a number of the graph or the task is out of range
/// Source: the problem of Pal et al. 2019, "DLPlacer"; disjunctive rows of Manne 1960.
inline std::string placement_lp(CostGraph const& graph, PlacementTask const& task) {
  tandem::detail::check_placement_task(graph, task);
  return detail::PlacementLp{graph, task, detail::placement_lp_comment}.str();
}

}  // namespace tandem::test
