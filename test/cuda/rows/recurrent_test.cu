// SPDX-License-Identifier: Apache-2.0
// Lstm and Gru on Cuda against those of Host in double: options, lengths, evaluation, pieces.
#include <tandem/ops/cuda/recurrent.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/ops/host/recurrent.hpp>

#include "cuda/rows/sequence_op.cuh"

namespace tandem {
namespace recurrent_test {
namespace {

using test::OpResults;
using test::SequenceCase;

/// Roundings of a row are those of its sums, In + P terms, and some of the gates'. Weights are so
/// small that those of a row sum up to 1 at most; then (c, h) are errors of at most (c + 1.75 h, c
/// + 2 h) in the next row, less than three times as much.
template <class Precision>
double bound_of(SequenceCase const& c, int handed) {
  using T = typename Precision::Scalar;
  double const sums = (c.in[0][1] + handed + 16) * test::unit<test::MasterOf<T>>;
  return c.time * std::pow(3.0, c.time) * sums + (sizeof(T) == 2 ? 40 * test::stored_unit<T> : 0);
}

template <class L, class Precision>
void check(SequenceCase const& c) {
  CAPTURE(c.batch);
  CAPTURE(c.time);
  CAPTURE(c.accumulate);
  CAPTURE(c.training);
  CAPTURE(c.wants_input_gradient);
  test::check_near(test::op_on_cuda<L, Precision>(c),
                   test::op_on_host<L, typename Precision::Scalar>(c), c,
                   bound_of<Precision>(c, L::options.handed()));
}

/// Whole and short steps, with lengths and without, dx wanted or not, gradients added or not.
template <class L>
void check_layer() {
  Shape const in = timed_shape(5, 6);
  check<L, Fp64>({.in = {in}, .batch = 3, .time = 5, .lengths = {5, 0, 3}});
  check<L, Fp64>({.in = {in}, .batch = 2, .time = 4, .accumulate = true});
  check<L, Fp64>({.in = {in}, .batch = 3, .time = 1, .wants_input_gradient = false});
  check<L, Fp64>({.in = {in}, .batch = 4, .time = 3, .lengths = {1, 3, 2, 3}, .training = false});
  check<L, Fp64>({.in = {in}, .batch = 0, .time = 3});
  check<L, Fp32>({.in = {in}, .batch = 3, .time = 5, .lengths = {5, 1, 3}});
  check<L, Bf16>({.in = {in}, .batch = 3, .time = 5, .lengths = {5, 1, 3}});
  check<L, Bf16>({.in = {in}, .batch = 2, .time = 4, .training = false});
}

TEST_CASE("Lstm on Cuda is Host's, with every option") {
  check_layer<Lstm<5>>();
  check_layer<Lstm<8, NoBias>>();
  check_layer<Lstm<4, OneBias, ForgetBias<1>, Bidirectional>>();
  check_layer<Lstm<6, OneBias, Projection<3>>>();
  check_layer<Lstm<3, Projection<4>, Bidirectional>>();
}

TEST_CASE("Gru on Cuda is Host's, with every option") {
  check_layer<Gru<5>>();
  check_layer<Gru<8, NoBias>>();
  check_layer<Gru<4, OneBias, Bidirectional>>();
}

TEST_CASE("Lstm in fp16 is near double") {
  Shape const in = timed_shape(5, 8);
  check<Lstm<8>, Fp16>({.in = {in}, .batch = 3, .time = 5, .lengths = {5, 1, 3}});
}

/// What a sequence gives that comes in pieces of so many rows.
template <class L, class Precision>
void check_pieces(std::vector<int> const& pieces) {
  SequenceCase c{.in = {timed_shape(6, 6)}, .batch = 2, .time = 6, .training = false};
  OpResults const whole = test::op_on_cuda<L, Precision>(c);
  c.pieces = pieces;
  OpResults const found = test::op_on_cuda<L, Precision>(c);
  CHECK(found.y == whole.y);
}

TEST_CASE("a sequence in pieces has the bits of the whole, of several samples at once") {
  check_pieces<Lstm<5>, Fp64>({1, 1, 4});
  check_pieces<Lstm<3, Projection<5>>, Fp32>({2, 3, 1});
  check_pieces<Lstm<5>, Bf16>({5, 1});
  check_pieces<Gru<5>, Fp64>({1, 5});
  check_pieces<Gru<5>, Bf16>({3, 1, 1, 1});
  CHECK_THROWS_WITH_AS((check_pieces<Gru<4, Bidirectional>, Fp32>({3, 3})),
                       doctest::Contains("leave Bidirectional out"), ContractError);
}

}  // namespace
}  // namespace recurrent_test
}  // namespace tandem
