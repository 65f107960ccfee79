// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/batch_norm.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "cuda/normalize/batch_norm_case.hpp"

namespace tandem {
namespace {

using test::Case;
using test::epsilon;
using test::gpu;
using test::MasterOf;
using test::Reference;
using test::Trained;

TEST_CASE_TEMPLATE("batch_norm_forward: against long double", T, float, double, BFloat16) {
  double const u = test::unit<T>;
  for (Case<T> const& c : test::cases<T>()) {
    CAPTURE(c.n.rows);
    CAPTURE(c.n.columns);
    Reference<T> const expected{c};
    Trained<T> const out{c, false};
    test::check_within(out.read(0), expected.mean, [&](auto i) { return expected.mean_bound[i]; });
    test::check_within(out.read(1), expected.inverse,
                       [&](auto i) { return expected.inverse_bound[i]; });
    test::check_within(out.read(2), expected.variance,
                       [&](auto i) { return expected.variance_bound[i] + 0x1p-149; });
    auto const y = out.y.host();
    test::check_within(y, expected.y, [&](std::size_t i) {
      std::size_t const j = i % c.gain.size();
      double const r = expected.widest[j];
      double const gain = std::abs(test::number(c.gain[j]));
      double const bias = std::abs(test::number(c.bias[j]));
      return gain * (expected.inverse[j] * (expected.mean_bound[j] + 3 * u * r) +
                     expected.inverse_bound[j] * r) +
             2 * u * bias + (2 * u + test::stored_unit<T>)*std::abs(expected.y[i]);
    });
    static_cast<void>(out.scratch.host());  // looks at what stands around it

    Trained<T> const shifted{c, false, true};
    CHECK(test::same_bits(shifted.y.host(), y));
    Trained<T> const fused{c, true};
    std::vector<T> rectified = y;
    for (T& value : rectified) {
      value = cuda::load(value) < 0 ? T{} : value;
    }
    CHECK(test::same_bits(fused.y.host(), rectified));
    cuda::batch_norm_forward(gpu().compute, out.x.data(), c.n.rows, c.n.columns, out.gain.data(),
                             out.bias.data(), static_cast<MasterOf<T>>(epsilon), true, out.x.data(),
                             out.saved, out.scratch.data());
    CHECK(test::same_bits(out.x.host(), rectified));
  }
}

TEST_CASE("batch_norm_forward: more groups of columns than counters") {
  Case<float> c{{3, 8193}, test::numbers<float>(std::int64_t{3} * 8193, 1)};
  CHECK(cuda::column_tiles<float>(3, 8193).groups == cuda::Arrivals::count + 1);
  Reference<float> const expected{c};
  Trained<float> const out{c, false};
  test::check_within(out.read(0), expected.mean, [&](auto i) { return expected.mean_bound[i]; });
  test::check_within(out.read(2), expected.variance,
                     [&](auto i) { return expected.variance_bound[i]; });
}

TEST_CASE("batch_norm_forward: an outlier, from which all values are counted") {
  // 256 threads have 8 values each, at a distance of nearly d from the first. Sums of squares from
  // there would be off by 256 roundings of 4 d² and more, when all squares together are d².
  Case<float> c{{2048, 1}, test::numbers<float>(2048, 1)};
  c.x[0] = 1e4F;
  Reference<float> const expected{c};
  Trained<float> const out{c, false};
  CHECK(std::abs(static_cast<double>(out.read(2)[0]) - expected.variance[0]) <=
        24 * test::unit<float> * expected.variance[0]);
}

TEST_CASE("batch norm passes a NaN on, in its channel only") {
  for (bool relu : {false, true}) {
    Case<float> c{{300, 4}, test::numbers<float>(1200, 1)};
    c.x[4 * 150 + 1] = NAN;
    Trained<float> const out{c, relu};
    auto const y = out.y.host();
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK(std::isnan(y[i]) == (i % 4 == 1));
    }
  }
}

}  // namespace
}  // namespace tandem
