// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One op with parameters on a GPU against Host in double: check_op(), for any kernels.

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <cuda/convolution/support.hpp>
#include <device_array.hpp>

namespace tandem::test {

/// A share of rounding that a backend's intermediates add: of the gradient to x, and of the
/// weights.
struct ExtraRounding {
  double input = 0.0;
  double weight = 0.0;
};

/// Forward, gradient to x, gradient to the parameters twice (overwritten, then added to) of an op
/// that is planned for @p planned samples, with @p batch of them.
template <class Layer, class Backend, class Precision>
void check_op(cuda::RankDevice& device, Shape in, int planned, std::vector<int> const& batches,
              ExtraRounding extra = {}) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  ConvolutionGeometry const g = Layer::geometry(in);
  Shape const inputs[] = {in};
  OpSetup setup;
  setup.node.in = in;
  setup.node.out = Layer::output(in);
  setup.inputs = inputs;
  setup.batch = planned;
  Op<Layer, Backend> op{setup, device};
  CHECK(op.needs().input);
  CHECK_FALSE(op.needs().output);
  CHECK(op.needs().saved_bytes == 0);
  for (int const batch : batches) {
    INFO(name_of(g) << ", batch " << batch << " of " << planned << ", " << Precision::name);
    Scratch const scratch{device, op.needs().scratch_bytes};
    ConvolutionSizes const size{g, batch};
    std::vector<T> const x = numbers<T>(size.x, 1);
    std::vector<T> const dy = numbers<T>(size.y, 2);
    std::vector<T> const weight = numbers<T>(size.weight, 3);
    std::vector<P> const bias = numbers<P>(Layer::bias ? g.out_channels : 0, 4);
    DeviceArray<T> const on_x{device, x};
    DeviceArray<T> const on_dy{device, dy};
    DeviceArray<T> const on_weight{device, weight};
    DeviceArray<P> const master{device, in_master<P>(weight)};
    DeviceArray<P> const on_bias{device, bias};
    DeviceArray<T> const y{device, size.y};
    DeviceArray<T> const dx{device, size.x};
    DeviceArray<P> const dweight{device, size.weight};
    DeviceArray<P> const dbias{device, bias.size()};

    T const* const inputs_at[] = {on_x.data()};
    T* const dx_at[] = {dx.data()};
    P* const parameters[] = {master.data(), on_bias.data()};
    T const* const weights[] = {on_weight.data(), nullptr};
    P* const gradients[] = {dweight.data(), dbias.data()};
    Operands<T, P> const o{.x = inputs_at,
                           .y = y.data(),
                           .dy = on_dy.data(),
                           .dx = dx_at,
                           .parameter = parameters,
                           .weight = weights,
                           .gradient = gradients};
    Pass<cuda::RankDevice> pass{.device = device, .batch = batch};
    HostConvolution host{g, batch};
    std::int64_t const taps = size.weight / g.out_channels;
    auto const magnitude_of = [](auto const& v) { return magnitudes(in_double(v)); };

    op.forward(o, pass);
    double const bias_rounding = std::same_as<T, P> ? 0.0 : unit<T>;  // before the bias is added
    CHECK(worst(y.host(), host.forward(in_double(x), in_double(weight), in_double(bias)),
                host.forward(magnitude_of(x), magnitude_of(weight), magnitude_of(bias)),
                product_error<Precision>(taps) + (Layer::bias ? bias_rounding : 0.0)) <= 1.0);

    op.input_gradient(o, pass);
    std::int64_t const terms = taps * g.out_channels / (g.in_channels / g.groups);
    CHECK(worst(dx.host(), host.input_gradient(in_double(weight), in_double(dy)),
                host.input_gradient(magnitude_of(weight), magnitude_of(dy)),
                product_error<Precision>(terms) + extra.input) <= 1.0);

    std::vector<double> wanted(static_cast<std::size_t>(size.weight), 0.0);
    std::vector<double> wanted_bias(bias.size(), 0.0);
    std::vector<double> magnitude = wanted;
    std::vector<double> bias_magnitude = wanted_bias;
    std::int64_t const positions = size.y / g.out_channels;
    for (bool const accumulate : {false, true}) {
      pass.accumulate = accumulate;
      op.weight_gradient(o, pass);
      host.weight_gradient(in_double(x), in_double(dy), wanted, wanted_bias);
      host.weight_gradient(magnitude_of(x), magnitude_of(dy), magnitude, bias_magnitude);
      CHECK(worst(dweight.host(), wanted, magnitude,
                  product_error<Precision>(positions) + extra.weight) <= 1.0);
      CHECK(worst(dbias.host(), wanted_bias, bias_magnitude, product_error<Precision>(positions)) <=
            1.0);
    }
    scratch.check();
  }
}

/// The same of an op of a transposed convolution: of the convolution whose gradient it is, its y is
/// dx, its x is dy.
template <class Layer, class Backend, class Precision>
void check_transposed_op(cuda::RankDevice& device, Shape in, int planned,
                         std::vector<int> const& batches, ExtraRounding extra = {}) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  ConvolutionGeometry const g = Layer::geometry(in);
  OpSetup setup;
  setup.node.in = in;
  setup.node.out = Layer::output(in);
  setup.inputs = &in;
  setup.batch = planned;
  Op<Layer, Backend> op{setup, device};
  CHECK(op.needs().input);
  for (int const batch : batches) {
    INFO(name_of(g) << ", transposed, batch " << batch << ", " << Precision::name);
    Scratch const scratch{device, op.needs().scratch_bytes};
    ConvolutionSizes const size{g, batch};
    std::vector<T> const x = numbers<T>(size.y, 1);
    std::vector<T> const dy = numbers<T>(size.x, 2);
    std::vector<T> const weight = numbers<T>(size.weight, 3);
    std::vector<P> const bias = numbers<P>(Layer::bias ? g.in_channels : 0, 4);
    DeviceArray<T> const on_x{device, x};
    DeviceArray<T> const on_dy{device, dy};
    DeviceArray<T> const on_weight{device, weight};
    DeviceArray<P> const master{device, in_master<P>(weight)};
    DeviceArray<P> const on_bias{device, bias};
    DeviceArray<T> const y{device, size.x};
    DeviceArray<T> const dx{device, size.y};
    DeviceArray<P> const dweight{device, size.weight};
    DeviceArray<P> const dbias{device, bias.size()};
    T const* const inputs_at[] = {on_x.data()};
    T* const dx_at[] = {dx.data()};
    P* const parameters[] = {master.data(), on_bias.data()};
    T const* const weights[] = {on_weight.data(), nullptr};
    P* const gradients[] = {dweight.data(), dbias.data()};
    Operands<T, P> const o{.x = inputs_at,
                           .y = y.data(),
                           .dy = on_dy.data(),
                           .dx = dx_at,
                           .parameter = parameters,
                           .weight = weights,
                           .gradient = gradients};
    Pass<cuda::RankDevice> pass{.device = device, .batch = batch};
    HostConvolution host{g, batch};
    auto const magnitude_of = [](auto const& v) { return magnitudes(in_double(v)); };
    auto const biased = [&](std::vector<double> result, std::vector<double> const& own) {
      for (std::size_t i = 0; i < result.size() && Layer::bias; ++i) {
        result[i] += own[i % own.size()];
      }
      return result;
    };
    std::int64_t const taps = size.weight / g.out_channels;
    std::int64_t const terms = taps * g.out_channels / (g.in_channels / g.groups);

    op.forward(o, pass);
    CHECK(
        worst(
            y.host(), biased(host.input_gradient(in_double(weight), in_double(x)), in_double(bias)),
            biased(host.input_gradient(magnitude_of(weight), magnitude_of(x)), magnitude_of(bias)),
            product_error<Precision>(terms) + extra.input + unit<T>) <= 1.0);

    op.input_gradient(o, pass);
    CHECK(worst(dx.host(), host.forward(in_double(dy), in_double(weight), {}),
                host.forward(magnitude_of(dy), magnitude_of(weight), {}),
                product_error<Precision>(taps)) <= 1.0);

    std::vector<double> wanted(static_cast<std::size_t>(size.weight), 0.0);
    std::vector<double> magnitude = wanted;
    std::vector<double> none;
    std::vector<double> wanted_bias(bias.size(), 0.0);
    std::vector<double> bias_magnitude = wanted_bias;
    for (bool const accumulate : {false, true}) {
      pass.accumulate = accumulate;
      op.weight_gradient(o, pass);
      host.weight_gradient(in_double(dy), in_double(x), wanted, none);
      host.weight_gradient(magnitude_of(dy), magnitude_of(x), magnitude, none);
      CHECK(worst(dweight.host(), wanted, magnitude,
                  product_error<Precision>(size.y / g.out_channels) + extra.weight) <= 1.0);
      for (std::size_t i = 0; i < dy.size() && Layer::bias; ++i) {
        double const own = static_cast<double>(cuda::load(dy[i]));
        wanted_bias[i % bias.size()] += own;
        bias_magnitude[i % bias.size()] += std::abs(own);
      }
      CHECK(worst(dbias.host(), wanted_bias, bias_magnitude,
                  product_error<Precision>(size.x / g.in_channels)) <= 1.0);
    }
    scratch.check();
  }
}

/// Transposed convolutions that matter.
template <class Backend, class Precision>
void check_transposed_ops(cuda::RankDevice& device, ExtraRounding extra = {}) {
  check_transposed_op<ConvTranspose2d<8, Kernel<2>, Stride<2>>, Backend, Precision>(
      device, image_shape(16, 3, 4), 3, {3, 1}, extra);
  check_transposed_op<
      ConvTranspose2d<5, Kernel<3, 4>, Stride<2, 3>, Padding<1, 0>, OutputPadding<1, 2>>, Backend,
      Precision>(device, image_shape(3, 4, 3), 2, {2}, extra);
  check_transposed_op<ConvTranspose2d<8, Kernel<3>, Stride<2>, Dilation<2>, Groups<2>, NoBias>,
                      Backend, Precision>(device, image_shape(4, 3, 3), 2, {2}, extra);
}

}  // namespace tandem::test
