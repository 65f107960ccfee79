// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvolutionPasses: the three passes of one convolution by oneDNN, for one number of samples.
///
/// Activations are channels-last. The primitives choose the layout of the weights, or a first
/// choice prescribes it, so that batches of several sizes read the same packed weights.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/onednn/convolution_plans.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/version.hpp>

namespace tandem::onednn {

/// Prepared passes. Their results repeat bit for bit with the same number of threads.
///
/// Cost: the making compiles up to three kernels, milliseconds unless they are known already.
/// @pre made, and run, under the device's TeamSize; scratch has scratch_bytes() at a multiple of 64
class ConvolutionPasses {
 public:
  /// @param weights  layouts to keep to; null: the primitives choose
  /// @throws OneDnnError  no kernel for this convolution; the message names it
  TANDEM_ONCE ConvolutionPasses(Library const& library, ConvolutionTask const& task,
                                PackedWeights const* weights);

  [[nodiscard]] PackedWeights const& weights() const noexcept { return weights_; }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept {
    return work_bytes_ + weight_bytes_ + rounded_up(bias_bytes_);
  }

  /// Writes y. @param bias  null without one
  TANDEM_ONCE void forward(void const* x, void const* weights, float const* bias, void* y,
                           std::byte* scratch);

  /// Writes dx.
  void input_gradient(void const* dy, void const* weights, void* dx, std::byte* scratch) {
    input_gradient_.run(*library_, scratch, dy, weights, dx);
  }

  /// Writes or adds to the gradient of the weights in their plain layout, and to the bias's.
  TANDEM_ONCE void weight_gradient(void const* x, void const* dy, float* weight, float* bias,
                                   bool accumulate, std::byte* scratch);

 private:
  Library const* library_;
  PackedWeights weights_;
  Primitive forward_;
  Primitive input_gradient_;
  Primitive weight_gradient_;
  Primitive deliver_;  // the staged gradient to its plain layout
  Primitive add_;
  std::int64_t work_bytes_ = 0;
  std::int64_t weight_bytes_ = 0;
  std::int64_t bias_bytes_ = 0;
};

}  // namespace tandem::onednn

#if TANDEM_BODIES

namespace tandem::onednn {

TANDEM_ONCE ConvolutionPasses::ConvolutionPasses(Library const& library,
                                                 ConvolutionTask const& task,
                                                 PackedWeights const* weights)
    : library_{&library},
      bias_bytes_{task.has_bias_gradient() ? task.geometry.out_channels * 4 : 0} {
  detail::ConvolutionPlans const plans{library, task, weights};
  weights_.forward = copy_of(plans.forward.tensor(DNNL_ARG_WEIGHTS));
  forward_ =
      plans.compile(library, plans.forward,
                    {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS}, task.bias);
  if (plans.input_gradient) {
    weights_.input_gradient = copy_of(plans.input_gradient.tensor(DNNL_ARG_WEIGHTS));
    int const arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC};
    input_gradient_ = Primitive{library, plans.input_gradient, arguments};
  }
  if (plans.weight_gradient) {
    weight_gradient_ =
        plans.compile(library, plans.weight_gradient,
                      {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS},
                      task.has_bias_gradient());
    DescriptorView const from = plans.weight_gradient.tensor(DNNL_ARG_DIFF_WEIGHTS);
    Descriptor const to = plain_weights(task.geometry);
    deliver_ = make_reorder(library, from, to.get());
    add_ = make_reorder(library, from, to.get(), Attributes::Result::added_to);
    weight_bytes_ = rounded_up(bytes_of(from));
  }
  for (Primitive const* const primitive :
       {&forward_, &input_gradient_, &weight_gradient_, &deliver_, &add_}) {
    work_bytes_ = std::max(work_bytes_, rounded_up(primitive->scratch_bytes()));
  }
}

TANDEM_ONCE void ConvolutionPasses::forward(void const* x, void const* weights, float const* bias,
                                            void* y, std::byte* scratch) {
  if (bias != nullptr) {
    forward_.run(*library_, scratch, x, weights, y, bias);
  } else {
    forward_.run(*library_, scratch, x, weights, y);
  }
}

TANDEM_ONCE void ConvolutionPasses::weight_gradient(void const* x, void const* dy, float* weight,
                                                    float* bias, bool accumulate,
                                                    std::byte* scratch) {
  std::byte* const staged = scratch + work_bytes_;
  auto* const staged_bias = reinterpret_cast<float*>(staged + weight_bytes_);
  if (bias != nullptr) {
    weight_gradient_.run(*library_, scratch, x, dy, staged, accumulate ? staged_bias : bias);
  } else {
    weight_gradient_.run(*library_, scratch, x, dy, staged);
  }
  (accumulate ? add_ : deliver_).run(*library_, scratch, staged, weight);
  if (bias != nullptr && accumulate) {
    deliver(staged_bias, bias, bias_bytes_ / 4, true);
  }
}

}  // namespace tandem::onednn

#endif
