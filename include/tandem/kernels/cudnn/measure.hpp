// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvolutionSearch: how an engine is chosen; fastest(): by running the candidates.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <tandem/kernels/cudnn/convolution_graph.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// By shape alone, so that each start takes the same engine; or by time, which may differ.
enum class ConvolutionSearch : bool { heuristic, measured };

namespace detail {

/// The engine with the shortest of three runs on zeros. Waits for the device: never in a capture.
inline std::size_t fastest(RankDevice& device, CuDnnLibrary& library, ConvolutionTask const& task,
                           std::vector<Engine> const& engines) {
  ConvolutionGeometry const& g = task.geometry;
  auto const bytes = [](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
  };
  Buffer const x{device, bytes(task.batch * g.in.height * g.in.width * g.in_channels)};
  Buffer const weight{device, bytes(std::int64_t{g.out_channels} * g.window.kernel.height *
                                    g.window.kernel.width * (g.in_channels / g.groups))};
  Buffer const y{device, bytes(task.batch * g.out.height * g.out.width * g.out_channels)};
  std::int64_t most = 0;
  for (Engine const& engine : engines) {
    most = std::max(most, engine.workspace_bytes);
  }
  Buffer const workspace{device, static_cast<std::size_t>(most)};
  Event begin{device.device, Event::Timing::on};
  Event end{device.device, Event::Timing::on};
  std::size_t best = 0;
  float best_time = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < engines.size(); ++i) {
    constexpr int runs = 4;  // the first one loads the kernels
    for (int run = 0; run < runs; ++run) {
      device.compute.record(begin);
      execute(library, engines[i], device.compute, {x.data(), weight.data(), y.data()},
              workspace.data());
      device.compute.record(end);
      end.wait();
      float const time = elapsed(begin, end).count();
      if (run > 0 && time < best_time) {
        best = i;
        best_time = time;
      }
    }
  }
  return best;
}

}  // namespace detail

}  // namespace tandem::cuda
