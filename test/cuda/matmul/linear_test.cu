// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/precision.hpp>
#include <tandem/kernels/functors/activations.hpp>
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

/// cuBLASLt may round a product in 16 bits before it adds the bias, as it did on an H200.
template <class T>
inline constexpr double biased = sizeof(T) == 2 ? unit<T> : 0.0;

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
            << std::string{Precision::name});
    Scratch const scratch{device, op.needs().scratch_bytes};
    std::vector<T> const x = numbers<T>(batch * in, 1);
    std::vector<T> const dy = numbers<T>(batch * out, 2);
    std::vector<T> const weight = numbers<T>(in * out, 3);
    std::vector<T> const weight_bias = numbers<T>(Layer::bias ? out : 0, 4);
    std::vector<P> const bias = in_master<P>(weight_bias);
    DeviceArray<T> const on_x{device, x};
    DeviceArray<T> const on_dy{device, dy};
    DeviceArray<T> const on_weight{device, weight};
    DeviceArray<P> const master{device, in_master<P>(weight)};
    DeviceArray<P> const on_bias{device, bias};
    DeviceArray<T> const on_weight_bias{device, weight_bias};
    DeviceArray<T> const y{device, batch * out};
    DeviceArray<T> const dx{device, batch * in};
    DeviceArray<P> const dweight{device, in * out};
    DeviceArray<P> const dbias{device, bias.size()};
    T const* const inputs_at[] = {on_x.data()};
    T* const dx_at[] = {dx.data()};
    P* const parameters[] = {master.data(), on_bias.data()};
    T const* const weights[] = {on_weight.data(), on_weight_bias.data()};
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
    CHECK(worst(y.host(), host.forward(in_double(x), in_double(weight), in_double(bias)),
                host.forward(magnitude_of(x), magnitude_of(weight), magnitude_of(bias)),
                product_error<Precision>(in) + biased<T>) <= 1.0);
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

std::vector<double> activated(LayerKind kind, std::vector<double> x) {
  for (double& value : x) {
    value = kind == LayerKind::relu ? std::fmax(value, 0.0) : GeluTanhFunction::value(value);
  }
  return x;
}

/// Of the rows of a network Linear<Hidden>, GeluTanh, Linear<Out>, both products' ops with what
/// they do of the activation: all passes in double.
template <class Precision, int Hidden, int Out>
void check_gelu_between(RankDevice& device, int in, int rows) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  INFO(in << " to " << Hidden << " to " << Out << ", " << std::string{Precision::name});
  Shape const shapes[] = {vector_shape(in), vector_shape(Hidden), vector_shape(Out)};
  OpSetup setup;
  setup.node.in = shapes[0];
  setup.node.out = shapes[1];
  setup.node.fusion.gelu = true;
  setup.node.needs_gradient = true;
  setup.batch = rows;
  Op<Linear<Hidden>, BasicCuda<Portable, Precision>> first{setup, device};
  setup.node.in = shapes[1];
  setup.node.out = shapes[2];
  setup.node.fusion.gelu = false;
  setup.node.fusion.activated_by = 1;
  Op<Linear<Out, NoBias>, BasicCuda<Portable, Precision>> second{setup, device};
  CHECK(first.needs().saved_bytes == rows * Hidden * static_cast<std::int64_t>(sizeof(T)));
  CHECK(second.needs().saved_bytes == 0);
  Scratch const scratch{device,
                        std::max(first.needs().scratch_bytes, second.needs().scratch_bytes)};

  std::vector<T> const x = numbers<T>(rows * in, 1);
  std::vector<T> const weight = numbers<T>(Hidden * in, 2);
  std::vector<T> const bias = numbers<T>(Hidden, 3);
  std::vector<T> const behind = numbers<T>(Out * Hidden, 4);
  std::vector<T> const dy = numbers<T>(rows * Out, 5);
  DeviceArray<T> const on_x{device, x};
  DeviceArray<T> const on_weight{device, weight};
  DeviceArray<T> const on_bias{device, bias};
  DeviceArray<P> const master_bias{device, in_master<P>(bias)};
  DeviceArray<T> const on_behind{device, behind};
  DeviceArray<T> const on_dy{device, dy};
  DeviceArray<T> const y{device, rows * Hidden};
  DeviceArray<T> const z{device, rows * Hidden};
  DeviceArray<T> const dz{device, rows * Hidden};
  T const* const x_at[] = {on_x.data()};
  T const* const weights[] = {on_weight.data(), on_bias.data()};
  P* const parameters[] = {nullptr, master_bias.data()};
  Operands<T, P> const o{.x = x_at,
                         .y = y.data(),
                         .parameter = parameters,
                         .weight = weights,
                         .saved = reinterpret_cast<std::byte*>(z.data())};
  Pass<RankDevice> pass{.device = device, .batch = rows};
  HostLinear host{rows, in, Hidden};
  std::vector<double> const exact = host.forward(in_double(x), in_double(weight), in_double(bias));
  std::vector<double> const magnitude = host.forward(
      magnitudes(in_double(x)), magnitudes(in_double(weight)), magnitudes(in_double(bias)));

  pass.training = false;
  first.forward(o, pass);
  std::vector<T> const evaluated = y.host();
  pass.training = true;
  first.forward(o, pass);
  CHECK(worst(z.host(), exact, magnitude, product_error<Precision>(in) + biased<T>) <= 1.0);
  // A kernel of ours reads z rounded; the slope of GELU is at most 1.13.
  double const error = 1.2 * (product_error<Precision>(in) + biased<T> + unit<T>)+8 * unit<T>;
  CHECK(worst(y.host(), activated(LayerKind::gelu_tanh, exact), magnitude, error) <= 1.0);
  CHECK(worst(evaluated, activated(LayerKind::gelu_tanh, exact), magnitude, error) <= 1.0);

  T const* const hidden_at[] = {y.data()};
  T const* const behind_at[] = {on_behind.data()};
  T* const dz_at[] = {dz.data()};
  second.input_gradient({.x = hidden_at,
                         .dy = on_dy.data(),
                         .dx = dz_at,
                         .weight = behind_at,
                         .fused = {.activation = reinterpret_cast<std::byte const*>(z.data())}},
                        pass);
  HostLinear next{rows, Hidden, Out};
  std::vector<double> wanted = next.input_gradient(in_double(behind), in_double(dy));
  std::vector<double> bound =
      next.input_gradient(magnitudes(in_double(behind)), magnitudes(in_double(dy)));
  std::vector<T> const kept = z.host();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = GeluTanhFunction::gradient(to_double(kept[i]), wanted[i]);
    bound[i] *= 1.2;
  }
  CHECK(worst(dz.host(), wanted, bound, product_error<Precision>(Out) + 16 * unit<T>) <= 1.0);
  scratch.check();
}

template <class Precision>
void check_activations() {
  RankDevice device{last_device()};
  check_gelu_between<Precision, 24, 8>(device, 16, 7);
  check_gelu_between<Precision, 24, 5>(device, 300, 33);
  check_gelu_between<Precision, 13, 6>(device, 4, 3);  // what cuBLASLt's GELU cannot save
}

TEST_CASE("Linear, GeluTanh, Linear: the products' ops compute the activation and its gradient") {
  SUBCASE("fp32") { check_activations<Fp32>(); }
  SUBCASE("tf32") { check_activations<Tf32>(); }
  SUBCASE("bf16") { check_activations<Bf16>(); }
  SUBCASE("fp64") { check_activations<Fp64>(); }
}

template <class Precision>
void check_relu() {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  RankDevice device{last_device()};
  constexpr int rows = 9;
  constexpr int in = 20;
  OpSetup setup;
  setup.node.in = vector_shape(in);
  setup.node.out = vector_shape(7);
  setup.node.fusion.relu = true;
  setup.node.needs_gradient = true;
  setup.batch = rows;
  Op<Linear<7>, BasicCuda<Portable, Precision>> op{setup, device};
  CHECK(op.needs().saved_bytes == 0);  // its gradient is taken from y
  Scratch const scratch{device, op.needs().scratch_bytes};
  std::vector<T> const x = numbers<T>(rows * in, 1);
  std::vector<T> const weight = numbers<T>(7 * in, 2);
  std::vector<T> const bias = numbers<T>(7, 3);
  DeviceArray<T> const on_x{device, x};
  DeviceArray<T> const on_weight{device, weight};
  DeviceArray<T> const on_bias{device, bias};
  DeviceArray<P> const master_bias{device, in_master<P>(bias)};
  DeviceArray<T> const y{device, rows * 7};
  T const* const x_at[] = {on_x.data()};
  T const* const weights[] = {on_weight.data(), on_bias.data()};
  P* const parameters[] = {nullptr, master_bias.data()};
  op.forward({.x = x_at, .y = y.data(), .parameter = parameters, .weight = weights},
             Pass<RankDevice>{.device = device, .batch = rows});
  HostLinear host{rows, in, 7};
  CHECK(worst(y.host(),
              activated(LayerKind::relu,
                        host.forward(in_double(x), in_double(weight), in_double(bias))),
              host.forward(magnitudes(in_double(x)), magnitudes(in_double(weight)),
                           magnitudes(in_double(bias))),
              product_error<Precision>(in)) <= 1.0);
  scratch.check();
}

TEST_CASE("Linear, ReLU: the product's op computes both") {
  SUBCASE("fp32") { check_relu<Fp32>(); }
  SUBCASE("bf16") { check_relu<Bf16>(); }
  SUBCASE("fp64") { check_relu<Fp64>(); }
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
