// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of the update share: runs, a step by Host's functors, and a rank's memory on
/// Cuda.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/philox.hpp>
#include <tandem/ops/cuda/update.cuh>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace tandem::update_test {

using test::DeviceArray;

/// As the engine's StepResult.
struct Result {
  double loss, metric, gradient_norm, weight, counted;
  int non_finite, bad_gradient, samples;
  struct {
    double value[8];
  } metrics;
  double loss_scale;
  bool skipped;
  LossScale scaling;
};

inline cuda::RankDevice& gpu() {
  static cuda::RankDevice device{cuda::Device{0}};
  return device;
}

inline constexpr std::int64_t size = 14016;
inline constexpr int parameters_of_network = 7;  // of which others have numbers 3 and 6

/// Weights in more than one chunk and in few, settings of their own, statistics, frozen ones; a
/// gap.
inline std::vector<UpdateRun> runs() {
  return {
      {.begin = 0, .end = 5001, .origin = 5},
      {.begin = 5001, .end = 5004, .origin = 4, .learning_rate_scale = 0.5F, .weight_decay = 0.0F},
      {.begin = 5024, .end = 5100, .origin = 2, .role = Role::statistic, .rate = 0.1F},
      {.begin = 5100, .end = 5200, .origin = 1, .frozen = true},
      {.begin = 5200, .end = 14000, .origin = 0, .weight_decay = 0.25F, .clip_value = 0.6}};
}

template <class P>
std::vector<P> numbers(std::uint64_t seed) {
  std::vector<P> x;
  for (std::uint64_t i = 0; i < size; ++i) {
    x.push_back(static_cast<P>(2 * uniform(philox(seed, RandomUse::user, i, 0).word[0]) - 1));
  }
  return x;
}

/// Parameters and optimizer states on the host.
template <class P>
struct Arrays {
  std::vector<P> parameters = numbers<P>(1);
  std::vector<P> state[3] = {std::vector<P>(size), std::vector<P>(size), std::vector<P>(size)};
};

/// The global norm of the gradient of the weights that are updated.
template <class P>
double norm_of(std::vector<P> const& gradient) {
  long double sum = 0;
  for (UpdateRun const& r : runs()) {
    for (std::int64_t i = r.begin; i < r.end && r.role == Role::weight && !r.frozen; ++i) {
      sum += static_cast<long double>(gradient[static_cast<std::size_t>(i)]) *
             gradient[static_cast<std::size_t>(i)];
    }
  }
  return static_cast<double>(std::sqrt(sum));
}

template <class P>
using HostOf = BasicHost<Portable, std::conditional_t<std::is_same_v<P, double>, Fp64, Fp32>>;

/// One step by the functors on the host, as engine/step/update.hpp.
template <class P>
void step_on_host(Optimizer const& optimizer, StepState const& state,
                  std::vector<P> const& gradient, Arrays<P>& arrays) {
  double const norm = norm_of(gradient);
  host::Device host{DeviceSpec{.threads = 1}};
  double const scale = state.clip_norm > 0 && norm > state.clip_norm ? state.clip_norm / norm : 1.0;
  std::visit(
      [&](auto const& o) {
        for (UpdateRun const& r : runs()) {
          P* const parameters = arrays.parameters.data() + r.begin;
          P const* const gradients = gradient.data() + r.begin;
          UpdateSettings const settings{
              .learning_rate = state.learning_rate * double{r.learning_rate_scale},
              .weight_decay = double{r.weight_decay.value_or(o.weight_decay)},
              .gradient_scale = scale,
              .step = state.step + 1,
              .clip_value = r.clip_value};
          if (r.frozen) {
            continue;
          }
          if (r.role == Role::weight) {
            update_weights<HostOf<P>>(
                host, o, parameters, gradients,
                [&](int s) { return arrays.state[s].data() + r.begin; }, r.end - r.begin, settings);
          }
          for (std::int64_t i = 0; i < r.end - r.begin && r.role == Role::statistic; ++i) {
            AverageUpdate<P>{{parameters, gradients}, static_cast<P>(r.rate)}(i);
          }
        }
      },
      optimizer);
}

/// A rank's memory on the device, as the engine makes it.
template <class P, class T>
class OnDevice {
 public:
  /// @param unaligned  bit 0: parameters, 1: gradients, 2: states, 3: their rounded copy
  OnDevice(Optimizer const& optimizer, Arrays<P> const& arrays, int unaligned = 0)
      : parameters{gpu(), arrays.parameters, {.unaligned = (unaligned & 1) != 0}},
        gradients{gpu(), size, {.unaligned = (unaligned & 2) != 0}},
        state{{gpu(), arrays.state[0], {.unaligned = (unaligned & 4) != 0}},
              {gpu(), arrays.state[1], {.unaligned = (unaligned & 4) != 0}},
              {gpu(), arrays.state[2], {.unaligned = (unaligned & 4) != 0}}},
        rounded{gpu(), size, {.unaligned = (unaligned & 8) != 0}},
        chunks{gpu(), update_chunks(runs(), cuda::update_chunk)},
        settings{gpu(), run_settings(runs(), optimizer)},
        functors{gpu(), Kernels::functor_bytes(static_cast<int>(settings.size()))},
        ranges{gpu(), chunk_ranges(runs(), cuda::update_chunk, parameters_of_network)},
        squares{gpu(), chunks.size()},
        square_sums{gpu(), std::vector<double>(parameters_of_network)},
        scales{gpu(), 1},
        norm_ranges{gpu(), tandem::norm_ranges(runs(), cuda::update_chunk)},
        norm_squares{gpu(), 2 * chunks.size()},
        norms{gpu(), 2 * settings.size()},
        stopped{gpu(), std::vector<int>{0}},
        kernels{optimizer,
                {.parameters = parameters.data(),
                 .gradients = gradients.data(),
                 .state = {state[0].data(), state[1].data(), state[2].data()},
                 .rounded = std::is_same_v<P, T> ? nullptr : rounded.data(),
                 .parameter_count = size,
                 .chunks = chunks.data(),
                 .chunk_count = chunks.size(),
                 .own_chunks = chunks.data(),
                 .own_count = chunks.size(),
                 .settings = settings.data(),
                 .run_count = static_cast<int>(settings.size()),
                 .functors = functors.data(),
                 .squares = squares.data(),
                 .ranges = ranges.data(),
                 .range_count = parameters_of_network,
                 .sums = square_sums.data(),
                 .scales = scales.data(),
                 .norm_ranges = norm_ranges.data(),
                 .norm_squares = norm_squares.data(),
                 .norms = norms.data(),
                 .stopped = stopped.data()}} {}

  Result step(StepState const& step_state, std::vector<P> const& gradient,
              std::vector<double> const& sums = {1, 2}, int samples = 1) {
    write(gradients, gradient);
    DeviceArray<StepState> const on_device{gpu(), std::vector<StepState>{step_state}};
    DeviceArray<double> const sums_on_device{gpu(), sums};
    DeviceArray<Result> const result{gpu(), 1};
    bool const clips = step_state.clip_norm > 0;
    if (clips) {
      kernels.sum_squares(gpu().compute);
    } else {
      kernels.check_gradients(gpu().compute);
    }
    kernels.finish(gpu().compute, on_device.data(), sums_on_device.data(),
                   static_cast<int>(sums.size() / 2), 1, nullptr, samples, true, clips,
                   result.data());
    kernels.apply(gpu().compute, on_device.data());
    static_cast<void>(functors.host());  // looks at what stands around it
    static_cast<void>(squares.host());
    static_cast<void>(square_sums.host());
    static_cast<void>(norm_squares.host());
    static_cast<void>(norms.host());
    return result.host()[0];
  }

  template <class U>
  static void write(DeviceArray<U> const& array, std::vector<U> const& values) {
    cuda::check(cudaMemcpyAsync(array.data(), values.data(), values.size() * sizeof(U),
                                cudaMemcpyHostToDevice, gpu().compute.get()));
    gpu().compute.synchronize();
  }

  using Kernels = cuda::UpdateKernels<P, T>;
  DeviceArray<P> parameters, gradients;
  DeviceArray<P> state[3];
  DeviceArray<T> rounded;
  DeviceArray<cuda::UpdateChunk> chunks;
  DeviceArray<RunSettings> settings;
  DeviceArray<std::byte> functors;
  DeviceArray<cuda::ChunkRange> ranges;
  DeviceArray<double> squares;
  DeviceArray<double> square_sums;
  DeviceArray<double> scales;
  DeviceArray<cuda::ChunkRange> norm_ranges;
  DeviceArray<double> norm_squares;
  DeviceArray<double> norms;
  DeviceArray<int> stopped;
  Kernels kernels;
};

}  // namespace tandem::update_test
