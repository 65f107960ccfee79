// SPDX-License-Identifier: Apache-2.0
// The ops of batch norm, losses and metrics against those of Host, both in double.
#include <tandem/ops/cuda/batch_norm.cuh>
#include <tandem/ops/cuda/loss.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/ops/host/batch_norm.hpp>
#include <tandem/ops/host/loss.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {

namespace ops_test {

// Not in an unnamed namespace: kernels are made of them.
struct Tenth {
  static constexpr double value = 0.1;
};

struct Weights {
  static constexpr float class_weights[] = {1, 2, 0, 1, 0.5F, 1, 1, 4, 1, 3, 0.25F};
};

}  // namespace ops_test

namespace {

using ops_test::Tenth;
using ops_test::Weights;

using test::DeviceArray;
using test::gpu;

using Norm = BatchNorm2d<>;
using OnHost = BasicHost<Portable, Fp64>;
using OnCuda = BasicCuda<Portable, Fp64>;

constexpr int op_channels = 6;
constexpr int pixels = 5 * 7;
constexpr int largest = 40;

/// A microbatch's arrays of one op; x, y, dy and dx are (B, pixels, C) on Cuda, (B, C, pixels) on
/// Host.
struct Arrays {
  std::vector<double> x, y, dy, dx, parameter, gradient;
};

std::vector<double> exchanged(std::vector<double> const& x, bool to_host) {
  std::vector<double> y;
  constexpr std::ptrdiff_t sample = op_channels * pixels;
  for (auto at = x.begin(); at != x.end(); at += sample) {
    auto const one =
        test::transposed(std::vector<double>(at, at + sample), to_host ? pixels : op_channels,
                         to_host ? op_channels : pixels);
    y.insert(y.end(), one.begin(), one.end());
  }
  return y;
}

struct Settings {
  bool relu = false;
  bool frozen = false;
  bool training = true;
  bool accumulate = false;
  bool input_gradient = true;
};

OpSetup setup(Settings const& s) {
  OpSetup result{};
  result.node.in = image_shape(op_channels, 5, 7);
  result.node.out = result.node.in;
  result.node.frozen = s.frozen;
  result.node.fusion.relu = s.relu;
  result.batch = largest;
  result.wants_input_gradient = s.input_gradient;
  return result;
}

constexpr double share = 0.3;

void run_on_cuda(Settings const& s, int batch, Arrays& a) {
  Op<Norm, OnCuda> op{setup(s), gpu()};
  OpNeeds const needs = op.needs();
  CHECK(needs.input);
  CHECK(!needs.output);
  DeviceArray<double> const x{gpu(), a.x};
  DeviceArray<double> const y{gpu(), a.y};
  DeviceArray<double> const dy{gpu(), a.dy};
  DeviceArray<double> const dx{gpu(), a.dx};
  DeviceArray<double> const parameter{gpu(), a.parameter};
  DeviceArray<double> const gradient{gpu(), a.gradient};
  DeviceArray<std::byte> const saved{gpu(), needs.saved_bytes};
  DeviceArray<std::byte> const scratch{gpu(), needs.scratch_bytes};
  double const* inputs[] = {x.data()};
  double* input_gradients[] = {dx.data()};
  double* parameters[4];
  double* gradients[4];
  for (int i = 0; i < 4; ++i) {
    parameters[i] = parameter.data() + i * op_channels;
    gradients[i] = gradient.data() + i * op_channels;
  }
  Operands<double> const o{.x = inputs,
                           .y = y.data(),
                           .dy = dy.data(),
                           .dx = input_gradients,
                           .parameter = parameters,
                           .weight = parameters,
                           .gradient = gradients,
                           .saved = saved.data()};
  gpu().scratch = scratch.data();
  gpu().scratch_bytes = needs.scratch_bytes;
  Pass<cuda::RankDevice> const pass{.device = gpu(),
                                    .batch = batch,
                                    .share = share,
                                    .training = s.training,
                                    .accumulate = s.accumulate};
  op.forward(o, pass);
  if (s.training && s.input_gradient) {
    op.input_gradient(o, pass);
  }
  if (s.training && !s.frozen) {
    op.weight_gradient(o, pass);
  }
  a.y = y.host();
  a.dx = dx.host();
  a.gradient = gradient.host();
  CHECK(test::same_bits(parameter.host(), a.parameter));
  static_cast<void>(saved.host());
  static_cast<void>(scratch.host());
}

void run_on_host(Settings const& s, int batch, Arrays& a) {
  Op<Norm, OnHost> const op{setup(s)};
  host::Device device{1};
  std::vector<double> saved(static_cast<std::size_t>(op.needs().saved_bytes) / sizeof(double));
  double const* inputs[] = {a.x.data()};
  double* input_gradients[] = {a.dx.data()};
  double* parameters[4];
  double* gradients[4];
  for (int i = 0; i < 4; ++i) {
    parameters[i] = a.parameter.data() + i * op_channels;
    gradients[i] = a.gradient.data() + i * op_channels;
  }
  std::vector<double> dy = a.dy;
  Operands<double> const o{.x = inputs,
                           .y = a.y.data(),
                           .dy = dy.data(),
                           .dx = input_gradients,
                           .parameter = parameters,
                           .weight = parameters,
                           .gradient = gradients,
                           .saved = reinterpret_cast<std::byte*>(saved.data())};
  Pass<host::Device> const pass{.device = device,
                                .batch = batch,
                                .share = share,
                                .training = s.training,
                                .accumulate = s.accumulate};
  op.forward(o, pass);
  for (std::size_t i = 0; s.relu && i < a.y.size(); ++i) {  // what the fused node stands for
    dy[i] = a.y[i] <= 0 ? 0.0 : dy[i];
    a.y[i] = a.y[i] < 0 ? 0.0 : a.y[i];
  }
  if (s.training && s.input_gradient) {
    op.input_gradient(o, pass);
  }
  if (s.training && !s.frozen) {
    op.weight_gradient(o, pass);
  }
}

void check_op(Settings const& s, int batch) {
  CAPTURE(s.relu);
  CAPTURE(s.frozen);
  CAPTURE(s.training);
  CAPTURE(s.accumulate);
  CAPTURE(s.input_gradient);
  std::int64_t const n = std::int64_t{batch} * pixels * op_channels;
  Arrays cuda{.x = test::numbers<double>(n, 1),
              .y = test::numbers<double>(n, 2),
              .dy = test::numbers<double>(n, 3),
              .dx = test::numbers<double>(n, 4),
              .parameter = test::numbers<double>(4 * op_channels, 5, 0.5, 0.75),
              .gradient = test::numbers<double>(4 * op_channels, 6)};
  Arrays host{.x = exchanged(cuda.x, true),
              .y = exchanged(cuda.y, true),
              .dy = exchanged(cuda.dy, true),
              .dx = exchanged(cuda.dx, true),
              .parameter = cuda.parameter,
              .gradient = cuda.gradient};
  run_on_host(s, batch, host);
  run_on_cuda(s, batch, cuda);
  // 1400 rows, deviations of about 0.6 and of at least 0.5, running and not: each of the few
  // hundred roundings is amplified less than tenfold; sums of dy are of size 40.
  auto const bound = [](std::size_t) { return 1e-11; };
  test::check_within(cuda.y, exchanged(host.y, false), bound);
  test::check_within(cuda.dx, exchanged(host.dx, false), bound);
  test::check_within(cuda.gradient, host.gradient, bound);
}

TEST_CASE("the op of batch norm is Host's, a ReLU fused or not, frozen or not, for any batch") {
  for (int batch : {largest, 3}) {
    for (bool relu : {false, true}) {
      for (bool accumulate : {false, true}) {
        for (bool input_gradient : {true, false}) {
          check_op({.relu = relu, .accumulate = accumulate, .input_gradient = input_gradient},
                   batch);
        }
      }
      check_op({.relu = relu, .frozen = true}, batch);
      check_op({.relu = relu, .training = false}, batch);
      check_op({.relu = relu, .frozen = true, .training = false}, batch);
    }
  }
}

/// The loss's value and gradient; Target is its targets' type. The output may be an image of the
/// op_channels and pixels above.
template <class L, class Target>
void check_loss(Shape output, std::vector<Target> const& targets, int batch) {
  auto const y = test::numbers<double>(batch * output.elements(), 1, 3);
  auto const on_device = output.rank == 3 ? exchanged(y, false) : y;
  double const scale = 1.0 / 7;
  LossOp<L, OnHost> const host_op{output, largest};
  host::Device device{1};
  std::vector<double> host_scratch(static_cast<std::size_t>(host_op.scratch_bytes()) / 8 + 1);
  device.scratch = reinterpret_cast<std::byte*>(host_scratch.data());
  double expected = 0;
  std::vector<double> gradient(y.size());
  Pass<host::Device> const on_host{
      .device = device, .batch = batch, .criterion = {.row_scale = &scale}};
  host_op.forward(on_host, y.data(), targets.data(), &expected);
  host_op.gradient(on_host, y.data(), targets.data(), scale, gradient.data());

  LossOp<L, OnCuda> const op{output, largest};
  DeviceArray<std::byte> const scratch{gpu(), op.scratch_bytes()};
  gpu().scratch = scratch.data();
  gpu().scratch_bytes = scratch.size();
  DeviceArray<double> const in{gpu(), on_device};
  DeviceArray<Target> const t{gpu(), targets};
  DeviceArray<double> const loss{gpu(), 1};
  DeviceArray<double> const dy{gpu(), batch * output.elements()};
  DeviceArray<double> const row_scale{gpu(), std::vector<double>{scale}};
  Pass<cuda::RankDevice> const on_cuda{
      .device = gpu(), .batch = batch, .criterion = {.row_scale = row_scale.data()}};
  op.forward(on_cuda, in.data(), t.data(), loss.data());
  op.gradient(on_cuda, in.data(), t.data(), scale, dy.data());
  CHECK(std::abs(loss.host()[0] - expected) <= 1e-14 * batch * (1 + std::abs(expected)));
  auto const result = output.rank == 3 ? exchanged(dy.host(), true) : dy.host();
  test::check_within(result, gradient, [](std::size_t) { return 1e-14; });
  static_cast<void>(scratch.host());
}

TEST_CASE("the ops of losses are Host's") {
  for (int batch : {largest, 5, 1}) {
    std::vector<std::int32_t> labels;
    for (int s = 0; s < batch; ++s) {
      labels.push_back(s % 11);
    }
    check_loss<SoftmaxCrossEntropy<>>(vector_shape(11), labels, batch);
    check_loss<SoftmaxCrossEntropy<Tenth>>(vector_shape(11), labels, batch);
    check_loss<SoftmaxCrossEntropy<Tenth, Weights>>(vector_shape(11), labels, batch);
    check_loss<SoftmaxCrossEntropy<IgnoreIndex<4>, Weights>>(vector_shape(11), labels, batch);
    check_loss<SoftmaxCrossEntropy<IgnoreIndex<4>>>(vector_shape(1100), labels, batch);
    auto const shares = test::numbers<float>(batch * 1100, 4);
    check_loss<SoftCrossEntropy<Tenth>>(vector_shape(1100), shares, batch);
    check_loss<SoftCrossEntropy<Weights>>(
        vector_shape(11), std::vector<float>(shares.begin(), shares.begin() + batch * 11), batch);
    check_loss<MeanAbsoluteError>(vector_shape(7), test::numbers<float>(batch * 7, 2), batch);
    check_loss<Huber<>>(vector_shape(130), test::numbers<float>(batch * 130, 2), batch);
    check_loss<BinaryCrossEntropy>(image_shape(op_channels, 5, 7),
                                   test::numbers<float>(batch * op_channels * 35, 3), batch);
    check_loss<MeanSquaredError>(vector_shape(130), test::numbers<float>(batch * 130, 2), batch);
    check_loss<MeanSquaredError>(image_shape(op_channels, 5, 7),
                                 test::numbers<float>(batch * op_channels * pixels, 2), batch);
  }
}

TEST_CASE("labels of an image's elements are refused, whose order on Cuda is another") {
  using Softmax = LossOp<SoftmaxCrossEntropy<>, OnCuda>;
  CHECK_THROWS_WITH_AS((Softmax{image_shape(2, 3, 1), 1}), doctest::Contains("Flatten"),
                       ContractError);
  CHECK_NOTHROW((Softmax{image_shape(2, 1, 1), 1}));
  CHECK_NOTHROW((Softmax{image_shape(1, 3, 2), 1}));
}

template <class M, class L = SoftmaxCrossEntropy<>>
void check_metric() {
  std::vector<typename L::Target> labels;
  for (int s = 0; s < largest * L::targets(vector_shape(11)); ++s) {
    labels.push_back(static_cast<typename L::Target>(s * 7 % 11));
  }
  auto y = test::numbers<double>(largest * 11, 1);
  y[15] = NAN;
  double expected = 0;
  host::Device device{1};
  MetricOp<M, L, OnHost> const host_op{vector_shape(11)};
  host_op.count({.device = device, .batch = largest}, y.data(), labels.data(), &expected);
  using Metric = MetricOp<M, L, OnCuda>;
  DeviceArray<std::byte> const scratch{gpu(), Metric::scratch_bytes(largest)};
  gpu().scratch = scratch.data();
  gpu().scratch_bytes = scratch.size();
  DeviceArray<double> const in{gpu(), y};
  DeviceArray<typename L::Target> const t{gpu(), labels};
  DeviceArray<double> const sum{gpu(), 1};
  Pass<cuda::RankDevice> const pass{.device = gpu(), .batch = largest};
  Metric const op{vector_shape(11)};
  op.count(pass, in.data(), t.data(), sum.data());
  CHECK(expected > 0);
  CHECK(sum.host()[0] == expected);
  gpu().scratch_bytes = 8;
  CHECK_THROWS_WITH_AS(op.count(pass, in.data(), t.data(), sum.data()),
                       doctest::Contains("MetricOp::scratch_bytes"), ContractError);
}

TEST_CASE("the ops of accuracy are Host's") {
  check_metric<Accuracy>();
  check_metric<TopK<3>>();
  check_metric<TopK<3>, SoftmaxCrossEntropy<IgnoreIndex<7>>>();
  check_metric<TopK<3>, SoftCrossEntropy<>>();
}

}  // namespace
}  // namespace tandem
