// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepRunner on Cuda: a step's work is recorded into a CUDA graph once and replayed.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/engine/step/runner.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/range.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// The first step of each key is walked: kernels are loaded, algorithms chosen and communicators
/// connected, none of which may be recorded. The second is walked once more into a graph; from then
/// on a step costs the host one launch. A piece of a sequence is always walked: the next is at
/// another position, and would only take the place of steps that come again.
template <class Kernels, class Precision>
class StepRunner<BasicCuda<Kernels, Precision>> {
 public:
  /// Keys whose graphs are kept; of more, the one used longest ago goes.
  static constexpr std::size_t most = 8;

  explicit StepRunner(bool recordable) : recordable_{recordable} {}

  template <class Walk>
  void run(cuda::RankDevice& device, StepKey const& key, Walk const& walk) {
    cuda::ScopedDevice const scope{device.device};
    cuda::Range const range{key.training ? "training step" : "forward step"};
    auto known = std::find_if(recordings_.begin(), recordings_.end(),
                              [&](Recording const& r) { return r.key == key; });
    bool const records = recordable_ && key.position < 0;
    if (!records || known == recordings_.end()) {
      walk();
      if (records) {
        remember(key);
      }
      return;
    }
    std::rotate(known, known + 1, recordings_.end());  // the newest stands last
    cuda::Graph& graph = recordings_.back().graph;
    if (!graph) {
      cuda::Capture capture{device.compute};
      walk();
      graph = capture.finish();
    }
    graph.launch(device.compute);
  }

 private:
  struct Recording {
    StepKey key;
    cuda::Graph graph{};  // empty until the second step of its key
  };

  void remember(StepKey const& key) {
    if (recordings_.size() == most) {
      recordings_.erase(recordings_.begin());
    }
    recordings_.push_back({.key = key});
  }

  bool recordable_;
  std::vector<Recording> recordings_;
};

}  // namespace tandem
