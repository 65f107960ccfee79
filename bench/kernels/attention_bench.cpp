// SPDX-License-Identifier: Apache-2.0

/// @file
/// Floating-point operations a second of causal attention in vectors, forward and backward, on the
/// shapes of small language models; those that are needed are counted: two products of the pairs
/// (row, key) forward, five backward. And logits a second of a vocabulary's rows.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/kernels/channels_last/attention.hpp>
#include <tandem/kernels/channels_last/attention_gradient.hpp>
#include <tandem/kernels/channels_last/vocabulary.hpp>

namespace {

using namespace tandem;
namespace vectors = host::channels_last;

enum class Pass { forward, gradient };

template <Pass pass, class T>
void attention(benchmark::State& state) {
  int const batch = static_cast<int>(state.range(0));
  int const heads = static_cast<int>(state.range(1));
  int const time = static_cast<int>(state.range(2));
  int const width = static_cast<int>(state.range(3));
  AttentionDropout const dropout{{.seed = 1}, 0.01F * static_cast<float>(state.range(4))};
  host::Team team{static_cast<int>(state.range(5))};
  AttentionShape const shape{heads, heads, width, time, true};
  AttentionRows const rows{batch, time, nullptr};
  auto const size = [&](std::int64_t row) { return static_cast<std::size_t>(batch * time * row); };
  std::vector<T> const x(size(shape.row()), T{0.5F});
  std::vector<T> const dy(size(shape.out()), T{0.25F});
  std::vector<T> y(dy.size());
  std::vector<T> dx(x.size());
  std::vector<float> normalisers(size(heads));
  std::vector<float> scratch(
      static_cast<std::size_t>(vectors::attention_gradient_scratch(shape, time, team.size()) +
                               vectors::attention_forward_scratch(shape, time, team.size())));
  auto const forward = [&] {
    vectors::attention_forward(team, shape, rows, dropout, x.data(), y.data(), normalisers.data(),
                               scratch.data());
  };
  forward();
  for (auto _ : state) {
    if constexpr (pass == Pass::forward) {
      forward();
    } else {
      vectors::attention_gradient(team, shape, rows, dropout, x.data(), y.data(), dy.data(),
                                  normalisers.data(), dx.data(), scratch.data());
    }
    benchmark::ClobberMemory();
  }
  double const pairs = 0.5 * time * (time + 1.0) * batch * heads;
  state.counters["flops"] = benchmark::Counter((pass == Pass::forward ? 4 : 10) * pairs * width,
                                               benchmark::Counter::kIsIterationInvariantRate,
                                               benchmark::Counter::kIs1000);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"batch", "heads", "time", "width", "percent", "threads"})->UseRealTime();
  bench->Unit(benchmark::kMicrosecond);
  for (int const threads : {1, 2}) {
    bench->Args({4, 6, 256, 64, 0, threads});
    bench->Args({12, 4, 64, 32, 0, threads});
    bench->Args({1, 12, 1024, 64, 0, threads});
  }
  bench->Args({4, 6, 256, 64, 20, 1});
}

template <class T>
void vocabulary_rows(benchmark::State& state) {
  std::int64_t const rows = state.range(0);
  int const words = static_cast<int>(state.range(1));
  host::Team team{static_cast<int>(state.range(2))};
  std::vector<T> logits(static_cast<std::size_t>(rows * words), T{0.5F});
  std::vector<std::int32_t> const targets(static_cast<std::size_t>(rows), words / 2);
  std::vector<VocabularyRow> results(targets.size());
  double const scale = 1.0 / static_cast<double>(rows);
  for (auto _ : state) {
    vectors::vocabulary_rows(team, rows, words, logits.data(), targets.data(), 0.0, &scale,
                             results.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows * words);
}

void vocabularies(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "words", "threads"})->UseRealTime();
  bench->Unit(benchmark::kMicrosecond);
  bench->Args({1024, 65, 1})->Args({256, 50257, 1})->Args({256, 50257, 2});
}

BENCHMARK(attention<Pass::forward, float>)->Apply(shapes);
BENCHMARK(attention<Pass::gradient, float>)->Apply(shapes);
BENCHMARK(attention<Pass::forward, BFloat16>)->Apply(shapes);
BENCHMARK(attention<Pass::gradient, BFloat16>)->Apply(shapes);
BENCHMARK(vocabulary_rows<float>)->Apply(vocabularies);
BENCHMARK(vocabulary_rows<BFloat16>)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
