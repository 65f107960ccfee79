// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conv2d on Host by oneDNN. Needs <oneapi/dnnl/dnnl.h>; ops/host/convolution.hpp does without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tandem/core/by_batch.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/channels_last/winograd.hpp>
#include <tandem/kernels/onednn/convolution.hpp>
#include <tandem/kernels/onednn/gemm.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/team_size.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace onednn {

namespace vectors = host::channels_last;

/// Any convolution, or several pointwise ones of one input side by side: one type for all of a
/// precision.
///
/// The gradient of a pointwise convolution's fp32 weights is a matrix product, straight into the
/// gradient: on channels-last tensors oneDNN's own primitive takes 1.7 times as long. Winograd
/// computes the fp32 convolutions that suit it, with oneDNN's matrix product: in a half to a
/// quarter of the time of oneDNN's own, which has no such method without AVX-512, nor in version 3.
template <class T, bool Bias>
class ConvolutionOp {
 public:
  /// @param direct  never by Winograd's method
  ConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry, bool direct = false)
      : siblings_{setup.merged}, threads_{setup.threads} {
    if (siblings_.count == 1) {
      siblings_.channels[0] = geometry.out_channels;
      siblings_.parameter[0] = 0;
    }
    ConvolutionGeometry whole = geometry;
    whole.out_channels = 0;
    for (int i = 0; i < siblings_.count; ++i) {
      whole.out_channels += siblings_.channels[i];
    }
    bool const product = std::same_as<T, float> && is_pointwise(geometry);
    task_ = ConvolutionTask{.geometry = whole,
                            .type = data_type<T>,
                            .bias = Bias,
                            .wants_input_gradient = setup.wants_input_gradient,
                            .wants_weight_gradient = !product && !setup.node.frozen,
                            .wants_bias_gradient = !setup.node.fusion.absorbed};
    fan_in_ = std::int64_t{geometry.in_channels / geometry.groups} * geometry.window.kernel.height *
              geometry.window.kernel.width;
    if (std::same_as<T, float> && !direct && siblings_.count == 1 &&
        vectors::suits_winograd(whole)) {
      winograd_ = vectors::Winograd{whole, threads_};
      by_winograd_ = true;
      packed_second_ = rounded_up(winograd_.weight_floats() * float_bytes);
      packed_bias_ = packed_second_ * (task_.wants_input_gradient ? 2 : 1);
      scratch_ = winograd_.scratch_floats() * float_bytes;
      return;
    }

    TeamSize const team{threads_};
    ConvolutionPasses const& planned = passes(std::max(setup.batch, 1));
    layouts_ = &planned.weights();
    prepare_packing();
    scratch_ = std::max(bytes_of(planned), pack_scratch());
  }
  ConvolutionOp(ConvolutionOp const&) = delete;
  ConvolutionOp& operator=(ConvolutionOp const&) = delete;

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = scratch_,
            .packed_bytes = absorbed()
                                ? packed_zeros() + channels() * float_bytes
                                : packed_bias_ + std::int64_t{Bias} * channels() * float_bytes};
  }

  /// Puts the parameters into the layouts that the passes read.
  void pack(Operands<T, float> const& o, host::Device& device) {
    TeamSize const team{threads_};
    float const* weights = o.parameter[0];
    if (siblings_.count > 1) {
      auto* const gathered = floats(device.scratch + pack_work_);
      std::int64_t begin = 0;
      for (int i = 0; i < siblings_.count; ++i) {
        std::int64_t const count = siblings_.channels[i] * fan_in_;
        deliver(o.parameter[siblings_.parameter[i]], gathered + begin, count, false);
        begin += count;
      }
      weights = gathered;
    }
    if (by_winograd_) {
      winograd_.pack_forward(device.team, weights, floats(o.packed));
      if (task_.wants_input_gradient) {
        winograd_.pack_input_gradient(device.team, weights, floats(o.packed + packed_second_));
      }
    } else {
      to_forward_.run(library_, device.scratch, weights, o.packed);
      if (to_input_gradient_) {
        to_input_gradient_.run(library_, device.scratch, weights, o.packed + packed_second_);
      }
    }
    if constexpr (Bias) {
      float* bias = floats(o.packed + packed_bias_);
      for (int i = 0; i < siblings_.count; ++i) {
        deliver(o.parameter[siblings_.parameter[i] + 1], bias, siblings_.channels[i], false);
        bias += siblings_.channels[i];
      }
      if (absorbed()) {
        std::fill_n(floats(o.packed + packed_zeros()), channels(), 0.0F);
      }
    }
  }

  void forward(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    if constexpr (std::same_as<T, float>) {
      if (by_winograd_) {
        winograd_.forward(p.device.team, product_of_one_thread, p.batch, o.x[0], floats(o.packed),
                          packed_bias(o, p.training), o.y, floats(p.device.scratch));
        return;
      }
    }
    TeamSize const team{threads_};
    ConvolutionPasses& passes = this->passes(p.batch);
    passes.forward(o.x[0], o.packed, packed_bias(o, p.training), o.y, scratch(passes, p.device));
  }

  void input_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      return;
    }
    if constexpr (std::same_as<T, float>) {
      if (by_winograd_) {
        winograd_.input_gradient(p.device.team, product_of_one_thread, p.batch, o.dy,
                                 floats(o.packed + packed_second_), o.dx[0],
                                 floats(p.device.scratch));
        return;
      }
    }
    TeamSize const team{threads_};
    ConvolutionPasses& passes = this->passes(p.batch);
    passes.input_gradient(o.dy, o.packed + packed_second_, o.dx[0], scratch(passes, p.device));
  }

  void weight_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if (p.batch == 0) {
      clear(o, p.accumulate);
      return;
    }
    if constexpr (std::same_as<T, float>) {
      if (by_winograd_) {
        winograd_.weight_gradient(p.device.team, product_of_one_thread, p.batch, o.x[0], o.dy,
                                  o.gradient[0], p.accumulate, floats(p.device.scratch));
        if (trains_bias()) {
          column_sum(p.device.team, o.dy, pixels(p.batch), channels(), channels(), o.gradient[1],
                     p.accumulate);
        }
        return;
      }
    }
    TeamSize const team{threads_};
    if (!task_.wants_weight_gradient) {
      products(o, p);
    } else if (siblings_.count == 1) {
      ConvolutionPasses& passes = this->passes(p.batch);
      passes.weight_gradient(o.x[0], o.dy, o.gradient[0], trains_bias() ? o.gradient[1] : nullptr,
                             p.accumulate, scratch(passes, p.device));
    } else {
      by_siblings(o, p);
    }
  }

 private:
  static constexpr std::int64_t float_bytes = sizeof(float);

  static float* floats(std::byte* at) { return reinterpret_cast<float*>(at); }

  /// Winograd's matrix product, called by each thread of a team.
  static void product_of_one_thread(std::int64_t m, std::int64_t n, std::int64_t k, float const* a,
                                    bool a_transposed, float const* b, bool accumulate, float* c) {
    TeamSize const one{1};
    gemm(m, n, k, {a, a_transposed ? m : k, a_transposed}, {b, n}, accumulate, c, n);
  }

  static bool is_pointwise(ConvolutionGeometry const& g) {
    return g.groups == 1 && g.window == Window{};
  }

  /// Training is without the bias, whose gradient is another op's.
  [[nodiscard]] bool absorbed() const { return Bias && !task_.wants_bias_gradient; }
  [[nodiscard]] bool trains_bias() const { return task_.has_bias_gradient(); }
  /// Where zeros stand that training has for an absorbed bias: the primitives are the same.
  [[nodiscard]] std::int64_t packed_zeros() const {
    return packed_bias_ + rounded_up(channels() * float_bytes);
  }
  [[nodiscard]] float const* packed_bias(Operands<T, float> const& o, bool training) const {
    std::int64_t const at = absorbed() && training ? packed_zeros() : packed_bias_;
    return Bias ? reinterpret_cast<float const*>(o.packed + at) : nullptr;
  }

  [[nodiscard]] std::int64_t channels() const { return task_.geometry.out_channels; }
  /// The number of output pixels of a batch.
  [[nodiscard]] std::int64_t pixels(std::int64_t batch) const {
    return batch * task_.geometry.out.height * task_.geometry.out.width;
  }

  ConvolutionPasses& passes(int batch) {
    return passes_.get(batch, [&](std::int64_t samples) {
      ConvolutionTask task = task_;
      task.batch = samples;
      return ConvolutionPasses{library_, task, layouts_};
    });
  }

  void prepare_packing() {
    Descriptor const plain = plain_weights(task_.geometry);
    to_forward_ = make_reorder(library_, plain.get(), layouts_->forward.get());
    packed_bias_ = rounded_up(onednn::bytes_of(layouts_->forward.get()));
    if (task_.wants_input_gradient &&
        !same_layout(layouts_->forward.get(), layouts_->input_gradient.get())) {
      to_input_gradient_ = make_reorder(library_, plain.get(), layouts_->input_gradient.get());
      packed_second_ = packed_bias_;
      packed_bias_ += rounded_up(onednn::bytes_of(layouts_->input_gradient.get()));
    }
    pack_work_ =
        rounded_up(std::max(to_forward_.scratch_bytes(), to_input_gradient_.scratch_bytes()));
  }

  [[nodiscard]] std::int64_t pack_scratch() const {
    return pack_work_ + (siblings_.count > 1 ? channels() * fan_in_ * float_bytes : 0);
  }

  /// What the passes want for themselves, and a staged gradient of several convolutions.
  [[nodiscard]] std::int64_t bytes_of(ConvolutionPasses const& passes) const {
    bool const staged = siblings_.count > 1 && task_.wants_weight_gradient;
    return rounded_up(passes.scratch_bytes()) +
           (staged ? channels() * (fan_in_ + 1) * float_bytes : 0);
  }

  /// The device's, unless this batch wants more than the planned one.
  std::byte* scratch(ConvolutionPasses const& passes, host::Device& device) {
    std::int64_t const bytes = bytes_of(passes);
    if (bytes <= scratch_) {
      return device.scratch;
    }
    auto const wanted = static_cast<std::size_t>(bytes);
    if (own_scratch_.bytes() < wanted) {
      own_scratch_ = host::Buffer{wanted};
    }
    return own_scratch_.data();
  }

  /// dW = dyᵀ x of each sibling, whose dy is a slice of the wide one's columns.
  void products(Operands<T, float> const& o, Pass<host::Device> const& p) {
    if constexpr (std::same_as<T, float>) {
      ConvolutionGeometry const& g = task_.geometry;
      std::int64_t const pixels = this->pixels(p.batch);
      float const* dy = o.dy;
      for (int i = 0; i < siblings_.count; ++i) {
        int const place = siblings_.parameter[i];
        gemm(siblings_.channels[i], g.in_channels, pixels, {dy, channels(), true},
             {o.x[0], g.in_channels}, p.accumulate, o.gradient[place], g.in_channels);
        if (trains_bias()) {
          column_sum(p.device.team, dy, pixels, siblings_.channels[i], channels(),
                     o.gradient[place + 1], p.accumulate);
        }
        dy += siblings_.channels[i];
      }
    }
  }

  void by_siblings(Operands<T, float> const& o, Pass<host::Device> const& p) {
    ConvolutionPasses& passes = this->passes(p.batch);
    std::byte* const work = scratch(passes, p.device);
    auto* weights = reinterpret_cast<float*>(work + rounded_up(passes.scratch_bytes()));
    float* bias = weights + channels() * fan_in_;
    passes.weight_gradient(o.x[0], o.dy, weights, trains_bias() ? bias : nullptr, false, work);
    for (int i = 0; i < siblings_.count; ++i) {
      int const place = siblings_.parameter[i];
      deliver(weights, o.gradient[place], siblings_.channels[i] * fan_in_, p.accumulate);
      weights += siblings_.channels[i] * fan_in_;
      if (trains_bias()) {
        deliver(bias, o.gradient[place + 1], siblings_.channels[i], p.accumulate);
        bias += siblings_.channels[i];
      }
    }
  }

  /// The gradient of no samples.
  void clear(Operands<T, float> const& o, bool accumulate) const {
    for (int i = 0; i < siblings_.count && !accumulate; ++i) {
      int const place = siblings_.parameter[i];
      std::fill_n(o.gradient[place], siblings_.channels[i] * fan_in_, 0.0F);
      if (trains_bias()) {
        std::fill_n(o.gradient[place + 1], siblings_.channels[i], 0.0F);
      }
    }
  }

  MergedOutputs siblings_;
  int threads_;
  Library library_;
  ConvolutionTask task_;      // of all siblings together
  std::int64_t fan_in_ = 0;   // weights of one output
  bool by_winograd_ = false;  // then neither passes_ nor reorders are made
  vectors::Winograd winograd_;
  ByBatch<ConvolutionPasses> passes_;
  PackedWeights const* layouts_ = nullptr;  // of the planned batch; the others keep to them
  Primitive to_forward_;
  Primitive to_input_gradient_;     // none if it reads the same layout as forward
  std::int64_t packed_second_ = 0;  // where the input gradient's weights stand
  std::int64_t packed_bias_ = 0;
  std::int64_t pack_work_ = 0;
  std::int64_t scratch_ = 0;
  host::Buffer own_scratch_;
};

}  // namespace onednn

template <int Out, class... Options, class Precision>
struct Op<Conv2d<Out, Options...>, BasicHost<OneDnn, Precision>>
    : onednn::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias> {
  explicit Op(OpSetup const& setup)
      : onednn::ConvolutionOp<typename Precision::Scalar, Conv2d<Out, Options...>::bias>{
            setup,
            detail::own_geometry(Conv2d<Out, Options...>::geometry(setup.node.in, setup.node.out),
                                 setup.node),
            std::same_as<Precision, Fp32Direct>} {}
};

}  // namespace tandem
