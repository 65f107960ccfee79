// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMirror on Cuda: the host's copies have the weights of convolutions in the order of the
/// network as the user wrote it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/runtime/cuda/backend.hpp>

namespace tandem {

template <class Kernels, class Precision>
struct ParameterMirror<BasicCuda<Kernels, Precision>> {
  static constexpr bool is_memory = false;

  /// (Out, In, Kh, Kw) on the host, (Out, Kh, Kw, In) on the device.
  template <class T>
  TANDEM_COLD static void reorder(DeviceTables const& tables, T* values, std::int64_t end,
                                  bool to_device) {
    std::vector<T> filter;
    for (int p = 0; p < tables.graph.parameters; ++p) {
      Shape const shape = tables.graph.parameter[p].parameter.shape;
      if (shape.rank != 4 || tables.layout.offset[p] >= end) {
        continue;
      }
      std::int64_t const taps = std::int64_t{shape[2]} * shape[3];
      std::int64_t const rows = to_device ? shape[1] : taps;
      std::int64_t const columns = to_device ? taps : shape[1];
      T* own = values + tables.layout.offset[p];
      for (int o = 0; o < shape[0] && rows > 1 && columns > 1; ++o, own += rows * columns) {
        filter.assign(own, own + rows * columns);
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t column = 0; column < columns; ++column) {
            own[column * rows + row] = filter[static_cast<std::size_t>(row * columns + column)];
          }
        }
      }
    }
  }
};

}  // namespace tandem
