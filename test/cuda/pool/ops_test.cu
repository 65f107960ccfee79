// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/ops/cuda/flatten.cuh>
#include <tandem/ops/cuda/group_norm.cuh>
#include <tandem/ops/cuda/join.cuh>
#include <tandem/ops/cuda/pool.cuh>
#include <tandem/ops/cuda/resample.cuh>
#include <tandem/ops/cuda/verbs.cuh>
#include <tandem/ops/host/group_norm.hpp>
#include <tandem/ops/host/join.hpp>
#include <tandem/ops/host/pool.hpp>
#include <tandem/ops/host/resample.hpp>

#include "../../support/device_kernels.hpp"

namespace tandem {
namespace {

using cuda::ComputeType;
using test::DeviceArray;

int channels_of(Shape const& shape) { return shape[0]; }
int pixels_of(Shape const& shape) { return static_cast<int>(shape.elements() / shape[0]); }

/// Whether the op of a node with these inputs gives Host's outputs and gradients, on all samples of
/// a batch but the last, which it must leave alone.
///
/// @param exact  the numbers are compared bit by bit, else within a few roundings of numbers below
/// 1
template <class L, class Precision>
void check_op(std::vector<Shape> const& inputs, Shape out, bool exact = true) {
  using T = typename Precision::Scalar;
  using C = ComputeType<T>;
  using HostOp =
      Op<L, BasicHost<Portable, std::conditional_t<std::is_same_v<C, double>, Fp64, Fp32>>>;
  using CudaOp = Op<L, BasicCuda<Portable, Precision>>;
  int const batch = 4;
  int const samples = 3;
  cuda::RankDevice device{cuda::Device{0}};
  host::Device host_device{1};
  OpSetup const setup{
      .node = {.edges = static_cast<int>(inputs.size()), .in = inputs[0], .out = out},
      .inputs = inputs.data(),
      .batch = batch};
  HostOp const host_op{setup};
  CudaOp const cuda_op{setup, device};
  OpNeeds const needs = cuda_op.needs();
  CHECK(needs.input == host_op.needs().input);
  CHECK(needs.output == host_op.needs().output);
  CHECK(needs.saved_bytes <= host_op.needs().saved_bytes);  // a byte a cell, where Host has four
  CHECK((needs.scratch_bytes == 0 || needs.input));         // of a norm

  // Host: channels-first, in ComputeType.
  std::vector<std::vector<C>> x, dx;
  std::vector<C const*> x_pointers;
  std::vector<C*> dx_pointers;
  std::vector<DeviceArray<T>> device_x, device_dx;
  std::vector<T const*> device_x_pointers;
  std::vector<T*> device_dx_pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto const values = test::random<T>(batch * inputs[i].elements(), i);
    x.push_back(test::in_compute(values));
    dx.push_back(std::vector<C>(values.size()));
    device_x.emplace_back(
        device, test::channels_last(values, batch, channels_of(inputs[i]), pixels_of(inputs[i])));
    device_dx.emplace_back(device, static_cast<std::int64_t>(values.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    x_pointers.push_back(x[i].data());
    dx_pointers.push_back(dx[i].data());
    device_x_pointers.push_back(device_x[i].data());
    device_dx_pointers.push_back(device_dx[i].data());
  }
  auto const dy = test::random<T>(batch * out.elements(), 77);
  auto const exact_dy = test::in_compute(dy);
  std::vector<C> y(dy.size());
  std::vector<std::byte> saved(static_cast<std::size_t>(host_op.needs().saved_bytes));
  DeviceArray<T> const device_y{device, static_cast<std::int64_t>(dy.size())};
  DeviceArray<T> const device_dy{device,
                                 test::channels_last(dy, batch, channels_of(out), pixels_of(out))};
  DeviceArray<std::byte> const device_saved{device, needs.saved_bytes};
  DeviceArray<std::byte> const device_scratch{device, needs.scratch_bytes};
  device.scratch = device_scratch.data();

  Operands<C> const host_operands{.x = x_pointers.data(),
                                  .y = y.data(),
                                  .dy = exact_dy.data(),
                                  .dx = dx_pointers.data(),
                                  .saved = saved.data()};
  Operands<T, typename Precision::Master> const operands{.x = device_x_pointers.data(),
                                                         .y = device_y.data(),
                                                         .dy = device_dy.data(),
                                                         .dx = device_dx_pointers.data(),
                                                         .saved = device_saved.data()};
  Pass<host::Device> const host_pass{.device = host_device, .batch = samples};
  Pass<cuda::RankDevice> const pass{.device = device, .batch = samples};
  host_op.forward(host_operands, host_pass);
  cuda_op.forward(operands, pass);
  if constexpr (requires { cuda_op.input_gradient(operands, pass); }) {
    host_op.input_gradient(host_operands, host_pass);
    cuda_op.input_gradient(operands, pass);
  }
  static_cast<void>(device_saved.host());  // throws if it was too small
  static_cast<void>(device_scratch.host());

  auto const compare = [&](DeviceArray<T> const& result, std::vector<C> const& expected,
                           Shape shape, bool written) {
    auto const stored = test::rounded_to<T>(expected);
    auto const values = test::channels_last(stored, batch, channels_of(shape), pixels_of(shape));
    auto const poison = DeviceArray<T>{device, result.size()}.host();
    auto const got = result.host();
    auto const first = got.begin() + (written ? samples * shape.elements() : 0);
    auto const middle = poison.begin() + (first - got.begin());
    CHECK(test::same_bits(std::vector<T>(first, got.end()), std::vector<T>(middle, poison.end())));
    int wrong = 0;
    for (std::int64_t i = 0; i < first - got.begin(); ++i) {
      auto const a = static_cast<double>(cuda::load(got[static_cast<std::size_t>(i)]));
      auto const b = static_cast<double>(cuda::load(values[static_cast<std::size_t>(i)]));
      wrong += exact ? a != b : !(std::abs(a - b) <= 64 * test::half_ulp<T>);
    }
    CHECK(wrong == 0);
  };
  compare(device_y, y, out, true);
  constexpr bool has_gradient = requires { cuda_op.input_gradient(operands, pass); };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    compare(device_dx[i], dx[i], inputs[i], has_gradient);
  }
}

TEST_CASE_TEMPLATE("the ops of pooling and joins give Host's numbers", Precision, Fp32, Tf32, Fp64,
                   Bf16) {
  using Max = MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>;
  using Avg = AvgPool2d<Kernel<3>, Stride<2>, Padding<1>>;
  using AvgExcluded = AvgPool2d<Kernel<3>, Stride<2>, Padding<1>, ExcludePadding>;
  Shape const image = image_shape(8, 7, 5);
  check_op<Max, Precision>({image}, Max::output(image));
  check_op<Avg, Precision>({image}, Avg::output(image), false);
  check_op<AvgExcluded, Precision>({image}, AvgExcluded::output(image), false);
  check_op<GlobalAvgPool, Precision>({image}, GlobalAvgPool::output(image), false);
  check_op<Subsample2d<16, 2>, Precision>({image}, Subsample2d<16, 2>::output(image));
  check_op<ConcatJoin, Precision>({image, image_shape(3, 7, 5), image_shape(16, 7, 5)},
                                  image_shape(27, 7, 5));
  check_op<AddJoin, Precision>({image, image}, image);
  check_op<MultiplyJoin, Precision>({image, image}, image);
  check_op<MultiplyJoin, Precision>({image, image, image}, image, false);
}

TEST_CASE_TEMPLATE("Pad2d and Upsample give Host's numbers", Precision, Fp32, Fp64, Bf16) {
  auto const check = [](auto layer, bool exact) {
    using L = decltype(layer);
    for (int const channels : {3, 8}) {
      Shape const image = image_shape(channels, 4, 5);
      check_op<L, Precision>({image}, L::output(image), exact);
    }
  };
  check(Pad2d<Padding<2, 1>>{}, true);
  check(Pad2d<Padding<3, 4>, Reflect>{}, false);
  check(Pad2d<Padding<1, 3>, Replicate>{}, false);
  check(Pad2d<Padding<4, 5>, Circular>{}, false);
  check(Upsample<3>{}, false);
  check(Upsample<2, Bilinear>{}, false);
}

TEST_CASE_TEMPLATE("norms of groups of channels give Host's numbers", Precision, Fp32, Fp64, Bf16) {
  auto const check = [](auto layer, Shape image) {
    check_op<decltype(layer), Precision>({image}, image, false);
  };
  check(InstanceNorm2d<>{}, image_shape(3, 4, 5));
  check(InstanceNorm2d<>{}, image_shape(16, 4, 5));
  check(GroupNorm<2, NoAffine>{}, image_shape(6, 7, 5));
  check(GroupNorm<1, NoAffine>{}, image_shape(32, 3, 5));
  check(GroupNorm<2, NoAffine>{}, image_shape(32, 9, 9));
}

TEST_CASE_TEMPLATE("Flatten gives the order (C, H, W), and its gradient goes back", Precision, Fp32,
                   Fp64, Bf16) {
  using T = typename Precision::Scalar;
  cuda::RankDevice device{cuda::Device{0}};
  Shape const image = image_shape(6, 4, 3);
  OpSetup const setup{.node = {.in = image, .out = Flatten::output(image)}, .batch = 4};
  Op<Flatten, BasicCuda<Portable, Precision>> const op{setup, device};
  auto const x = test::random<T>(4 * 72, 1);
  DeviceArray<T> const in{device, test::channels_last(x, 4, 6, 12)};
  DeviceArray<T> const out{device, 4 * 72};
  DeviceArray<T> const gradient{device, 4 * 72};
  T const* const inputs[] = {in.data()};
  T* const gradients[] = {gradient.data()};
  Operands<T, typename Precision::Master> const operands{
      .x = inputs, .y = out.data(), .dy = out.data(), .dx = gradients};
  Pass<cuda::RankDevice> const pass{.device = device, .batch = 4};
  op.forward(operands, pass);
  op.input_gradient(operands, pass);
  CHECK(test::same_bits(out.host(), x));
  CHECK(test::same_bits(gradient.host(), in.host()));
}

TEST_CASE("a join of more branches than a kernel takes says so") {
  cuda::RankDevice device{cuda::Device{0}};
  std::vector<Shape> const inputs(65, image_shape(1, 1, 1));
  OpSetup const setup{.node = {.edges = 65, .in = inputs[0], .out = image_shape(65, 1, 1)},
                      .inputs = inputs.data()};
  using Join = Op<ConcatJoin, Cuda>;
  CHECK_THROWS_WITH_AS(Join(setup, device), doctest::Contains("at most 64 branches"),
                       ContractError);
}

struct Twice {
  float* y;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const { y[i] *= 2; }
};

TEST_CASE("the engine's verbs work on arrays of either element type of a precision") {
  using Verbs = tandem::Verbs<BasicCuda<Portable, Bf16>>;
  cuda::RankDevice device{cuda::Device{0}};
  std::int64_t const n = 1001;
  auto const x = test::random<float>(n, 1);
  DeviceArray<float> const a{device, x};
  DeviceArray<float> const b{device, n};
  DeviceArray<float> const c{device, n};
  DeviceArray<BFloat16> const narrow{device, n};
  DeviceArray<double> const norm{device, 1};
  DeviceArray<std::byte> const scratch{
      device, cuda::sum_of_squares_scratch_bytes<BFloat16>(device.compute, n)};
  device.scratch = scratch.data();
  Verbs::zero(device, b.data(), n);
  Verbs::copy(device, a.data(), c.data(), n);
  Verbs::add(device, a.data(), b.data(), n);  // x
  float const* const both[] = {a.data(), b.data()};
  Verbs::sum(device, both, 2, c.data(), n);  // 2 x
  Verbs::each(device, n, Twice{c.data()});   // 4 x
  Verbs::cast(device, c.data(), narrow.data(), n);
  Verbs::zero(device, narrow.data(), 1);
  Verbs::add(device, narrow.data(), narrow.data(), n);
  Verbs::sum_of_squares(device, narrow.data(), n, norm.data());
  auto const result = narrow.host();
  double squares = 0;
  int wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float const expected = i == 0 ? 0 : 2 * static_cast<float>(BFloat16{4 * x[i]});
    wrong += static_cast<float>(result[i]) != expected;
    squares += static_cast<double>(expected) * expected;
  }
  CHECK(wrong == 0);
  CHECK(std::abs(norm.host()[0] - squares) <= 4 * 1001 * test::half_ulp<double> * squares);
}

}  // namespace
}  // namespace tandem
