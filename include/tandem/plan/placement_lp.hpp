// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// placement_lp: the best placement of a dataflow graph as a mixed-integer program, which a solver
/// such as CBC answers exactly for small graphs: what a search can be judged by.

#include <string>

#include <tandem/plan/cost_graph.hpp>
#include <tandem/plan/list_schedule.hpp>
#include <tandem/plan/placement.hpp>
#include <tandem/plan/placement_lp_rows.hpp>

namespace tandem {

namespace detail {

inline constexpr char const* placement_lp_comment =
    R"(Placement of a dataflow graph: which device runs which node, such that a step is shortest.
step: the end of the last backward, in milliseconds, as are all times.
x_i_d: 1 if node i is on device d. Devices are alike: node i is on one of the first i + 1.
f_i, b_i: the begin of node i's forward and backward.
y_i_k_d: 1 if node i is on device k and a reader of it on device d.
s_i_d, g_i_d: the begin of sending node i's output to device d, and its gradient from there back.
o_p_q: 1 if p ends before q begins.)";

}  // namespace detail

/// The mixed-integer program, as text in CPLEX's LP format, whose optimum is the shortest step over
/// all placements, orders of a device's passes and orders of a link's transfers. A comment at its
/// top says what its variables are. To solve it: cbc graph.lp solve solution graph.sol.
///
/// Cost:   O(V^2 devices + V^2 devices^2) rows, for graphs of up to about ten nodes.
/// @throws ContractError  a number of the graph or the task is out of range
/// Source: the problem of Pal et al. 2019, "DLPlacer"; disjunctive rows of Manne 1960.
template <class = void>
[[nodiscard]] std::string placement_lp(CostGraph const& graph, PlacementTask const& task) {
  detail::check_placement_task(graph, task);
  return detail::PlacementLp{graph, task, detail::placement_lp_comment}.str();
}

}  // namespace tandem
