// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// finish_step: the end of a step in one block: its result, the factor of clipping, and the
/// update's functors, all in device memory.
///
/// The host reads nothing between backward and update, so steps can be queued ahead. A step whose
/// loss is not finite therefore raises a flag in device memory, which stops its own update and all
/// later ones until the host clears it. With loss scaling one whose gradient is not finite sets the
/// flag for itself alone.

#include <cmath>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/exact_sum.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/core/metric_values.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/update_chunk.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// What finish_step reads and writes; all pointers are to device memory.
/// @tparam Result  has loss, metric, metrics.value, weight, counted, gradient_norm, non_finite,
///                 bad_gradient, samples, loss_scale, skipped and scaling, as the engine's
template <class Result>
struct StepEnd {
  double const* sums = nullptr;   ///< (microbatches, 1 + metrics): loss and metrics, over samples
  int microbatches = 0;           ///< of this rank
  int metrics = 1;                ///< at least one
  double const* lanes = nullptr;  ///< (1 + metrics, exact_lanes): sums over all ranks; null: there
                                  ///< are no others
  int samples = 0;                ///< of the global batch
  double const* targets = nullptr;    ///< if not below 0, what the loss is a mean over instead
  double const* counted = nullptr;    ///< likewise of the metrics
  double const* squares = nullptr;    ///< sums of the gradient's squares; null: not looked at
  std::int64_t squares_count = 0;     ///< of them
  double const* clip_norm = nullptr;  ///< of set 0; null or 0: none
  ClipRow const* rows = nullptr;      ///< of each sum of squares; null: all are of set 0
  int sets = 1;                       ///< of gradients that are clipped together
  double const* largest = nullptr;    ///< (sets), norms; that of set 0 is not read
  double* scales = nullptr;           ///< (sets), written; null: of one set
  Result* result = nullptr;
  int* stopped = nullptr;         ///< an UpdateFlag; null in evaluation
  ScaledLoss* scaling = nullptr;  ///< of the gradients; moved on; null: they are not scaled
  LossScaling rule{};             ///< where they are; squares are not null then
};

/// A Prepare that does nothing: for a step without an update.
struct PrepareNothing {
  TANDEM_HOST_DEVICE void operator()(int /*run*/, double const* /*scales*/) const {}
};

namespace detail {

template <class Result, class Prepare>
TANDEM_KERNEL void finish_step_kernel(StepEnd<Result> end, Prepare prepare, int runs) {
  await_previous();
  using std::sqrt;
  int const each = 1 + end.metrics;
  __shared__ double lanes[(1 + most_metrics) * exact_lanes];
  __shared__ double shared_scale;
  double* const scales = end.scales != nullptr ? end.scales : &shared_scale;
  int const thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < each * exact_lanes; i += row_threads) {
    lanes[i] = end.lanes != nullptr ? end.lanes[i]
                                    : exact_lane(end.sums + i / exact_lanes, end.microbatches, each,
                                                 i % exact_lanes);
  }
  __syncthreads();
  // Of thread 0 the loss, of those behind it the metrics.
  double const sum = thread < each ? exact_total(lanes + thread * exact_lanes) : 0.0;
  int first = -1;  // of this rank's microbatches, where the sum of the losses is not finite
  if (thread == 0 && !is_finite(sum)) {
    first = 0;
    while (first < end.microbatches && is_finite(end.sums[std::int64_t{first} * each])) {
      ++first;
    }
  }
  LossScale const scaled = end.scaling != nullptr ? end.scaling->now : LossScale{};
  double const unscale = scaled.on() ? 1.0 / static_cast<double>(scaled.scale) : 1.0;
  bool finite = true;  // of thread 0: all gradients
  double first_norm = 0;
  for (int set = 0; set < end.sets; ++set) {
    double squares = 0;
    if (end.squares != nullptr) {
      for (std::int64_t i = thread; i < end.squares_count; i += row_threads) {
        ClipRow const row = end.rows != nullptr ? end.rows[i] : ClipRow{};
        squares += row.set == set ? end.squares[i] * row.factor : 0.0;
      }
    }
    double const norm = sqrt(sum_lanes<row_threads>(squares)) * unscale;  // of thread 0
    if (thread == 0) {
      double const largest =
          end.clip_norm == nullptr ? 0.0 : (set == 0 ? *end.clip_norm : end.largest[set]);
      scales[set] = (largest > 0.0 && norm > largest ? largest / norm : 1.0) * unscale;
      first_norm = set == 0 && (largest > 0.0 || scaled.on()) ? norm : first_norm;
      finite = finite && is_finite(norm);
    }
    __syncthreads();
  }
  auto const over = [&](double const* given) {
    double const all = given != nullptr ? *given : -1.0;
    return all >= 0.0 ? all : static_cast<double>(end.samples);
  };
  if (thread > 0 && thread < each) {
    double const counted = over(end.counted);
    double const mean = sum / (counted > 0.0 ? counted : 1.0);  // of no targets: 0
    end.result->metrics.value[thread - 1] = mean;
    if (thread == 1) {
      end.result->metric = mean;
      end.result->counted = counted;
    }
  }
  if (thread == 0) {
    double const weight = over(end.targets);
    end.result->loss = sum / (weight > 0.0 ? weight : 1.0);
    end.result->weight = weight;
    std::int64_t bad = finite ? end.squares_count : 0;  // the first sum that is not finite
    while (bad < end.squares_count && is_finite(end.squares[bad])) {
      ++bad;
    }
    end.result->bad_gradient = bad < end.squares_count ? static_cast<int>(bad) : -1;
    if (first < 0 && !finite && !scaled.on()) {
      first = end.microbatches;  // none of this rank's losses
    }
    first_norm = scaled.on() && !finite ? HUGE_VAL : first_norm;
    end.result->gradient_norm = first < 0 ? first_norm : 0.0;
    end.result->non_finite = first;
    end.result->samples = end.samples;
    if (first >= 0 && end.stopped != nullptr) {
      *end.stopped = update_nothing;
    }
    end.result->loss_scale = static_cast<double>(scaled.scale);
    end.result->skipped = scaled.on() && first < 0 && !finite;
    end.result->scaling = scaled;
    if (scaled.on() && *end.stopped != update_nothing) {
      LossScale const next = scaled.after(end.rule, finite);
      end.result->scaling = next;
      end.scaling->now = next;
      *end.stopped =
          finite ? update_all_parameters : (next.lost() ? update_nothing : update_statistics);
    }
  }
  __syncthreads();  // prepare() reads what was moved on
  for (int run = thread; run < runs; run += row_threads) {
    prepare(run, static_cast<double const*>(scales));
  }
}

}  // namespace detail

/// Writes the step's means over the samples, its gradient norm and, where the sum of the losses is
/// not finite, the first microbatch of this rank whose loss is not, or their number; sets the flag;
/// moves the loss scale on; and calls prepare(run, scales of the sets' gradients) for each run.
///
/// Cost:  one block.
/// Order: none of the microbatches; square i to thread i mod 256, then as in join_lanes().
template <class Result, class Prepare>
void finish_step(Stream const& stream, StepEnd<Result> const& end, Prepare const& prepare,
                 int runs) {
  launch(detail::finish_step_kernel<Result, Prepare>, 1, row_threads, stream, end, prepare, runs);
}

}  // namespace tandem::cuda
