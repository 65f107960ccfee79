// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums on Cuda: in the device's memory, spread and finished by kernels.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/core/exact_sum.hpp>
#include <tandem/engine/step/sums.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/finish_step.cuh>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

/// Lane i % exact_lanes of the sum of number i / exact_lanes of each microbatch.
struct SpreadSums {
  double const* sums;  ///< (microbatches, each)
  int microbatches;
  int each;
  double* lanes;  ///< (each, exact_lanes)
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    lanes[i] =
        exact_lane(sums + i / exact_lanes, microbatches, each, static_cast<int>(i % exact_lanes));
  }
};

template <class Kernels, class Precision>
class StepSums<BasicCuda<Kernels, Precision>> {
 public:
  using Device = cuda::RankDevice;

  StepSums(Device& device, int microbatches, int metrics = 1, bool spreads = false)
      : microbatches_{microbatches},
        metrics_{metrics},
        sums_{device, static_cast<std::size_t>(count()) * sizeof(double)},
        lanes_{device, spreads
                           ? static_cast<std::size_t>((1 + metrics) * exact_lanes) * sizeof(double)
                           : 0} {}

  void clear(Device& device) { cuda::fill(device.compute, loss(0), count(), 0.0); }
  void clear(Device& device, int microbatch) {
    cuda::fill(device.compute, loss(microbatch), 1 + metrics_, 0.0);
  }
  void vote(Device& device, bool yes) {
    clear(device);
    cuda::fill(device.compute, loss(0), 1, yes ? 0.0 : std::numeric_limits<double>::infinity());
  }

  void put(Device& device, std::span<double const> metrics) {
    clear(device);
    cuda::copy_bytes(metric(0), metrics.data(), metrics.size_bytes(), cudaMemcpyHostToDevice,
                     device.compute);
  }
  void get(Device& device, std::span<double> metrics) const {
    cuda::copy_bytes(metrics.data(), metric(0), metrics.size_bytes(), cudaMemcpyDeviceToHost,
                     device.compute);
    device.compute.synchronize();
  }

  [[nodiscard]] double* loss(int microbatch) const {
    return sums_.template as<double>() + (1 + metrics_) * std::int64_t{microbatch};
  }
  [[nodiscard]] double* metric(int microbatch) const { return loss(microbatch) + 1; }
  [[nodiscard]] std::span<double> all() const {
    return {loss(0), static_cast<std::size_t>(count())};
  }
  std::span<double> spread(Device& device) const {
    std::span<double> const lanes = all_lanes();
    cuda::each(device.compute, std::ssize(lanes),
               SpreadSums{loss(0), microbatches_, 1 + metrics_, lanes.data()});
    return lanes;
  }
  std::span<double> nothing(Device& device) const {
    std::span<double> const lanes = all_lanes();
    cuda::fill(device.compute, lanes.data(), std::ssize(lanes), 0.0);
    return lanes;
  }

  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] int metrics() const { return metrics_; }
  /// What spread() has given away; null where finish() does not read it.
  [[nodiscard]] double const* lanes() const {
    return lanes_.bytes() > 0 ? lanes_.template as<double>() : nullptr;
  }
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(sums_.bytes() + lanes_.bytes());
  }

  void finish(Device& device, StepState const* state, int samples, StepResult* result) const {
    cuda::finish_step(device.compute,
                      cuda::StepEnd<StepResult>{.sums = loss(0),
                                                .microbatches = microbatches_,
                                                .metrics = metrics_,
                                                .lanes = lanes(),
                                                .samples = samples,
                                                .targets = &state->targets,
                                                .counted = &state->counted,
                                                .result = result},
                      cuda::PrepareNothing{}, 0);
  }

 private:
  [[nodiscard]] std::span<double> all_lanes() const {
    return {lanes_.template as<double>(), lanes_.bytes() / sizeof(double)};
  }
  [[nodiscard]] std::int64_t count() const { return std::int64_t{microbatches_} * (1 + metrics_); }

  int microbatches_;
  int metrics_;
  cuda::Buffer sums_;
  cuda::Buffer lanes_;
};

}  // namespace tandem
