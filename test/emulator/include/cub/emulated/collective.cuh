// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the stand-ins of CUB's collectives share: storage that knows who has used it, and when.
///
/// They give no barrier to those that need no result: a kernel that leans on a barrier inside CUB,
/// or that uses storage again without a barrier of its own, fails here.

#include <cstdint>
#include <cstring>

#include <emulator/kernel.hpp>
#include <emulator/stream_work.hpp>

namespace cub::emulated {

/// The head of every TempStorage; in a union of several it is common to all.
template <int Threads>
struct Use {
  std::uint64_t block;
  std::uint64_t barriers;
  int arrived;
  int computed;
  unsigned char here[Threads];

  /// Called by each thread once for each use, after it has written what the others will read.
  void arrive(int rank, std::uint64_t barriers_passed, char const* what) {
    if (block != cuda_emulator::block_number() || barriers != barriers_passed) {
      block = cuda_emulator::block_number();
      barriers = barriers_passed;
      arrived = 0;
      computed = 0;
      std::memset(here, 0, sizeof here);
    }
    if (here[rank] != 0) {
      cuda_emulator::kernel_fault(std::string{what} +
                                  ": its TempStorage was used before, with no barrier since");
    }
    here[rank] = 1;
    ++arrived;
  }

  void wait_for_all(char const* what) const {
    cuda_emulator::wait_until(
        [](void const* use) { return static_cast<Use const*>(use)->arrived == Threads; }, this,
        what);
  }
};

/// Room for a T a thread, without a constructor, as __shared__ variables must be.
template <class T, int Threads>
struct Items {
  alignas(T) unsigned char bytes[sizeof(T) * Threads];

  T* data() { return reinterpret_cast<T*>(bytes); }
  T& operator[](int i) { return data()[i]; }
};

/// What threads get that must not look at the result.
template <class T>
T garbage(T value) {
  cuda_emulator::poison(static_cast<void*>(&value), sizeof value);
  return value;
}

/// The sum of items[0 ... count) in the order of shuffles in a warp; destroys the items.
template <class T, class Op>
T warp_reduce(T* items, int count, Op op) {
  for (int offset = 1; offset < count; offset *= 2) {
    for (int i = 0; i + offset < count; ++i) {
      items[i] = op(items[i], items[i + offset]);
    }
  }
  return items[0];
}

/// Checks that the block has the shape that the template arguments promise; its thread's rank.
template <int X, int Y, int Z>
int rank_in_block(char const* what) {
  if (cuda_emulator::block_threads() != X * Y * Z) {
    cuda_emulator::kernel_fault([&] {
      return std::string{what} + ": made for " + std::to_string(X * Y * Z) + " threads, used by " +
             std::to_string(cuda_emulator::block_threads());
    }());
  }
  return cuda_emulator::linear_thread();
}

template <class T, int Items, class Op>
T thread_reduce(T (&items)[Items], Op op) {
  T sum = items[0];
  for (int i = 1; i < Items; ++i) {
    sum = op(sum, items[i]);
  }
  return sum;
}

}  // namespace cub::emulated
