// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Transfer: which element of the block's tile is which item of a thread, for BlockLoad and
/// BlockStore.
///
/// The forms that go through shared memory take part in the check of its reuse, and give no
/// barrier.

#include <cub/emulated/collective.cuh>

namespace cub::emulated {

struct NoStorage {};

template <int X, int Y, int Z, int ItemsPerThread, bool Striped, bool Shared>
class Transfer {
  static constexpr int threads = X * Y * Z;

 public:
  struct SharedStorage {
    Use<threads> use;
  };
  using TempStorage = std::conditional_t<Shared, SharedStorage, NoStorage>;

  explicit Transfer(TempStorage& storage) : storage_{storage} {}

  static TempStorage& private_storage() {
    static thread_local TempStorage storage;
    return storage;
  }

  /// f(i, element) for all items i of this thread.
  template <class F>
  void for_items(char const* name, F const& f) const {
    int const rank = rank_in_block<X, Y, Z>(name);
    if constexpr (Shared) {
      storage_.use.arrive(rank, cuda_emulator::block_barriers_passed(), name);
    }
    for (int i = 0; i < ItemsPerThread; ++i) {
      f(i, Striped ? rank + i * threads : rank * ItemsPerThread + i);
    }
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub::emulated
