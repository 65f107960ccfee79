// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNormSteps: what the passes of batch norm on Host, channels-last, are made of, whether or
/// not their sums go over replicas.

#include <cstdint>

#include <tandem/kernels/channels_last/batch_norm.hpp>
#include <tandem/kernels/channels_last/batch_norm_gradient.hpp>
#include <tandem/kernels/channels_last/row_sums.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::host::channels_last {

/// Sizes of a layer, and the steps that its passes take in turn. Activations are (B, H, W, C), so a
/// pixel is a row; x and y may be slices of wider pixels.
template <class T>
struct BatchNormSteps {
  BatchNormSteps(OpSetup const& setup, double epsilon_of_layer)
      : channels{setup.node.in[0]},
        pixels{std::int64_t{setup.node.in[1]} * setup.node.in[2]},
        largest{setup.batch},
        x_stride{setup.x_stride > 0 ? setup.x_stride : channels},
        y_stride{setup.y_stride > 0 ? setup.y_stride : channels},
        relu{setup.node.fusion.relu},
        absorbed{setup.absorbed_bias},
        epsilon{static_cast<float>(epsilon_of_layer)} {}

  [[nodiscard]] std::int64_t rows(Pass<Device> const& p) const { return p.batch * pixels; }
  [[nodiscard]] Rows<T const> x(Operands<T, float> const& o) const { return {o.x[0], x_stride}; }
  [[nodiscard]] Rows<T const> dy(Operands<T, float> const& o) const { return {o.dy, y_stride}; }
  [[nodiscard]] BatchNormSaved<float> saved(Operands<T, float> const& o) const {
    return BatchNormSaved<float>::at(o.saved, channels);
  }
  [[nodiscard]] RowScratch scratch_of(Pass<Device> const& p) const {
    return {p.device.scratch, rows(p), channels};
  }

  template <class Inverse>
  BatchNormAffine affine(Operands<T, float> const& o, Pass<Device> const& p, float const* center,
                         Inverse const& inverse) const {
    float* const scale = scratch_of(p).constant(0);
    for (int c = 0; c < channels; ++c) {
      scale[c] = inverse(c) * o.parameter[0][c];
    }
    return {center, scale, o.parameter[1]};
  }
  [[nodiscard]] BatchNormAffine batch_affine(Operands<T, float> const& o,
                                             Pass<Device> const& p) const {
    BatchNormSaved<float> const s = saved(o);
    return affine(o, p, s.mean, [&](int c) { return s.inverse_deviation[c]; });
  }
  [[nodiscard]] BatchNormAffine running_affine(Operands<T, float> const& o,
                                               Pass<Device> const& p) const {
    return affine(o, p, o.parameter[2], [&](int c) {
      return inverse_deviation_of(static_cast<double>(o.parameter[3][c]), epsilon);
    });
  }

  /// Mean, variance and what comes of them, of the microbatch.
  void moments(Operands<T, float> const& o, Pass<Device> const& p) const {
    batch_norm_moments<T>(p.device.team, x(o), rows(p), channels, epsilon, saved(o),
                          p.device.scratch);
  }
  void apply(Operands<T, float> const& o, Pass<Device> const& p, BatchNormAffine const& a) const {
    batch_norm_apply<T>(p.device.team, x(o), rows(p), channels, a, relu, {o.y, y_stride});
  }
  /// Of the gradients of the microbatch: into what is saved.
  void gradient_sums(Operands<T, float> const& o, Pass<Device> const& p) const {
    batch_norm_gradient_sums<T>(p.device.team, x(o), dy(o), rows(p), channels, batch_affine(o, p),
                                relu, saved(o), p.device.scratch);
  }

  /// dx = (dy + (x - a.center) * slope + offset) * a.scale.
  void input_gradient(Operands<T, float> const& o, Pass<Device> const& p, BatchNormAffine const& a,
                      float const* slope, float const* offset) const {
    batch_norm_input_gradient<T>(p.device.team, x(o), dy(o), rows(p), channels, a, relu, slope,
                                 offset, {o.dx[0], x_stride});
  }
  /// Of so many rows, from the sums.
  void weight_gradient(Operands<T, float> const& o, Pass<Device> const& p,
                       std::int64_t count) const {
    batch_norm_weight_gradient(count, channels, p.share, saved(o), gradients(o), p.accumulate);
  }
  [[nodiscard]] BatchNormGradients<float> gradients(Operands<T, float> const& o) const {
    return {.gain = o.gradient[0],
            .bias = o.gradient[1],
            .mean = o.gradient[2],
            .variance = o.gradient[3],
            .absorbed = absorbed != 0 ? o.parameter[absorbed] : nullptr,
            .absorbed_gradient = absorbed != 0 ? o.gradient[absorbed] : nullptr};
  }

  int channels;
  std::int64_t pixels;
  std::int64_t largest;  // samples of a microbatch
  std::int64_t x_stride;
  std::int64_t y_stride;
  bool relu;
  int absorbed;  // see OpSetup::absorbed_bias
  float epsilon;
};

}  // namespace tandem::host::channels_last
