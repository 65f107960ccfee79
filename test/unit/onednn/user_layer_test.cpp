// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/user_layer.hpp>

#include <doctest/doctest.h>

#include <tandem/ops/host/own_layer.hpp>

#include <own_parts.hpp>

#include "channels_last.hpp"

namespace user_layer_test {

using namespace tandem;

/// y[c][p] = a[c] x[c][p] + p b[0], of half the rows: shows order, shapes and parameters.
struct Ramp {
  static constexpr std::string_view name = "Ramp";
  static constexpr Shape output(Shape in) {
    return in.rank == 3 ? image_shape(in[0], (in[1] + 1) / 2, in[2]) : in;
  }
  static constexpr Parameters parameters(Shape in) {
    return Parameters{Parameter{"a", vector_shape(in[0])}, Parameter{"b", vector_shape(1)}};
  }
  // f(element of x, element of y, channel, pixel)
  template <class F>
  static void each(auto const& call, F const& f) {
    auto const channels = static_cast<std::size_t>(call.in[0]);
    auto const in = static_cast<std::size_t>(call.in.elements()) / channels;
    auto const out = static_cast<std::size_t>(call.out.elements()) / channels;
    for (std::size_t s = 0; s < static_cast<std::size_t>(call.batch); ++s) {
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t p = 0; p < out; ++p) {
          f((s * channels + c) * in + p, (s * channels + c) * out + p, c, p);
        }
      }
    }
  }
  static void forward(auto const& call) {
    each(call, [&](std::size_t i, std::size_t o, std::size_t c, std::size_t p) {
      call.y[o] = call.parameter(0)[c] * call.x[i] + static_cast<float>(p) * call.parameter(1)[0];
    });
  }
  static void input_gradient(auto const& call) {
    std::fill(call.dx.begin(), call.dx.end(), 0.0F);
    each(call, [&](std::size_t i, std::size_t o, std::size_t c, std::size_t) {
      call.dx[i] = call.parameter(0)[c] * call.dy[o] + call.y[o];  // y is there, too
    });
  }
  static void weight_gradient(auto const& call) {
    each(call, [&](std::size_t i, std::size_t o, std::size_t c, std::size_t p) {
      call.gradient(0)[c] += call.dy[o] * call.x[i];
      call.gradient(1)[0] += call.dy[o] * static_cast<float>(p);
    });
  }
};

struct Passes {
  std::vector<float> y, dx, a, b;
};

/// All passes on a backend, the values in user order; weight_gradient twice, the second one adds.
template <class Precision, class Kernels, class L = Ramp>
Passes run(Shape in, bool twice, int threads = 1) {
  using T = typename Precision::Scalar;
  using X = std::conditional_t<std::is_same_v<Kernels, Portable>, float, T>;
  int const samples = 3;
  Shape const out = L::output(in);
  OpSetup const setup{.node = {.edges = 1, .in = in, .out = out}, .inputs = &in, .batch = 4};
  Op<L, BasicHost<Kernels, Precision>> const op{setup};
  host::Device device{threads};
  auto const bytes = static_cast<std::size_t>(op.needs().scratch_bytes);
  std::vector<float> scratch(bytes / sizeof(float) + 16, -7.0F);
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  bool constexpr portable = std::is_same_v<Kernels, Portable>;
  // On the portable backend (B, C, H, W) is what is stored: one "channel" of many pixels.
  auto const of = [](Shape shape) {
    return portable ? image_shape(1, 1, static_cast<int>(shape.elements())) : shape;
  };
  auto x = test::stored<X>(samples, of(in));
  auto dx = test::stored<X>(samples, of(in));
  auto y = test::stored<X>(samples, of(out));
  auto dy = test::stored<X>(samples, of(out));
  x.set(test::exact<BFloat16>(samples * in.elements(), 1));
  dy.set(test::exact<BFloat16>(samples * out.elements(), 2));
  auto a = test::random<float>(in[0], 3);
  std::vector<float> b{0.25F};
  std::vector<float> da(a.size(), 5.0F), db(1, 5.0F);
  X const* const inputs[] = {x.data()};
  X* const gradients[] = {dx.data()};
  float* const parameters[] = {a.data(), b.data()};
  float* const parameter_gradients[] = {da.data(), db.data()};
  Operands<X, float> const o{.x = inputs,
                             .y = y.data(),
                             .dy = dy.data(),
                             .dx = gradients,
                             .parameter = parameters,
                             .gradient = parameter_gradients};
  Pass<host::Device> pass{.device = device, .batch = samples};
  op.forward(o, pass);
  op.input_gradient(o, pass);
  for (bool const add : {false, true}) {
    pass.accumulate = add;
    if constexpr (requires { op.weight_gradient(o, pass); }) {
      if (!add || twice) {
        op.weight_gradient(o, pass);
      }
    }
  }
  CHECK(y.canaries_live(samples));
  CHECK(dx.canaries_live(samples));
  CHECK(std::all_of(scratch.begin() + static_cast<std::ptrdiff_t>(bytes / sizeof(float)),
                    scratch.end(), [](float value) { return value == -7.0F; }));
  return {y.get(), dx.get(), da, db};
}

constexpr Shape shapes[] = {vector_shape(5), image_shape(1, 4, 3), image_shape(17, 1, 1),
                            image_shape(3, 4, 5), image_shape(24, 3, 2)};

TEST_CASE("a user's layer sees (B, C, H, W) and gives the portable backend's bits") {
  for (Shape const& shape : shapes) {
    for (bool const twice : {false, true}) {
      Passes const expected = run<Fp32, Portable>(shape, twice);
      Passes const got = run<Fp32, OneDnn>(shape, twice);
      CHECK(test::same_bits(got.y, expected.y));
      CHECK(test::same_bits(got.dx, expected.dx));
      CHECK(test::same_bits(got.a, expected.a));
      CHECK(test::same_bits(got.b, expected.b));
    }
  }
}

TEST_CASE("a user's layer computes in float where activations are BFloat16") {
  for (Shape const& shape : shapes) {
    Passes const expected = run<Fp32, Portable>(shape, true);
    Passes const got = run<Bf16, OneDnn>(shape, true);
    CHECK(test::same_bits(got.y, test::rounded<BFloat16>(expected.y)));
    CHECK(test::same_bits(got.a, expected.a));
    CHECK(test::same_bits(got.b, expected.b));
    // dx reads y, which has been rounded: half a unit in the last of 8 bits of numbers below 4.
    for (std::size_t i = 0; i < got.dx.size(); ++i) {
      CHECK(!(std::abs(got.dx[i] - expected.dx[i]) > 2 * 4 * 0x1p-8F));
    }
  }
}

template <class L, class Precision>
void own_layer_is_portable() {
  bool constexpr whole = std::is_same_v<Precision, Fp32>;
  for (Shape const& shape : shapes) {
    Passes const expected = run<Fp32, Portable, L>(shape, true);
    Passes const got = run<Precision, OneDnn, L>(shape, true);
    Passes const three = run<Precision, OneDnn, L>(shape, true, 3);
    CHECK(test::same_bits(got.a, three.a));
    CHECK(test::same_bits(got.dx, three.dx));
    CHECK(test::same_bits(got.y, test::rounded<typename Precision::Scalar>(expected.y)));
    for (std::size_t i = 0; i < got.dx.size(); ++i) {  // where y is read it has been rounded
      CHECK(!(std::abs(got.dx[i] - expected.dx[i]) > (whole ? 0.0F : 4 * 0x1p-8F)));
    }
    for (std::size_t i = 0; i < got.a.size(); ++i) {  // added in another order, in double
      CHECK(!(std::abs(got.a[i] - expected.a[i]) > 0x1p-22F * (1 + std::abs(expected.a[i]))));
    }
  }
}

TEST_CASE_TEMPLATE("layers given by functions of one element are the portable ones", Precision,
                   Fp32, Bf16) {
  own_layer_is_portable<test::Softsign, Precision>();
  own_layer_is_portable<test::Square, Precision>();
  own_layer_is_portable<test::OwnSilu, Precision>();
  own_layer_is_portable<test::OwnPrelu, Precision>();
  own_layer_is_portable<test::OwnSwish, Precision>();
}

/// Σ (i + 1) (y_i - t_i), which shows the order of the elements.
struct Weighted {
  using Target = float;
  static constexpr std::string_view name = "Weighted";
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
  static double value(std::span<float const> y, std::span<float const> t) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += static_cast<double>(i + 1) * static_cast<double>(y[i] - t[i]);
    }
    return sum;
  }
  static void gradient(std::span<float const> y, std::span<float const>, std::span<float> dy) {
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] = 0.0F;
    }
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dy[i] += static_cast<float>(i + 1) * y[i];  // y must not be dy's memory
    }
  }
};

static_assert(!RowLoss<Weighted, float> && HostLoss<Weighted, float>);
static_assert(RowLoss<test::RampLoss, float> && HostLoss<test::RampLoss, double>);
static_assert(RowMetric<test::PlaceOfWorst, Weighted, float>);
static_assert(HostMetric<test::PlaceOfWorst, Weighted, float> && !Loss<test::PlaceOfWorst>);

template <class Precision>
void loss_and_metric_of_rows(Shape shape) {
  using T = typename Precision::Scalar;
  int const samples = 3;
  auto x = test::exact<T>(samples * shape.elements(), 1);
  auto const t = test::random<float>(samples * shape.elements(), 2);
  host::Device device{1};
  Pass<host::Device> const pass{.device = device, .batch = samples};
  double expected[2] = {};
  std::vector<float> expected_dy(x.size());
  LossOp<test::RampLoss, BasicHost<Portable>> const reference{shape, 4};
  reference.forward(pass, x.data(), t.data(), &expected[0]);
  reference.gradient(pass, x.data(), t.data(), 0.5, expected_dy.data());
  MetricOp<test::PlaceOfWorst, test::RampLoss, BasicHost<Portable>>{shape}.count(
      pass, x.data(), t.data(), &expected[1]);
  double first = 0;  // sample by sample, as it is written
  auto const each = static_cast<std::size_t>(shape.elements());
  for (std::size_t s = 0; s < samples; ++s) {
    first += test::RampLoss::value(Row<float const>{&x[s * each], each},
                                   Row<float const>{&t[s * each], each});
  }
  CHECK(expected[0] == first);

  LossOp<test::RampLoss, BasicHost<OneDnn, Precision>> const loss{shape, 4};
  MetricOp<test::PlaceOfWorst, test::RampLoss, BasicHost<OneDnn, Precision>> const metric{shape};
  std::vector<float> scratch(
      static_cast<std::size_t>(std::max(loss.scratch_bytes(), metric.scratch_bytes(4)) / 4 + 16));
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  auto y = test::stored<T>(samples, shape);
  y.set(x);
  auto dy = test::stored<T>(samples, shape);
  double got[2] = {-1, -1};
  loss.forward(pass, y.data(), t.data(), &got[0]);
  metric.count(pass, y.data(), t.data(), &got[1]);
  loss.gradient(pass, y.data(), t.data(), 0.5, dy.data());
  CHECK(got[0] == expected[0]);
  CHECK(got[1] == expected[1]);
  CHECK(test::same_bits(dy.get(), test::rounded<T>(expected_dy)));
}

TEST_CASE_TEMPLATE("a loss and a metric of Rows are the portable ones", Precision, Fp32, Bf16) {
  for (Shape const& shape : shapes) {
    loss_and_metric_of_rows<Precision>(shape);
  }
}

template <class Precision>
void loss_and_metric(Shape shape) {
  using T = typename Precision::Scalar;
  int const samples = 3;
  auto const x = test::exact<T>(samples * shape.elements(), 1);
  auto const t = test::random<float>(samples * shape.elements(), 2);
  host::Device device{1};
  LossOp<Weighted, BasicHost<OneDnn, Precision>> const loss{shape, 4};
  MetricOp<Weighted, Weighted, BasicHost<OneDnn, Precision>> const metric{shape};
  std::vector<float> scratch(
      static_cast<std::size_t>(std::max(loss.scratch_bytes(), metric.scratch_bytes(4)) / 4 + 16));
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  auto y = test::stored<T>(samples, shape);
  y.set(x);
  auto dy = test::stored<T>(samples, shape);
  Pass<host::Device> const pass{.device = device, .batch = samples};
  double sum = -1, counted = -1, expected = 0;
  loss.forward(pass, y.data(), t.data(), &sum);
  metric.count(pass, y.data(), t.data(), &counted);
  loss.gradient(pass, y.data(), t.data(), 0.5, dy.data());
  auto const each = static_cast<std::size_t>(shape.elements());
  std::vector<float> expected_dy(x.size());
  for (std::size_t s = 0; s < samples; ++s) {
    expected +=
        Weighted::value(std::span{x}.subspan(s * each, each), std::span{t}.subspan(s * each, each));
    for (std::size_t i = 0; i < each; ++i) {
      expected_dy[s * each + i] = static_cast<float>(i + 1) * x[s * each + i] * 0.5F;
    }
  }
  CHECK(sum == expected);
  CHECK(counted == expected);
  CHECK(test::same_bits(dy.get(), test::rounded<T>(expected_dy)));
}

TEST_CASE_TEMPLATE("a user's loss and metric see (B, C, H, W)", Precision, Fp32, Bf16) {
  for (Shape const& shape : shapes) {
    loss_and_metric<Precision>(shape);
  }
  host::Device device{1};
  double sum = -1;
  MetricOp<NoMetric, Weighted, BasicHost<OneDnn, Precision>>{vector_shape(3)}.count(
      {.device = device, .batch = 1}, nullptr, nullptr, &sum);
  CHECK(sum == 0);
}

}  // namespace user_layer_test

#endif
