// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/kernels/cuda/row_norm_weight_gradient.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace row_norm_test {
namespace {

using cuda::RowNorm;
using cuda::RowNormSaved;
using test::DeviceArray;
using test::gpu;
using test::MasterOf;

constexpr double epsilon = 1e-5;

// A warp a row and a block a row, in packs and not, rows that do not fill a block.
constexpr test::Size sizes[] = {{1, 1},  {3, 2},    {9, 7},    {65, 64},  {5, 384},
                                {7, 33}, {2, 1024}, {3, 1032}, {2, 2047}, {130, 24}};

/// Everything in double, row by row.
struct Reference {
  std::vector<double> y, inverse, mean, dx, gain, bias;

  Reference(RowNorm kind, test::Size const& n, std::vector<double> const& x,
            std::vector<double> const& g, std::vector<double> const& b,
            std::vector<double> const& dy)
      : y(x.size()),
        inverse(static_cast<std::size_t>(n.rows)),
        mean(inverse.size()),
        dx(x.size()),
        gain(g.size()),
        bias(g.size()) {
    std::size_t const columns = g.size();
    for (std::size_t r = 0; r < inverse.size(); ++r) {
      double const* const row = x.data() + r * columns;
      double const* const slope = dy.data() + r * columns;
      double square = 0;
      for (std::size_t c = 0; c < columns && kind == RowNorm::layer; ++c) {
        mean[r] += row[c] / static_cast<double>(columns);
      }
      for (std::size_t c = 0; c < columns; ++c) {
        square += (row[c] - mean[r]) * (row[c] - mean[r]) / static_cast<double>(columns);
      }
      inverse[r] = 1 / std::sqrt(square + epsilon);
      double first = 0;
      double second = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        double const xhat = (row[c] - mean[r]) * inverse[r];
        y[r * columns + c] = xhat * g[c] + (b.empty() ? 0.0 : b[c]);
        first += kind == RowNorm::layer ? slope[c] * g[c] / static_cast<double>(columns) : 0.0;
        second += slope[c] * g[c] * xhat / static_cast<double>(columns);
        gain[c] += slope[c] * xhat;
        bias[c] += slope[c];
      }
      for (std::size_t c = 0; c < columns; ++c) {
        double const xhat = (row[c] - mean[r]) * inverse[r];
        dx[r * columns + c] = (slope[c] * g[c] - first - xhat * second) * inverse[r];
      }
    }
  }
};

template <RowNorm Kind, class T>
void check_norm(test::Size const& n, double offset, bool biased) {
  using P = MasterOf<T>;
  CAPTURE(n.rows);
  CAPTURE(n.columns);
  CAPTURE(offset);
  CAPTURE(biased);
  double const u = test::unit<P>;
  auto const x = test::numbers<T>(n.elements(), 1, 1, offset);
  auto const dy = test::numbers<T>(n.elements(), 2);
  auto const gain = test::numbers<P>(n.columns, 3, 0.5, 1);
  auto const bias = test::numbers<P>(n.columns, 4);
  Reference const expected{Kind,
                           n,
                           test::in_double(x),
                           test::in_double(gain),
                           biased ? test::in_double(bias) : std::vector<double>{},
                           test::in_double(dy)};
  DeviceArray<T> const in{gpu(), x};
  DeviceArray<P> const g{gpu(), gain};
  DeviceArray<P> const b{gpu(), bias};
  DeviceArray<T> const y{gpu(), n.elements()};
  DeviceArray<std::byte> const kept{gpu(), RowNormSaved<P>::bytes(Kind, n.rows)};
  auto const saved = RowNormSaved<P>::at(Kind, kept.data(), n.rows);
  P const* const b_or_null = biased ? b.data() : nullptr;
  cuda::row_norm_forward<Kind>(gpu().compute, in.data(), n.rows, n.columns, g.data(), b_or_null,
                               epsilon, y.data(), saved);
  // The mean is off by some u of the offset, which the deviation, at least about sqrt(epsilon),
  // magnifies; the square by a rounding a term and some of the join.
  double const terms = n.columns / 32.0 + 24;
  auto const deviation = [&](std::size_t row) { return expected.inverse[row]; };
  auto const columns = static_cast<std::size_t>(n.columns);
  auto const near = [&](std::size_t row) {
    double const moved = 8 * u * (std::abs(offset) + 1) * deviation(row);
    return moved + terms * u * 2;
  };
  auto const size = [&](std::size_t row, double xhat) {
    return near(row) * (1 + std::abs(xhat)) * (1 + near(row));
  };
  auto const forward = y.host();
  test::check_within(forward, expected.y, [&](std::size_t i) {
    double const xhat = std::abs(expected.y[i]) + 1;
    return 2 * size(i / columns, xhat) + test::stored_unit<T> * std::abs(expected.y[i]) + u;
  });
  static_cast<void>(kept.host());

  DeviceArray<T> const d{gpu(), dy};
  DeviceArray<T> const dx{gpu(), n.elements()};
  cuda::row_norm_input_gradient<Kind>(gpu().compute, in.data(), d.data(), n.rows, n.columns,
                                      g.data(), saved, dx.data());
  auto const gradient = dx.host();
  test::check_within(gradient, expected.dx, [&](std::size_t i) {
    double const scale = deviation(i / columns);
    double const largest = std::sqrt(static_cast<double>(n.columns)) + 1;  // of an xhat
    return 12 * scale * size(i / columns, largest) * 2 +
           test::stored_unit<T> * std::abs(expected.dx[i]);
  });

  DeviceArray<std::byte> const scratch{gpu(), cuda::row_norm_scratch_bytes<T>(n.rows, n.columns)};
  auto const before = test::numbers<P>(n.columns, 5);
  for (bool const accumulate : {false, true}) {
    DeviceArray<P> const dgain{gpu(), before};
    DeviceArray<P> const dbias{gpu(), before};
    cuda::row_norm_weight_gradient<Kind>(gpu().compute, in.data(), d.data(), n.rows, n.columns,
                                         saved, dgain.data(), biased ? dbias.data() : nullptr,
                                         accumulate, scratch.data());
    auto const summed = [&](std::vector<double> sum) {
      for (std::size_t c = 0; c < sum.size() && accumulate; ++c) {
        sum[c] += test::number(before[c]);
      }
      return sum;
    };
    double const share = test::roundings<T>(n.rows, n.columns) * u;
    test::check_within(dgain.host(), summed(expected.gain), [&](std::size_t) {
      double bound = 4 * u;
      for (std::size_t r = 0; r < expected.inverse.size(); ++r) {
        double const largest = std::sqrt(static_cast<double>(n.columns)) + 1;
        bound += 2 * size(r, largest) + share * largest;
      }
      return bound;
    });
    if (biased) {
      test::check_within(dbias.host(), summed(expected.bias), [&](std::size_t) {
        return (share + u) * static_cast<double>(n.rows) + 4 * u;
      });
    } else {
      CHECK(test::same_bits(dbias.host(), before));
    }
  }
  static_cast<void>(scratch.host());

  // In place, and where nothing is aligned: other orders of sums in rows that are no longer packed.
  DeviceArray<T> const place{gpu(), x};
  cuda::row_norm_forward<Kind>(gpu().compute, place.data(), n.rows, n.columns, g.data(), b_or_null,
                               epsilon, place.data(), saved);
  CHECK(test::same_bits(place.host(), forward));
  DeviceArray<T> const slope{gpu(), dy};
  cuda::row_norm_input_gradient<Kind>(gpu().compute, in.data(), slope.data(), n.rows, n.columns,
                                      g.data(), saved, slope.data());
  CHECK(test::same_bits(slope.host(), gradient));
  DeviceArray<T> const shifted{gpu(), x, {.unaligned = true}};
  cuda::row_norm_forward<Kind>(gpu().compute, shifted.data(), n.rows, n.columns, g.data(),
                               b_or_null, epsilon, y.data(), saved);
  test::check_within(y.host(), expected.y, [&](std::size_t i) {
    double const xhat = std::abs(expected.y[i]) + 1;
    return 2 * size(i / columns, xhat) + test::stored_unit<T> * std::abs(expected.y[i]) + u;
  });
}

TEST_CASE_TEMPLATE("layer norm and RMS norm: forward and gradients against sums in double", T,
                   float, double, BFloat16) {
  for (test::Size const& n : sizes) {
    for (bool const biased : {true, false}) {
      check_norm<RowNorm::layer, T>(n, 0, biased);
      check_norm<RowNorm::rms, T>(n, 0, biased);
    }
    check_norm<RowNorm::layer, T>(n, 100, true);  // a mean far from 0 costs no digits of the square
  }
}

TEST_CASE_TEMPLATE("a norm of a sum is the sum, then the norm; its gradient adds the other path", T,
                   float, double, BFloat16) {
  using P = MasterOf<T>;
  for (test::Size const& n : sizes) {
    auto const x = test::numbers<T>(n.elements(), 1);
    auto const residual = test::numbers<T>(n.elements(), 2, 3);
    std::vector<T> both(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      both[i] = cuda::store<T>(cuda::load(x[i]) + cuda::load(residual[i]));
    }
    DeviceArray<P> const gain{gpu(), test::numbers<P>(n.columns, 3)};
    DeviceArray<P> const bias{gpu(), test::numbers<P>(n.columns, 4)};
    DeviceArray<std::byte> const kept{gpu(), RowNormSaved<P>::bytes(RowNorm::layer, n.rows)};
    auto const saved = RowNormSaved<P>::at(RowNorm::layer, kept.data(), n.rows);
    auto const norm = [&](DeviceArray<T> const& in, T const* other, T* sum) {
      DeviceArray<T> const y{gpu(), n.elements()};
      cuda::row_norm_forward<RowNorm::layer>(gpu().compute, in.data(), n.rows, n.columns,
                                             gain.data(), bias.data(), epsilon, y.data(), saved,
                                             other, sum);
      return y.host();
    };
    DeviceArray<T> const own{gpu(), x};
    DeviceArray<T> const other{gpu(), residual};
    DeviceArray<T> const added{gpu(), both};
    auto const expected = norm(added, nullptr, nullptr);
    DeviceArray<T> const sum{gpu(), n.elements()};
    CHECK(test::same_bits(norm(own, other.data(), sum.data()), expected));
    CHECK(test::same_bits(sum.host(), both));
    CHECK(test::same_bits(norm(own, other.data(), other.data()), expected));  // the sum in place
    CHECK(test::same_bits(other.host(), both));

    DeviceArray<T> const dy{gpu(), test::numbers<T>(n.elements(), 5)};
    auto const past = test::numbers<T>(n.elements(), 6);
    DeviceArray<T> const also{gpu(), past};
    DeviceArray<T> const dx{gpu(), n.elements()};
    auto const gradient = [&](T const* add) {
      cuda::row_norm_input_gradient<RowNorm::layer>(gpu().compute, sum.data(), dy.data(), n.rows,
                                                    n.columns, gain.data(), saved, dx.data(), add);
      return dx.host();
    };
    auto const alone = gradient(nullptr);
    auto const together = gradient(also.data());
    for (std::size_t i = 0; i < past.size(); ++i) {
      both[i] = cuda::store<T>(cuda::load(past[i]) + cuda::load(alone[i]));
    }
    CHECK(test::same_bits(together, both));
  }
}

TEST_CASE_TEMPLATE("a norm of a sum with a dropout: the bits of one kernel after another", T, float,
                   double, BFloat16) {
  using P = MasterOf<T>;
  constexpr float rate = 0.3F;
  DeviceArray<std::uint64_t> const seed{gpu(), std::vector<std::uint64_t>{41}};
  DeviceArray<std::int64_t> const step{gpu(), std::vector<std::int64_t>{7}};
  cuda::DropoutSource const source{seed.data(), step.data(), 5, 3};
  for (int const columns : {1, 6, 8, 24, 1032}) {
    constexpr int samples = 3;
    constexpr int time = 5;
    INFO(columns << " columns");
    std::int64_t const n = std::int64_t{samples} * time * columns;
    DeviceArray<T> const x{gpu(), test::numbers<T>(n, 1)};
    DeviceArray<T> const residual{gpu(), test::numbers<T>(n, 2, 3)};
    DeviceArray<P> const gain{gpu(), test::numbers<P>(columns, 3)};
    DeviceArray<std::byte> const kept{gpu(),
                                      RowNormSaved<P>::bytes(RowNorm::layer, samples * time)};
    auto const saved = RowNormSaved<P>::at(RowNorm::layer, kept.data(), samples * time);
    DeviceArray<T> const dropped{gpu(), n};
    DeviceArray<T> const added{gpu(), n};
    DeviceArray<T> const sum{gpu(), n};
    DeviceArray<T> const y{gpu(), n};
    auto const norm = [&](T const* in, T* to, cuda::RowDropout const& dropout) {
      cuda::row_norm_forward<RowNorm::layer>(gpu().compute, in, samples * time, columns,
                                             gain.data(), static_cast<P const*>(nullptr), epsilon,
                                             y.data(), saved, residual.data(), to, dropout);
      return y.host();
    };
    cuda::dropout_forward(gpu().compute, samples, time * columns, 1, source, rate, x.data(),
                          dropped.data());
    auto const expected = norm(dropped.data(), added.data(), {});
    CHECK(test::same_bits(
        norm(x.data(), sum.data(), {source, rate, {.count = samples * time, .of_sample = time}}),
        expected));
    CHECK(test::same_bits(sum.host(), added.host()));
    for (std::int64_t const first : {0, 8}) {  // the same by rows, of which 8 and 7 are a rank's
      std::int64_t const at = first * columns;
      std::int64_t const count = first == 0 ? 8 : 7;
      cuda::row_norm_forward<RowNorm::layer>(gpu().compute, x.data() + at, count, columns,
                                             gain.data(), static_cast<P const*>(nullptr), epsilon,
                                             y.data() + at, saved, residual.data() + at,
                                             sum.data() + at, {source, rate, {first, count, time}});
    }
    CHECK(test::same_bits(y.host(), expected));
    CHECK(test::same_bits(sum.host(), added.host()));
  }
}

TEST_CASE("a norm of no rows does nothing") {
  DeviceArray<float> const none{gpu(), 0};
  DeviceArray<float> const gain{gpu(), std::vector<float>{1, 2, 3, 4}};
  DeviceArray<float> const sum{gpu(), std::vector<float>{1, 2, 3, 4}};
  auto const saved = RowNormSaved<float>::at(RowNorm::rms, nullptr, 0);
  cuda::row_norm_forward<RowNorm::rms>(gpu().compute, none.data(), 0, 4, gain.data(),
                                       static_cast<float const*>(nullptr), epsilon, none.data(),
                                       saved);
  cuda::row_norm_input_gradient<RowNorm::rms>(gpu().compute, none.data(), none.data(), 0, 4,
                                              gain.data(), saved, none.data());
  DeviceArray<std::byte> const scratch{gpu(), cuda::row_norm_scratch_bytes<float>(0, 4)};
  cuda::row_norm_weight_gradient<RowNorm::rms>(gpu().compute, none.data(), none.data(), 0, 4, saved,
                                               sum.data(), static_cast<float*>(nullptr), false,
                                               scratch.data());
  CHECK(sum.host() == std::vector<float>{0, 0, 0, 0});  // the gradient of no rows is 0
}

}  // namespace
}  // namespace row_norm_test
}  // namespace tandem
