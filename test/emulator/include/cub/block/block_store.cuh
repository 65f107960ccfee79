// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::BlockStore (CCCL 3.0).

#include <cub/emulated/transfer.cuh>

namespace cub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD,
          BlockStoreAlgorithm ALGORITHM = BLOCK_STORE_DIRECT, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1>
class BlockStore {
  using Transfer =
      emulated::Transfer<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z, ITEMS_PER_THREAD,
                         ALGORITHM == BLOCK_STORE_STRIPED, (ALGORITHM >= BLOCK_STORE_TRANSPOSE)>;
  static constexpr char const* name = "cub::BlockStore";

 public:
  using TempStorage = typename Transfer::TempStorage;

  BlockStore() : transfer_{Transfer::private_storage()} {}
  explicit BlockStore(TempStorage& storage) : transfer_{storage} {}

  template <typename It>
  void Store(It target, T (&items)[ITEMS_PER_THREAD]) {
    transfer_.for_items(name, [&](int i, int at) { *(target + at) = items[i]; });
  }

  template <typename It>
  void Store(It target, T (&items)[ITEMS_PER_THREAD], int valid_items) {
    transfer_.for_items(name, [&](int i, int at) {
      if (at < valid_items) {
        *(target + at) = items[i];
      }
    });
  }

 private:
  Transfer transfer_;
};

}  // namespace cub
