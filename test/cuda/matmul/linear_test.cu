// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tandem/core/precision.hpp>
#include <tandem/kernels/host/linear.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/runtime/host/team.hpp>

#include <cuda/matmul/support.hpp>
#include <device_array.hpp>

namespace tandem {

namespace {

using namespace tandem::test;
using cuda::RankDevice;

/// Host's kernels in double.
struct HostLinear {
  int batch, in, out;
  host::Team team{1};
  std::vector<double> scratch =
      std::vector<double>(static_cast<std::size_t>(host::linear_scratch<double>(1)));

  std::vector<double> forward(std::vector<double> const& x, std::vector<double> const& weight,
                              std::vector<double> const& bias) {
    std::vector<double> y(static_cast<std::size_t>(batch * out));
    host::linear_forward(team, batch, in, out, x.data(), weight.data(),
                         bias.empty() ? nullptr : bias.data(), y.data(), scratch.data());
    return y;
  }
  std::vector<double> input_gradient(std::vector<double> const& weight,
                                     std::vector<double> const& dy) {
    std::vector<double> dx(static_cast<std::size_t>(batch * in));
    host::linear_input_gradient(team, batch, in, out, weight.data(), dy.data(), dx.data(),
                                scratch.data());
    return dx;
  }
  void weight_gradient(std::vector<double> const& x, std::vector<double> const& dy,
                       std::vector<double>& dweight, std::vector<double>& dbias) {
    host::linear_weight_gradient(team, batch, in, out, x.data(), dy.data(), dweight.data(),
                                 dbias.empty() ? nullptr : dbias.data(), true, scratch.data());
  }
};

template <class Layer, class Precision>
void check_linear(RankDevice& device, int in, int planned, std::vector<int> const& batches) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  Shape const shape = vector_shape(in);
  int const out = Layer::output(shape)[0];
  OpSetup setup;
  setup.node.in = shape;
  setup.node.out = Layer::output(shape);
  setup.inputs = &shape;
  setup.batch = planned;
  Op<Layer, BasicCuda<Portable, Precision>> op{setup, device};
  CHECK(op.needs().input);
  for (int const batch : batches) {
    INFO(in << " to " << out << ", batch " << batch << " of " << planned << ", "
            << Precision::name);
    Scratch const scratch{device, op.needs().scratch_bytes};
    std::vector<T> const x = numbers<T>(batch * in, 1);
    std::vector<T> const dy = numbers<T>(batch * out, 2);
    std::vector<T> const weight = numbers<T>(in * out, 3);
    std::vector<P> const bias = numbers<P>(Layer::bias ? out : 0, 4);
    DeviceArray<T> const on_x{device, x};
    DeviceArray<T> const on_dy{device, dy};
    DeviceArray<T> const on_weight{device, weight};
    DeviceArray<P> const master{device, in_master<P>(weight)};
    DeviceArray<P> const on_bias{device, bias};
    DeviceArray<T> const y{device, batch * out};
    DeviceArray<T> const dx{device, batch * in};
    DeviceArray<P> const dweight{device, in * out};
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
    Pass<RankDevice> pass{.device = device, .batch = batch};
    HostLinear host{batch, in, out};
    auto const magnitude_of = [](auto const& v) { return magnitudes(in_double(v)); };

    op.forward(o, pass);
    double const bias_rounding = Layer::bias && !std::same_as<T, P> ? unit<T> : 0.0;
    CHECK(worst(y.host(), host.forward(in_double(x), in_double(weight), in_double(bias)),
                host.forward(magnitude_of(x), magnitude_of(weight), magnitude_of(bias)),
                product_error<Precision>(in) + bias_rounding) <= 1.0);
    op.input_gradient(o, pass);
    CHECK(worst(dx.host(), host.input_gradient(in_double(weight), in_double(dy)),
                host.input_gradient(magnitude_of(weight), magnitude_of(dy)),
                product_error<Precision>(out)) <= 1.0);
    std::vector<double> wanted(weight.size(), 0.0);
    std::vector<double> wanted_bias(bias.size(), 0.0);
    std::vector<double> magnitude = wanted;
    std::vector<double> bias_magnitude = wanted_bias;
    for (bool const accumulate : {false, true}) {
      pass.accumulate = accumulate;
      op.weight_gradient(o, pass);
      host.weight_gradient(in_double(x), in_double(dy), wanted, wanted_bias);
      host.weight_gradient(magnitude_of(x), magnitude_of(dy), magnitude, bias_magnitude);
      CHECK(worst(dweight.host(), wanted, magnitude, product_error<Precision>(batch)) <= 1.0);
      CHECK(worst(dbias.host(), wanted_bias, bias_magnitude, product_error<Precision>(batch)) <=
            1.0);
    }
    scratch.check();
  }
}

template <class Precision>
void check_precision() {
  RankDevice device{last_device()};
  check_linear<Linear<10>, Precision>(device, 64, 8, {8, 3, 1, 8});
  check_linear<Linear<7, NoBias>, Precision>(device, 33, 5, {5, 2});
  check_linear<Linear<1>, Precision>(device, 1, 1, {1});
  check_linear<Linear<24>, Precision>(device, 700, 300, {300, 17});
  check_linear<Linear<3>, Precision>(device, 2, 20000, {20000});
}

TEST_CASE("Op<Linear, BasicCuda<...>>: all passes are Host's in double, also of smaller batches") {
  SUBCASE("fp32") { check_precision<Fp32>(); }
  SUBCASE("tf32") { check_precision<Tf32>(); }
  SUBCASE("bf16") { check_precision<Bf16>(); }
  SUBCASE("fp64") { check_precision<Fp64>(); }
}

TEST_CASE(
    "Op<Linear, BasicCuda<...>>: a smaller batch makes do with the workspace of the largest") {
  RankDevice device{last_device()};
  OpSetup setup;
  setup.node.in = vector_shape(256);
  setup.node.out = vector_shape(4096);
  setup.batch = 1100;  // 1100 x 4096 partial sums would exceed the limit, 1000 x 4096 would not
  Op<Linear<4096, NoBias>, BasicCuda<Portable, Fp32>> op{setup, device};
  Scratch const scratch{device, op.needs().scratch_bytes};
  DeviceArray<float> const x{device, std::vector<float>(1000 * 256, 1.0F)};
  DeviceArray<float> const weight{device, std::vector<float>(4096 * 256, 2.0F)};
  DeviceArray<float> const y{device, 1000 * 4096};
  float const* const inputs[] = {x.data()};
  float const* const weights[] = {weight.data()};
  Operands<float> const o{.x = inputs, .y = y.data(), .weight = weights};
  op.forward(o, Pass<RankDevice>{.device = device, .batch = 1000});
  CHECK(y.host() == std::vector<float>(1000 * 4096, 512.0F));
  scratch.check();
}

TEST_CASE("Op<Linear, BasicCuda<...>> with a batch of none: gradients are zero or kept") {
  RankDevice device{cuda::Device{0}};
  OpSetup setup;
  setup.node.in = vector_shape(3);
  setup.node.out = vector_shape(2);
  setup.batch = 0;
  Op<Linear<2>, BasicCuda<Portable, Fp32>> op{setup, device};
  DeviceArray<float> const none{device, 0};
  DeviceArray<float> const weight{device, std::vector<float>(6, 2.0F)};
  DeviceArray<float> const bias{device, std::vector<float>(2, 2.0F)};
  float const* const x[] = {none.data()};
  float* const gradients[] = {weight.data(), bias.data()};
  Operands<float> const o{.x = x, .dy = none.data(), .gradient = gradients};
  Scratch const scratch{device, op.needs().scratch_bytes};
  Pass<RankDevice> pass{.device = device, .accumulate = true};
  op.weight_gradient(o, pass);
  CHECK(weight.host() == std::vector<float>(6, 2.0F));
  pass.accumulate = false;
  op.weight_gradient(o, pass);
  CHECK(weight.host() == std::vector<float>(6, 0.0F));
}

}  // namespace

}  // namespace tandem
