// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvolutionPlan: one pass of a convolution by one engine of cuDNN, ready to be queued.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/kernels/cudnn/convolution_graph.hpp>
#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/kernels/cudnn/library.hpp>
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

/// Workspace that a convolution may use at most; what it does use is workspace_bytes().
inline constexpr std::int64_t convolution_workspace_limit = std::int64_t{512} << 20;

/// A prepared pass. Its engine repeats its own sums: one whose results vary is never taken.
///
/// Cost:  at its making some milliseconds of the CPU (heuristic), or some runs of the device.
/// Order: chosen by the engine, the same at each run of it.
class ConvolutionPlan {
 public:
  /// @throws CuDnnError  no engine for this task within the limit; the message names the task
  ConvolutionPlan(RankDevice& device, ConvolutionTask const& task,
                  std::int64_t workspace_limit = convolution_workspace_limit,
                  ConvolutionSearch search = ConvolutionSearch::heuristic)
      : library_{&device.library<CuDnnLibrary>()},
        engine_{choose(device, *library_, task, workspace_limit, search)} {}

  [[nodiscard]] std::int64_t workspace_bytes() const noexcept { return engine_.workspace_bytes; }

  /// Queues the pass: reads two of the three tensors and overwrites the third.
  /// @param workspace  workspace_bytes(), at a multiple of 256; not shared with queued work
  void run(Stream const& stream, void const* x, void const* weight, void const* y,
           std::byte* workspace) {
    detail::execute(*library_, engine_, stream, {x, weight, y}, workspace);
  }

 private:
  static detail::Engine choose(RankDevice& device, CuDnnLibrary& library,
                               ConvolutionTask const& task, std::int64_t limit,
                               ConvolutionSearch search) {
    ScopedDevice const scope{device.device};
    try {
      int const most = search == ConvolutionSearch::measured ? 8 : 1;
      std::vector<detail::Engine> engines = detail::find_engines(library, task, limit, most);
      if (!engines.empty()) {
        std::size_t const best =
            engines.size() > 1 ? detail::fastest(device, library, task, engines) : 0;
        return std::move(engines[best]);
      }
    } catch (CuDnnError const& error) {
      throw refused(error.code(), task, error.what());
    }
    throw refused(CUDNN_STATUS_NOT_SUPPORTED, task, detail::cudnn_last_words());
  }

  static CuDnnError refused(cudnnStatus_t code, ConvolutionTask const& task,
                            std::string const& words) {
    return {code, "cuDNN has no engine for " + to_string(task) +
                      (words.empty() ? "" : " (" + words + ")") +
                      "; use BasicCuda<Portable, ...>, which does without cuDNN"};
  }

  CuDnnLibrary* library_;
  detail::Engine engine_;
};

}  // namespace tandem::cuda
