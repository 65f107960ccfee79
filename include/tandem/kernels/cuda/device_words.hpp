// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Declares the words of device code for plain C++, which reads kernels but instantiates none: a
/// unit that nvcc compiles has them, see impl/src.cuh. Nothing here has a body. All declarations
/// are of namespace tandem::cuda, so that a program may include CUB and cuda/std, too.

#include <tandem/core/config.hpp>

#if !TANDEM_DEVICE_CODE

#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>

namespace tandem::cuda {

void __syncthreads();
void __threadfence();
unsigned atomicInc(unsigned* counter, unsigned largest);
template <class T>
T __ldcg(T const* from);

namespace cub {

struct Collective {
  struct TempStorage {};
  explicit Collective(TempStorage&);
  template <class... Arguments>
  void Load(Arguments&&...);
  template <class... Arguments>
  void Store(Arguments&&...);
  template <class T, class Merge>
  T Reduce(T const&, Merge const&);
};
enum BlockLoadAlgorithm { BLOCK_LOAD_STRIPED };
enum BlockStoreAlgorithm { BLOCK_STORE_STRIPED };
template <class T, int Threads, int Items, BlockLoadAlgorithm>
struct BlockLoad : Collective {
  using Collective::Collective;
};
template <class T, int Threads, int Items, BlockStoreAlgorithm>
struct BlockStore : Collective {
  using Collective::Collective;
};
template <class T, int Threads>
struct BlockReduce : Collective {
  using Collective::Collective;
};
template <class T>
struct WarpReduce : Collective {
  using Collective::Collective;
};
struct DeviceReduce {
  template <class... Arguments>
  static cudaError_t TransformReduce(Arguments const&...);
};
struct DeviceSelect {
  template <class... Arguments>
  static cudaError_t UniqueByKey(Arguments const&...);
};
struct DeviceRadixSort {
  template <class... Arguments>
  static cudaError_t SortPairs(Arguments const&...);
};

}  // namespace cub

}  // namespace tandem::cuda

#endif
