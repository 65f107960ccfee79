// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UpdateKernels: the optimizer on Cuda, over a rank's flat arrays, without a host in between.
///
/// It owns no memory: the engine gives it device pointers once. A step calls sum_squares (with
/// clipping), finish and apply, four launches for all parameters together; two more by tensor, and
/// of GradientRows each parameter's own.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/finish_step.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/update.cuh>
#include <tandem/ops/cuda/bound_optimizer.cuh>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/ops/step_state.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// @tparam P  of parameters, gradients and optimizer states
/// @tparam T  of the copy that matrix products read
template <class P, class T>
class UpdateKernels {
  static_assert(std::is_same_v<P, float> || std::is_same_v<P, double>,
                "UpdateKernels<P, T>: P, the type of parameters, must be float or double");

 public:
  /// @param rows  of parameters whose gradients are GradientRows
  UpdateKernels(Optimizer optimizer, UpdateMemory<P, T> const& memory,
                std::vector<RowUpdate<P>> rows = {})
      : optimizer_{std::move(optimizer)}, memory_{memory}, rows_{std::move(rows)} {}

  /// Memory for the functors of @p runs runs, of any optimizer.
  static constexpr std::int64_t functor_bytes(int runs) {
    constexpr std::size_t sgd = sizeof(typename detail::PrepareRun<Sgd, P>::Run);
    constexpr std::size_t adam = sizeof(typename detail::PrepareRun<Adam, P>::Run);
    return std::int64_t{runs} * static_cast<std::int64_t>(sgd > adam ? sgd : adam);
  }

  /// Writes the square sum of each parameter's gradient, which finish() turns into the global norm.
  ///
  /// Order: chunks begin with a parameter, so its sum has the same bits wherever else it stands.
  void sum_squares(Stream const& stream) const {
    sum_squares_of(stream, 0, memory_.chunk_count, memory_.gradients, 0);
    for (RowUpdate<P> const& own : rows_) {
      gradient_row_squares(stream, own.rows, update_chunk, own.at.chunks,
                           memory_.squares + own.at.first_chunk);
    }
    join_squares_of_chunks(stream);
  }
  /// The same where gradients come a bucket at a time: those of @p count chunks from @p first on,
  /// of which that of parameter @p origin is gradients[0]; and when all have come, the sums.
  void sum_squares_of(Stream const& stream, std::int64_t first, std::int64_t count,
                      P const* gradients, std::int64_t origin) const {
    gradient_squares(stream, memory_.chunks + first, count, memory_.settings, gradients,
                     memory_.squares + first, origin);
  }
  void join_squares_of_chunks(Stream const& stream) const {
    join_squares(stream, memory_.ranges, memory_.range_count, memory_.squares, memory_.sums);
  }

  /// Writes the step's result and makes the functors of this step.
  /// @param state  in device memory
  /// @param sums   (microbatches, 1 + metrics), in device memory
  /// @param lanes  (1 + metrics, exact_lanes), likewise, as StepEnd has them
  /// @param clips  whether sum_squares() was called for this step; state->clip_norm is the bound
  ///               of set 0
  template <class Result>
  void finish(Stream const& stream, StepState const* state, double const* sums, int microbatches,
              int metrics, double const* lanes, int samples, bool clips, Result* result) const {
    StepEnd<Result> const end{.sums = sums,
                              .microbatches = microbatches,
                              .metrics = metrics,
                              .lanes = lanes,
                              .samples = samples,
                              .targets = &state->targets,
                              .counted = &state->counted,
                              .squares = clips ? memory_.sums : nullptr,
                              .squares_count = memory_.range_count,
                              .clip_norm = &state->clip_norm,
                              .rows = memory_.clip_rows,
                              .sets = memory_.clip_sets,
                              .largest = memory_.largest_norms,
                              .scales = memory_.scales,
                              .result = result,
                              .stopped = memory_.stopped,
                              .scaling = memory_.scaling,
                              .rule = memory_.scaling_rule};
    std::visit(
        [&](auto const& optimizer) {
          if constexpr (is_own<decltype(optimizer)>) {
            finish_step(stream, end, PrepareNothing{}, 0);  // its blocks make their own functors
          } else {
            finish_step(stream, end, prepare(optimizer, state), memory_.run_count);
          }
        },
        optimizer_);
  }

  /// @param state  in device memory
  void apply(Stream const& stream, StepState const* state) const {
    apply(stream, state, 0, memory_.own_count);
    for (RowUpdate<P> const& own : rows_) {
      apply_rows(stream, state, own);
    }
  }

  /// Updates the parameters, states and rounded copies of @p count own chunks from @p first on, as
  /// the flag says.
  void apply(Stream const& stream, StepState const* state, std::int64_t first,
             std::int64_t count) const {
    std::visit(
        [&](auto const& optimizer) {
          if constexpr (is_own<decltype(optimizer)>) {
            static_cast<BoundUpdate<P, T> const&>(*optimizer.type)
                .update(stream, memory_, state, first, count);
          } else {
            apply_update(stream, memory_.own_chunks + first, count,
                         static_cast<typename Prepare<decltype(optimizer)>::Run const*>(
                             prepare(optimizer, nullptr).runs),
                         memory_.rounded, memory_.stopped);
          }
        },
        optimizer_);
  }

  /// Rounds all parameters again: after they were loaded.
  void refresh_rounded(Stream const& stream) const {
    if (memory_.rounded != nullptr) {
      cast(stream, static_cast<P const*>(memory_.parameters), memory_.rounded,
           memory_.parameter_count);
    }
  }

 private:
  void apply_rows(Stream const& stream, StepState const* state, RowUpdate<P> const& own) const {
    std::visit(
        [&](auto const& optimizer) {
          using O = std::remove_cvref_t<decltype(optimizer)>;
          if constexpr (is_own<O>) {
            static_cast<BoundUpdate<P, T> const&>(*optimizer.type)
                .update_rows(stream, memory_, state, own);
          } else if constexpr (std::is_same_v<O, Sgd>) {  // of the others none leaves rows alone
            update_rows(
                stream, own.rows, own.at.begin, own.at.run,
                detail::FetchRun<typename Prepare<O>::Run>{prepare(optimizer, nullptr).runs},
                memory_.rounded, memory_.stopped);
          }
        },
        optimizer_);
  }

  template <class O>
  static constexpr bool is_own = std::is_same_v<std::remove_cvref_t<O>, OwnOptimizer>;
  template <class O>
  using Prepare = detail::PrepareRun<std::remove_cvref_t<O>, P>;

  template <class O>
  [[nodiscard]] Prepare<O> prepare(O const& optimizer, StepState const* state) const {
    ParameterRun<P> all{.parameter = memory_.parameters, .gradient = memory_.gradients};
    for (int s = 0; s < optimizer.states(); ++s) {
      all.state[s] = memory_.state[s];
    }
    return {optimizer,
            all,
            memory_.settings,
            state,
            reinterpret_cast<typename Prepare<O>::Run*>(memory_.functors),
            memory_.scaling};
  }

  Optimizer optimizer_;
  UpdateMemory<P, T> memory_;
  std::vector<RowUpdate<P>> rows_;
};

}  // namespace tandem::cuda
