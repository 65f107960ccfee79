// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::BlockScan (CCCL 3.0), with block aggregates and prefix callbacks.
///
/// An exclusive scan without an initial value leaves garbage in thread 0.

#include <cuda/std/functional>

#include <cub/emulated/collective.cuh>

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <typename T, int BLOCK_DIM_X, BlockScanAlgorithm ALGORITHM = BLOCK_SCAN_RAKING,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1>
class BlockScan {
  static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
  static constexpr char const* name = "cub::BlockScan";
  using Plus = ::cuda::std::plus<>;

 public:
  struct TempStorage {
    emulated::Use<threads> use;
    emulated::Items<T, threads> before;  ///< sum of the threads before, without the initial value
    emulated::Items<T, 2> whole;         ///< sum of all threads; what a prefix callback returned
  };

  BlockScan() : storage_{private_storage()} {}
  explicit BlockScan(TempStorage& storage) : storage_{storage} {}

  void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T{}, Plus{}); }
  void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, T{}, Plus{}, aggregate);
  }
  template <int N>
  void ExclusiveSum(T (&input)[N], T (&output)[N]) {
    ExclusiveScan(input, output, T{}, Plus{});
  }
  template <int N>
  void ExclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
    ExclusiveScan(input, output, T{}, Plus{}, aggregate);
  }
  template <typename PrefixOp>
  void ExclusiveSum(T input, T& output, PrefixOp& prefix_op) {
    ExclusiveScan(input, output, Plus{}, prefix_op);
  }
  void InclusiveSum(T input, T& output) { InclusiveScan(input, output, Plus{}); }
  void InclusiveSum(T input, T& output, T& aggregate) {
    InclusiveScan(input, output, Plus{}, aggregate);
  }
  template <int N>
  void InclusiveSum(T (&input)[N], T (&output)[N]) {
    InclusiveScan(input, output, Plus{});
  }
  template <int N>
  void InclusiveSum(T (&input)[N], T (&output)[N], T& aggregate) {
    InclusiveScan(input, output, Plus{}, aggregate);
  }
  template <typename PrefixOp>
  void InclusiveSum(T input, T& output, PrefixOp& prefix_op) {
    InclusiveScan(input, output, Plus{}, prefix_op);
  }

  template <typename Op>
  void ExclusiveScan(T input, T& output, T initial, Op op) {
    T aggregate{};
    ExclusiveScan(input, output, initial, op, aggregate);
  }
  template <typename Op>
  void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate) {
    int const rank = scan(input, op);
    aggregate = storage_.whole[0];
    output = rank == 0 ? initial : op(initial, storage_.before[rank]);
  }
  template <typename Op, typename PrefixOp>
    requires requires(PrefixOp& f, T t) { f(t); }
  void ExclusiveScan(T input, T& output, Op op, PrefixOp& prefix_op) {
    int const rank = scan(input, op);
    T const prefix = call_prefix(rank, prefix_op);
    output = rank == 0 ? prefix : op(prefix, storage_.before[rank]);
  }
  template <typename Op>
  void ExclusiveScan(T input, T& output, Op op) {
    int const rank = scan(input, op);
    output = rank == 0 ? emulated::garbage(input) : storage_.before[rank];
  }
  template <int N, typename Op>
  void ExclusiveScan(T (&input)[N], T (&output)[N], T initial, Op op) {
    T aggregate{};
    ExclusiveScan(input, output, initial, op, aggregate);
  }
  template <int N, typename Op>
  void ExclusiveScan(T (&input)[N], T (&output)[N], T initial, Op op, T& aggregate) {
    T running{};
    ExclusiveScan(emulated::thread_reduce(input, op), running, initial, op, aggregate);
    for (int i = 0; i < N; ++i) {
      T const item = input[i];
      output[i] = running;
      running = op(running, item);
    }
  }

  template <typename Op>
  void InclusiveScan(T input, T& output, Op op) {
    T aggregate{};
    InclusiveScan(input, output, op, aggregate);
  }
  template <typename Op>
  void InclusiveScan(T input, T& output, Op op, T& aggregate) {
    int const rank = scan(input, op);
    aggregate = storage_.whole[0];
    output = rank == 0 ? input : op(storage_.before[rank], input);
  }
  template <typename Op, typename PrefixOp>
    requires requires(PrefixOp& f, T t) { f(t); }
  void InclusiveScan(T input, T& output, Op op, PrefixOp& prefix_op) {
    int const rank = scan(input, op);
    T const prefix = call_prefix(rank, prefix_op);
    output = op(rank == 0 ? prefix : op(prefix, storage_.before[rank]), input);
  }
  template <int N, typename Op>
  void InclusiveScan(T (&input)[N], T (&output)[N], Op op) {
    T aggregate{};
    InclusiveScan(input, output, op, aggregate);
  }
  template <int N, typename Op>
  void InclusiveScan(T (&input)[N], T (&output)[N], Op op, T& aggregate) {
    int const rank = scan(emulated::thread_reduce(input, op), op);
    aggregate = storage_.whole[0];
    T running = rank == 0 ? input[0] : op(storage_.before[rank], input[0]);
    for (int i = 0; i < N; ++i) {
      running = i == 0 ? running : op(running, input[i]);
      output[i] = running;
    }
  }

 private:
  static TempStorage& private_storage() {
    static thread_local TempStorage storage;
    return storage;
  }

  // Waits for all threads; the first that goes on computes for them. Returns this thread's rank.
  template <typename Op>
  int scan(T input, Op op) {
    int const rank = emulated::rank_in_block<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>(name);
    storage_.use.arrive(rank, cuda_emulator::block_barriers_passed(), name);
    storage_.before[rank] = input;
    storage_.use.wait_for_all(name);
    if (storage_.use.computed == 0) {
      T sum = storage_.before[0];
      for (int i = 1; i < threads; ++i) {
        T const item = storage_.before[i];
        storage_.before[i] = sum;
        sum = op(sum, item);
      }
      storage_.whole[0] = sum;
      storage_.use.computed = 1;
    }
    return rank;
  }

  // The first warp calls it; what its first thread gets is the prefix.
  template <typename PrefixOp>
  T call_prefix(int rank, PrefixOp& prefix_op) {
    if (rank < 32) {
      T const prefix = prefix_op(storage_.whole[0]);
      if (rank == 0) {
        storage_.whole[1] = prefix;
        storage_.use.computed = 2;
      }
    }
    cuda_emulator::wait_until(
        [](void const* storage) {
          return static_cast<TempStorage const*>(storage)->use.computed == 2;
        },
        &storage_, name);
    return storage_.whole[1];
  }

  TempStorage& storage_;
};

}  // namespace cub
