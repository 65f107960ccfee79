// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::WarpReduce (CCCL 3.0): the result is valid in lane 0 of each logical warp.

#include <cuda/std/functional>

#include <cub/emulated/collective.cuh>

namespace cub {

template <typename T, int LOGICAL_WARP_THREADS = 32>
class WarpReduce {
  static_assert(LOGICAL_WARP_THREADS >= 1 && LOGICAL_WARP_THREADS <= 32);
  static constexpr char const* name = "cub::WarpReduce";

 public:
  struct TempStorage {
    emulated::Use<LOGICAL_WARP_THREADS> use;
    emulated::Items<T, LOGICAL_WARP_THREADS> items;
  };

  explicit WarpReduce(TempStorage& storage) : storage_{storage} {}

  template <typename ReductionOp>
  T Reduce(T input, ReductionOp reduction_op, int valid_items) {
    int const lane = cuda_emulator::linear_thread() % 32 % LOGICAL_WARP_THREADS;
    storage_.use.arrive(lane, cuda_emulator::warp_barriers_passed(), name);
    storage_.items[lane] = input;
    if (lane != 0) {
      return emulated::garbage(input);
    }
    storage_.use.wait_for_all(name);
    int const count = valid_items < LOGICAL_WARP_THREADS ? valid_items : LOGICAL_WARP_THREADS;
    return emulated::warp_reduce(storage_.items.data(), count, reduction_op);
  }

  template <typename ReductionOp>
  T Reduce(T input, ReductionOp reduction_op) {
    return Reduce(input, reduction_op, LOGICAL_WARP_THREADS);
  }

  T Sum(T input) { return Reduce(input, ::cuda::std::plus<>{}); }

  T Sum(T input, int valid_items) { return Reduce(input, ::cuda::std::plus<>{}, valid_items); }

 private:
  TempStorage& storage_;
};

}  // namespace cub
