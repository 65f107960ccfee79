// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ShardedMirror on Cuda: copies in the host's memory, in the order of the network as the user
/// wrote it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/comm/operation.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/memory/cuda/filter_order.hpp>
#include <tandem/engine/memory/sharded_mirror.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// As the primary template, but that parameters are copies, too, also of a rank that has all.
///
/// Memory: while it shows something, parameters, gradients and states of a rank that has all, in
///         the host's memory; and while it gathers one such array on the device.
template <class Kernels, class Precision>
class ShardedMirror<BasicCuda<Kernels, Precision>> {
 public:
  using T = typename Precision::Master;
  using Device = cuda::RankDevice;
  using Memory = ParameterMemory<BasicCuda<Kernels, Precision>>;

  ShardedMirror(DeviceTables const& tables, int states)
      : layout_{tables.layout},
        first_array_{tables.sharded_parameters ? of_parameters : of_gradients},
        states_{states},
        order_{tables} {}

  /// Blocks until the device has done what is queued, as the others do.
  /// @param shares  ParameterShares
  template <class Shares>
  TANDEM_COLD void download(Device& device, Memory const& memory, Shares& shares) {
    copies_.resize(static_cast<std::size_t>(layout_.elements + (1 + states_) * layout_.trained));
    reorder(FilterDirection::to_device);  // what other ranks have given stays
    each_whole(memory, [&](T* there, T* here, std::int64_t count) {
      copy(device, there, here, count, cudaMemcpyDeviceToHost);
    });
    each_own(memory, shares, [&](T* there, T* here, std::int64_t count) {
      copy(device, there, here, count, cudaMemcpyDeviceToHost);
    });
    device.compute.synchronize();
    reorder(FilterDirection::from_device);
  }

  template <class Shares>
  TANDEM_COLD void gather(Device& device, Memory const& memory, Shares& shares) {
    download(device, memory, shares);
    cuda::Buffer const whole{device, static_cast<std::size_t>(layout_.trained) * sizeof(T)};
    for (int array = first_array_; array <= states_; ++array) {
      for (OwnedRange const& own : shares.owned()) {
        copy(device, place(memory, array, own), whole.as<T>() + own.range.begin, own.range.count(),
             cudaMemcpyDeviceToDevice);
      }
      shares.gather_array(device, whole.as<T>(), {name_of(array)});
      copy(device, whole.as<T>(), copy_of(array), layout_.trained, cudaMemcpyDeviceToHost);
      device.compute.synchronize();
      order_.reorder(copy_of(array), FilterDirection::from_device, layout_.trained);
    }
  }

  template <class Shares>
  TANDEM_COLD void upload(Device& device, Memory const& memory, Shares& shares) {
    if (!copies_.empty()) {
      reorder(FilterDirection::to_device);
      each_whole(memory, [&](T* there, T* here, std::int64_t count) {
        copy(device, here, there, count, cudaMemcpyHostToDevice);
      });
      each_own(memory, shares, [&](T* there, T* here, std::int64_t count) {
        copy(device, here, there, count, cudaMemcpyHostToDevice);
      });
      device.compute.synchronize();
    }
    release();
  }

  /// Gives the memory of the copies back.
  void release() { copies_ = std::vector<T>{}; }

  /// As of ParameterMemory, but that all states are there. @pre download() was called
  [[nodiscard]] T* parameters() { return copies_.data(); }
  [[nodiscard]] T* gradients() { return copies_.data() + layout_.elements; }
  [[nodiscard]] T* state(int s) { return gradients() + (1 + s) * layout_.trained; }

 private:
  // Arrays of which a rank has a part: perhaps parameters, then gradients, then states.
  static constexpr int of_parameters = -1;
  static constexpr int of_gradients = 0;

  // The rank's part of an array, and the whole of it among the copies.
  static T* place(Memory const& memory, int array, OwnedRange const& own) {
    return array == of_parameters  ? memory.kept_parameters(own.range.begin, own.lag)
           : array == of_gradients ? memory.summed_gradients(own.range.begin, own.lag)
                                   : memory.state(array - 1) + own.state_begin();
  }
  [[nodiscard]] T* copy_of(int array) {
    return array == of_parameters ? parameters() : gradients() + array * layout_.trained;
  }
  static char const* name_of(int array) {
    return array == of_parameters ? "parameters" : array == of_gradients ? "gradients" : "states";
  }
  // f(on the device, in the copies, elements) of each part.
  template <class Shares, class F>
  void each_own(Memory const& memory, Shares& shares, F const& f) {
    for (OwnedRange const& own : shares.owned()) {
      for (int array = first_array_; array <= states_; ++array) {
        f(place(memory, array, own), copy_of(array) + own.range.begin, own.range.count());
      }
    }
  }
  // Likewise of the parameters that each rank has.
  template <class F>
  void each_whole(Memory const& memory, F const& f) {
    std::int64_t const begin = first_array_ == of_parameters ? layout_.trained : 0;
    f(begin > 0 ? memory.frozen() : memory.parameters(), parameters() + begin,
      layout_.elements - begin);
  }
  void reorder(FilterDirection direction) {
    order_.reorder(parameters(), direction, layout_.elements);
    for (int array = 0; array <= states_; ++array) {
      order_.reorder(gradients() + array * layout_.trained, direction, layout_.trained);
    }
  }
  static void copy(Device& device, T const* from, T* to, std::int64_t count, cudaMemcpyKind kind) {
    if (count > 0) {
      cuda::copy_bytes(to, from, static_cast<std::size_t>(count) * sizeof(T), kind, device.compute);
    }
  }

  LayoutView layout_;
  int first_array_;
  int states_;
  std::vector<T> copies_;  // parameters, gradients, then states
  FilterOrder<T> order_;
};

}  // namespace tandem
