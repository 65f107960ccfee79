// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cuda/convolution.cuh>
#include <tandem/ops/cuda/conv_transpose.cuh>
#include <tandem/ops/cuda/convolution.cuh>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <cuda/convolution/op_support.hpp>
#include <cuda/convolution/support.hpp>
#include <device_array.hpp>

namespace tandem {

namespace convolution_test {

using namespace tandem::test;
using cuda::CublasLt;
using cuda::PatchConvolution;
using cuda::RankDevice;

/// Samples a chunk; 0 for no limit.
template <class Precision>
void check_convolution(RankDevice& device, ConvolutionGeometry const& g, int batch,
                       std::int64_t chunk) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  INFO(name_of(g) << ", batch " << batch << ", " << Precision::name << ", chunks of " << chunk);
  std::int64_t const sample = cuda::patch_elements(g) * static_cast<std::int64_t>(sizeof(T));
  bool const pointwise = g.window == Window{};
  PatchConvolution<T, P> convolution{
      device.library<CublasLt>(), g,     batch,
      math_of<Precision>,         false, chunk == 0 ? cuda::patch_limit : sample * chunk + 1};
  CHECK(convolution.chunk() == (chunk == 0 || pointwise ? batch : chunk));
  DeviceArray<std::byte> const scratch{device, convolution.scratch_bytes()};
  ConvolutionSizes const size{g, batch};
  std::vector<T> const x = numbers<T>(size.x, 1);
  std::vector<T> const dy = numbers<T>(size.y, 2);
  std::vector<T> const weight = numbers<T>(size.weight, 3);
  std::vector<P> const before = numbers<P>(size.weight, 4);
  DeviceArray<T> const on_x{device, x};
  DeviceArray<T> const on_dy{device, dy};
  DeviceArray<T> const on_weight{device, weight};
  DeviceArray<T> const y{device, size.y};
  DeviceArray<T> const dx{device, size.x};
  DeviceArray<P> const dweight{device, size.weight};
  DeviceArray<P> const sum{device, before};
  HostConvolution host{g, batch};
  auto const magnitude_of = [](auto const& v) { return magnitudes(in_double(v)); };
  std::int64_t const taps = size.weight / g.out_channels;
  std::int64_t const positions = size.y / g.out_channels;
  cuda::Stream const& stream = device.compute;

  convolution.forward(stream, batch, on_x.data(), on_weight.data(), nullptr, y.data(),
                      scratch.data());
  CHECK(worst(y.host(), host.forward(in_double(x), in_double(weight), {}),
              host.forward(magnitude_of(x), magnitude_of(weight), {}),
              product_error<Precision>(taps)) <= 1.0);

  convolution.input_gradient(stream, batch, on_weight.data(), on_dy.data(), dx.data(),
                             scratch.data());
  double const stored = pointwise ? 0.0 : unit<T>;  // the gradient of the patches, in T
  CHECK(worst(dx.host(), host.input_gradient(in_double(weight), in_double(dy)),
              host.input_gradient(magnitude_of(weight), magnitude_of(dy)),
              product_error<Precision>(taps * g.out_channels) + stored) <= 1.0);

  std::vector<double> wanted(before.size(), 0.0);
  std::vector<double> wanted_sum = in_double(before);
  std::vector<double> magnitude = wanted;
  std::vector<double> magnitude_sum = magnitude_of(before);
  std::vector<double> none;
  host.weight_gradient(in_double(x), in_double(dy), wanted, none);
  host.weight_gradient(in_double(x), in_double(dy), wanted_sum, none);
  host.weight_gradient(magnitude_of(x), magnitude_of(dy), magnitude, none);
  host.weight_gradient(magnitude_of(x), magnitude_of(dy), magnitude_sum, none);
  convolution.weight_gradient(stream, batch, on_x.data(), on_dy.data(), dweight.data(), false,
                              scratch.data());
  convolution.weight_gradient(stream, batch, on_x.data(), on_dy.data(), sum.data(), true,
                              scratch.data());
  CHECK(worst(dweight.host(), wanted, magnitude, product_error<Precision>(positions)) <= 1.0);
  CHECK(worst(sum.host(), wanted_sum, magnitude_sum, product_error<Precision>(positions)) <= 1.0);
  static_cast<void>(scratch.host());
}

TEST_CASE("convolutions of all shapes and precisions are Host's in double, in chunks or not") {
  RankDevice device{cuda::Device{0}};
  for (ConvolutionGeometry const& g : geometries()) {
    for (std::int64_t const chunk : {0, 1, 2}) {
      check_convolution<Fp32>(device, g, 5, chunk);
      check_convolution<Bf16>(device, g, 5, chunk);
    }
    check_convolution<Tf32>(device, g, 2, 0);
    check_convolution<Fp64>(device, g, 2, 1);
    check_convolution<Bf16>(device, g, 1, 0);
  }
}

TEST_CASE("one sample's patches may exceed the limit") {
  RankDevice device{cuda::Device{0}};
  PatchConvolution<float> const convolution{device.library<CublasLt>(), geometries()[1], 4,
                                            cuda::MatmulMath::full,     false,           1};
  CHECK(convolution.chunk() == 1);
}

TEST_CASE("a batch of none: nothing is read, the gradient of the weights is zero or kept") {
  RankDevice device{cuda::Device{0}};
  ConvolutionGeometry const g = geometries()[1];
  PatchConvolution<BFloat16, float> convolution{device.library<CublasLt>(), g, 0,
                                                cuda::MatmulMath::full};
  DeviceArray<std::byte> const scratch{device, convolution.scratch_bytes()};
  ConvolutionSizes const size{g, 0};
  DeviceArray<BFloat16> const none{device, 0};
  DeviceArray<BFloat16> const weight{device, size.weight};
  DeviceArray<float> const d{device, std::vector<float>(static_cast<std::size_t>(size.weight), 2)};
  cuda::Stream const& stream = device.compute;
  convolution.forward(stream, 0, none.data(), weight.data(), nullptr, none.data(), scratch.data());
  convolution.input_gradient(stream, 0, weight.data(), none.data(), none.data(), scratch.data());
  convolution.weight_gradient(stream, 0, none.data(), none.data(), d.data(), true, scratch.data());
  CHECK(d.host() == std::vector<float>(static_cast<std::size_t>(size.weight), 2.0F));
  convolution.weight_gradient(stream, 0, none.data(), none.data(), d.data(), false, scratch.data());
  CHECK(d.host() == std::vector<float>(static_cast<std::size_t>(size.weight), 0.0F));
}

template <class Precision>
void check_ops() {
  using Backend = BasicCuda<Portable, Precision>;
  RankDevice device{last_device()};
  ExtraRounding const extra{.input = unit<typename Precision::Scalar>};
  check_op<Conv2d<7, Kernel<3>, Padding<1>>, Backend, Precision>(device, image_shape(3, 6, 5), 5,
                                                                 {5, 2, 1, 5}, extra);
  check_op<Conv2d<16, Kernel<1>>, Backend, Precision>(device, image_shape(8, 4, 4), 3, {3, 1},
                                                      extra);
  check_op<Conv2d<8, Kernel<5>, Padding<2>, Groups<4>>, Backend, Precision>(
      device, image_shape(8, 7, 7), 2, {2, 1}, extra);
  check_op<Conv2d<8, Kernel<7>, Stride<2>, Padding<3>, NoBias>, Backend, Precision>(
      device, image_shape(3, 16, 16), 3, {3, 2}, extra);
  check_op<Conv2d<6, Kernel<3>, Stride<2>, Padding<2>, Dilation<2>>, Backend, Precision>(
      device, image_shape(4, 7, 6), 2, {2}, extra);
  check_transposed_ops<Backend, Precision>(device, extra);
}

TEST_CASE("ops of convolutions on BasicCuda<Portable, ...>: all passes, also of smaller batches") {
  SUBCASE("fp32") { check_ops<Fp32>(); }
  SUBCASE("tf32") { check_ops<Tf32>(); }
  SUBCASE("bf16") { check_ops<Bf16>(); }
  SUBCASE("fp64") { check_ops<Fp64>(); }
}

}  // namespace convolution_test

}  // namespace tandem
