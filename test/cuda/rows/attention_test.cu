// SPDX-License-Identifier: Apache-2.0
// Attention by products and softmax, and by cuDNN, against Host's, row by row, in double.
#include <tandem/kernels/cuda/attention.cuh>
#include <tandem/kernels/cuda/attention_step.cuh>
#include <tandem/kernels/cuda/attention_time_chunk.cuh>
#if defined(TANDEM_CUDNN)
#include <tandem/ops/cuda/attention_cudnn.cuh>
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/attention.hpp>

#include "cuda/normalize/support.hpp"

namespace tandem {
namespace attention_test {
namespace {

using test::DeviceArray;
using test::gpu;
using test::MasterOf;

struct Case {
  AttentionShape shape;
  int batch, time;
  std::vector<std::int32_t> lengths;  ///< empty: all rows of all samples
  float rate = 0.0F;
  std::int64_t limit = cuda::attention_scores_limit;
};

constexpr std::uint64_t seed = 42;
constexpr std::int64_t step = 7;
constexpr std::uint32_t layer = 3;
constexpr std::uint32_t first_sample = 5;

struct Expected {
  std::vector<double> y, normalisers, dx;
};

Expected on_host(Case const& c, std::vector<double> const& x, std::vector<double> const& dy) {
  host::Team team{1};
  AttentionRows const rows{c.batch, c.time, c.lengths.empty() ? nullptr : c.lengths.data()};
  AttentionDropout const dropout{{seed, static_cast<std::uint32_t>(step), layer, first_sample},
                                 c.rate};
  Expected e;
  e.y.resize(dy.size());
  e.normalisers.resize(static_cast<std::size_t>(c.batch * c.shape.heads * c.time));
  e.dx.resize(x.size());
  std::vector<double> scratch(
      static_cast<std::size_t>(host::attention_forward_scratch<double>(c.shape, c.time, 1) +
                               host::attention_gradient_scratch<double>(c.shape, c.time, 1)));
  host::attention_forward(team, c.shape, rows, dropout, x.data(), e.y.data(), e.normalisers.data(),
                          scratch.data());
  host::attention_gradient(team, c.shape, rows, dropout, x.data(), e.y.data(), dy.data(),
                           e.normalisers.data(), e.dx.data(), scratch.data());
  return e;
}

/// A score is at most 2.25 sqrt(D), a probability as exact as its score; what is rounded to T is
/// each probability, each ds and the result. Sums of up to `time` terms of size 1.5 / (1 - rate).
template <class T>
double sums_of(Case const& c) {
  double const width = c.shape.width;
  double const u = test::unit<MasterOf<T>>;
  return 2 * u * (c.time + 8) + 2.25 * std::sqrt(width) * (width + 4) * u;
}

template <class T>
void check_results(Case const& c, Expected const& expected, std::vector<T> const& y,
                   std::vector<T> const& dx) {
  double const stored = test::stored_unit<T>;
  double const sums = sums_of<T>(c);
  double const kept = 1.5 / (1 - static_cast<double>(c.rate));
  test::check_within(y, expected.y, [&](std::size_t i) {
    return kept * (2 * stored + 4 * sums) + stored * std::abs(expected.y[i]);
  });
  double const slopes = kept * kept * c.shape.width * c.shape.group();
  test::check_within(dx, expected.dx, [&](std::size_t i) {
    return slopes * (8 * stored + 16 * sums) + stored * std::abs(expected.dx[i]);
  });
}

template <class T>
void check_attention(Case const& c) {
  using P = MasterOf<T>;
  CAPTURE(c.shape.heads);
  CAPTURE(c.shape.key_heads);
  CAPTURE(c.shape.causal);
  CAPTURE(c.batch);
  CAPTURE(c.time);
  CAPTURE(c.rate);
  CAPTURE(c.limit);
  std::int64_t const rows = std::int64_t{c.batch} * c.time;
  auto const x = test::numbers<T>(rows * c.shape.row(), 1, 1.5);
  auto const dy = test::numbers<T>(rows * c.shape.out(), 2);
  Expected const expected = on_host(c, test::in_double(x), test::in_double(dy));

  DeviceArray<std::int32_t> const lengths{gpu(), c.lengths};
  DeviceArray<std::uint64_t> const seeds{gpu(), std::vector<std::uint64_t>{seed}};
  DeviceArray<std::int64_t> const steps{gpu(), std::vector<std::int64_t>{step}};
  AttentionRows const step_rows{c.batch, c.time, c.lengths.empty() ? nullptr : lengths.data()};
  cuda::AttentionMaskSource const mask{{seeds.data(), steps.data(), layer, first_sample}, c.rate};
  cuda::Attention<T> attention{gpu().library<cuda::CublasLt>(), c.shape, c.batch,
                               cuda::MatmulMath::full, c.limit};
  DeviceArray<std::byte> const scratch{gpu(), attention.scratch_bytes()};
  DeviceArray<T> const in{gpu(), x};
  DeviceArray<T> const slope{gpu(), dy};
  DeviceArray<T> const y{gpu(), rows * c.shape.out()};
  DeviceArray<T> const dx{gpu(), rows * c.shape.row()};
  DeviceArray<P> const normalisers{gpu(), std::int64_t{c.batch} * c.shape.heads * c.time};
  cuda::AttentionOperands<T> const o{in.data(), y.data(), normalisers.data(), slope.data(),
                                     dx.data()};
  attention.forward(gpu().compute, step_rows, mask, o, scratch.data());
  attention.input_gradient(gpu().compute, step_rows, mask, o, scratch.data());
  check_results<T>(c, expected, y.host(), dx.host());
  double const sums = sums_of<T>(c);
  test::check_within(normalisers.host(), expected.normalisers,
                     [&](std::size_t) { return 4 * sums; });
  static_cast<void>(scratch.host());
}

template <class T>
void check_all(AttentionShape const& s, int batch, int time,
               std::vector<std::int32_t> const& lengths) {
  for (bool const causal : {false, true}) {
    for (float const rate : {0.0F, 0.25F}) {
      check_attention<T>(
          {{s.heads, s.key_heads, s.width, s.longest, causal}, batch, time, lengths, rate});
    }
  }
}

TEST_CASE_TEMPLATE("attention by products: as Host's, causal or not, dropped or not, with lengths",
                   T, float, double, BFloat16) {
  check_all<T>({2, 2, 4, 8}, 2, 8, {});
  check_all<T>({3, 3, 8, 70}, 2, 67, {5, 67});
  check_all<T>({6, 2, 5, 40}, 3, 33, {33, 1, 0});  // grouped keys, a sample without rows
  check_all<T>({1, 1, 16, 130}, 1, 130, {});
  check_all<T>({2, 1, 3, 1}, 4, 1, {});
}

TEST_CASE("attention by products: a row of more than 1024 keys is a block's") {
  check_attention<float>({{1, 1, 4, 1030, true}, 1, 1030, {1027}, 0.25F});
  check_attention<float>({{1, 1, 4, 1030, false}, 1, 1030, {}});
}

TEST_CASE("attention by products: the same in few scores at once as in many") {
  AttentionShape const shape{4, 2, 8, 20, true};
  for (std::int64_t const scores : {1, 2 * 20 * 24, 4 * 20 * 24, 2 * 4 * 20 * 24, 100000}) {
    check_attention<double>({shape, 3, 20, {20, 7, 15}, 0.25F, scores * 16});
    check_attention<BFloat16>({shape, 3, 20, {20, 7, 15}, 0.25F, scores * 12});
  }
}

TEST_CASE("attention by products: one object for any batch and time up to the largest") {
  AttentionShape const shape{4, 2, 8, 20, true};
  host::Team team{1};
  cuda::Attention<double> attention{gpu().library<cuda::CublasLt>(), shape, 3,
                                    cuda::MatmulMath::full, std::int64_t{5} * 20 * 24 * 16};
  DeviceArray<std::byte> const scratch{gpu(), attention.scratch_bytes()};
  for (int const batch : {0, 1, 2, 3}) {
    for (int const time : {1, 13, 20}) {
      Case const c{shape, batch, time, {}};
      auto const x = test::numbers<double>(std::int64_t{batch} * time * shape.row(), 1);
      auto const dy = test::numbers<double>(std::int64_t{batch} * time * shape.out(), 2);
      Expected const expected = on_host(c, x, dy);
      DeviceArray<double> const in{gpu(), x};
      DeviceArray<double> const slope{gpu(), dy};
      DeviceArray<double> const y{gpu(), dy.size()};
      DeviceArray<double> const dx{gpu(), x.size()};
      DeviceArray<double> const normalisers{gpu(), expected.normalisers.size()};
      cuda::AttentionOperands<double> const o{in.data(), y.data(), normalisers.data(), slope.data(),
                                              dx.data()};
      attention.forward(gpu().compute, {batch, time, nullptr}, {}, o, scratch.data());
      attention.input_gradient(gpu().compute, {batch, time, nullptr}, {}, o, scratch.data());
      test::check_within(y.host(), expected.y, [](std::size_t) { return 1e-13; });
      test::check_within(dx.host(), expected.dx, [](std::size_t) { return 1e-12; });
      static_cast<void>(scratch.host());
    }
  }
}

/// y of a sequence that comes in pieces of so many rows.
template <class T>
std::vector<T> in_pieces(AttentionShape const& shape, std::vector<T> const& x,
                         std::vector<int> const& pieces, bool unaligned = false) {
  cuda::AttentionStep<T> const kernels{shape};
  DeviceArray<std::byte> const scratch{gpu(), kernels.scratch_bytes()};
  DeviceArray<T> const carry{gpu(), kernels.carried_bytes() / static_cast<std::int64_t>(sizeof(T))};
  DeviceArray<T> const in{gpu(), x, {.unaligned = unaligned}};
  DeviceArray<T> const y{gpu(), shape.longest * shape.out()};
  int position = 0;
  for (int const time : pieces) {
    kernels.forward(gpu().compute, position, time, in.data() + position * shape.row(),
                    reinterpret_cast<std::byte*>(carry.data()), y.data() + position * shape.out(),
                    scratch.data());
    position += time;
  }
  static_cast<void>(scratch.host());
  static_cast<void>(carry.host());
  return y.host();
}

TEST_CASE_TEMPLATE("attention in pieces: as Host's of the whole, the same bits however it is cut",
                   T, float, double, BFloat16) {
  struct Pieces {
    AttentionShape shape;
    std::vector<int> rows;
  };
  for (Pieces const& p : {Pieces{{2, 2, 4, 9, true}, {5, 1, 1, 2}},
                          {{6, 2, 5, 4, true}, {1, 3}},
                          {{1, 1, 40, 300, true}, {200, 1, 99}},
                          {{2, 1, 33, 70, true}, {70}}}) {
    CAPTURE(p.shape.width);
    auto const x = test::numbers<T>(p.shape.longest * p.shape.row(), 1, 1.5);
    Expected const expected =
        on_host({p.shape, 1, p.shape.longest, {}}, test::in_double(x),
                std::vector<double>(static_cast<std::size_t>(p.shape.longest * p.shape.out())));
    auto const y = in_pieces<T>(p.shape, x, p.rows);
    double const u = test::unit<MasterOf<T>>;
    double const width = p.shape.width;
    double const sums = 2 * u * (p.shape.longest + 8) + 2.25 * std::sqrt(width) * (width + 4) * u;
    test::check_within(y, expected.y, [&](std::size_t i) {
      return 1.5 * 4 * sums + test::stored_unit<T> * std::abs(expected.y[i]);
    });
    CHECK(test::same_bits(in_pieces<T>(p.shape, x, {p.shape.longest}), y));
    std::vector<int> const ones(static_cast<std::size_t>(std::min(p.shape.longest, 9)), 1);
    auto const first = in_pieces<T>(p.shape, x, ones);
    auto const rows = static_cast<std::int64_t>(ones.size()) * p.shape.out();
    CHECK(test::same_bits(std::vector<T>{first.begin(), first.begin() + rows},
                          std::vector<T>{y.begin(), y.begin() + rows}));
    CHECK(test::same_bits(in_pieces<T>(p.shape, x, p.rows, true), y));
  }
  CHECK(cuda::AttentionStep<T>{{2, 2, 4, 9, false}}.carried_bytes() == 0);
}

/// Rows [first, first + count) of each sample of @p all, whose rows have @p width numbers.
template <class T>
std::vector<T> some_rows(std::vector<T> const& all, Case const& c, int first, int count,
                         std::int64_t width) {
  std::vector<T> some;
  for (int b = 0; b < c.batch; ++b) {
    auto const at = all.begin() + (std::int64_t{b} * c.time + first) * width;
    some.insert(some.end(), at, at + count * width);
  }
  return some;
}

/// All rows again, of chunks of so many.
template <class T>
std::vector<T> joined_rows(std::vector<std::vector<T>> const& chunks, int batch, int count,
                           std::int64_t width) {
  std::vector<T> all;
  for (int b = 0; b < batch; ++b) {
    for (std::vector<T> const& chunk : chunks) {
      auto const at = chunk.begin() + std::int64_t{b} * count * width;
      all.insert(all.end(), at, at + count * width);
    }
  }
  return all;
}

/// Forward from the first chunk, back from the last; inputs of chunks stand one behind the other.
/// @param turned  the last chunk's first
template <class T>
void check_in_chunks(Case const& c, int count, bool turned) {
  using P = MasterOf<T>;
  CAPTURE(c.batch);
  CAPTURE(count);
  CAPTURE(c.limit);
  int const time = c.time / count;
  auto const x = test::numbers<T>(std::int64_t{c.batch} * c.time * c.shape.row(), 1, 1.5);
  auto const dy = test::numbers<T>(std::int64_t{c.batch} * c.time * c.shape.out(), 2);
  Expected const expected = on_host(c, test::in_double(x), test::in_double(dy));
  DeviceArray<std::uint64_t> const seeds{gpu(), std::vector<std::uint64_t>{seed}};
  DeviceArray<std::int64_t> const steps{gpu(), std::vector<std::int64_t>{step}};
  cuda::AttentionMaskSource const mask{{seeds.data(), steps.data(), layer, first_sample}, c.rate};
  cuda::TimeChunkAttention<T> attention{gpu().library<cuda::CublasLt>(), c.shape, c.batch, count,
                                        cuda::MatmulMath::full,          c.limit};
  DeviceArray<std::byte> const scratch{gpu(), attention.scratch_bytes()};
  DeviceArray<P> const sums{gpu(),
                            c.batch * attention.sum_bytes() / static_cast<std::int64_t>(sizeof(P))};
  std::int64_t const apart = std::int64_t{c.batch} * time * c.shape.row();
  std::vector<T> inputs;
  for (int i = 0; i < count; ++i) {
    auto const own = some_rows(x, c, (turned ? count - 1 - i : i) * time, time, c.shape.row());
    inputs.insert(inputs.end(), own.begin(), own.end());
  }
  DeviceArray<T> const in{gpu(), inputs};
  struct Chunk {
    DeviceArray<T> y, slope, dx;
    DeviceArray<P> normalisers;
    DeviceArray<std::int32_t> lengths;
  };
  std::vector<Chunk> chunks;
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> lengths;
    for (std::int32_t const length : c.lengths) {
      lengths.push_back(std::clamp(length - i * time, 0, time));
    }
    chunks.push_back({{gpu(), c.batch * time * c.shape.out()},
                      {gpu(), some_rows(dy, c, i * time, time, c.shape.out())},
                      {gpu(), apart},
                      {gpu(), std::int64_t{c.batch} * c.shape.heads * time},
                      {gpu(), lengths}});
  }
  auto const run = [&](int i, bool forward) {
    Chunk const& own = chunks[static_cast<std::size_t>(i)];
    AttentionRows const rows{c.batch, time, c.lengths.empty() ? nullptr : own.lengths.data()};
    cuda::AttentionTimeChunk<P> const at{i * time, turned ? -apart : apart, i + 1 == count,
                                         sums.data()};
    cuda::AttentionOperands<T> const o{in.data() + (turned ? count - 1 - i : i) * apart,
                                       own.y.data(), own.normalisers.data(), own.slope.data(),
                                       own.dx.data()};
    forward ? attention.forward(gpu().compute, rows, at, mask, o, scratch.data())
            : attention.input_gradient(gpu().compute, rows, at, mask, o, scratch.data());
  };
  std::vector<std::vector<T>> y;
  std::vector<std::vector<T>> dx;
  for (int i = 0; i < count; ++i) {
    run(i, true);
  }
  for (int i = count; i-- > 0;) {
    run(i, false);
  }
  for (Chunk const& own : chunks) {
    y.push_back(own.y.host());
    dx.push_back(own.dx.host());
  }
  check_results<T>(c, expected, joined_rows(y, c.batch, time, c.shape.out()),
                   joined_rows(dx, c.batch, time, c.shape.row()));
  static_cast<void>(scratch.host());
}

TEST_CASE_TEMPLATE("attention in chunks of time: as Host's of the whole, however scores are cut", T,
                   float, double, BFloat16) {
  for (float const rate : {0.0F, 0.25F}) {
    for (int const count : {1, 2, 5}) {
      check_in_chunks<T>({{6, 2, 5, 40, true}, 3, 30, {30, 1, 17}, rate}, count, false);
      check_in_chunks<T>({{2, 2, 8, 20, true}, 2, 20, {}, rate}, count, true);
    }
  }
  for (std::int64_t const scores : {1, 2 * 10 * 24, 4 * 10 * 24, 2 * 4 * 10 * 24, 100000}) {
    check_in_chunks<T>({{4, 2, 8, 20, true}, 3, 20, {20, 7, 15}, 0.25F, scores * 16}, 2, false);
  }
  check_in_chunks<T>({{1, 1, 4, 1200, true}, 1, 1200, {1100}, 0.25F}, 4, false);
}

TEST_CASE("attention_chunks: whole samples while they fit, then an equal part of the key heads") {
  CHECK(cuda::attention_distance(8) == 8);
  CHECK(cuda::attention_distance(9) == 16);
  AttentionShape const shape{12, 6, 4, 10};
  auto const chunks = [&](std::int64_t limit) {  // of rows of 16: 160 scores a head
    return cuda::attention_chunks(shape, 5, 10, limit * 16 / 10);
  };
  CHECK(chunks(1 << 20).samples == 5);
  CHECK(chunks(1 << 20).key_heads == 6);
  CHECK(chunks(2500).samples == 2);
  CHECK(chunks(1200).samples == 1);
  CHECK(chunks(1199).key_heads == 3);  // not 5, which does not divide 6
  CHECK(chunks(400).key_heads == 2);
  CHECK(chunks(1).key_heads == 1);
  for (std::int64_t const limit : {1, 300, 700, 1200, 2500, 1 << 20}) {
    std::vector<int> seen(5 * 6);
    chunks(limit).each([&](cuda::AttentionChunk const& c) {
      CHECK(c.samples * c.key_heads * 320 <= chunks(limit).elements());
      for (int s = 0; s < c.samples; ++s) {
        for (int h = 0; h < c.key_heads; ++h) {
          ++seen[static_cast<std::size_t>((c.sample + s) * 6 + c.key_head + h)];
        }
      }
    });
    CHECK(seen == std::vector<int>(30, 1));
    CHECK(cuda::attention_chunks(shape, 5, 10, chunks(limit).elements()).elements() ==
          chunks(limit).elements());
  }
}

#if defined(TANDEM_CUDNN)

Pass<cuda::RankDevice> pass_of(Case const& c, std::int32_t const* lengths) {
  return {.device = gpu(), .batch = c.batch, .time = c.time, .lengths = lengths};
}

/// Both passes of an op of 16 bits, against Host's; its largest batch may be more than the case's.
template <class Precision>
void check_op(cuda::CuDnnAttentionOp<Precision>& op, Case const& c) {
  using T = typename Precision::Scalar;
  CAPTURE(c.batch);
  CAPTURE(c.time);
  std::int64_t const rows = std::int64_t{c.batch} * c.time;
  auto const x = test::numbers<T>(rows * c.shape.row(), 1, 1.5);
  auto const dy = test::numbers<T>(rows * c.shape.out(), 2);
  Expected const expected = on_host(c, test::in_double(x), test::in_double(dy));
  DeviceArray<std::int32_t> const lengths{gpu(), c.lengths};
  DeviceArray<std::byte> const scratch{gpu(), op.needs().scratch_bytes};
  DeviceArray<std::byte> const saved{gpu(), op.needs().saved_bytes};
  DeviceArray<T> const in{gpu(), x};
  DeviceArray<T> const slope{gpu(), dy};
  DeviceArray<T> const y{gpu(), rows * c.shape.out()};
  DeviceArray<T> const seen{gpu(), rows * c.shape.out()};
  DeviceArray<T> const dx{gpu(), rows * c.shape.row()};
  T const* const xs[] = {in.data()};
  T* const dxs[] = {dx.data()};
  Operands<T, float> o{
      .x = xs, .y = y.data(), .dy = slope.data(), .dx = dxs, .saved = saved.data()};
  gpu().scratch = scratch.data();
  auto pass = pass_of(c, c.lengths.empty() ? nullptr : lengths.data());
  op.forward(o, pass);
  op.input_gradient(o, pass);
  check_results<T>(c, expected, y.host(), dx.host());
  pass.training = false;
  o.y = seen.data();
  o.saved = nullptr;
  op.forward(o, pass);
  check_results<T>(c, expected, seen.host(), dx.host());
  static_cast<void>(scratch.host());
  static_cast<void>(saved.host());
}

OpSetup setup_of(int batch) { return {.batch = batch}; }

TEST_CASE_TEMPLATE("attention by cuDNN: as Host's, causal or not, with lengths and shared keys",
                   Precision, Bf16, Fp16) {
  for (bool const causal : {false, true}) {
    for (AttentionShape const& shape :
         {AttentionShape{2, 2, 8, 19, causal}, AttentionShape{6, 2, 16, 19, causal}}) {
      cuda::CuDnnAttentionOp<Precision> op{setup_of(3), gpu(), shape};
#if defined(TANDEM_CUDA_EMULATED)
      CHECK(op.by_cudnn(cuda::AttentionPass::forward));
      CHECK(op.by_cudnn(cuda::AttentionPass::gradient));
#endif
      check_op(op, {shape, 3, 19, {}});
      check_op(op, {shape, 3, 19, {19, 5, 0}});
      check_op(op, {shape, 2, 12, {12, 1}});
      check_op(op, {shape, 2, 1, {}});  // which cuDNN does not take
      check_op(op, {shape, 0, 19, {}});
    }
  }
}

TEST_CASE("attention by cuDNN: heads that are no whole packs are left to the products") {
  AttentionShape const shape{2, 2, 5, 9, true};
  cuda::CuDnnAttentionOp<Bf16> op{setup_of(2), gpu(), shape};
  CHECK(!op.by_cudnn(cuda::AttentionPass::forward));
  CHECK(!op.by_cudnn(cuda::AttentionPass::gradient));
  check_op(op, {shape, 2, 9, {4, 9}});
  using Layer = Attention<2, Causal>;
  Op<Layer, BasicCuda<CuDnn, Bf16>> whole{{.node = {.in = timed_shape(9, 48)}, .batch = 2}, gpu()};
#if defined(TANDEM_CUDA_EMULATED)
  CHECK(whole.by_cudnn(cuda::AttentionPass::forward));
#endif
  check_op(whole, {{2, 2, 8, 9, true}, 2, 9, {4, 9}});
}

TEST_CASE("attention by cuDNN: the gradient in pieces, or by products where memory is short") {
  AttentionShape const shape{4, 2, 8, 12, true};
  constexpr std::int64_t sample = cuda::attention_sample_bytes({4, 2, 8, 12}, 12);
  CHECK(sample == 4 * (2 * 128 * 128 + 4 * 12 * 8) + 4096);
  CHECK(cuda::attention_piece(shape, 7, 12, 3 * sample) == 3);
  CHECK(cuda::attention_piece(shape, 7, 12, 4 * sample) == 4);
  CHECK(cuda::attention_piece(shape, 8, 12, 3 * sample) == 3);
  CHECK(cuda::attention_piece(shape, 7, 12, 1) == 1);
  CHECK(cuda::attention_piece(shape, 0, 0, 1) == 0);
  for (std::int64_t const limit : {std::int64_t{512}, 2 * sample, 3 * sample, 100 * sample}) {
    CAPTURE(limit);
    cuda::CuDnnAttentionOp<Bf16> op{setup_of(7), gpu(), shape, limit};
#if defined(TANDEM_CUDA_EMULATED)
    CHECK(op.by_cudnn(cuda::AttentionPass::forward));
    CHECK(op.by_cudnn(cuda::AttentionPass::gradient) == (limit >= sample));
#endif
    check_op(op, {shape, 7, 12, {12, 3, 7, 1, 12, 9, 2}});
    check_op(op, {shape, 5, 10, {}});
  }
}

TEST_CASE("attention by cuDNN: pieces of the gradient begin at multiples of 16 bytes") {
  AttentionShape const shape{3, 3, 8, 5, true};
  constexpr std::int64_t sample = cuda::attention_sample_bytes({3, 3, 8, 5}, 5);
  CHECK(cuda::attention_piece(shape, 9, 5, 5 * sample) == 4);  // 3 heads of 5 rows
  CHECK(cuda::attention_piece(shape, 9, 5, 3 * sample) == 4);
  CHECK(cuda::attention_piece(shape, 9, 5, 9 * sample) == 9);
  CHECK(cuda::attention_piece(shape, 3, 5, 2 * sample) == 3);
  CHECK(cuda::attention_piece(shape, 9, 2, 5 * sample) == 4);
  CHECK(cuda::attention_piece(shape, 9, 2, 3 * sample) == 2);
  CHECK(cuda::attention_piece(shape, 9, 4, 5 * sample) == 5);
  for (std::int64_t const limit : {2 * sample, 5 * sample}) {
    CAPTURE(limit);
    cuda::CuDnnAttentionOp<Bf16> op{setup_of(9), gpu(), shape, limit};
#if defined(TANDEM_CUDA_EMULATED)
    CHECK(op.by_cudnn(cuda::AttentionPass::gradient));
#endif
    check_op(op, {shape, 9, 5, {}});
    check_op(op, {shape, 9, 5, {5, 3, 4, 1, 5, 2, 0, 5, 5}});
    check_op(op, {shape, 7, 3, {}});
  }
}

TEST_CASE("attention by cuDNN: layers of one shape share engines; pieces are the step's") {
  AttentionShape const shape{2, 2, 8, 9, false};
  cuda::AttentionPlans plans{gpu().device};
  auto const& library = gpu().library<cuda::CuDnnLibrary>();
  cuda::AttentionTask const task{cuda::AttentionPass::gradient, shape, 2, 9, false};
  auto const* const engine = plans.find(library, task, cuda::attention_workspace_limit);
  CHECK(plans.find(library, task, cuda::attention_workspace_limit) == engine);
  CHECK(plans.find(library, task, -1) == nullptr);
  cuda::CuDnnAttentionOp<Bf16> op{setup_of(2), gpu(), shape};
  Pass<cuda::RankDevice> pass = pass_of({shape, 1, 3, {}}, nullptr);
  pass.sequence.position = 4;
  CHECK_THROWS_WITH_AS(op.forward({}, pass), doctest::Contains("make it Causal"), ContractError);
}

#endif

}  // namespace
}  // namespace attention_test
}  // namespace tandem
