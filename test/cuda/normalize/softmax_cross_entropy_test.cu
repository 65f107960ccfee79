// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/cuda/top_k.cuh>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/functors/class_targets.hpp>
#include <tandem/kernels/host/softmax_cross_entropy.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace {

using test::DeviceArray;
using test::gpu;

struct Sizes {
  int batch, classes;
};
// A warp a row and a block a row, rows that do not fill a block, a class a lane and less.
constexpr Sizes sizes[] = {{1, 1},   {5, 2},    {7, 10},   {64, 10},    {3, 32},
                           {9, 100}, {2, 1024}, {3, 1025}, {2, 100000}, {700, 3}};

std::vector<std::int32_t> labels_of(Sizes const& n) {
  std::vector<std::int32_t> labels;
  for (int s = 0; s < n.batch; ++s) {
    labels.push_back(static_cast<std::int32_t>(
        philox(11, RandomUse::user, static_cast<std::uint64_t>(s), 0).word[0] %
        static_cast<unsigned>(n.classes)));
  }
  return labels;
}

template <class T>
double forward(DeviceArray<T> const& z, DeviceArray<std::int32_t> const& labels, Sizes const& n,
               double smoothing) {
  DeviceArray<double> const losses{gpu(), n.batch};
  DeviceArray<double> const loss{gpu(), 1};
  cuda::softmax_cross_entropy_forward(gpu().compute, z.data(), labels.data(), n.batch, n.classes,
                                      smoothing, losses.data(), loss.data());
  static_cast<void>(losses.host());  // looks at what stands around it
  return loss.host()[0];
}

TEST_CASE_TEMPLATE("softmax cross entropy: loss and gradient against Host in double", T, float,
                   double, BFloat16) {
  host::Team team{1};
  double const u = test::unit<T>;
  for (Sizes const& n : sizes) {
    for (double smoothing : {0.0, 0.1}) {
      for (double offset : {0.0, 300.0}) {  // exp(300) is too large for a float
        CAPTURE(n.batch);
        CAPTURE(n.classes);
        CAPTURE(smoothing);
        std::int64_t const elements = std::int64_t{n.batch} * n.classes;
        auto const z = test::numbers<T>(elements, 1, 8, offset);
        auto const wide = test::in_double(z);
        auto const labels = labels_of(n);
        std::vector<double> losses(labels.size());
        ClassificationSums sums{};
        host::softmax_cross_entropy_forward(team, n.batch, n.classes, wide.data(), labels.data(),
                                            smoothing, 1, losses.data(), sums);
        DeviceArray<T> const in{gpu(), z};
        DeviceArray<std::int32_t> const targets{gpu(), labels};
        // z - largest is exact to u 16; each exp, and each move to a larger logit, adds 4 u more;
        // a lane adds C / lanes terms. The distances of smoothing are up to 16 each.
        double const lanes = cuda::takes_whole_block(n.classes) ? 256 : 32;
        double const relative = u * (16 + 4 * 8 + 2 * std::ceil(n.classes / lanes));
        double const loss_bound = n.batch * (relative * (1 + 16 * smoothing) + 0x1p-40);
        double const loss = forward(in, targets, n, smoothing);
        CHECK(std::abs(loss - sums.loss) <= loss_bound);

        double const scale = 1.0 / 64;
        std::vector<double> expected(wide.size());
        host::softmax_cross_entropy_gradient(team, n.batch, n.classes, wide.data(), labels.data(),
                                             smoothing, scale, expected.data());
        DeviceArray<T> const out{gpu(), elements};
        cuda::softmax_cross_entropy_gradient(gpu().compute, in.data(), targets.data(), n.batch,
                                             n.classes, smoothing, scale, out.data());
        auto const gradient = out.host();
        test::check_within(gradient, expected, [&](std::size_t i) {
          auto const c = static_cast<std::int32_t>(i % static_cast<std::size_t>(n.classes));
          bool const own = c == labels[i / static_cast<std::size_t>(n.classes)];
          double const q = smoothing / n.classes + (own ? 1 - smoothing : 0);
          double const p = std::abs(expected[i] / scale + q);
          return scale * (2 * relative * p + 4 * u * (p + q)) +
                 test::stored_unit<T> * std::abs(expected[i]) + 0x1p-149;
        });

        DeviceArray<T> const place{gpu(), z, {.unaligned = true}};
        CHECK(forward(place, targets, n, smoothing) == loss);
        cuda::softmax_cross_entropy_gradient(gpu().compute, place.data(), targets.data(), n.batch,
                                             n.classes, smoothing, scale, place.data());
        CHECK(test::same_bits(place.host(), gradient));
      }
    }
  }
}

TEST_CASE("softmax cross entropy: no samples, logits that ascend, and logits that are no numbers") {
  DeviceArray<float> const none{gpu(), 0};
  DeviceArray<std::int32_t> const no_labels{gpu(), 0};
  CHECK(forward(none, no_labels, {0, 10}, 0.1) == 0.0);
  cuda::softmax_cross_entropy_gradient(gpu().compute, none.data(), no_labels.data(), 0, 10, 0.0,
                                       1.0, none.data());

  // Every logit of a lane is larger than the one before, by so much that exp() underflows or not.
  for (double step : {0.25, 40.0}) {
    Sizes const n{2, 300};
    std::vector<float> z(600);
    std::vector<double> wide(600);
    for (std::size_t i = 0; i < z.size(); ++i) {
      wide[i] = step * static_cast<double>(i % 300);
      z[i] = static_cast<float>(wide[i]);
    }
    std::vector<std::int32_t> const labels{299, 4};
    host::Team team{1};
    std::vector<double> losses(2);
    ClassificationSums sums{};
    host::softmax_cross_entropy_forward(team, 2, 300, wide.data(), labels.data(), 0.125, 1,
                                        losses.data(), sums);
    DeviceArray<float> const in{gpu(), z};
    DeviceArray<std::int32_t> const targets{gpu(), labels};
    CHECK(std::abs(forward(in, targets, n, 0.125) - sums.loss) <= 1e-5 * sums.loss);
  }

  float const infinity = INFINITY;
  auto const loss_of = [](std::vector<float> const& z, double smoothing) {
    DeviceArray<float> const in{gpu(), z};
    DeviceArray<std::int32_t> const label{gpu(), std::vector<std::int32_t>{0}};
    return forward(in, label, {1, static_cast<int>(z.size())}, smoothing);
  };
  CHECK(std::isnan(loss_of({1, NAN, 2}, 0)));
  CHECK(std::isnan(loss_of({NAN, 1, 2}, 0)));
  CHECK(!std::isfinite(loss_of({infinity, 1, 2}, 0)));
  CHECK(std::isnan(loss_of({-infinity, -infinity}, 0)));
  std::vector<float> mostly(100, -infinity);  // several lanes without a finite logit
  mostly[0] = 1;
  mostly[50] = 1;
  CHECK(std::abs(loss_of(mostly, 0) - std::log(2.0)) < 1e-6);
  mostly[0] = -infinity;
  CHECK(loss_of(mostly, 0) == infinity);
}

template <class T>
double count(std::vector<T> const& y, std::vector<std::int32_t> const& labels, int classes, int k) {
  DeviceArray<T> const in{gpu(), y};
  DeviceArray<std::int32_t> const targets{gpu(), labels};
  auto const batch = static_cast<std::int64_t>(labels.size());
  DeviceArray<double> const right{gpu(), batch};
  DeviceArray<double> const sum{gpu(), 1};
  cuda::top_k_count(gpu().compute, in.data(), LabelOf{targets.data(), classes}, batch, classes, k,
                    right.data(), sum.data());
  return sum.host()[0];
}

TEST_CASE_TEMPLATE("top_k_count: as Host's counts, many of the outputs being equal", T, float,
                   double, BFloat16) {
  host::Team team{1};
  for (Sizes const& n : sizes) {
    for (int k : {1, 2, 5}) {
      auto y = test::numbers<T>(std::int64_t{n.batch} * n.classes, 3, n.classes < 1000 ? 4 : 1e4);
      for (T& value : y) {
        value = static_cast<T>(std::floor(cuda::load(value)));
      }
      auto const wide = test::in_double(y);
      auto const labels = labels_of(n);
      std::vector<double> losses(labels.size());
      ClassificationSums sums{};
      host::softmax_cross_entropy_forward(team, n.batch, n.classes, wide.data(), labels.data(), 0.0,
                                          k, losses.data(), sums);
      // Host's k is limited to the classes, with which nothing but a NaN is wrong.
      double const expected = k > n.classes ? n.batch : static_cast<double>(sums.correct_top_k);
      CHECK(count(y, labels, n.classes, k) == expected);
    }
  }
}

TEST_CASE("top_k_count: the lowest class wins a tie, a NaN is never right") {
  CHECK(count<float>({1, 1, 1}, {0}, 3, 1) == 1);
  CHECK(count<float>({1, 1, 1}, {1}, 3, 1) == 0);
  CHECK(count<float>({1, 1, 1}, {1}, 3, 2) == 1);
  CHECK(count<float>({NAN, 1, 1}, {0}, 3, 1) == 0);
  CHECK(count<float>({NAN, 1, 1}, {0}, 3, 5) == 0);
  CHECK(count<float>({1, 2, NAN}, {1}, 3, 1) == 0);  // the NaN ranks first
  CHECK(count<float>({1, 2, NAN}, {1}, 3, 2) == 1);
  CHECK(count<float>({}, {}, 3, 1) == 0);
  CHECK(count<float>({1, 2, 2, 1, 0, 3}, {1, 0, 1}, 2, 1) == 3);
}

}  // namespace
}  // namespace tandem
