// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bahdanau on Host with products by oneDNN.

#include <tandem/layers/bahdanau.hpp>
#include <tandem/ops/host/bahdanau.hpp>
#include <tandem/ops/onednn/linear.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

template <int Width, class... Options, class Precision>
struct Op<Bahdanau<Width, Options...>, BasicHost<OneDnn, Precision>>
    : host::BahdanauOp<typename Precision::Scalar, typename Precision::Master,
                       onednn::LinearOp<typename Precision::Scalar, false>> {
  explicit Op(OpSetup const& setup)
      : host::BahdanauOp<typename Precision::Scalar, typename Precision::Master,
                         onednn::LinearOp<typename Precision::Scalar, false>>{setup, Width} {}
};

}  // namespace tandem
