// SPDX-License-Identifier: Apache-2.0

/// @file
/// Bytes a second of batch norm's statistics, channels-last, on the shapes of a GoogLeNet for
/// images of 32x32.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/kernels/channels_last/batch_norm.hpp>
#include <tandem/runtime/host/team.hpp>

namespace {

using namespace tandem;
using namespace tandem::host::channels_last;

void moments(benchmark::State& state) {
  int const channels = static_cast<int>(state.range(0));
  std::int64_t const rows = state.range(1) * state.range(1) * state.range(2);
  host::Team team{static_cast<int>(state.range(3))};
  std::vector<float> x(static_cast<std::size_t>(rows * channels), 1.0F);
  std::vector<std::byte> saved(static_cast<std::size_t>(BatchNormSaved<float>::bytes(channels)));
  std::vector<std::byte> scratch(static_cast<std::size_t>(RowScratch::bytes(rows, channels)));
  for (auto _ : state) {
    batch_norm_moments<float>(team, {x.data(), channels}, rows, channels, 1e-5F,
                              BatchNormSaved<float>::at(saved.data(), channels), scratch.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * rows * channels * std::int64_t{sizeof(float)});
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"channels", "image", "batch", "threads"})->UseRealTime();
  bench->Unit(benchmark::kMicrosecond);
  for (int const batch : {32, 128}) {
    for (int const channels : {16, 64, 192}) {
      bench->Args({channels, 32, batch, 1});
    }
    for (int const channels : {24, 208, 480}) {
      bench->Args({channels, 16, batch, 1});
    }
    for (int const channels : {48, 384}) {
      bench->Args({channels, 8, batch, 1});
    }
  }
}

BENCHMARK(moments)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
