// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_worker_memory: a worker's memory by the search and by the strategy as a type.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/plan/search/workers.hpp>
#include <tandem/strategy/fits.hpp>

namespace tandem::test {

struct Momentum {
  static constexpr int states() { return 1; }
};

/// Whether the search counts, device by device, what fits<> counts of the strategy as a type.
/// @param batch  of a worker
template <class Net, class S, class Precision = Fp32>
void check_worker_memory(StrategyValue const& worker, WorkerStep const& step, int batch,
                         MathPrecision precision = MathPrecision::fp32) {
  SearchTask const task{.batch_per_worker = batch, .network = graph<Net>, .precision = precision};
  TensorSizes const sizes{.master_bytes = master_bytes(precision),
                          .scalar_bytes = element_bytes(precision)};
  WorkerCut cut = detail::worker_cut(graph<Net>, worker, step, batch);
  cut.value.batching = S::batching;
  std::vector<DeviceMemory> const found = worker_memory(graph<Net>, cut, sizes);
  REQUIRE(found.size() == static_cast<std::size_t>(S::devices));
  std::int64_t most = 0;
  for (int d = 0; d < S::devices; ++d) {
    CAPTURE(d);
    DeviceMemory const typed =
        device_memory<Net, S, Momentum, Precision>(batch * S::batching.replicas, d);
    DeviceMemory const& own = found[static_cast<std::size_t>(d)];
    CHECK(own.parameters == typed.parameters);
    CHECK(own.versions == typed.versions);
    CHECK(own.weights == typed.weights);
    CHECK(own.gradients == typed.gradients);
    CHECK(own.optimizer_state == typed.optimizer_state);
    CHECK(own.kept == typed.kept);
    CHECK(own.recomputed == typed.recomputed);
    CHECK(own.activation_gradients == typed.activation_gradients);
    CHECK(own.total() == typed.total());
    most = std::max(most, typed.total());
  }
  CHECK(detail::counted_memory(graph<Net>, task, cut) == static_cast<double>(most));
}

}  // namespace tandem::test
