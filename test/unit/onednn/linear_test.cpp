// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <onednn_op.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/ops/onednn/linear.hpp>
#include <tandem/ops/op.hpp>

namespace linear_test {

using namespace tandem;

struct Sizes {
  int in;
  int out;
};

struct Setting {
  int planned;
  int batch;
  int threads = 1;
  bool accumulate = false;
};

using Numbers = std::vector<double>;

std::size_t at(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
         static_cast<std::size_t>(column);
}

/// Results of all passes, by the definition.
struct Results {
  Numbers y, dx, weight, bias;

  Results(Sizes s, int batch, bool has_bias, double before, Numbers const& x, Numbers const& w,
          Numbers const& b, Numbers const& dy)
      : y(dy.size()), dx(x.size()), weight(w.size(), before), bias(b.size(), before) {
    for (int n = 0; n < batch; ++n) {
      for (int o = 0; o < s.out; ++o) {
        double const dy_o = dy[at(n, s.out, o)];
        double sum = has_bias ? b[static_cast<std::size_t>(o)] : 0.0;
        for (int i = 0; i < s.in; ++i) {
          sum += x[at(n, s.in, i)] * w[at(o, s.in, i)];
          dx[at(n, s.in, i)] += dy_o * w[at(o, s.in, i)];
          weight[at(o, s.in, i)] += dy_o * x[at(n, s.in, i)];
        }
        y[at(n, s.out, o)] = sum;
        bias[static_cast<std::size_t>(o)] += dy_o;
      }
    }
  }
};

template <class T, bool Bias>
double error_of(Sizes s, Setting const& setting) {
  Numbers const x = test::numbers<T>(std::int64_t{setting.batch} * s.in, 1);
  Numbers const w = test::numbers<float>(std::int64_t{s.out} * s.in, 2);
  Numbers const b = test::numbers<float>(s.out, 3);
  Numbers const dy = test::numbers<T>(std::int64_t{setting.batch} * s.out, 4);
  auto const x_t = test::as<T>(x);
  auto const dy_t = test::as<T>(dy);
  auto w_t = test::as<float>(w);
  auto b_t = test::as<float>(b);
  std::vector<T> y(dy.size(), T{NAN});
  std::vector<T> dx(x.size(), T{NAN});
  float const before = setting.accumulate ? 0.25F : 0.0F;
  std::vector<float> weight(w.size(), setting.accumulate ? before : NAN);
  std::vector<float> bias(b.size(), setting.accumulate ? before : NAN);

  onednn::LinearOp<T, Bias> op{{.node = {.in = vector_shape(s.in), .out = vector_shape(s.out)},
                                .batch = setting.planned,
                                .threads = setting.threads}};
  host::Device device{setting.threads};
  test::OpMemory memory{op.needs()};
  memory.give(device);
  T const* inputs[] = {x_t.data()};
  T* input_gradients[] = {dx.data()};
  float* parameters[] = {w_t.data(), b_t.data()};
  float* gradients[] = {weight.data(), bias.data()};
  Operands<T, float> const o{.x = inputs,
                             .y = y.data(),
                             .dy = dy_t.data(),
                             .dx = input_gradients,
                             .parameter = parameters,
                             .gradient = gradients,
                             .packed = memory.packed()};
  Pass<host::Device> const p{
      .device = device, .batch = setting.batch, .accumulate = setting.accumulate};
  op.pack(o, device);
  op.forward(o, p);
  if (!std::is_same_v<T, float>) {  // later weights are not seen ...
    for (float& number : w_t) {
      number = -number;
    }
  }
  op.input_gradient(o, p);
  op.weight_gradient(o, p);
  CHECK(memory.guards_hold());

  Numbers const w_rounded = test::as_doubles(test::as<T>(w));
  Results const wanted{s, setting.batch, Bias, static_cast<double>(before), x, w_rounded, b, dy};
  Results const sums{s,
                     setting.batch,
                     Bias,
                     static_cast<double>(before),
                     test::magnitudes(x),
                     test::magnitudes(w_rounded),
                     test::magnitudes(b),
                     test::magnitudes(dy)};
  double worst = test::error_over_bound(y, wanted.y, sums.y, s.in + 1);
  auto const count = [&](double ratio) {
    worst = std::isnan(worst) || ratio <= worst ? worst : ratio;
  };
  count(test::error_over_bound(dx, wanted.dx, sums.dx, s.out));
  count(test::error_over_bound(weight, wanted.weight, sums.weight, setting.batch + 1));
  if (Bias) {
    count(test::error_over_bound(bias, wanted.bias, sums.bias, setting.batch + 1));
  }
  if (!std::is_same_v<T, float>) {  // ... before the next pack()
    op.pack(o, device);
    op.input_gradient(o, p);
    Numbers negative = wanted.dx;
    for (double& number : negative) {
      number = -number;
    }
    count(test::error_over_bound(dx, negative, sums.dx, s.out));
  }
  return worst;
}

TEST_CASE_TEMPLATE("Linear by oneDNN is the matrix product", T, float, BFloat16) {
  if (!test::computes<T>()) {
    return;
  }
  for (Sizes const s : {Sizes{17, 3}, Sizes{1, 1}, Sizes{64, 10}, Sizes{130, 257}, Sizes{513, 40},
                        Sizes{3, 100}, Sizes{63, 19}, Sizes{19, 63}, Sizes{63, 80}}) {
    for (Setting const& setting :
         {Setting{.planned = 5, .batch = 5}, Setting{.planned = 1, .batch = 1, .accumulate = true},
          Setting{.planned = 8, .batch = 3, .threads = 2},
          Setting{.planned = 3, .batch = 33, .threads = 2, .accumulate = true}}) {
      CAPTURE(s.in);
      CAPTURE(s.out);
      CAPTURE(setting.batch);
      CAPTURE(setting.threads);
      CHECK(error_of<T, true>(s, setting) <= 1.0);
      CHECK(error_of<T, false>(s, setting) <= 1.0);
    }
  }
}

TEST_CASE_TEMPLATE("the gradient of no samples is zero", Precision, Fp32, Bf16) {
  using T = typename Precision::Scalar;
  if (!test::computes<T>()) {
    return;
  }
  Op<Linear<3>, BasicHost<OneDnn, Precision>> op{
      {.node = {.in = vector_shape(2), .out = vector_shape(3)}, .batch = 1}};
  CHECK(op.needs().input);
  host::Device device{1};
  std::vector<float> weight(6, 1.0F);
  std::vector<float> bias(3, 1.0F);
  float* gradients[] = {weight.data(), bias.data()};
  Operands<T, float> const o{.gradient = gradients};
  op.forward(o, {.device = device});
  op.input_gradient(o, {.device = device});
  op.weight_gradient(o, {.device = device, .accumulate = true});
  CHECK(weight[5] == 1.0F);
  CHECK(bias[2] == 1.0F);
  op.weight_gradient(o, {.device = device});
  CHECK(weight == std::vector<float>(6, 0.0F));
  CHECK(bias == std::vector<float>(3, 0.0F));
}

}  // namespace linear_test

#endif
