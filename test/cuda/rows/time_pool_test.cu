// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/time_pool.cuh>

#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/time_pool.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace time_pool_test {
namespace {

using test::DeviceArray;
using test::gpu;

struct Case {
  int batch, time, channels;
  std::vector<std::int32_t> lengths;  ///< empty: all rows of all samples
};
/// One row, whole packs of channels and not, a warp a row and a block.
std::vector<Case> cases() {
  return {{1, 1, 1, {}},  {3, 9, 6, {9, 1, 4}}, {2, 67, 24, {67, 8}},    {5, 2, 33, {}},
          {4, 7, 40, {}}, {2, 3, 1032, {3, 2}}, {3, 5, 1031, {1, 5, 3}}, {2, 300, 8, {300, 77}}};
}

template <class T>
struct Results {
  std::vector<T> last, mean, last_gradient, mean_gradient;
};

Results<double> on_host(Case const& c, std::vector<double> const& x,
                        std::vector<double> const& dy) {
  host::Team team{1};
  TimeRows const rows{c.batch, c.time, c.channels, c.lengths.empty() ? nullptr : c.lengths.data()};
  Results<double> r{dy, dy, x, x};
  host::last_row_forward(team, rows, x.data(), r.last.data());
  host::mean_over_time_forward(team, rows, x.data(), r.mean.data());
  host::time_pool_gradient<LastRowShare>(team, rows, dy.data(), r.last_gradient.data());
  host::time_pool_gradient<MeanShare>(team, rows, dy.data(), r.mean_gradient.data());
  return r;
}

template <class T>
Results<T> on_cuda(Case const& c, std::vector<T> const& x, std::vector<T> const& dy,
                   bool unaligned) {
  DeviceArray<std::int32_t> const lengths{gpu(), c.lengths};
  TimeRows const rows{c.batch, c.time, c.channels, c.lengths.empty() ? nullptr : lengths.data()};
  DeviceArray<T> const from{gpu(), x, {.unaligned = unaligned}};
  DeviceArray<T> const slope{gpu(), dy, {.unaligned = unaligned}};
  DeviceArray<T> const last{gpu(), dy.size()};
  DeviceArray<T> const mean{gpu(), dy.size()};
  DeviceArray<T> const last_gradient{gpu(), x.size()};
  DeviceArray<T> const mean_gradient{gpu(), x.size()};
  auto const& stream = gpu().compute;
  cuda::last_row_forward<T>(stream, rows, from.data(), last.data());
  cuda::mean_over_time_forward<T>(stream, rows, from.data(), mean.data());
  cuda::time_pool_gradient<LastRowShare, T>(stream, rows, slope.data(), last_gradient.data());
  cuda::time_pool_gradient<MeanShare, T>(stream, rows, slope.data(), mean_gradient.data());
  return {last.host(), mean.host(), last_gradient.host(), mean_gradient.host()};
}

TEST_CASE_TEMPLATE("the last row and the mean of rows, and their gradients, are Host's in double",
                   T, float, double, BFloat16) {
  for (Case const& c : cases()) {
    CAPTURE(c.batch);
    CAPTURE(c.time);
    CAPTURE(c.channels);
    auto x = test::numbers<T>(std::int64_t{c.batch} * c.time * c.channels, 1);
    auto const dy = test::numbers<T>(std::int64_t{c.batch} * c.channels, 2);
    for (std::size_t i = 0; i < x.size() && !c.lengths.empty(); ++i) {  // what is not read
      auto const row = static_cast<std::int64_t>(i) / c.channels;
      if (row % c.time >= c.lengths[static_cast<std::size_t>(row / c.time)]) {
        x[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
      }
    }
    Results<double> const expected = on_host(c, test::in_double(x), test::in_double(dy));
    Results<T> const result = on_cuda(c, x, dy, false);
    CHECK(test::in_double(result.last) == expected.last);
    CHECK(test::in_double(result.last_gradient) == expected.last_gradient);
    // Sums of time / 8 terms below 1, then 8; a share of it, and what is stored.
    double const rounding = test::unit<T> * (c.time / 8 + 12) + test::stored_unit<T>;
    test::check_within(result.mean, expected.mean, [&](std::size_t) { return rounding; });
    test::check_within(result.mean_gradient, expected.mean_gradient,
                       [&](std::size_t) { return 2 * test::unit<T> + test::stored_unit<T>; });
    Results<T> const by_one = on_cuda(c, x, dy, true);  // whatever the width of the packs
    CHECK(test::same_bits(by_one.mean, result.mean));
    CHECK(test::same_bits(by_one.last, result.last));
    CHECK(test::same_bits(by_one.mean_gradient, result.mean_gradient));
    CHECK(test::same_bits(by_one.last_gradient, result.last_gradient));
  }
}

TEST_CASE("a mean over time has the same bits whatever the padding, and no samples have none") {
  auto const x = test::numbers<float>(std::int64_t{190} * 70, 3);
  auto const dy = test::numbers<float>(70, 4);
  std::vector<float> const cut{x.begin(), x.begin() + 131 * 70};
  auto const padded = on_cuda<float>({1, 190, 70, {131}}, x, dy, false);
  auto const alone = on_cuda<float>({1, 131, 70, {}}, cut, dy, false);
  CHECK(test::same_bits(padded.mean, alone.mean));
  CHECK(on_cuda<float>({0, 5, 70, {}}, {}, {}, false).mean.empty());
}

}  // namespace
}  // namespace time_pool_test
}  // namespace tandem
