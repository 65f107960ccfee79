// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/optim/adagrad.hpp>

#include "cuda/update/on_device.cuh"

namespace tandem {
namespace update_rows_test {
namespace {

using test::DeviceArray;
using update_test::gpu;
using update_test::Result;

/// A parameter with a dense gradient, and one of rows; of either the gradient of a step.
struct Case {
  int limit;
  int width;
  std::vector<std::int32_t> row;

  static constexpr std::int64_t first = 112;  // of the second, of which 100 before are the other's
  [[nodiscard]] std::int64_t size() const { return first + std::int64_t{limit} * width; }
  [[nodiscard]] std::vector<UpdateRun> runs(bool by_rows) const {
    return {{.begin = 0, .end = 100, .origin = 1},
            {.begin = first,
             .end = size(),
             .origin = 0,
             .learning_rate_scale = 0.5F,
             .gradient_scale = 2.0F,
             .clip_value = 0.7,
             .rows = by_rows ? 0 : -1}};
  }
};

template <class P>
P number(std::int64_t i, std::uint64_t seed) {
  return static_cast<P>(
      2 * uniform(philox(seed, RandomUse::user, static_cast<std::uint64_t>(i), 0).word[0]) - 1);
}

/// What a few steps leave: parameters, a state, the rounded copy, square sums, norms.
template <class P, class T>
struct Left {
  std::vector<P> parameters, state;
  std::vector<T> rounded;
  std::vector<double> sums;

  friend bool operator==(Left const& a, Left const& b) {
    return a.parameters == b.parameters && a.state == b.state && a.sums == b.sums &&
           std::memcmp(a.rounded.data(), b.rounded.data(), a.rounded.size() * sizeof(T)) == 0;
  }
};

template <class P, class T>
Left<P, T> steps(Optimizer const& optimizer, Case const& n, bool by_rows, double clip) {
  auto const most = static_cast<std::int64_t>(n.row.size()) + 3;
  std::vector<P> initial;
  std::vector<P> gradient;
  std::vector<P> block(static_cast<std::size_t>(gradient_rows_elements<P>(most, n.width)));
  GradientRows<P> const host = gradient_rows(block.data(), most, n.width);
  for (std::int64_t i = 0; i < n.size(); ++i) {
    initial.push_back(number<P>(i, 1));
    gradient.push_back(i < 100 ? number<P>(i, 2) : P{0});
  }
  *host.count = static_cast<std::int32_t>(n.row.size());
  for (std::size_t i = 0; i < n.row.size(); ++i) {
    host.row[i] = n.row[i];
    for (int c = 0; c < n.width; ++c) {
      P const g = number<P>(static_cast<std::int64_t>(i) * n.width + c, 3);
      host.values_of(static_cast<std::int64_t>(i))[c] = g;
      gradient[static_cast<std::size_t>(n.first + std::int64_t{n.row[i]} * n.width + c)] = g;
    }
  }
  DeviceArray<P> const parameters{gpu(), initial};
  DeviceArray<P> const gradients{gpu(), gradient};
  DeviceArray<P> const state{gpu(), std::vector<P>(initial.size(), P{1})};
  DeviceArray<T> const rounded{gpu(), n.size()};
  DeviceArray<P> const rows{gpu(), block};
  auto const runs = n.runs(by_rows);
  DeviceArray<cuda::UpdateChunk> const chunks{gpu(), update_chunks(runs, cuda::update_chunk)};
  DeviceArray<RunSettings> const settings{gpu(), run_settings(runs, optimizer)};
  using Kernels = cuda::UpdateKernels<P, T>;
  DeviceArray<std::byte> const functors{gpu(), Kernels::functor_bytes(2)};
  DeviceArray<cuda::ChunkRange> const ranges{gpu(), chunk_ranges(runs, cuda::update_chunk, 2)};
  DeviceArray<double> const squares{gpu(), update_chunks(n.runs(false), cuda::update_chunk).size()};
  DeviceArray<double> const sums{gpu(), 2};
  DeviceArray<double> const scales{gpu(), 1};
  DeviceArray<int> const stopped{gpu(), std::vector<int>{0}};
  std::vector<cuda::RowUpdate<P>> row_updates;
  for (RowRun const& own : row_runs(runs, cuda::update_chunk)) {
    row_updates.push_back({own, gradient_rows(rows.data(), most, n.width)});
  }
  CHECK(row_updates.size() == (by_rows ? 1U : 0U));
  Kernels const kernels{optimizer,
                        {.parameters = parameters.data(),
                         .gradients = gradients.data(),
                         .state = {state.data()},
                         .rounded = std::is_same_v<P, T> ? nullptr : rounded.data(),
                         .parameter_count = n.size(),
                         .chunks = chunks.data(),
                         .chunk_count = chunks.size(),
                         .own_chunks = chunks.data(),
                         .own_count = chunks.size(),
                         .settings = settings.data(),
                         .run_count = 2,
                         .functors = functors.data(),
                         .squares = squares.data(),
                         .ranges = ranges.data(),
                         .range_count = 2,
                         .sums = sums.data(),
                         .scales = scales.data(),
                         .stopped = stopped.data()},
                        row_updates};
  kernels.refresh_rounded(gpu().compute);
  for (int step = 0; step < 4; ++step) {
    // The loss of the third is not finite, so the fourth changes nothing either.
    DeviceArray<StepState> const given{
        gpu(), std::vector<StepState>{{.step = step, .learning_rate = 0.3, .clip_norm = clip}}};
    DeviceArray<double> const losses{gpu(), std::vector<double>{step == 2 ? NAN : 1.0, 0.0}};
    DeviceArray<Result> const result{gpu(), 1};
    kernels.sum_squares(gpu().compute);
    kernels.finish(gpu().compute, given.data(), losses.data(), 1, 1, nullptr, 1, true, true,
                   result.data());
    kernels.apply(gpu().compute, given.data());
    CHECK((result.host()[0].non_finite < 0) == (step != 2));
  }
  CHECK(stopped.host()[0] == update_nothing);
  auto const left_sums = sums.host();
  kernels.check_gradients(gpu().compute);
  CHECK(sums.host() == left_sums);  // all are finite
  return {parameters.host(), state.host(), rounded.host(), left_sums};
}

template <class Precision>
void check() {
  using P = typename Precision::Master;
  using T = typename Precision::Scalar;
  Optimizer const optimizers[] = {
      Sgd{.learning_rate = 0.3F},
      own_optimizer<BasicCuda<Portable, Precision>>(Adagrad{.lr_decay = 0.1F, .epsilon = 0.0F})};
  for (Case const& n : {Case{40, 8, {0, 3, 4, 39}}, Case{700, 7, {1, 2, 650, 651, 699}},
                        Case{9, 1100, {0, 1, 3, 4, 8}}, Case{5, 12, {}}}) {
    CAPTURE(n.width);
    for (Optimizer const& optimizer : optimizers) {
      CAPTURE(optimizer_name(optimizer));
      for (double const clip : {0.0, 0.5}) {
        CHECK(steps<P, T>(optimizer, n, true, clip) == steps<P, T>(optimizer, n, false, clip));
      }
    }
  }
}

TEST_CASE("of rows: a gradient that is not finite marks its parameter, and what is no row's not") {
  std::vector<float> block(static_cast<std::size_t>(gradient_rows_elements<float>(5, 6)), 1.0F);
  GradientRows<float> const host = gradient_rows(block.data(), 5, 6);
  *host.count = 3;
  host.values_of(3)[0] = NAN;  // behind the last that counts
  for (bool const bad : {false, true}) {
    if (bad) {
      host.values_of(2)[5] = INFINITY;
    }
    DeviceArray<float> const rows{gpu(), block};
    DeviceArray<double> const sum{gpu(), std::vector<double>{0.0}};
    cuda::each(gpu().compute, 30,
               cuda::CheckRows<float>{gradient_rows(rows.data(), 5, 6), sum.data()});
    CHECK(std::isinf(sum.host()[0]) == bad);
  }
}

TEST_CASE("the update of rows: the bits of a dense one, whose gradient is 0 elsewhere") {
  check<Fp32>();
  check<Fp64>();
  check<Bf16>();
}

}  // namespace
}  // namespace update_rows_test
}  // namespace tandem
