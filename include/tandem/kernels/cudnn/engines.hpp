// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Engines of cuDNN for a graph of operations: found by its heuristics, kept by what they promise.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/library.hpp>
#include <tandem/kernels/cudnn/target.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda::detail {

/// An engine that accepted a graph.
struct Engine {
  BackendDescriptor configuration;
  BackendDescriptor plan;
  std::int64_t workspace_bytes;
};

/// Whether an engine's results vary, or are rounded more than its precision says.
inline bool rejected(BackendDescriptor const& configuration, bool tensor_cores) {
  std::vector<BackendDescriptor> const engine =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  auto const notes = engine.at(0).values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return std::any_of(notes.begin(), notes.end(), [=](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return !tensor_cores;
      default:
        return false;
    }
  });
}

/// What one way of guessing suggests, likely fastest first; empty if it has no suggestion.
inline std::vector<BackendDescriptor> suggestions(CuDnnTarget const& target,
                                                  BackendDescriptor const& graph,
                                                  cudnnBackendHeurMode_t mode) {
  BackendDescriptor heuristic{CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR};
  target.describe_heuristic(heuristic);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) {
    return {};
  }
  return heuristic.descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

/// The first @p most engines that accept the graph, keep their promises and fit the workspace.
inline std::vector<Engine> find_engines(CuDnnTarget const& target, BackendDescriptor const& graph,
                                        bool tensor_cores, std::int64_t workspace_limit, int most) {
  std::vector<Engine> found;
  for (auto const mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    for (BackendDescriptor& configuration : suggestions(target, graph, mode)) {
      if (rejected(configuration, tensor_cores)) {
        continue;
      }
      BackendDescriptor plan{CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR};
      target.describe_plan(plan);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) {
        continue;
      }
      std::int64_t const bytes = plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      if (bytes > workspace_limit) {
        continue;
      }
      found.push_back({std::move(configuration), std::move(plan), bytes});
      if (static_cast<int>(found.size()) == most) {
        return found;
      }
    }
    if (!found.empty()) {
      break;
    }
  }
  return found;
}

/// Queues the engine's work on the tensors of these numbers.
inline void execute(CuDnnLibrary& library, Engine const& engine, Stream const& stream,
                    std::span<std::int64_t const> ids, std::span<void* const> pointers,
                    std::byte* workspace) {
  BackendDescriptor pack{CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR};
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(workspace));
  pack.finalize();
  ScopedDevice const scope{stream.device()};
  check(cudnnBackendExecute(library.on(stream), engine.plan.get(), pack.get()));
}

}  // namespace tandem::cuda::detail
