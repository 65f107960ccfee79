// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/ops/onednn/batch_norm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/kernels/host/batch_norm.hpp>
#include <tandem/kernels/host/batch_norm_evaluation.hpp>

#include "channels_last.hpp"

namespace batch_norm_test {

using namespace tandem;
using test::Stored;
using Layer = BatchNorm2d<Epsilon<1, 1024>>;

constexpr double epsilon = 0x1p-10;
constexpr double share = 0.25;

enum class Statistics { of_batch, running, frozen };

struct Sizes {
  int batch, channels, pixels, x_gap, y_gap;

  [[nodiscard]] std::int64_t rows() const { return std::int64_t{batch} * pixels; }
  [[nodiscard]] std::int64_t elements() const { return rows() * channels; }
  [[nodiscard]] std::size_t channel(std::size_t i) const {
    return i / static_cast<std::size_t>(pixels) % static_cast<std::size_t>(channels);
  }
};

// One pixel; few channels; channels that 16 do not divide; several parts of 256 rows; more rows
// than 64 of them, so that a part has two blocks.
constexpr Sizes sizes[] = {{1, 24, 1, 0, 0},   {2, 1, 1, 0, 3},    {1, 3, 2, 2, 0},
                           {3, 17, 35, 15, 7}, {2, 24, 64, 8, 40}, {5, 16, 130, 160, 0},
                           {4, 40, 333, 0, 8}, {1, 33, 7, 5, 5},   {2, 3, 8300, 1, 0}};

struct Setting {
  Sizes n;
  Statistics statistics = Statistics::of_batch;
  bool relu = false;
  bool accumulate = false;
  bool input_gradient = true;
  int threads = 1;
};

/// In user order; what the op reads.
struct Input {
  std::vector<float> x, dy;
  std::vector<std::vector<float>> parameter;

  template <class T>
  static Input random(Sizes const& n) {
    Input in{test::exact<T>(n.elements(), 1), test::exact<T>(n.elements(), 2), {}};
    for (std::uint64_t i = 0; i < 4; ++i) {
      in.parameter.push_back(test::random<float>(n.channels, 3 + i));
    }
    for (float& variance : in.parameter[3]) {
      variance = std::abs(variance);
    }
    return in;
  }
};

struct Result {
  std::vector<float> y, dx;
  std::vector<std::vector<float>> gradient;
};

std::vector<float> old_gradient(Sizes const& n, std::uint64_t which) {
  return test::random<float>(n.channels, 20 + which);
}

template <class Precision>
Result run(Setting const& at, Input const& in) {
  using T = typename Precision::Scalar;
  Sizes const& n = at.n;
  host::Device device{at.threads};
  OpSetup setup{.batch = n.batch,
                .threads = at.threads,
                .wants_input_gradient = at.input_gradient,
                .x_stride = n.channels + n.x_gap,
                .y_stride = n.channels + n.y_gap};
  setup.node.in = setup.node.out = image_shape(n.channels, n.pixels, 1);
  setup.node.fusion.relu = at.relu;
  setup.node.frozen = at.statistics == Statistics::frozen;
  Op<Layer, BasicHost<OneDnn, Precision>> const op{setup};

  Stored<T> x{n.batch, n.channels, n.pixels, setup.x_stride, n.x_gap / 2};
  Stored<T> y{n.batch, n.channels, n.pixels, setup.y_stride, n.y_gap / 2};
  auto dx = x;
  auto dy = y;
  x.set(in.x);
  dy.set(in.dy);
  T const* const x_pointer = x.data();
  T* const dx_pointer = dx.data();
  auto parameter = in.parameter;
  Result result;
  float* parameters[4];
  float* gradients[4];
  for (std::size_t i = 0; i < 4; ++i) {
    parameters[i] = parameter[i].data();
    result.gradient.push_back(at.accumulate ? old_gradient(n, i)
                                            : test::poisoned<float>(n.channels));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    gradients[i] = result.gradient[i].data();
  }
  OpNeeds const needs = op.needs();
  host::Buffer const saved{static_cast<std::size_t>(needs.saved_bytes)};
  host::Buffer const scratch{static_cast<std::size_t>(needs.scratch_bytes)};
  auto const poison = [](host::Buffer const& memory) {  // bytes of NaN
    std::fill(memory.data(), memory.data() + memory.bytes(), std::byte{0xFF});
  };
  poison(saved);
  poison(scratch);
  device.scratch = scratch.data();
  Operands<T, float> const operands{.x = &x_pointer,
                                    .y = y.data(),
                                    .dy = dy.data(),
                                    .dx = &dx_pointer,
                                    .parameter = parameters,
                                    .gradient = gradients,
                                    .saved = saved.data()};
  Pass<host::Device> const pass{.device = device,
                                .batch = n.batch,
                                .share = share,
                                .training = at.statistics != Statistics::running,
                                .accumulate = at.accumulate};
  op.forward(operands, pass);
  if (at.statistics != Statistics::running) {
    poison(scratch);  // other ops use it between the passes
    if (at.input_gradient) {
      op.input_gradient(operands, pass);
    }
    poison(scratch);
    if (at.statistics == Statistics::of_batch) {
      op.weight_gradient(operands, pass);
    }
  }
  CHECK(y.canaries_live(n.batch));
  CHECK(dx.canaries_live(at.statistics != Statistics::running && at.input_gradient ? n.batch : 0));
  result.y = y.get();
  result.dx = dx.get();
  return result;
}

/// The same with one thread and with three, which must give the same bits.
template <class Precision>
Result on_threads(Setting at, Input const& in) {
  Result const one = run<Precision>(at, in);
  at.threads = 3;
  Result const three = run<Precision>(at, in);
  CHECK(test::same_bits(one.y, three.y));
  CHECK(test::same_bits(one.dx, three.dx));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(test::same_bits(one.gradient[i], three.gradient[i]));
  }
  return one;
}

using Doubles = std::vector<double>;

Doubles wide(std::vector<float> const& v) { return {v.begin(), v.end()}; }

/// What the portable kernels compute in double. @p mask_y is what forward wrote: a ReLU's mask.
struct Expected {
  Doubles y, dx, inverse;
  std::vector<Doubles> gradient;

  Expected(Setting const& at, Input const& in, std::vector<float> const& mask_y) {
    Sizes const& n = at.n;
    test::Team team{1};
    auto const channels = static_cast<std::size_t>(n.channels);
    Doubles const x = wide(in.x);
    Doubles const gain = wide(in.parameter[0]);
    Doubles const bias = wide(in.parameter[1]);
    Doubles g = wide(in.dy);
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = at.relu && mask_y[i] <= 0 ? 0 : g[i];
    }
    y.resize(x.size());
    dx.resize(x.size());
    gradient.assign(4, Doubles(channels));
    Doubles mean = wide(in.parameter[2]);
    Doubles variance = wide(in.parameter[3]);
    inverse.resize(channels);
    if (at.statistics == Statistics::of_batch) {
      host::batch_norm_forward(team, n.batch, n.channels, n.pixels, x.data(), gain.data(),
                               bias.data(), epsilon, y.data(), mean.data(), inverse.data(),
                               variance.data());
      host::batch_norm_input_gradient(team, n.batch, n.channels, n.pixels, x.data(), g.data(),
                                      gain.data(), mean.data(), inverse.data(), dx.data());
      host::batch_norm_parameter_gradient(team, n.batch, n.channels, n.pixels, x.data(), g.data(),
                                          mean.data(), inverse.data(), gradient[0].data(),
                                          gradient[1].data(), false);
      host::batch_norm_statistics(team, n.channels, n.rows(), share, mean.data(), variance.data(),
                                  gradient[2].data(), gradient[3].data(), false);
    } else {
      host::batch_norm_evaluation_forward(team, n.batch, n.channels, n.pixels, x.data(),
                                          gain.data(), bias.data(), mean.data(), variance.data(),
                                          epsilon, y.data());
      host::batch_norm_evaluation_input_gradient(team, n.batch, n.channels, n.pixels, g.data(),
                                                 gain.data(), variance.data(), epsilon, dx.data());
      for (std::size_t c = 0; c < channels; ++c) {
        inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
      }
    }
    for (double& value : y) {
      value = at.relu ? std::max(value, 0.0) : value;
    }
  }
};

template <class T>
constexpr double rounding = 0;  // of a stored number: float is what is computed in
template <>
constexpr double rounding<BFloat16> = 0x1p-8;  // half of its epsilon

/// With |x| <= 1 and r roundings of eps in each sum, to first order: the mean is off by r eps, the
/// variance by v = 12 r eps, the inverse deviation, relatively, by v inverse² / 2.
template <class Precision>
void check(Setting const& at) {
  using T = typename Precision::Scalar;
  Sizes const& n = at.n;
  auto const in = Input::random<T>(n);
  Result const result = on_threads<Precision>(at, in);
  Expected const expected{at, in, result.y};
  double const eps = test::eps<float>;
  double const r_eps = (static_cast<double>(std::min<std::int64_t>(n.rows(), 256)) + 8) * eps;
  Doubles y_bound, dx_bound;
  for (std::size_t i = 0; i < result.y.size(); ++i) {
    double const inverse = expected.inverse[n.channel(i)];
    double const gain = std::abs(static_cast<double>(in.parameter[0][n.channel(i)]));
    double const relative = 6 * r_eps * inverse * inverse + 2 * eps;
    y_bound.push_back(inverse * gain * (2 * r_eps + 2 * relative) + 4 * eps * (1 + 2 * inverse) +
                      rounding<T> * std::abs(expected.y[i]));
    // Every term of dx is at most inverse gain (1 + 1 + 4 inverse²) in size.
    dx_bound.push_back(inverse * gain * (2 + 4 * inverse * inverse) * (r_eps + 2 * relative) +
                       rounding<T> * std::abs(expected.dx[i]) + eps * eps);
  }
  CHECK(test::within(result.y, expected.y, y_bound));
  if (at.relu) {
    CHECK(*std::min_element(result.y.begin(), result.y.end()) >= 0);
  }
  if (at.statistics != Statistics::running && at.input_gradient) {
    CHECK(test::within(result.dx, expected.dx, dx_bound));
  }
  if (at.statistics != Statistics::of_batch) {
    return;
  }
  auto const rows = static_cast<double>(n.rows());
  for (std::size_t c = 0; c < expected.inverse.size(); ++c) {
    double const inverse = expected.inverse[c];
    double const relative = 6 * r_eps * inverse * inverse + 2 * eps;
    double const bounds[] = {rows * inverse * (4 * r_eps + 2 * relative), rows * r_eps, r_eps,
                             12 * r_eps};
    for (std::size_t i = 0; i < 4; ++i) {
      double const old = at.accumulate ? static_cast<double>(old_gradient(n, i)[c]) : 0.0;
      double const value = static_cast<double>(result.gradient[i][c]);
      CHECK(std::abs(value - (old + expected.gradient[i][c])) <=
            bounds[i] + 2 * eps * (1 + std::abs(value)));
    }
  }
}

TEST_CASE_TEMPLATE("onednn batch norm: training", Precision, Fp32, Bf16) {
  for (Sizes const& n : sizes) {
    for (bool const relu : {false, true}) {
      for (bool const accumulate : {false, true}) {
        CAPTURE(n.channels);
        CAPTURE(relu);
        check<Precision>({.n = n, .relu = relu, .accumulate = accumulate});
      }
    }
  }
}

TEST_CASE_TEMPLATE("onednn batch norm: running statistics and frozen", Precision, Fp32, Bf16) {
  for (Sizes const& n : sizes) {
    for (bool const relu : {false, true}) {
      check<Precision>({.n = n, .statistics = Statistics::running, .relu = relu});
      check<Precision>({.n = n, .statistics = Statistics::frozen, .relu = relu});
    }
  }
}

TEST_CASE_TEMPLATE("onednn batch norm: weight gradients without an input gradient", Precision, Fp32,
                   Bf16) {
  for (Sizes const& n : sizes) {
    for (bool const relu : {false, true}) {
      Setting at{.n = n, .relu = relu};
      auto const in = Input::random<typename Precision::Scalar>(n);
      Result const with = run<Precision>(at, in);
      at.input_gradient = false;
      Result const without = on_threads<Precision>(at, in);
      at.accumulate = true;
      Result const added = on_threads<Precision>(at, in);
      for (std::size_t i = 0; i < 4; ++i) {
        CHECK(test::same_bits(with.gradient[i], without.gradient[i]));
      }
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t c = 0; c < with.gradient[i].size(); ++c) {
          auto const term = static_cast<double>(with.gradient[i][c]);
          auto const old = static_cast<double>(old_gradient(n, i)[c]);
          // The term is a product, which the compiler may round together with the sum, or not.
          CHECK(std::abs(static_cast<double>(added.gradient[i][c]) - (term + old)) <=
                test::eps<float> * (std::abs(term) + std::abs(old)));
        }
      }
    }
  }
}

TEST_CASE("onednn batch norm: a mean far from 0 costs the variance no digits") {
  for (Sizes const& n : {Sizes{3, 17, 35, 0, 0}, Sizes{4, 40, 333, 0, 8}}) {
    Input in = Input::random<float>(n);
    for (float& value : in.x) {
      value = 512.0F + std::round(value * 1024.0F) / 16384.0F;  // exact; a deviation of 1 / 28
    }
    Result const result = on_threads<Fp32>({.n = n}, in);
    Expected const expected{{.n = n}, in, result.y};
    for (std::size_t c = 0; c < expected.inverse.size(); ++c) {
      double const variance = expected.gradient[3][c];
      CHECK(std::abs(static_cast<double>(result.gradient[3][c]) - variance) <= 1e-5 * variance);
      CHECK(std::abs(static_cast<double>(result.gradient[2][c]) - expected.gradient[2][c]) <=
            test::eps<float> * share * 512);
    }
    // The mean as a float is off by 512 eps / 2 at most, and xhat by that times inverse < 1 / 0.03.
    double const off = 256 * test::eps<float> / 0.03;
    CHECK(test::within(result.y, expected.y, test::constant(expected.y.size(), off + 1e-4)));
  }
}

// Whatever stands first, or in the first rows, or where a block begins, is no measure of the rest.
TEST_CASE_TEMPLATE("onednn batch norm: no pixel's value costs the variance digits", Precision, Fp32,
                   Bf16) {
  using T = typename Precision::Scalar;
  for (Sizes const& n :
       {Sizes{2, 17, 35, 0, 0}, Sizes{2, 40, 333, 0, 8}, Sizes{2, 3, 8300, 1, 0}}) {
    auto const pixels = static_cast<std::size_t>(n.pixels);
    for (std::size_t const odd : {std::size_t{1}, std::size_t{4}, std::size_t{30}}) {
      for (float const value : {0.0F, -3000.0F, 100000.0F}) {
        CAPTURE(odd);
        CAPTURE(value);
        Input in = Input::random<T>(n);
        for (std::size_t i = 0; i < in.x.size(); ++i) {
          float const x = i % pixels < odd ? value : 100.0F + 0.9F * in.x[i];
          in.x[i] = static_cast<float>(static_cast<T>(x));
        }
        Result const result = on_threads<Precision>({.n = n}, in);
        Expected const expected{{.n = n}, in, result.y};
        for (std::size_t c = 0; c < expected.inverse.size(); ++c) {
          double const variance = expected.gradient[3][c];
          // A sum of 256 squares in float: so many roundings.
          CHECK(std::abs(static_cast<double>(result.gradient[3][c]) - variance) <=
                128 * test::eps<float> * variance);
        }
      }
    }
  }
}

TEST_CASE("onednn batch norm: one pixel gives the bias and passes no gradient") {
  Sizes const n{1, 24, 1, 0, 0};
  auto const in = Input::random<float>(n);
  Result const result = run<Fp32>({.n = n}, in);
  CHECK(test::same_bits(result.y, in.parameter[1]));
  for (std::size_t c = 0; c < result.dx.size(); ++c) {
    CHECK(result.dx[c] == 0.0F);
    CHECK(result.gradient[0][c] == 0.0F);
    CHECK(result.gradient[1][c] == in.dy[c]);
    CHECK(result.gradient[2][c] == 0.25F * in.x[c]);
    CHECK(result.gradient[3][c] == 0.0F);
  }
}

TEST_CASE("onednn batch norm: an empty microbatch has gradients of 0") {
  Sizes const n{0, 24, 5, 0, 0};
  auto const in = Input::random<float>(n);
  Result const written = run<Fp32>({.n = n}, in);
  Result const added = run<Fp32>({.n = n, .accumulate = true}, in);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(written.gradient[i] == std::vector<float>(24));
    CHECK(added.gradient[i] == old_gradient(n, i));
  }
}

TEST_CASE("onednn batch norm: a NaN stays one through a ReLU") {
  Sizes const n{2, 17, 3, 0, 0};
  Input in = Input::random<float>(n);
  in.x[5] = test::nan<float>;
  Result const result = run<Fp32>({.n = n, .relu = true}, in);
  for (std::size_t i = 0; i < result.y.size(); ++i) {
    CHECK(std::isnan(result.y[i]) == (n.channel(i) == n.channel(5)));
  }
}

}  // namespace batch_norm_test

#endif
