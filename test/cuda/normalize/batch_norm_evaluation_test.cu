// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/batch_norm_evaluation.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/batch_norm_evaluation.hpp>

#include "cuda/normalize/batch_norm_case.hpp"

namespace tandem {
namespace {

using test::Case;
using test::DeviceArray;
using test::epsilon;
using test::gpu;
using test::MasterOf;

TEST_CASE_TEMPLATE("batch_norm_evaluation: against Host in double", T, float, double, BFloat16) {
  using P = MasterOf<T>;
  double const u = test::unit<T>;
  host::Team team{1};
  for (Case<T> const& c : test::cases<T>()) {
    auto const rows = c.n.rows;
    auto const columns = c.n.columns;
    CAPTURE(rows);
    CAPTURE(columns);
    auto const mean = test::numbers<P>(columns, 8);
    auto const variance = test::numbers<P>(columns, 9, 0.5, 0.6);
    auto const gain = test::in_double(c.gain);
    auto const bias = test::in_double(c.bias);
    auto const wide_mean = test::in_double(mean);
    auto const wide_variance = test::in_double(variance);
    auto const x_host = test::transposed(test::in_double(c.x), rows, columns);
    std::vector<double> y(c.x.size());
    host::batch_norm_evaluation_forward(team, 1, columns, rows, x_host.data(), gain.data(),
                                        bias.data(), wide_mean.data(), wide_variance.data(),
                                        epsilon, y.data());
    y = test::transposed(y, columns, rows);
    DeviceArray<T> const x{gpu(), c.x};
    DeviceArray<P> const g{gpu(), c.gain};
    DeviceArray<P> const b{gpu(), c.bias};
    DeviceArray<P> const m{gpu(), mean};
    DeviceArray<P> const v{gpu(), variance};
    auto const forward = [&](bool relu, T* out) {
      cuda::batch_norm_evaluation_forward(gpu().compute, x.data(), rows, columns, g.data(),
                                          b.data(), m.data(), v.data(), static_cast<P>(epsilon),
                                          relu, out);
    };
    DeviceArray<T> const plain{gpu(), c.n.elements()};
    forward(false, plain.data());
    auto rectified = plain.host();
    test::check_within(rectified, y, [&](std::size_t i) {
      std::size_t const j = i % gain.size();
      return 8 * u * (std::abs(y[i] - bias[j]) + std::abs(bias[j])) +
             (u + test::stored_unit<T>)*std::abs(y[i]);
    });
    DeviceArray<T> const fused{gpu(), c.n.elements(), {.unaligned = true}};
    forward(true, fused.data());
    for (T& value : rectified) {
      value = cuda::load(value) < 0 ? T{} : value;
    }
    CHECK(test::same_bits(fused.host(), rectified));

    auto const dy = test::numbers<T>(c.n.elements(), 10);
    for (bool relu : {false, true}) {
      auto masked = test::in_double(dy);
      for (std::size_t i = 0; i < masked.size(); ++i) {
        masked[i] = relu && cuda::load(rectified[i]) <= 0 ? 0.0 : masked[i];
      }
      auto const dy_host = test::transposed(masked, rows, columns);
      std::vector<double> dx(masked.size());
      host::batch_norm_evaluation_input_gradient(team, 1, columns, rows, dy_host.data(),
                                                 gain.data(), wide_variance.data(), epsilon,
                                                 dx.data());
      dx = test::transposed(dx, columns, rows);
      DeviceArray<T> const place{gpu(), dy};
      cuda::batch_norm_evaluation_input_gradient(
          gpu().compute, relu ? x.data() : nullptr, place.data(), rows, columns, g.data(), b.data(),
          m.data(), v.data(), static_cast<P>(epsilon), relu, place.data());
      test::check_within(place.host(), dx, [&](std::size_t i) {
        return (8 * u + test::stored_unit<T>)*std::abs(dx[i]);
      });
    }
  }
}

}  // namespace
}  // namespace tandem
