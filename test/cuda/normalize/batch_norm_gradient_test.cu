// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/batch_norm_gradient.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/batch_norm.hpp>

#include "cuda/normalize/batch_norm_case.hpp"

namespace tandem {
namespace {

using test::Case;
using test::DeviceArray;
using test::gpu;
using test::MasterOf;
using test::Trained;

TEST_CASE_TEMPLATE("batch norm's gradients: against Host in double", T, float, double, BFloat16) {
  using P = MasterOf<T>;
  double const u = test::unit<T>;
  host::Team team{1};
  for (Case<T> const& c : test::cases<T>()) {
    for (bool relu : {false, true}) {
      CAPTURE(c.n.rows);
      CAPTURE(c.n.columns);
      CAPTURE(relu);
      auto const rows = c.n.rows;
      auto const columns = c.n.columns;
      Trained<T> const out{c, relu};
      auto const dy = test::numbers<T>(c.n.elements(), 6);
      auto masked = test::in_double(dy);
      auto const y = out.y.host();
      for (std::size_t i = 0; i < y.size(); ++i) {
        masked[i] = relu && cuda::load(y[i]) <= 0 ? 0.0 : masked[i];
      }
      // From here on the saved mean and inverse deviation are given.
      auto const mean = test::in_double(out.read(0));
      auto const inverse = test::in_double(out.read(1));
      auto const gain = test::in_double(c.gain);
      auto const x_host = test::transposed(test::in_double(c.x), rows, columns);
      auto const dy_host = test::transposed(masked, rows, columns);
      std::vector<double> dx(y.size());
      std::vector<double> dgain(gain.size());
      std::vector<double> dbias(gain.size());
      host::batch_norm_input_gradient(team, 1, columns, rows, x_host.data(), dy_host.data(),
                                      gain.data(), mean.data(), inverse.data(), dx.data());
      host::batch_norm_parameter_gradient(team, 1, columns, rows, x_host.data(), dy_host.data(),
                                          mean.data(), inverse.data(), dgain.data(), dbias.data(),
                                          false);
      dx = test::transposed(dx, columns, rows);

      // k roundings in sums of terms of the given sizes; the mask has made some of the terms 0.
      double const k = test::roundings<T>(rows, columns) + 2;
      double const count = static_cast<double>(rows);
      std::vector<double> off_dy(gain.size());
      std::vector<double> off_dy_x(gain.size());
      std::vector<double> widest(gain.size());
      for (std::size_t i = 0; i < masked.size(); ++i) {
        std::size_t const j = i % gain.size();
        double const distance = std::abs(test::number(c.x[i]) - mean[j]);
        off_dy[j] += k * u * std::abs(masked[i]);
        off_dy_x[j] += k * u * std::abs(masked[i]) * distance;
        widest[j] = std::max(widest[j], distance);
      }

      DeviceArray<T> const gradient{gpu(), dy};
      cuda::batch_norm_gradient_sums(gpu().compute, out.x.data(), gradient.data(), rows, columns,
                                     out.gain.data(), out.bias.data(), relu, out.saved,
                                     out.scratch.data());
      DeviceArray<T> const result{gpu(), c.n.elements()};
      cuda::batch_norm_input_gradient(gpu().compute, out.x.data(), gradient.data(), rows, columns,
                                      out.gain.data(), out.bias.data(), relu, out.saved,
                                      result.data());
      auto const dx_out = result.host();
      test::check_within(dx_out, dx, [&](std::size_t i) {
        std::size_t const j = i % gain.size();
        double const i2 = inverse[j] * inverse[j];
        double const slope = std::abs(dgain[j]) / inverse[j] / count * i2;
        return std::abs(gain[j]) * inverse[j] *
                   (off_dy[j] / count + widest[j] * i2 * off_dy_x[j] / count +
                    6 * u * (1 + std::abs(dbias[j]) / count + widest[j] * slope)) +
               (2 * u + test::stored_unit<T>)*std::abs(dx[i]);
      });
      static_cast<void>(out.scratch.host());

      // Each parameter's gradient added to what was there, the statistics' written.
      double const share = 0.375;
      auto const before = test::numbers<P>(4 * columns, 7);
      for (bool accumulate : {false, true}) {
        DeviceArray<P> const g{gpu(), before};
        auto const slot = [&](int which) { return g.data() + which * columns; };
        cuda::batch_norm_weight_gradient(gpu().compute, rows, columns, share, out.saved,
                                         BatchNormGradients<P>{slot(0), slot(1), slot(2), slot(3)},
                                         accumulate);
        auto const variance = out.read(2);
        std::vector<double> expected;
        std::vector<double> bound;
        for (int which = 0; which < 4; ++which) {
          for (std::size_t j = 0; j < gain.size(); ++j) {
            double const unbiased = rows > 1 ? count / (count - 1) : 1;
            double const value = which == 0   ? dgain[j]
                                 : which == 1 ? dbias[j]
                                 : which == 2 ? share * mean[j]
                                              : share * unbiased * test::number(variance[j]);
            double const off = which == 0 ? inverse[j] * off_dy_x[j] : which == 1 ? off_dy[j] : 0;
            expected.push_back(value + (accumulate ? test::number(before[expected.size()]) : 0));
            bound.push_back(off + 4 * u * (std::abs(value) + 1));
          }
        }
        auto const apart = g.host();
        test::check_within(apart, expected, [&](std::size_t i) { return bound[i]; });

        DeviceArray<P> const together{gpu(), before};
        auto const place = [&](int which) { return together.data() + which * columns; };
        cuda::batch_norm_gradient_sums(
            gpu().compute, out.x.data(), gradient.data(), rows, columns, out.gain.data(),
            out.bias.data(), relu, out.saved, out.scratch.data(), {},
            cuda::detail::BatchNormWeights<P>{
                rows, share, out.saved, {place(0), place(1), place(2), place(3)}, accumulate});
        CHECK(test::same_bits(together.host(), apart));
      }

      cuda::batch_norm_input_gradient(gpu().compute, out.x.data(), gradient.data(), rows, columns,
                                      out.gain.data(), out.bias.data(), relu, out.saved,
                                      gradient.data());
      CHECK(test::same_bits(gradient.host(), dx_out));
      DeviceArray<T> const shifted{gpu(), dy, {.unaligned = true}};
      cuda::batch_norm_gradient_sums(gpu().compute, out.x.data(), shifted.data(), rows, columns,
                                     out.gain.data(), out.bias.data(), relu, out.saved,
                                     out.scratch.data());
      cuda::batch_norm_input_gradient(gpu().compute, out.x.data(), shifted.data(), rows, columns,
                                      out.gain.data(), out.bias.data(), relu, out.saved,
                                      shifted.data());
      CHECK(test::same_bits(shifted.host(), dx_out));
    }
  }
}

TEST_CASE_TEMPLATE("batch norm's fused ReLU: masks where forward wrote no y > 0, and nowhere else",
                   T, float, double, BFloat16) {
  using P = MasterOf<T>;
  // The smallest gains make results that vanish only when they are rounded to T.
  for (double scale : {1.0, sizeof(T) == 8 ? 0x1p-1073 : sizeof(T) == 4 ? 0x1p-148 : 0x1p-132}) {
    Case<T> c{{700, 24}, test::numbers<T>(700 * 24, 1)};
    for (P& gain : c.gain) {
      gain = static_cast<P>(scale);
    }
    if (scale != 1.0) {
      c.bias.assign(c.bias.size(), P{0});
    }
    Trained<T> const out{c, true};
    std::vector<T> const ones(c.x.size(), static_cast<T>(P{1}));
    DeviceArray<T> const dy{gpu(), ones};
    cuda::batch_norm_gradient_sums(gpu().compute, out.x.data(), dy.data(), 700, 24, out.gain.data(),
                                   out.bias.data(), true, out.saved, out.scratch.data());
    std::vector<P> positive(24);
    auto const y = out.y.host();
    for (std::size_t i = 0; i < y.size(); ++i) {
      positive[i % 24] += cuda::load(y[i]) > 0 ? P{1} : P{0};
    }
    CHECK(positive[0] > 100);
    CHECK(out.read(3) == positive);
  }
}

TEST_CASE("batch norm of no rows does nothing, and its gradients are 0") {
  Case<float> const c{{0, 5}, {}};
  Trained<float> const out{c, true};
  DeviceArray<float> const dy{gpu(), 0};
  cuda::batch_norm_gradient_sums(gpu().compute, out.x.data(), dy.data(), 0, 5, out.gain.data(),
                                 out.bias.data(), true, out.saved, out.scratch.data());
  cuda::batch_norm_input_gradient(gpu().compute, out.x.data(), dy.data(), 0, 5, out.gain.data(),
                                  out.bias.data(), true, out.saved, dy.data());
  CHECK(out.read(3) == std::vector<float>(5, 0.0F));
  CHECK(out.read(4) == std::vector<float>(5, 0.0F));
}

}  // namespace
}  // namespace tandem
