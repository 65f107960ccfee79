// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMemoryView: a rank's plan of its memory with the pointers that came of it, for tests that
/// play the rank's actions on them.

#include <vector>

#include <tandem/engine/memory/operand_tables.hpp>
#include <tandem/engine/prepare/arenas.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/schedule/rules/weight_places.hpp>

namespace tandem {

/// What is referred to outlives the call. T: of activations; P: of parameters.
template <class T, class P>
struct RankMemoryView {
  GraphView graph;
  std::vector<OpNeeds> const& needs;
  PlanTask const& task;
  MemoryPlan const& plan;
  ArenaBases bases;
  OperandTables<T, P> const& tables;
  RankPlan const& rows;
  WeightPlaces const* places =
      nullptr;  ///< of a rank of an asynchronous pipeline, which has no rows
};

/// Every rank calls it at the end of its constructor, which throws what it throws. Null unless a
/// test sets it before it makes ranks.
template <class T, class P>
inline void (*on_rank_memory)(RankMemoryView<T, P> const&) = nullptr;

}  // namespace tandem
