// SPDX-License-Identifier: Apache-2.0
// The ops of layers on sequences against those of Host in double: whole and short steps, vectors.
#include <tandem/ops/cuda/activation.cuh>
#include <tandem/ops/cuda/attention.cuh>
#include <tandem/ops/cuda/embedding.cuh>
#include <tandem/ops/cuda/group_norm.cuh>
#include <tandem/ops/cuda/join.cuh>
#include <tandem/ops/cuda/layer_norm.cuh>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/cuda/own_join.cuh>
#include <tandem/ops/cuda/own_layer.cuh>
#include <tandem/ops/cuda/smooth_activation.cuh>
#include <tandem/ops/cuda/time_pool.cuh>
#include <tandem/ops/cuda/vocabulary.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/precision.hpp>
#include <tandem/ops/host/activation.hpp>
#include <tandem/ops/host/attention.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/host/embedding.hpp>
#include <tandem/ops/host/group_norm.hpp>
#include <tandem/ops/host/join.hpp>
#include <tandem/ops/host/layer_norm.hpp>
#include <tandem/ops/host/own_join.hpp>
#include <tandem/ops/host/own_layer.hpp>
#include <tandem/ops/host/smooth_activation.hpp>
#include <tandem/ops/host/time_pool.hpp>
#include <tandem/ops/host/vocabulary.hpp>

#include <own_parts.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace rows_ops_test {
namespace {

using test::DeviceArray;
using test::gpu;

using OnHost = BasicHost<Portable, Fp64>;

constexpr int largest = 5;

/// A step of an op: its sizes, and what it reads.
struct Case {
  Shape in;
  int batch, time;
  bool accumulate = false;
  int limit = 0;  ///< of indices
  int inputs = 1;
  bool lengths = false;  ///< not all rows of all samples count
  int targets = 0;       ///< of a criterion, each below it, some -1
  int least = 0;         ///< of the lengths
};

/// What the passes of an op give.
struct Results {
  std::vector<double> y, dx;
  std::vector<std::vector<double>> gradient;
};

template <class T>
std::vector<double> widened(std::vector<T> const& x) {
  return test::in_double(x);
}

template <class L>
OpSetup setup_of(Case const& c, Shape const* inputs) {
  OpSetup setup{};
  setup.node.in = c.in;
  if constexpr (requires { L::output(c.in); }) {
    setup.node.out = L::output(c.in);
  } else {
    setup.node.out = c.in;
  }
  setup.node.edges = c.inputs;
  setup.inputs = inputs;
  setup.index = 3;
  setup.batch = largest;
  return setup;
}

template <class L>
Parameters parameters_for(Case const& c) {
  if constexpr (requires { L::parameters(c.in); }) {
    return L::parameters(c.in);
  } else {
    return {};
  }
}

/// Any of a size, the same for both backends.
template <class T>
std::vector<T> values(std::int64_t n, std::uint64_t seed) {
  return test::numbers<T>(n, seed);
}

std::vector<std::int32_t> indices(std::int64_t n, int limit) {
  std::vector<std::int32_t> result;
  for (double const u : values<double>(n, 9)) {
    result.push_back(static_cast<std::int32_t>((u + 1) / 2 * limit));
  }
  return result;
}

/// Of each sample; no length is more than the time.
std::vector<std::int32_t> lengths_of(Case const& c) {
  std::vector<std::int32_t> result;
  for (int s = 0; s < c.batch && c.lengths; ++s) {
    result.push_back(c.least + s % (c.time + 1 - c.least));
  }
  return result;
}

std::vector<std::int32_t> targets_of(Case const& c) {
  std::vector<std::int32_t> result;
  for (int r = 0; r < c.batch * c.time && c.targets > 0; ++r) {
    result.push_back(r % 4 == 3 ? -1 : r * 5 % c.targets);
  }
  return result;
}

constexpr double row_scale = 0.25;

template <class O, class Operand, class P>
void run_passes(O& op, Operand const& o, P const& pass, bool wants_input_gradient) {
  op.forward(o, pass);
  if constexpr (requires { op.input_gradient(o, pass); }) {
    if (wants_input_gradient) {
      op.input_gradient(o, pass);
    }
  }
  if constexpr (requires { op.weight_gradient(o, pass); }) {
    op.weight_gradient(o, pass);
  }
}

template <class L, class T>
Results on_host(Case const& c) {
  Shape const inputs[2] = {c.in, c.in};
  OpSetup const setup = setup_of<L>(c, inputs);
  Op<L, OnHost> op{setup};
  host::Device device{1};
  OpNeeds const needs = op.needs();
  std::vector<double> scratch(static_cast<std::size_t>(needs.scratch_bytes) / 8 + 1);
  std::vector<double> saved(static_cast<std::size_t>(needs.saved_bytes) / 8 + 1);
  device.scratch = reinterpret_cast<std::byte*>(scratch.data());
  StepState const state{.seed = 77, .step = 2};
  auto const lengths = lengths_of(c);
  auto const targets = targets_of(c);
  Pass<host::Device> const pass{
      .device = device,
      .batch = c.batch,
      .first_sample = 4,
      .state = &state,
      .accumulate = c.accumulate,
      .time = c.time,
      .lengths = c.lengths ? lengths.data() : nullptr,
      .criterion = {.targets = c.targets > 0 ? targets.data() : nullptr, .row_scale = &row_scale}};
  auto const x = widened(values<T>(pass.elements(c.in), 1));
  auto const other = widened(values<T>(pass.elements(c.in), 2));
  auto const dy = widened(values<T>(pass.elements(setup.node.out), 3));
  auto const tokens = indices(pass.elements(c.in), c.limit > 0 ? c.limit : 1);
  Results r;
  r.y.resize(dy.size());
  r.dx.resize(x.size());
  std::vector<std::vector<double>> parameter;
  Parameters const list = parameters_for<L>(c);
  double* at[6] = {};
  double* gradient_at[6] = {};
  for (int p = 0; p < list.count; ++p) {
    parameter.push_back(
        widened(values<T>(list.item[p].shape.elements(), 10 + static_cast<std::uint64_t>(p))));
    r.gradient.push_back(
        widened(values<T>(list.item[p].shape.elements(), 20 + static_cast<std::uint64_t>(p))));
  }
  for (std::size_t p = 0; p < parameter.size(); ++p) {
    at[p] = parameter[p].data();
    gradient_at[p] = r.gradient[p].data();
  }
  double const* const in[] = {
      c.limit > 0 ? reinterpret_cast<double const*>(tokens.data()) : x.data(), other.data()};
  double* const dx[] = {r.dx.data(), nullptr};
  Operands<double> const o{.x = in,
                           .y = r.y.data(),
                           .dy = dy.data(),
                           .dx = dx,
                           .parameter = at,
                           .weight = at,
                           .gradient = gradient_at,
                           .saved = reinterpret_cast<std::byte*>(saved.data())};
  run_passes(op, o, pass, c.limit == 0);
  return r;
}

template <class L, class Precision>
Results on_cuda(Case const& c) {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  Shape const inputs[2] = {c.in, c.in};
  OpSetup const setup = setup_of<L>(c, inputs);
  Op<L, BasicCuda<Portable, Precision>> op{setup, gpu()};
  OpNeeds const needs = op.needs();
  DeviceArray<std::byte> const scratch{gpu(), needs.scratch_bytes};
  DeviceArray<std::byte> const saved{gpu(), needs.saved_bytes};
  gpu().scratch = scratch.data();
  gpu().scratch_bytes = needs.scratch_bytes;
  DeviceArray<StepState> const state{gpu(), std::vector<StepState>{{.seed = 77, .step = 2}}};
  DeviceArray<std::int32_t> const lengths{gpu(), lengths_of(c)};
  DeviceArray<std::int32_t> const targets{gpu(), targets_of(c)};
  DeviceArray<double> const scale{gpu(), std::vector<double>{row_scale}};
  Pass<cuda::RankDevice> const pass{
      .device = gpu(),
      .batch = c.batch,
      .first_sample = 4,
      .state = state.data(),
      .accumulate = c.accumulate,
      .time = c.time,
      .lengths = c.lengths ? lengths.data() : nullptr,
      .criterion = {.targets = c.targets > 0 ? targets.data() : nullptr,
                    .row_scale = scale.data()}};
  DeviceArray<T> const x{gpu(), values<T>(pass.elements(c.in), 1)};
  DeviceArray<T> const other{gpu(), values<T>(pass.elements(c.in), 2)};
  DeviceArray<T> const dy{gpu(), values<T>(pass.elements(setup.node.out), 3)};
  DeviceArray<std::int32_t> const tokens{gpu(),
                                         indices(pass.elements(c.in), c.limit > 0 ? c.limit : 1)};
  DeviceArray<T> const y{gpu(), dy.size()};
  DeviceArray<T> const dx{gpu(), x.size()};
  Parameters const list = parameters_for<L>(c);
  std::vector<DeviceArray<P>> parameter;
  std::vector<DeviceArray<T>> weight;
  std::vector<DeviceArray<P>> gradient;
  P* at[6] = {};
  T const* weight_at[6] = {};
  P* gradient_at[6] = {};
  for (int p = 0; p < list.count; ++p) {
    std::int64_t const n = list.item[p].shape.elements();
    auto const in_master = [&](std::uint64_t seed) {
      std::vector<P> result;
      for (double const value : widened(values<T>(n, seed))) {
        result.push_back(static_cast<P>(value));
      }
      return result;
    };
    parameter.emplace_back(gpu(), in_master(10 + static_cast<std::uint64_t>(p)));
    weight.emplace_back(gpu(), values<T>(n, 10 + static_cast<std::uint64_t>(p)));
    gradient.emplace_back(gpu(), in_master(20 + static_cast<std::uint64_t>(p)));
  }
  for (std::size_t p = 0; p < parameter.size(); ++p) {
    at[p] = parameter[p].data();
    weight_at[p] = weight[p].data();
    gradient_at[p] = gradient[p].data();
  }
  T const* const in[] = {
      c.limit > 0 ? reinterpret_cast<T const*>(tokens.data()) : static_cast<T const*>(x.data()),
      other.data()};
  T* const dx_at[] = {dx.data(), nullptr};
  Operands<T, P> const o{.x = in,
                         .y = y.data(),
                         .dy = dy.data(),
                         .dx = dx_at,
                         .parameter = at,
                         .weight = weight_at,
                         .gradient = gradient_at,
                         .saved = saved.data()};
  run_passes(op, o, pass, c.limit == 0);
  Results r{widened(y.host()), widened(dx.host()), {}};
  for (auto const& g : gradient) {
    r.gradient.push_back(widened(g.host()));
  }
  static_cast<void>(saved.host());
  static_cast<void>(scratch.host());
  return r;
}

bool near(std::vector<double> const& a, std::vector<double> const& b, double bound) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i])))) {
      MESSAGE("element ", i, ": ", a[i], " against ", b[i]);
      return false;
    }
  }
  return a.size() == b.size();
}

/// Sums of at most 50 rows, all numbers in [-1, 1).
template <class L, class Precision>
void check_precision(Case const& c, double bound) {
  CAPTURE(c.batch);
  CAPTURE(c.time);
  CAPTURE(c.accumulate);
  Results const expected = on_host<L, typename Precision::Scalar>(c);
  Results const result = on_cuda<L, Precision>(c);
  CHECK(near(result.y, expected.y, bound));
  if constexpr (requires(Op<L, OnHost> & op, Operands<double> const& o,
                         Pass<host::Device> const& p) { op.input_gradient(o, p); }) {
    if (c.limit == 0) {
      CHECK(near(result.dx, expected.dx, bound));
    }
  }
  REQUIRE(result.gradient.size() == expected.gradient.size());
  for (std::size_t p = 0; p < result.gradient.size(); ++p) {
    CHECK(near(result.gradient[p], expected.gradient[p], bound));
  }
}

template <class L>
void check_op(Case c) {
  int const longest = c.in.timed ? c.in[0] : 0;
  for (int const batch : {largest, 2}) {
    for (int const time : {longest, longest > 1 ? longest - 2 : longest}) {
      for (bool const accumulate : {false, true}) {
        c.batch = batch;
        c.time = time;
        c.accumulate = accumulate;
        check_precision<L, Fp64>(c, 1e-12);
        check_precision<L, Bf16>(c, 0.1);  // of a normalised row of 6: dx is amplified
      }
    }
  }
}

/// On a sequence whose rows are no whole packs, on one whose are, and on a vector.
template <class L>
void check_rows() {
  check_op<L>({timed_shape(9, 6), 0, 0});
  check_op<L>({timed_shape(5, 16), 0, 0});
  check_op<L>({vector_shape(10), 0, 0});
}

TEST_CASE("the ops of norms are Host's") {
  check_rows<LayerNorm<>>();
  check_rows<LayerNorm<NoBias>>();
  check_rows<RmsNorm<>>();
}

TEST_CASE("the op of GroupNorm on vectors is Host's") {
  check_op<GroupNorm<2>>({vector_shape(10), 0, 0});
  check_op<GroupNorm<2>>({vector_shape(32), 0, 0});
  check_op<GroupNorm<1, NoAffine>>({vector_shape(300), 0, 0});
}

TEST_CASE("the ops of activations are Host's, and those of Softmax and SwiGlu") {
  check_rows<Gelu>();
  check_rows<GeluTanh>();
  check_rows<SiLU>();
  check_rows<Sigmoid>();
  check_rows<Tanh>();
  check_rows<ReLU>();
  check_rows<Softmax>();
  check_rows<SwiGlu>();
}

TEST_CASE("the ops of layers given by functions of one element are Host's") {
  check_rows<test::Softsign>();
  check_rows<test::Square>();
  check_rows<test::OwnSilu>();
  check_rows<test::OwnPrelu>();
  check_rows<test::OwnSwish>();
}

TEST_CASE("the op of a program's own join is Host's") {
  for (Shape const& in : {timed_shape(9, 6), timed_shape(5, 16), vector_shape(10)}) {
    check_op<test::OwnProduct>({in, 0, 0, false, 0, 2});
    check_op<test::ExpTimes>({in, 0, 0, false, 0, 2});
  }
}

struct Third {
  static constexpr double value = 1.0 / 3;
};

TEST_CASE("a Dropout of a sequence has Host's mask, in short steps too; a sum is Host's") {
  check_rows<Dropout<Third>>();
  check_op<AddJoin>({timed_shape(9, 6), 0, 0, false, 0, 2});
  check_op<AddJoin>({vector_shape(10), 0, 0, false, 0, 2});
}

TEST_CASE("the ops of Linear on rows are Host's") {
  check_rows<Linear<7>>();
  check_rows<Linear<8, NoBias>>();
}

TEST_CASE("the ops of embeddings and positions are Host's") {
  check_op<Embedding<13, 6>>({tokens_shape(9), 0, 0, false, 13});
  check_op<Embedding<300, 16>>({tokens_shape(7), 0, 0, false, 300});
  check_op<Positions<>>({timed_shape(9, 6), 0, 0});
  check_op<Positions<>>({timed_shape(5, 16), 0, 0});
  check_op<RotaryPositions<2>>({timed_shape(7, 36), 0, 0});
  check_op<RotaryPositions<4, KeyHeads<2>, Base<100>>>({timed_shape(7, 64), 0, 0});
}

TEST_CASE("the op of Attention is Host's, with key heads, lengths and dropout") {
  check_op<Attention<2>>({timed_shape(9, 18), 0, 0});
  check_op<Attention<4, Causal, KeyHeads<2>, Third>>({timed_shape(9, 64), 0, 0});
  check_op<Attention<2, Causal>>({timed_shape(9, 48), 0, 0, false, 0, 1, true});
}

TEST_CASE("the ops of LastRow and MeanOverTime are Host's, with lengths") {
  check_op<LastRow>({timed_shape(9, 6), 0, 0});
  check_op<LastRow>({timed_shape(5, 16), 0, 0, false, 0, 1, true, 0, 1});
  check_op<MeanOverTime>({timed_shape(9, 6), 0, 0, false, 0, 1, true, 0, 1});
  check_op<MeanOverTime>({timed_shape(5, 16), 0, 0});
}

template <int Rows>
using InChunks = Vocabulary<11, Smoothing<Third>, Chunked<Rows>>;

TEST_CASE("the op of Vocabulary is Host's, whole and in chunks, rows without a target among them") {
  check_op<Vocabulary<11>>({timed_shape(9, 6), 0, 0, false, 0, 1, false, 11});
  check_op<Vocabulary<70, NoBias>>({timed_shape(7, 16), 0, 0, false, 0, 1, false, 70});
  check_op<InChunks<16>>({timed_shape(9, 6), 0, 0, false, 0, 1, false, 11});
  check_op<InChunks<3>>({timed_shape(9, 7), 0, 0, false, 0, 1, false, 11});
  check_op<InChunks<1000>>({timed_shape(9, 6), 0, 0, false, 0, 1, false, 11});
}

TEST_CASE("pieces of a sequence: positions go on, Vocabulary gives the last row's logits") {
  constexpr int time = 3;
  constexpr int channels = 8;
  Shape const in = timed_shape(9, channels);
  Shape const inputs[2] = {in, in};
  Case const c{in, 1, time};
  auto const x = values<float>(time * channels, 1);
  auto const table = values<float>(9 * channels, 2);
  DeviceArray<float> const device_x{gpu(), x};
  DeviceArray<float> const device_table{gpu(), table};
  DeviceArray<float> const y{gpu(), time * channels};
  DeviceArray<float> const scores{gpu(), 9};
  float const* const xs[] = {device_x.data()};
  float* const parameter[] = {device_table.data()};
  float const* const weight[] = {device_table.data()};
  Operands<float> o{.x = xs, .y = y.data(), .parameter = parameter, .weight = weight};
  using OnCuda = BasicCuda<Portable, Fp32>;
  Pass<cuda::RankDevice> const pass{.device = gpu(),
                                    .batch = 1,
                                    .training = false,
                                    .time = time,
                                    .criterion = {.scores = scores.data()},
                                    .sequence = {.position = 4}};
  Op<Positions<>, OnCuda> positions{setup_of<Positions<>>(c, inputs), gpu()};
  positions.forward(o, pass);
  auto const sum = y.host();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    CHECK(sum[i] == x[i] + table[i + 4 * channels]);
  }

  using Words = Vocabulary<9, NoBias, Chunked<2>>;  // 8 rows at a time
  Op<Words, OnCuda> words{setup_of<Words>(c, inputs), gpu()};
  DeviceArray<std::byte> const scratch{gpu(), words.needs().scratch_bytes};
  gpu().scratch = scratch.data();
  words.forward(o, pass);
  auto const score = scores.host();
  for (std::size_t v = 0; v < 9; ++v) {
    double expected = 0;
    for (std::size_t i = 0; i < channels; ++i) {
      expected +=
          static_cast<double>(x[2 * channels + i]) * static_cast<double>(table[v * channels + i]);
    }
    CHECK(std::abs(static_cast<double>(score[v]) - expected) <= 1e-6);
  }

  Op<Attention<2>, OnCuda> attention{setup_of<Attention<2>>({timed_shape(9, 18), 1, time}, inputs),
                                     gpu()};
  CHECK_THROWS_WITH_AS(attention.forward(o, pass), doctest::Contains("make it Causal"),
                       ContractError);
}

}  // namespace
}  // namespace rows_ops_test
}  // namespace tandem
