// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvTranspose2d on Cuda by cuDNN. Needs <cudnn.h>; ops/cuda/conv_transpose.cuh does without.

#include <concepts>

#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/ops/cuda/conv_transpose.cuh>
#include <tandem/ops/cuda/convolution_cudnn.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <int Out, class... Options, class Precision>
  requires(!std::same_as<typename Precision::Scalar, double>)
struct Op<ConvTranspose2d<Out, Options...>, BasicCuda<CuDnn, Precision>>
    : cuda::ConvTransposeOp<cuda::CuDnnConvolutionOp<Precision, false>,
                            ConvTranspose2d<Out, Options...>::bias> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::ConvTransposeOp<cuda::CuDnnConvolutionOp<Precision, false>,
                              ConvTranspose2d<Out, Options...>::bias>{
            setup, ConvTranspose2d<Out, Options...>::geometry(setup.node.in), device} {}
};

}  // namespace tandem
