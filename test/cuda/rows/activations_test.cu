// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/activations.cuh>
#include <tandem/kernels/cuda/positions.cuh>
#include <tandem/kernels/cuda/softmax.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace activations_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

template <class Function, class T>
void check_activation(std::int64_t n, bool unaligned) {
  auto const x = test::numbers<T>(n, 1, 6);
  auto const dy = test::numbers<T>(n, 2);
  DeviceArray<T> const in{gpu(), x, {.unaligned = unaligned}};
  DeviceArray<T> const y{gpu(), n};
  cuda::activation_forward<Function>(gpu().compute, in.data(), y.data(), n);
  auto const forward = y.host();
  std::vector<double> value;
  std::vector<double> gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const at = test::number(x[i]);
    value.push_back(Function::value(at));
    double const kept = Function::gradient_from_output ? test::number(forward[i]) : at;
    gradient.push_back(Function::gradient(kept, test::number(dy[i])));
  }
  // The arguments of exp, erfc and tanh are rounded, and are at most 36 in size.
  auto const bound = [&](double expected, double size) {
    return 64 * test::unit<T> * size + test::stored_unit<T> * std::abs(expected);
  };
  test::check_within(forward, value, [&](std::size_t i) {
    return bound(value[i], 1 + std::abs(test::number(x[i])));
  });
  DeviceArray<T> const slope{gpu(), dy};
  T const* const kept = Function::gradient_from_output ? y.data() : in.data();
  cuda::activation_gradient<Function>(gpu().compute, kept, slope.data(), slope.data(), n);
  test::check_within(slope.host(), gradient, [&](std::size_t i) {
    return bound(gradient[i], 1 + std::abs(test::number(x[i])));
  });
}

TEST_CASE_TEMPLATE("smooth activations: values and gradients as in double", T, float, double,
                   BFloat16) {
  for (std::int64_t const n : {0, 1, 100, 1023}) {
    for (bool const unaligned : {false, true}) {
      check_activation<GeluFunction, T>(n, unaligned);
      check_activation<GeluTanhFunction, T>(n, unaligned);
      check_activation<SiluFunction, T>(n, unaligned);
      check_activation<SigmoidFunction, T>(n, unaligned);
      check_activation<TanhFunction, T>(n, unaligned);
    }
  }
}

TEST_CASE_TEMPLATE("SwiGLU: the first half of a row gates the second", T, float, double, BFloat16) {
  for (test::Size const& n : test::sizes) {
    CAPTURE(n.rows);
    CAPTURE(n.columns);
    auto const x = test::numbers<T>(2 * n.elements(), 1, 4);
    auto const dy = test::numbers<T>(n.elements(), 2);
    std::vector<double> value(dy.size());
    std::vector<double> gradient(x.size());
    auto const columns = static_cast<std::size_t>(n.columns);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      std::size_t const gate = i / columns * 2 * columns + i % columns;
      std::size_t const up = gate + columns;
      double const z = test::number(x[gate]);
      double const other = test::number(x[up]);
      value[i] = SwiGluFunction::value(z, other);
      auto const both = SwiGluFunction::gradient(z, other, test::number(dy[i]));
      gradient[gate] = both.gate;
      gradient[up] = both.up;
    }
    auto const bound = [](double expected) {
      return 256 * test::unit<T> + test::stored_unit<T> * std::abs(expected);
    };
    for (bool const unaligned : {false, true}) {
      DeviceArray<T> const in{gpu(), x, {.unaligned = unaligned}};
      DeviceArray<T> const slope{gpu(), dy};
      DeviceArray<T> const y{gpu(), n.elements()};
      cuda::swiglu_forward(gpu().compute, in.data(), n.rows, n.columns, y.data());
      test::check_within(y.host(), value, [&](std::size_t i) { return bound(value[i]); });
      DeviceArray<T> const dx{gpu(), 2 * n.elements(), {.unaligned = unaligned}};
      cuda::swiglu_gradient(gpu().compute, in.data(), slope.data(), n.rows, n.columns, dx.data());
      auto const apart = dx.host();
      test::check_within(apart, gradient, [&](std::size_t i) { return bound(gradient[i]); });
      cuda::swiglu_gradient(gpu().compute, in.data(), slope.data(), n.rows, n.columns, in.data());
      CHECK(test::same_bits(in.host(), apart));
    }
  }
}

constexpr test::Size softmax_sizes[] = {{1, 1},    {5, 2},    {7, 10},  {64, 33},
                                        {2, 1024}, {3, 1025}, {2, 9000}};

TEST_CASE_TEMPLATE("softmax of rows, and its gradient", T, float, double, BFloat16) {
  for (test::Size const& n : softmax_sizes) {
    for (double const offset : {0.0, 300.0}) {
      auto const x = test::numbers<T>(n.elements(), 1, 8, offset);
      auto const dy = test::numbers<T>(n.elements(), 2);
      std::vector<double> p = test::in_double(x);
      std::vector<double> gradient(p.size());
      auto const columns = static_cast<std::size_t>(n.columns);
      for (std::size_t first = 0; first < p.size(); first += columns) {
        double total = 0;
        for (std::size_t i = first; i < first + columns; ++i) {
          p[i] = std::exp(p[i] - offset);
          total += p[i];
        }
        for (std::size_t i = first; i < first + columns; ++i) {
          p[i] /= total;
        }
      }
      double const lanes = cuda::takes_whole_block(n.columns) ? 256 : 32;
      double const relative = test::unit<T> * (16 + 4 * 8 + 2 * std::ceil(n.columns / lanes));
      DeviceArray<T> const in{gpu(), x};
      DeviceArray<T> const y{gpu(), n.elements()};
      cuda::softmax_forward(gpu().compute, in.data(), n.rows, n.columns, y.data());
      auto const forward = y.host();
      test::check_within(forward, p, [&](std::size_t i) {
        return (4 * relative + test::stored_unit<T>)*p[i] + 0x1p-149;
      });
      cuda::softmax_forward(gpu().compute, in.data(), n.rows, n.columns, in.data());
      CHECK(test::same_bits(in.host(), forward));

      auto const kept = test::in_double(forward);
      for (std::size_t first = 0; first < p.size(); first += columns) {
        double mean = 0;
        for (std::size_t i = first; i < first + columns; ++i) {
          mean += kept[i] * test::number(dy[i]);
        }
        for (std::size_t i = first; i < first + columns; ++i) {
          gradient[i] = kept[i] * (test::number(dy[i]) - mean);
        }
      }
      DeviceArray<T> const slope{gpu(), dy};
      cuda::softmax_gradient(gpu().compute, y.data(), slope.data(), n.rows, n.columns,
                             slope.data());
      test::check_within(slope.host(), gradient, [&](std::size_t i) {
        return 4 * relative * kept[i] + test::stored_unit<T> * std::abs(gradient[i]) + 0x1p-149;
      });
    }
  }
}

TEST_CASE("softmax of rows: masked logits have probability 0, a NaN spoils its row only") {
  float const infinity = INFINITY;
  DeviceArray<float> const x{gpu(), std::vector<float>{0, -infinity, 0, 1, NAN, 1, 200, 200, -200}};
  cuda::softmax_forward(gpu().compute, x.data(), 3, 3, x.data());
  auto const y = x.host();
  CHECK(y[0] == 0.5F);
  CHECK(y[1] == 0.0F);
  CHECK(y[2] == 0.5F);
  CHECK(std::isnan(y[3]));
  CHECK(std::isnan(y[5]));
  CHECK(y[6] == 0.5F);
  CHECK(y[8] == 0.0F);
}

TEST_CASE_TEMPLATE("positions are added to each sample; their gradient is the sum over samples", T,
                   float, double, BFloat16) {
  using P = MasterOf<T>;
  constexpr int width = 12;
  for (int const batch : {0, 1, 5, 70}) {
    for (int const time : {1, 3, 16}) {
      constexpr int longest = 16;
      int const elements = time * width;
      auto const x = test::numbers<T>(std::int64_t{batch} * elements, 1);
      auto const table = test::numbers<P>(longest * width, 2);
      DeviceArray<T> const in{gpu(), x};
      DeviceArray<P> const at{gpu(), table};
      DeviceArray<T> const y{gpu(), std::int64_t{batch} * elements};
      cuda::positions_forward(gpu().compute, in.data(), at.data(), batch, elements, y.data());
      std::vector<T> expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected.push_back(cuda::store<T>(
            cuda::load(x[i]) +
            static_cast<cuda::ComputeType<T>>(table[i % static_cast<std::size_t>(elements)])));
      }
      CHECK(test::same_bits(y.host(), expected));
      for (bool const accumulate : {false, true}) {
        DeviceArray<P> const gradient{gpu(), table};
        DeviceArray<std::byte> const scratch{
            gpu(), cuda::positions_scratch_bytes<T>(batch, longest * width)};
        cuda::positions_gradient(gpu().compute, in.data(), batch, elements, longest * width,
                                 gradient.data(), accumulate, scratch.data());
        std::vector<double> sum(table.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          sum[i % static_cast<std::size_t>(elements)] += test::number(x[i]);
        }
        for (std::size_t i = 0; i < table.size() && accumulate; ++i) {
          sum[i] += test::number(table[i]);
        }
        test::check_within(gradient.host(), sum, [&](std::size_t) {
          return test::unit<P> * (batch + 1) * (test::roundings<T>(batch, elements) + 2);
        });
        static_cast<void>(scratch.host());
      }
    }
  }
}

}  // namespace
}  // namespace activations_test
}  // namespace tandem
