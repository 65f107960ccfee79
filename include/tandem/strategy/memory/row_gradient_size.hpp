// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowGradientSize: how much memory a device has for one parameter's GradientRows. The engine
/// allocates it, and device_memory() counts it.

#include <cstdint>

#include <tandem/core/gradient_rows.hpp>
#include <tandem/graph/graph.hpp>

namespace tandem {

/// What it depends on.
struct RowGradientTask {
  std::int64_t batch = 1;  ///< samples of the largest microbatch
  int microbatches = 1;    ///< of a replica
  int replicas = 1;
  int buffers = 1;  ///< of gradients: the leaf at work and those that wait
};

/// Rows, and bytes.
struct RowGradientSize {
  std::int64_t most = 0;  ///< of a replica's share of a batch
  std::int64_t all = 0;   ///< of the batch
  int width = 0;
  int limit = 0;              ///< rows of the parameter
  std::int64_t block = 0;     ///< bytes of a replica's rows, once
  std::int64_t own = 0;       ///< of all buffers of these
  std::int64_t gathered = 0;  ///< of the replicas' rows
  std::int64_t sum = 0;       ///< of their sum

  constexpr RowGradientSize(Parameter const& parameter, RowGradientTask const& task,
                            std::int64_t element_bytes) {
    std::int64_t const rows = parameter.shape[0];
    most = parameter.touched.most(rows, task.batch, task.microbatches);
    all = parameter.touched.most(rows, task.batch, std::int64_t{task.microbatches} * task.replicas);
    width = static_cast<int>(parameter.shape.elements() / rows);
    limit = parameter.shape[0];
    block = gradient_rows_bytes(most, width, element_bytes);
    own = block * task.buffers;
    if (task.replicas > 1) {
      gathered = block * task.replicas;
      sum = gradient_rows_bytes(all, width, element_bytes);
    }
  }

  [[nodiscard]] constexpr std::int64_t bytes() const { return own + gathered + sum; }
};

}  // namespace tandem
