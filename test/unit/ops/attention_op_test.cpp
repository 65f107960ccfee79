// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/host/attention.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/graph/lower.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/onednn/attention.hpp>

#include "../kernels/support.hpp"
#include "sequence_op.hpp"

namespace attention_op_test {

using namespace tandem;
using test::Numbers;
using test::OpTask;

using Double = BasicHost<Portable, Fp64>;
using Plain = Attention<2, Causal>;
using Grouped = Attention<4, KeyHeads<2>, Causal, Percent<30>>;

constexpr Shape shape_for(int time, int channels) { return timed_shape(time, channels); }

static_assert(Layer<Plain> && Layer<Grouped>);
static_assert(Plain::heads == 2 && Plain::key_heads == 2 && Plain::causal && Plain::dropout == 0);
static_assert(Grouped::key_heads == 2 && Grouped::causal && Grouped::dropout == 0.3);
static_assert(!Attention<3, KeyHeads<1>>::causal);
static_assert(Plain::output(timed_shape(9, 30)) == timed_shape(9, 10));
static_assert(Grouped::output(timed_shape(9, 24)) == timed_shape(9, 12));
static_assert(Plain::fault(timed_shape(9, 30)) == Fault::none);
static_assert(Plain::fault(timed_shape(9, 32)) == Fault::heads);
static_assert(Plain::fault(vector_shape(30)) == Fault::not_timed);
static_assert(Plain::fault(tokens_shape(30)) == Fault::not_timed);
static_assert(Plain::macs(timed_shape(4, 30)) == 2 * 10 * 10);
static_assert(Attention<2>::macs(timed_shape(4, 30)) == 2 * 16 * 10);
static_assert(Plain::kept(timed_shape(9, 30)).numbers == 9 * 2);
static_assert(Plain::kept(timed_shape(9, 30)).input && Plain::kept(timed_shape(9, 30)).output);
static_assert(!AttentionOption<int> && !AttentionOption<KeyHeads<2>*>);

struct Random {
  Numbers x, dy;

  Random(Shape in, Shape out, int batch, int time)
      : x{test::random<double>(batch * in.elements(time), 1)},
        dy{test::random<double>(batch * out.elements(time), 2)} {}
};

template <class L, class Backend = Double>
test::OpResult run(Shape in, OpTask const& task, Numbers const& x, Numbers const& dy) {
  return test::run_op<L, Backend>(in, task, x, {}, dy);
}

TEST_CASE("the op of Attention passes finite differences, its dropout the same in both passes") {
  Shape const in = shape_for(9, 24);
  OpTask const task{.batch = 2, .time = 7, .lengths = {7, 4}, .first_sample = 3};
  Random const r{in, Grouped::output(in), 2, 7};
  auto const found = run<Grouped>(in, task, r.x, r.dy);
  auto const expected = test::finite_differences(
      r.x, [&](Numbers const& x) { return test::dot(run<Grouped>(in, task, x, r.dy).y, r.dy); });
  // h² / 6 times third derivatives below 4, and the rounding of a sum below 32 divided by h.
  CHECK(test::within(found.dx, expected, test::constant(expected.size(), 5e-9)));
}

template <class Backend>
void in_parts() {
  Shape const in = shape_for(20, 24);
  Random const r{in, Grouped::output(in), 5, 18};
  OpTask whole{.batch = 5, .time = 18, .lengths = {18, 1, 7, 0, 17}, .first_sample = 2};
  auto const all = run<Grouped, Backend>(in, whole, r.x, r.dy);
  whole.threads = 3;
  CHECK(test::same_bits(run<Grouped, Backend>(in, whole, r.x, r.dy).all(), all.all()));
  Numbers y;
  Numbers dx;
  for (int s = 0; s < 5; ++s) {
    OpTask const one{.batch = 1,
                     .time = 18,
                     .lengths = {whole.lengths[static_cast<std::size_t>(s)]},
                     .first_sample = 2 + s};
    auto const cut = [&](Numbers const& list) {
      auto const each = static_cast<std::ptrdiff_t>(list.size() / 5);
      return Numbers(list.begin() + s * each, list.begin() + (s + 1) * each);
    };
    auto const part = run<Grouped, Backend>(in, one, cut(r.x), cut(r.dy));
    y.insert(y.end(), part.y.begin(), part.y.end());
    dx.insert(dx.end(), part.dx.begin(), part.dx.end());
  }
  CHECK(test::same_bits(y, all.y));
  CHECK(test::same_bits(dx, all.dx));
}

TEST_CASE("Attention: microbatches and threads change no bit") {
  in_parts<Double>();
  in_parts<BasicHost<OneDnn, Fp32>>();
  in_parts<BasicHost<OneDnn, Bf16>>();
}

TEST_CASE("Attention in vectors is the portable one") {
  Shape const in = shape_for(40, 72);
  Random r{in, Grouped::output(in), 2, 33};
  for (double& x : r.x) {
    x = static_cast<double>(static_cast<float>(x));
  }
  OpTask const task{.batch = 2, .time = 33, .lengths = {33, 21}};
  auto const exact = run<Grouped>(in, task, r.x, r.dy).all();
  auto const fast = run<Grouped, BasicHost<OneDnn, Fp32>>(in, task, r.x, r.dy).all();
  CHECK(test::within(fast, exact, test::constant(exact.size(), 64 * test::eps<float>)));
}

TEST_CASE("Attention drops nothing in evaluation") {
  Shape const in = shape_for(9, 24);
  Random const r{in, Grouped::output(in), 2, 9};
  OpTask const evaluated{.batch = 2, .time = 9, .training = false};
  using Kept = Attention<4, Causal, KeyHeads<2>>;
  auto const y = run<Grouped>(in, evaluated, r.x, r.dy).y;
  CHECK(test::same_bits(y, run<Kept>(in, evaluated, r.x, r.dy).y));
  CHECK(y != run<Grouped>(in, {.batch = 2, .time = 9}, r.x, r.dy).y);
}

TEST_CASE("Attention refuses a mask that its counters cannot number") {
  CHECK_THROWS_WITH_AS(
      (run<Attention<1, Percent<10>>>(shape_for(140000, 3), {.batch = 0, .time = 0}, {}, {})),
      doctest::Contains("heads times the square of the time"), ContractError);
}

}  // namespace attention_op_test
