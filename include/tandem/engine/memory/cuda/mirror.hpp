// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMirror on Cuda: copies in the host's memory, with convolution weights in the order of
/// the network as the user wrote it.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/shape.hpp>
#include <tandem/engine/memory/mirror.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// Made at the first download() or upload(); costs as much host memory as the device has for
/// parameters, gradients and optimizer states.
template <class Program, class Kernels, class Precision>
class ParameterMirror<Program, BasicCuda<Kernels, Precision>> {
 public:
  using T = typename Precision::Master;
  using Backend = BasicCuda<Kernels, Precision>;
  using Memory = ParameterMemory<Program, Backend>;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto const& layout = Program::layout;

  explicit ParameterMirror(int states) : states_{states} {}

  /// Blocks until the device has done what is queued.
  void download(cuda::RankDevice& device, Memory const& memory) {
    allocate();
    transfer(device, memory, cudaMemcpyDeviceToHost);
    reorder(Direction::from_device);
  }

  /// Blocks likewise; the mirror stays as it is.
  void upload(cuda::RankDevice& device, Memory const& memory) {
    allocate();
    reorder(Direction::to_device);
    transfer(device, memory, cudaMemcpyHostToDevice);
    reorder(Direction::from_device);
  }

  /// As of ParameterMemory. @pre download() or upload() was called
  [[nodiscard]] T* parameters() { return values_.data(); }
  [[nodiscard]] T* gradients() { return values_.data() + layout.elements; }
  [[nodiscard]] T* state(int s) {
    return values_.data() + layout.elements + layout.dense + s * layout.trained;
  }

 private:
  enum class Direction { to_device, from_device };

  void allocate() {
    values_.resize(
        static_cast<std::size_t>(layout.elements + layout.dense + states_ * layout.trained));
  }

  void transfer(cuda::RankDevice& device, Memory const& memory, cudaMemcpyKind kind) {
    auto const copy = [&](T* host, T* there, std::int64_t count) {
      if (count > 0) {  // a device may have no parameters, or none that are trained
        bool const down = kind == cudaMemcpyDeviceToHost;
        cuda::copy_bytes(down ? host : there, down ? there : host,
                         static_cast<std::size_t>(count) * sizeof(T), kind, device.compute);
      }
    };
    copy(parameters(), memory.parameters(), layout.elements);
    copy(gradients(), memory.gradients(), layout.dense);
    for (int s = 0; s < states_; ++s) {
      copy(state(s), memory.state(s), layout.trained);
    }
    device.compute.synchronize();
  }

  void reorder(Direction direction) {
    for (int p = 0; p < graph.parameters; ++p) {
      Shape const shape = graph.parameter[p].parameter.shape;
      if (shape.rank != 4) {
        continue;
      }
      reorder(shape, parameters() + layout.offset[p], direction);
      if (layout.offset[p] < layout.dense) {
        reorder(shape, gradients() + layout.offset[p], direction);
      }
      if (!graph.parameter[p].frozen) {
        for (int s = 0; s < states_; ++s) {
          reorder(shape, state(s) + layout.offset[p], direction);
        }
      }
    }
  }

  // (Out, In, Kh, Kw) on the host, (Out, Kh, Kw, In) on the device.
  void reorder(Shape shape, T* values, Direction direction) {
    std::int64_t const channels = shape[1];
    std::int64_t const taps = std::int64_t{shape[2]} * shape[3];
    if (channels == 1 || taps == 1) {
      return;
    }
    filter_.resize(static_cast<std::size_t>(channels * taps));
    for (int o = 0; o < shape[0]; ++o, values += channels * taps) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t t = 0; t < taps; ++t) {
          std::int64_t const host = c * taps + t;
          std::int64_t const there = t * channels + c;
          bool const down = direction == Direction::from_device;
          filter_[static_cast<std::size_t>(down ? host : there)] = values[down ? there : host];
        }
      }
      std::memcpy(values, filter_.data(), filter_.size() * sizeof(T));
    }
  }

  int states_;
  std::vector<T> values_;  // parameters, gradients, states; as in ParameterMemory
  std::vector<T> filter_;
};

}  // namespace tandem
