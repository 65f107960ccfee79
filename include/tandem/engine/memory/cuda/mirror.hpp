// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ParameterMirror on Cuda: copies in the host's memory, with convolution weights in the order of
/// the network as the user wrote it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/engine/memory/cuda/filter_order.hpp>
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
  static constexpr bool is_memory = false;
  static constexpr auto const& graph = Program::graph;
  static constexpr auto const& layout = Program::layout;

  explicit ParameterMirror(int states) : states_{states} {}

  /// Blocks until the device has done what is queued.
  void download(cuda::RankDevice& device, Memory const& memory) {
    allocate();
    transfer(device, memory, cudaMemcpyDeviceToHost);
    reorder(FilterDirection::from_device);
  }

  /// Blocks likewise; the mirror stays as it is.
  void upload(cuda::RankDevice& device, Memory const& memory) {
    allocate();
    reorder(FilterDirection::to_device);
    transfer(device, memory, cudaMemcpyHostToDevice);
    reorder(FilterDirection::from_device);
  }

  /// As of ParameterMemory. @pre download() or upload() was called
  [[nodiscard]] T* parameters() { return values_.data(); }
  [[nodiscard]] T* gradients() { return values_.data() + layout.elements; }
  [[nodiscard]] T* state(int s) {
    return values_.data() + layout.elements + layout.dense + s * layout.trained;
  }

 private:
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

  void reorder(FilterDirection direction) {
    order_.reorder(parameters(), direction);
    order_.reorder(gradients(), direction, layout.dense);
    for (int s = 0; s < states_; ++s) {
      order_.reorder(state(s), direction, layout.trained);
    }
  }

  int states_;
  std::vector<T> values_;  // parameters, gradients, states; as in ParameterMemory
  FilterOrder<Program, T> order_;
};

}  // namespace tandem
