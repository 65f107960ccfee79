// SPDX-License-Identifier: Apache-2.0

/// @file
/// Floating-point operations a second of the three passes of a convolution, on the shapes of a
/// GoogLeNet for images of 32x32 (and a first layer of MNIST), batch 32.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <tandem/kernels/host/convolution.hpp>

namespace {

using namespace tandem;

enum class Pass { forward, input_gradient, weight_gradient };

template <Pass pass>
void convolution(benchmark::State& state) {
  int const in = static_cast<int>(state.range(0));
  int const out = static_cast<int>(state.range(1));
  int const kernel = static_cast<int>(state.range(2));
  int const image = static_cast<int>(state.range(3));
  int const stride = static_cast<int>(state.range(4));
  int const batch = static_cast<int>(state.range(5));
  host::Team team{static_cast<int>(state.range(6))};
  Window const window{{kernel, kernel}, {stride, stride}, {kernel / 2, kernel / 2}};
  Extent2d const extent{image, image};
  ConvolutionGeometry const g{in, out, 1, extent, window.positions(extent), window};
  auto const numbers = [](std::int64_t n) {
    return std::vector<float>(static_cast<std::size_t>(n), 1.0F);
  };
  auto x = numbers(std::int64_t{batch} * in * image * image);
  auto y = numbers(std::int64_t{batch} * out * g.out.height * g.out.width);
  auto weight = numbers(std::int64_t{in} * out * kernel * kernel);
  auto bias = numbers(out);
  auto scratch = numbers(host::convolution_scratch<float>(g, team.size()));
  for (auto _ : state) {
    if constexpr (pass == Pass::forward) {
      host::convolution_forward(team, g, batch, x.data(), weight.data(), bias.data(), y.data(),
                                scratch.data());
    } else if constexpr (pass == Pass::input_gradient) {
      host::convolution_input_gradient(team, g, batch, weight.data(), y.data(), x.data(),
                                       scratch.data());
    } else {
      host::convolution_weight_gradient(team, g, batch, x.data(), y.data(), weight.data(),
                                        bias.data(), false, scratch.data());
    }
    benchmark::ClobberMemory();
  }
  state.counters["flops"] = benchmark::Counter(2.0 * batch * static_cast<double>(g.macs()),
                                               benchmark::Counter::kIsIterationInvariantRate,
                                               benchmark::Counter::kIs1000);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"in", "out", "kernel", "image", "stride", "batch", "threads"})->UseRealTime();
  bench->Unit(benchmark::kMillisecond);
  for (int const threads : {1, 2}) {
    bench->Args({3, 192, 3, 32, 1, 32, threads});
    bench->Args({192, 64, 1, 32, 1, 32, threads});
    bench->Args({96, 128, 3, 32, 1, 32, threads});
    bench->Args({16, 32, 5, 32, 1, 32, threads});
    bench->Args({480, 192, 1, 16, 1, 32, threads});
    bench->Args({112, 224, 3, 16, 1, 32, threads});
    bench->Args({160, 320, 3, 8, 1, 32, threads});
    bench->Args({64, 128, 3, 32, 2, 32, threads});
    bench->Args({1, 16, 3, 28, 1, 32, threads});
  }
  bench->Args({160, 320, 3, 8, 1, 1, 1});
}

BENCHMARK(convolution<Pass::forward>)->Apply(shapes);
BENCHMARK(convolution<Pass::input_gradient>)->Apply(shapes);
BENCHMARK(convolution<Pass::weight_gradient>)->Apply(shapes);

}  // namespace

BENCHMARK_MAIN();
