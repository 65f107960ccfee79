// SPDX-License-Identifier: Apache-2.0
// Bahdanau on Cuda against Host's in double: of one clock and of two, with lengths, in evaluation.
#include <tandem/ops/cuda/bahdanau.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/ops/host/bahdanau.hpp>

#include "cuda/rows/sequence_op.cuh"

namespace tandem {
namespace bahdanau_cuda_test {
namespace {

using test::SequenceCase;

/// g v / |v| is of length g, at most 1, so a score is at most sqrt(H). Its error is that of sums of
/// C and of H terms, a probability's as much, relatively, and a gradient is a sum over rows of
/// products of two of them.
template <class Precision>
double bound_of(SequenceCase const& c, double hidden) {
  using T = typename Precision::Scalar;
  double const unit = test::unit<test::MasterOf<T>>;
  double const channels = c.in[0][1] + c.in[1][1];
  double const rows = c.batch * (c.time + c.rows(1));
  return 4 * std::sqrt(hidden) * (channels + hidden + rows + 16) * unit * rows +
         (sizeof(T) == 2 ? 8 * rows * test::stored_unit<T> : 0);
}

template <int H, class Precision>
void check(SequenceCase const& c) {
  using L = Bahdanau<H>;
  CAPTURE(c.batch);
  CAPTURE(c.time);
  CAPTURE(c.accumulate);
  CAPTURE(c.wants_input_gradient);
  test::check_near(test::op_on_cuda<L, Precision>(c),
                   test::op_on_host<L, typename Precision::Scalar>(c), c,
                   bound_of<Precision>(c, H));
}

Shape of_clock(Shape shape, int clock) {
  shape.clock = static_cast<std::int8_t>(clock);
  return shape;
}

template <class Precision>
void check_precision() {
  Shape const query = of_clock(timed_shape(5, 6), 1);
  Shape const memory = timed_shape(7, 10);
  check<5, Precision>({.in = {query, memory}, .batch = 3, .time = 5, .other_time = 7});
  check<8, Precision>({.in = {query, memory},
                       .batch = 4,
                       .time = 2,
                       .accumulate = true,
                       .other_time = 6,
                       .other_lengths = {6, 1, 3, 0}});
  check<40, Precision>({.in = {query, memory},
                        .batch = 2,
                        .time = 1,
                        .training = false,
                        .other_time = 7,
                        .other_lengths = {7, 2}});
}

TEST_CASE("Bahdanau on Cuda is Host's, of two sequences") {
  check_precision<Fp64>();
  check_precision<Fp32>();
  check_precision<Bf16>();
  check_precision<Fp16>();
}

TEST_CASE("Bahdanau on Cuda: of one clock, of a sequence alone, without one dx, without any") {
  Shape const query = timed_shape(5, 6);
  Shape const memory = timed_shape(5, 3);
  check<5, Fp64>({.in = {query, memory}, .batch = 3, .time = 4, .lengths = {4, 1, 2}});
  check<5, Fp64>({.in = {query, memory}, .batch = 2, .time = 5, .wants = {false, true}});
  check<5, Fp64>({.in = {query, memory}, .batch = 2, .time = 5, .wants = {true, false}});
  check<5, Fp64>({.in = {query, memory}, .batch = 1, .time = 3, .wants_input_gradient = false});
  check<5, Fp64>({.in = {query, memory}, .batch = 0, .time = 3});
}

TEST_CASE("Bahdanau on Cuda: scores of more than 1024 numbers are a block's") {
  check<1030, Fp64>({.in = {timed_shape(3, 4), timed_shape(3, 4)}, .batch = 1, .time = 3});
}

}  // namespace
}  // namespace bahdanau_cuda_test
}  // namespace tandem
