// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::BlockReduce (CCCL 3.0): the result is valid in thread 0, garbage in the others.

#include <cuda/std/functional>

#include <cub/emulated/collective.cuh>

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS
};

template <typename T, int BLOCK_DIM_X,
          BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1>
class BlockReduce {
  static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
  static constexpr char const* name = "cub::BlockReduce";

 public:
  struct TempStorage {
    emulated::Use<threads> use;
    emulated::Items<T, threads> items;
  };

  BlockReduce() : storage_{private_storage()} {}
  explicit BlockReduce(TempStorage& storage) : storage_{storage} {}

  template <typename ReductionOp>
  T Reduce(T input, ReductionOp reduction_op, int num_valid) {
    int const rank = emulated::rank_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>(name);
    storage_.use.arrive(rank, cuda_emulator::block_barriers_passed(), name);
    storage_.items[rank] = input;
    if (rank != 0) {
      return emulated::garbage(input);
    }
    storage_.use.wait_for_all(name);
    int const count = num_valid < threads ? num_valid : threads;
    T sum = emulated::warp_reduce(storage_.items.data(), count < 32 ? count : 32, reduction_op);
    for (int first = 32; first < count; first += 32) {
      int const lanes = count - first < 32 ? count - first : 32;
      sum = reduction_op(sum,
                         emulated::warp_reduce(storage_.items.data() + first, lanes, reduction_op));
    }
    return sum;
  }

  template <typename ReductionOp>
  T Reduce(T input, ReductionOp reduction_op) {
    return Reduce(input, reduction_op, threads);
  }

  template <int ITEMS_PER_THREAD, typename ReductionOp>
  T Reduce(T (&inputs)[ITEMS_PER_THREAD], ReductionOp reduction_op) {
    return Reduce(emulated::thread_reduce(inputs, reduction_op), reduction_op);
  }

  T Sum(T input) { return Reduce(input, ::cuda::std::plus<>{}); }

  T Sum(T input, int num_valid) { return Reduce(input, ::cuda::std::plus<>{}, num_valid); }

  template <int ITEMS_PER_THREAD>
  T Sum(T (&inputs)[ITEMS_PER_THREAD]) {
    return Reduce(inputs, ::cuda::std::plus<>{});
  }

 private:
  static TempStorage& private_storage() {
    static thread_local TempStorage storage;
    return storage;
  }

  TempStorage& storage_;
};

}  // namespace cub
