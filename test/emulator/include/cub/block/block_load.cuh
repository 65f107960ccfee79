// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Stand-in of cub::BlockLoad (CCCL 3.0).

#include <cub/emulated/transfer.cuh>

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <typename T, int BLOCK_DIM_X, int ITEMS_PER_THREAD,
          BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1>
class BlockLoad {
  using Transfer =
      emulated::Transfer<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z, ITEMS_PER_THREAD,
                         ALGORITHM == BLOCK_LOAD_STRIPED, (ALGORITHM >= BLOCK_LOAD_TRANSPOSE)>;
  static constexpr char const* name = "cub::BlockLoad";

 public:
  using TempStorage = typename Transfer::TempStorage;

  BlockLoad() : transfer_{Transfer::private_storage()} {}
  explicit BlockLoad(TempStorage& storage) : transfer_{storage} {}

  template <typename It>
  void Load(It source, T (&items)[ITEMS_PER_THREAD]) {
    transfer_.for_items(name, [&](int i, int at) { items[i] = *(source + at); });
  }

  template <typename It>
  void Load(It source, T (&items)[ITEMS_PER_THREAD], int block_items_end) {
    transfer_.for_items(name, [&](int i, int at) {
      if (at < block_items_end) {
        items[i] = *(source + at);
      }
    });
  }

  template <typename It, typename DefaultT>
  void Load(It source, T (&items)[ITEMS_PER_THREAD], int block_items_end, DefaultT oob_default) {
    transfer_.for_items(name, [&](int i, int at) {
      items[i] =
          at < block_items_end ? static_cast<T>(*(source + at)) : static_cast<T>(oob_default);
    });
  }

 private:
  Transfer transfer_;
};

}  // namespace cub
