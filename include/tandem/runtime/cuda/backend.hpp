// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BasicCuda: the backend that computes on NVIDIA GPUs, as a type only.
///
/// Any compiler may name it; its kernels, buffers and streams come with <tandem/cuda.cuh>, which
/// needs nvcc.

#include <type_traits>

#include <tandem/core/precision.hpp>
#include <tandem/graph/rewrites.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace cuda {

struct RankDevice;
class Buffer;
class Stream;
class Event;

}  // namespace cuda

/// Convolutions, and attention in bf16 and fp16, by cuDNN 9; everything else as in the portable
/// backend.
struct CuDnn {
  static constexpr char const* name = "cudnn";
};

/// NVIDIA GPUs, one a rank. Activations are stored channels-last.
/// @tparam Kernels    Portable (CUDA Toolkit alone) or CuDnn
/// @tparam Precision  Tf32, Fp32, Bf16, Fp16, or Fp64 (Portable only)
template <class Kernels = Portable, class Precision = Tf32>
struct BasicCuda {
  static_assert(!std::is_same_v<Precision, Fp32Direct>,
                "BasicCuda<Kernels, Fp32Direct>: this precision is of Host alone; take Fp32");
  using Scalar = typename Precision::Scalar;
  using Master = typename Precision::Master;
  using Device = cuda::RankDevice;
  using Buffer = cuda::Buffer;
  using Stream = cuda::Stream;
  static constexpr Rewrites rewrites{.fuse_relu = true,
                                     .fuse_linear = true,
                                     .fuse_sum = true,
                                     .channels_last = true,
                                     .merge_pointwise = std::is_same_v<Kernels, CuDnn>,
                                     .place_concat = true,
                                     .absorb_bias = true};
  static constexpr bool shares_layers = true;     ///< as TensorParallel does
  static constexpr bool deals_rows = true;        ///< as SequenceRows does
  static constexpr bool deals_tiles = true;       ///< as SpatialParallel does
  static constexpr bool deals_states = true;      ///< as ShardedState does
  static constexpr bool deals_gradients = true;   ///< as ShardedGradients does
  static constexpr bool deals_parameters = true;  ///< as ShardedParameters does
  static constexpr bool takes_chunks = true;      ///< as Chunks does
  static constexpr char const* name = "cuda";
};

/// The default GPU backend: with cuDNN where CMake has found it; convolutions and products in tf32.
/// BasicCuda<CuDnn, Fp32> is fp32 throughout.
#if defined(TANDEM_CUDNN)
using Cuda = BasicCuda<CuDnn>;
#else
using Cuda = BasicCuda<Portable>;
#endif

}  // namespace tandem
