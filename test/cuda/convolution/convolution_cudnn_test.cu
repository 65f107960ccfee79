// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#if defined(TANDEM_CUDNN)

#include <cstdint>
#include <string>
#include <vector>

#include <cudnn.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cudnn/convolution_plan.hpp>
#include <tandem/ops/cuda/conv_transpose_cudnn.cuh>
#include <tandem/ops/cuda/convolution_cudnn.cuh>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <cuda/convolution/op_support.hpp>
#include <cuda/convolution/support.hpp>
#include <device_array.hpp>

namespace tandem {

namespace convolution_cudnn_test {

using namespace tandem::test;
using cuda::ConvolutionPass;
using cuda::ConvolutionPlan;
using cuda::ConvolutionSearch;
using cuda::ConvolutionTask;
using cuda::CuDnnError;
using cuda::RankDevice;

template <class Precision>
ConvolutionTask task_of(ConvolutionPass pass, ConvolutionGeometry const& g, int batch) {
  return {.pass = pass,
          .geometry = g,
          .batch = batch,
          .type = cuda::cudnn_type<typename Precision::Scalar>,
          .tensor_cores = !std::same_as<Precision, Fp32>,
          .precision = Precision::name};
}

template <class Precision>
void check_plans(RankDevice& device, ConvolutionGeometry const& g, int batch,
                 ConvolutionSearch search) {
  using T = typename Precision::Scalar;
  INFO(name_of(g) << ", batch " << batch << ", " << Precision::name);
  ConvolutionSizes const size{g, batch};
  std::vector<T> const x = numbers<T>(size.x, 1);
  std::vector<T> const dy = numbers<T>(size.y, 2);
  std::vector<T> const weight = numbers<T>(size.weight, 3);
  DeviceArray<T> const on_x{device, x};
  DeviceArray<T> const on_dy{device, dy};
  DeviceArray<T> const on_weight{device, weight};
  DeviceArray<T> const y{device, size.y};
  DeviceArray<T> const dx{device, size.x};
  DeviceArray<T> const dweight{device, size.weight};
  HostConvolution host{g, batch};
  auto const magnitude_of = [](auto const& v) { return magnitudes(in_double(v)); };
  std::int64_t const taps = size.weight / g.out_channels;
  auto const run = [&](ConvolutionPass pass, void const* a, void const* b, void const* c) {
    ConvolutionPlan plan{device, task_of<Precision>(pass, g, batch),
                         cuda::convolution_workspace_limit, search};
    DeviceArray<std::byte> const workspace{device, plan.workspace_bytes()};
    plan.run(device.compute, a, b, c, workspace.data());
    static_cast<void>(workspace.host());
  };

  run(ConvolutionPass::forward, on_x.data(), on_weight.data(), y.data());
  CHECK(worst(y.host(), host.forward(in_double(x), in_double(weight), {}),
              host.forward(magnitude_of(x), magnitude_of(weight), {}),
              product_error<Precision>(taps)) <= 1.0);
  run(ConvolutionPass::input_gradient, dx.data(), on_weight.data(), on_dy.data());
  CHECK(worst(dx.host(), host.input_gradient(in_double(weight), in_double(dy)),
              host.input_gradient(magnitude_of(weight), magnitude_of(dy)),
              product_error<Precision>(taps * g.out_channels)) <= 1.0);
  run(ConvolutionPass::weight_gradient, on_x.data(), dweight.data(), on_dy.data());
  std::vector<double> wanted(weight.size(), 0.0);
  std::vector<double> magnitude = wanted;
  std::vector<double> none;
  host.weight_gradient(in_double(x), in_double(dy), wanted, none);
  host.weight_gradient(magnitude_of(x), magnitude_of(dy), magnitude, none);
  CHECK(worst(dweight.host(), wanted, magnitude,
              product_error<Precision>(size.y / g.out_channels)) <= 1.0);
}

TEST_CASE("cuDNN's plans of all shapes and precisions are Host's in double") {
  RankDevice device{cuda::Device{0}};
  for (ConvolutionGeometry const& g : geometries()) {
    check_plans<Fp32>(device, g, 2, ConvolutionSearch::heuristic);
    check_plans<Tf32>(device, g, 1, ConvolutionSearch::heuristic);
    check_plans<Bf16>(device, g, 5, ConvolutionSearch::heuristic);
    check_plans<Fp16>(device, g, 3, ConvolutionSearch::heuristic);
  }
}

TEST_CASE("a measured choice gives the same numbers") {
  RankDevice device{last_device()};
  check_plans<Fp32>(device, geometries()[1], 2, ConvolutionSearch::measured);
  check_plans<Bf16>(device, geometries()[12], 2, ConvolutionSearch::measured);
}

TEST_CASE("a plan stays within its limit, and repeats its bits") {
  RankDevice device{cuda::Device{0}};
  ConvolutionGeometry const g = geometries()[5];
  ConvolutionSizes const size{g, 4};
  DeviceArray<float> const x{device, numbers<float>(size.x, 1)};
  DeviceArray<float> const dy{device, numbers<float>(size.y, 2)};
  DeviceArray<float> const dweight{device, size.weight};
  ConvolutionTask const task = task_of<Fp32>(ConvolutionPass::weight_gradient, g, 4);
  ConvolutionPlan const free{device, task};
  ConvolutionPlan plan{device, task, free.workspace_bytes()};
  CHECK(plan.workspace_bytes() <= free.workspace_bytes());
  DeviceArray<std::byte> const workspace{device, plan.workspace_bytes()};
  auto const run = [&] {
    plan.run(device.compute, x.data(), dweight.data(), dy.data(), workspace.data());
  };
  run();
  std::vector<float> const once = dweight.host();
  run();
  CHECK(dweight.host() == once);
  cuda::Capture capture{device.compute};
  run();
  cuda::Graph const graph = capture.finish();
  graph.launch(device.compute);
  CHECK(dweight.host() == once);
}

#if defined(TANDEM_CUDA_EMULATED)
// The engine without a workspace is the emulator's last; cuDNN promises none for every task.
TEST_CASE("a limit of nothing makes the search go on until there is an engine without workspace") {
  RankDevice device{cuda::Device{0}};
  ConvolutionTask const task = task_of<Fp32>(ConvolutionPass::forward, geometries()[1], 2);
  CHECK(ConvolutionPlan{device, task}.workspace_bytes() > 0);
  CHECK(ConvolutionPlan{device, task, 0}.workspace_bytes() == 0);
}
#endif

TEST_CASE("an impossible task is refused by a sentence that names it") {
  RankDevice device{cuda::Device{0}};
  ConvolutionTask task = task_of<Bf16>(ConvolutionPass::forward, geometries()[8], 2);
  CHECK(to_string(task) ==
        "Conv2d of 16 to 6 channels in 2 groups, kernel 3 x 3, stride 1 x 1, padding 1 x 1, images "
        "5 x 6, batch 2, bf16, forward");
  task.geometry.out = {4, 4};
  CHECK_THROWS_WITH_AS((ConvolutionPlan{device, task}),
                       doctest::Contains("cuDNN has no engine for Conv2d of 16 to 6 channels"),
                       CuDnnError);
  CHECK_THROWS_WITH_AS((ConvolutionPlan{device, task}),
                       doctest::Contains("use BasicCuda<Portable, ...>"), CuDnnError);
  task = task_of<Bf16>(ConvolutionPass::forward, geometries()[8], 2);
  CHECK_THROWS_WITH_AS((ConvolutionPlan{device, task, -1}), doctest::Contains("batch 2, bf16"),
                       CuDnnError);
}

template <class Precision>
void check_ops() {
  using Backend = BasicCuda<CuDnn, Precision>;
  using T = typename Precision::Scalar;
  RankDevice device{last_device()};
  ExtraRounding const extra{.weight = sizeof(T) == 2 ? unit<T> : 0.0};
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

TEST_CASE("ops of convolutions on BasicCuda<CuDnn, ...>: all passes, also of smaller batches") {
  SUBCASE("fp32") { check_ops<Fp32>(); }
  SUBCASE("tf32") { check_ops<Tf32>(); }
  SUBCASE("bf16") { check_ops<Bf16>(); }
  SUBCASE("fp16") { check_ops<Fp16>(); }
}

TEST_CASE("Op<Conv2d, BasicCuda<CuDnn, ...>> with a batch of none") {
  RankDevice device{last_device()};
  using Layer = Conv2d<4, Kernel<3>, NoBias>;
  OpSetup setup;
  setup.node.in = image_shape(3, 5, 5);
  setup.node.out = image_shape(4, 3, 3);
  setup.batch = 2;
  Op<Layer, BasicCuda<CuDnn, Bf16>> op{setup, device};
  Scratch const scratch{device, op.needs().scratch_bytes};
  DeviceArray<float> const gradient{device, std::vector<float>(4 * 27, 2.0F)};
  float* const gradients[] = {gradient.data()};
  Operands<BFloat16, float> const o{.gradient = gradients};
  Pass<RankDevice> pass{.device = device, .accumulate = true};
  op.weight_gradient(o, pass);
  CHECK(gradient.host() == std::vector<float>(4 * 27, 2.0F));
  pass.accumulate = false;
  op.weight_gradient(o, pass);
  CHECK(gradient.host() == std::vector<float>(4 * 27, 0.0F));
}

}  // namespace convolution_cudnn_test

}  // namespace tandem

#endif
