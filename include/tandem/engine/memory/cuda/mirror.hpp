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
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// Made at the first download() or upload(); costs as much host memory as the device has for
/// parameters, gradients and optimizer states.
template <class Kernels, class Precision>
class ParameterMirror<BasicCuda<Kernels, Precision>> {
 public:
  using T = typename Precision::Master;
  using Backend = BasicCuda<Kernels, Precision>;
  using Memory = ParameterMemory<Backend>;
  static constexpr bool is_memory = false;

  ParameterMirror(DeviceTables const& tables, int states)
      : layout_{tables.layout}, states_{states}, order_{tables} {}

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
  [[nodiscard]] T* gradients() { return values_.data() + layout_.elements; }
  [[nodiscard]] T* state(int s) {
    return values_.data() + layout_.elements + layout_.dense + s * layout_.trained;
  }

 private:
  void allocate() {
    values_.resize(
        static_cast<std::size_t>(layout_.elements + layout_.dense + states_ * layout_.trained));
  }

  void transfer(cuda::RankDevice& device, Memory const& memory, cudaMemcpyKind kind) {
    auto const copy = [&](T* host, T* there, std::int64_t count) {
      if (count > 0) {  // a device may have no parameters, or none that are trained
        bool const down = kind == cudaMemcpyDeviceToHost;
        cuda::copy_bytes(down ? host : there, down ? there : host,
                         static_cast<std::size_t>(count) * sizeof(T), kind, device.compute);
      }
    };
    copy(parameters(), memory.parameters(), layout_.elements);
    copy(gradients(), memory.gradients(), layout_.dense);
    for (int s = 0; s < states_; ++s) {
      copy(state(s), memory.state(s), layout_.trained);
    }
    device.compute.synchronize();
  }

  void reorder(FilterDirection direction) {
    order_.reorder(parameters(), direction, layout_.elements);
    order_.reorder(gradients(), direction, layout_.dense);
    for (int s = 0; s < states_; ++s) {
      order_.reorder(state(s), direction, layout_.trained);
    }
  }

  LayoutView layout_;
  int states_;
  std::vector<T> values_;  // parameters, gradients, states; as in ParameterMemory
  FilterOrder<T> order_;
};

}  // namespace tandem
