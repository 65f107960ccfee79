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
#include <span>
#include <string>

#include <oneapi/dnnl/dnnl.h>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/refusal.hpp>
#include <tandem/kernels/onednn/version.hpp>

namespace tandem::onednn {

/// One convolution as oneDNN is asked for it.
struct ConvolutionTask {
  ConvolutionGeometry geometry{};
  std::int64_t batch = 0;
  dnnl_data_type_t type = dnnl_f32;  ///< of x, y and the weights; bias and gradients are fp32
  bool bias = false;
  bool wants_input_gradient = true;
  bool wants_weight_gradient = true;
  bool wants_bias_gradient = true;  ///< with that of the weights; is read where there is a bias

  [[nodiscard]] bool has_bias_gradient() const { return bias && wants_bias_gradient; }
};

/// "Conv2d of 64 to 128 channels in 1 group, kernel 3 x 3, …": for messages.
TANDEM_ONCE TANDEM_NOINLINE std::string to_string(ConvolutionTask const& task);

namespace detail {

/// The weights (Out, In, kernel); with groups (G, Out / G, In / G, kernel). The numbers lie in one
/// order either way if plain.
TANDEM_ONCE Descriptor convolution_weights(ConvolutionGeometry const& g, dnnl_data_type_t type,
                                           dnnl_format_tag_t tag);

}  // namespace detail

/// The weights as a user has them: fp32, each output's after the other's.
inline Descriptor plain_weights(ConvolutionGeometry const& geometry) {
  return detail::convolution_weights(geometry, dnnl_f32, dnnl_oihw);
}

/// In which layouts the packed weights are read.
struct PackedWeights {
  Descriptor forward;
  Descriptor input_gradient;
};

namespace detail {

/// Whether @p plan is the kernel of oneDNN 2 (3 has it right) that sums wrongly over an odd number
/// of channels on some image sizes, such as 6 x 5. test/unit/onednn/convolution_test.cpp shows it.
inline bool miscounts(Plan const& plan, int summed_channels) {
  return DNNL_VERSION_MAJOR < 3 && summed_channels % 2 != 0 &&
         plan.kernel().starts_with("jit_bf16_1x1");
}

inline Descriptor activation(ConvolutionTask const& task, int channels, Extent2d extent) {
  return make_descriptor({task.batch, channels, extent.height, extent.width}, task.type, dnnl_nhwc);
}

/// What oneDNN would do in each pass.
struct ConvolutionPlans {
  Descriptor x;  // channels-last
  Descriptor y;
  Plan forward;
  Plan input_gradient;
  Plan weight_gradient;

  TANDEM_ONCE TANDEM_NOINLINE ConvolutionPlans(Library const& library, ConvolutionTask const& task,
                                               PackedWeights const* weights);

  /// The last argument is the bias, which may be none.
  [[nodiscard]] static Primitive compile(Library const& library, Plan const& plan,
                                         int const (&arguments)[4], bool bias) {
    return Primitive{library, plan, std::span{arguments}.first(bias ? 4 : 3)};
  }
};

}  // namespace detail

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

TANDEM_ONCE std::string to_string(ConvolutionTask const& task) {
  auto const extent = [](Extent2d e) {
    return std::to_string(e.height) + " x " + std::to_string(e.width);
  };
  ConvolutionGeometry const& g = task.geometry;
  return "Conv2d of " + std::to_string(g.in_channels) + " to " + std::to_string(g.out_channels) +
         " channels in " + std::to_string(g.groups) + (g.groups == 1 ? " group" : " groups") +
         ", kernel " + extent(g.window.kernel) + ", stride " + extent(g.window.stride) +
         ", padding " + extent(g.window.padding) +
         (g.window.dilation == Extent2d{} ? "" : ", dilation " + extent(g.window.dilation)) +
         ", images " + extent(g.in) + ", batch " + std::to_string(task.batch) +
         (task.type == dnnl_bf16 ? ", bf16" : ", fp32");
}

}  // namespace tandem::onednn

namespace tandem::onednn::detail {

TANDEM_ONCE Descriptor convolution_weights(ConvolutionGeometry const& g, dnnl_data_type_t type,
                                           dnnl_format_tag_t tag) {
  Extent2d const k = g.window.kernel;
  if (g.groups == 1) {
    return make_descriptor({g.out_channels, g.in_channels, k.height, k.width}, type,
                           tag == dnnl_format_tag_any ? tag : dnnl_oihw);
  }
  return make_descriptor(
      {g.groups, g.out_channels / g.groups, g.in_channels / g.groups, k.height, k.width}, type,
      tag == dnnl_format_tag_any ? tag : dnnl_goihw);
}

/// Whether the threads of oneDNN 2.6.3's bf16 forward kernel with AMX may take each other's rows:
/// of windows that leave out rows, and of strides that are wider than high.
TANDEM_ONCE bool may_mix_rows(ConvolutionTask const& task) {
  Extent2d const kernel = task.geometry.window.kernel;
  Extent2d const stride = task.geometry.window.stride;
  return task.type == dnnl_bf16 && kernel != Extent2d{1, 1} &&
         (kernel.height < stride.height || stride.width > stride.height);
}

/// Whether oneDNN's kernel for the gradient of these weights goes wrong, as 2.6.3's does, and 3.2's
/// but with AMX. With a stride of a 1 x 1 window and less than 16 channels it adds up other pixels
/// or writes behind its scratch memory. In bf16 it reads what nobody wrote: of images narrower than
/// the stride, and with AMX of more than 32 channels, no multiple of 16, if the window's rows are
/// dilated.
TANDEM_ONCE bool misreads(ConvolutionTask const& task) {
  ConvolutionGeometry const& g = task.geometry;
  Window const& window = g.window;
  int const channels = g.in_channels / g.groups;
  bool const strided = window.stride.height > 1 || window.stride.width > 1;
  return (strided && window.kernel == Extent2d{1, 1} && channels < 16) ||
         (task.type == dnnl_bf16 &&
          (g.in.width < window.stride.width ||
           (window.dilation.height > 1 && channels > 32 && channels % 16 != 0)));
}

TANDEM_ONCE ConvolutionPlans::ConvolutionPlans(Library const& library, ConvolutionTask const& task,
                                               PackedWeights const* weights) {
  ConvolutionGeometry const& g = task.geometry;
  x = activation(task, g.in_channels, g.in);
  y = activation(task, g.out_channels, g.out);
  Descriptor const any = convolution_weights(g, task.type, dnnl_format_tag_any);
  Descriptor const any_gradient = convolution_weights(g, dnnl_f32, dnnl_format_tag_any);
  Descriptor const vector = make_descriptor({g.out_channels}, dnnl_f32, dnnl_a);
  DescriptorView const bias_or_none = task.bias ? vector.get() : nullptr;
  WindowSteps const steps{{g.window.stride.height, g.window.stride.width},
                          {g.window.padding.height, g.window.padding.width},
                          {g.window.dilation.height - 1, g.window.dilation.width - 1}};
  Attributes const attributes;
  auto const plan = [&](auto const& create, DescriptorView weight, DescriptorView with_bias,
                        auto... hint) {
    dnnl_primitive_desc_t made = nullptr;
    dnnl_status_t const status =
        create(&made, library.engine(), TensorViews{x.get(), weight, with_bias, y.get()}, steps,
               hint..., attributes.get());
    if (status != dnnl_success) {
      refuse(status, to_string(task), task.type);
    }
    return Plan{made};
  };
  // Weights of a plain layout are for oneDNN's plain kernel: slow, and right.
  Descriptor const plain = convolution_weights(g, task.type, dnnl_oihw);
  forward = plan(convolution_forward, weights != nullptr ? weights->forward.get() : any.get(),
                 bias_or_none);
  if (miscounts(forward, g.in_channels / g.groups) || may_mix_rows(task)) {
    forward = plan(convolution_forward, plain.get(), bias_or_none);
  }
  if (task.wants_input_gradient) {
    input_gradient = plan(convolution_input_gradient,
                          weights != nullptr ? weights->input_gradient.get() : any.get(), nullptr,
                          forward.get());
    if (miscounts(input_gradient, g.out_channels / g.groups)) {
      input_gradient = plan(convolution_input_gradient, plain.get(), nullptr, forward.get());
    }
  }
  if (task.wants_weight_gradient) {
    Descriptor const plain_gradient = convolution_weights(g, dnnl_f32, dnnl_oihw);
    weight_gradient = plan(convolution_weight_gradient,
                           misreads(task) ? plain_gradient.get() : any_gradient.get(),
                           task.has_bias_gradient() ? vector.get() : nullptr, forward.get());
  }
}
}  // namespace tandem::onednn::detail

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
