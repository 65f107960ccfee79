// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/time_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/time_pool.hpp>
#include <tandem/ops/check_layer.hpp>

#include "../kernels/support.hpp"
#include "sequence_op.hpp"

namespace time_pool_op_test {

using namespace tandem;
using test::Numbers;
using test::OpTask;

using Double = BasicHost<Portable, Fp64>;

static_assert(Layer<LastRow> && Layer<MeanOverTime>);
static_assert(LastRow::output(timed_shape(9, 30)) == vector_shape(30));
static_assert(MeanOverTime::fault(timed_shape(9, 30)) == Fault::none);
static_assert(MeanOverTime::fault(tokens_shape(9)) == Fault::not_timed);
static_assert(LastRow::fault(vector_shape(9)) == Fault::not_timed);
static_assert(LastRow::fault(image_shape(1, 9, 9)) == Fault::not_timed);

struct Rows {
  static constexpr Shape shape = timed_shape(6, 5);
};

TEST_CASE("LastRow and MeanOverTime pass finite differences, also in short steps") {
  for (int const time : {0, 3, 1}) {
    CHECK(check_layer<LastRow, Rows>({.time = time}).problem.empty());
    CHECK(check_layer<MeanOverTime, Rows>({.time = time}).problem.empty());
  }
}

TEST_CASE("of each sample its last row that counts, or the mean of those that do") {
  Shape const in = timed_shape(4, 2);
  OpTask const task{.batch = 2, .time = 3, .lengths = {2, 3}};
  double const nan = std::numeric_limits<double>::quiet_NaN();  // behind the end: not read
  Numbers const x{1, 2, 3, 5, nan, nan, 6, 1, 7, 2, 8, 9};
  Numbers const dy{2, 4, 3, 6};
  auto const last = test::run_op<LastRow, Double>(in, task, x, {}, dy);
  CHECK(last.y == Numbers{3, 5, 8, 9});
  CHECK(last.dx == Numbers{0, 0, 2, 4, 0, 0, 0, 0, 0, 0, 3, 6});
  auto const mean = test::run_op<MeanOverTime, Double>(in, task, x, {}, dy);
  CHECK(test::within(mean.y, {2, 3.5, 7, 4}, test::constant(4, 1e-15)));
  CHECK(test::within(mean.dx, {1, 2, 1, 2, 0, 0, 1, 2, 1, 2, 1, 2}, test::constant(12, 1e-15)));
}

template <class L, class Backend>
void padding_and_threads_change_no_bit() {
  Shape const in = timed_shape(200, 70);
  int const time = 190;
  Numbers const x = test::random<double>(2 * in.elements(time), 1);
  Numbers const dy = test::random<double>(2 * 70, 2);
  OpTask task{.batch = 2, .time = time, .lengths = {131, 190}};
  auto const whole = test::run_op<L, Backend>(in, task, x, {}, dy);
  task.threads = 3;
  CHECK(test::same_bits(test::run_op<L, Backend>(in, task, x, {}, dy).all(), whole.all()));
  Numbers const cut{x.begin(), x.begin() + 131 * 70};
  auto const alone =
      test::run_op<L, Backend>(in, {.time = 131}, cut, {}, {dy.begin(), dy.begin() + 70});
  CHECK(test::same_bits(alone.y, Numbers{whole.y.begin(), whole.y.begin() + 70}));
  CHECK(test::same_bits(alone.dx, Numbers{whole.dx.begin(), whole.dx.begin() + 131 * 70}));
}

TEST_CASE("padding and threads change no bit of LastRow and MeanOverTime") {
  padding_and_threads_change_no_bit<LastRow, Double>();
  padding_and_threads_change_no_bit<MeanOverTime, Double>();
  padding_and_threads_change_no_bit<MeanOverTime, BasicHost<OneDnn, Fp32>>();
  padding_and_threads_change_no_bit<MeanOverTime, BasicHost<OneDnn, Bf16>>();
  padding_and_threads_change_no_bit<LastRow, BasicHost<OneDnn, Bf16>>();
}

TEST_CASE("a mean over a thousand rows in float is that in double") {
  Shape const in = timed_shape(1000, 3);
  Numbers x = test::random<double>(in.elements(), 3);
  for (double& value : x) {
    value = static_cast<double>(static_cast<float>(value) + 8.0F);
  }
  OpTask const task{.time = 1000, .training = false};
  auto const exact = test::run_op<MeanOverTime, Double>(in, task, x, {}, Numbers(3, 0.0)).y;
  auto const fast =
      test::run_op<MeanOverTime, BasicHost<Portable, Fp32>>(in, task, x, {}, Numbers(3, 0.0)).y;
  // 64 terms a run, 16 runs, the share: each at most half an eps of what is below 9.
  CHECK(test::within(fast, exact, test::constant(3, 0.5 * 82 * 9 * test::eps<float>)));
}

}  // namespace time_pool_op_test
