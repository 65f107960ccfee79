// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepSums on Cuda: in the device's memory, finished by a kernel.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <tandem/engine/step/sums.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/finish_step.cuh>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

template <class Kernels, class Precision>
class StepSums<BasicCuda<Kernels, Precision>> {
 public:
  using Device = cuda::RankDevice;

  StepSums(Device& device, int microbatches)
      : microbatches_{microbatches},
        sums_{device, 2 * static_cast<std::size_t>(microbatches) * sizeof(double)} {}

  void clear(Device& device) {
    cuda::fill(device.compute, loss(0), 2 * std::int64_t{microbatches_}, 0.0);
  }
  void clear(Device& device, int microbatch) {
    cuda::fill(device.compute, loss(microbatch), 2, 0.0);
  }
  void vote(Device& device, bool yes) {
    clear(device);
    cuda::fill(device.compute, loss(0), 1, yes ? 0.0 : std::numeric_limits<double>::infinity());
  }

  [[nodiscard]] double* loss(int microbatch) const {
    return sums_.template as<double>() + 2 * std::int64_t{microbatch};
  }
  [[nodiscard]] double* metric(int microbatch) const { return loss(microbatch) + 1; }
  [[nodiscard]] std::span<double> all() const {
    return {loss(0), 2 * static_cast<std::size_t>(microbatches_)};
  }
  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(sums_.bytes()); }

  void finish(Device& device, StepState const* state, int samples, StepResult* result) const {
    cuda::finish_step(device.compute,
                      cuda::StepEnd<StepResult>{.sums = loss(0),
                                                .microbatches = microbatches_,
                                                .samples = samples,
                                                .targets = &state->targets,
                                                .result = result},
                      cuda::PrepareNothing{}, 0);
  }

 private:
  int microbatches_;
  cuda::Buffer sums_;
};

}  // namespace tandem
