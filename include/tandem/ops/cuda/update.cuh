// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UpdateKernels: the optimizer on Cuda, over a rank's flat arrays, without a host in between.
///
/// It owns no memory: the engine gives it device pointers once. A step calls sum_squares (with
/// clipping), finish and apply, four launches for all parameters together.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/finish_step.cuh>
#include <tandem/kernels/cuda/update.cuh>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/ops/step_state.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Parameters of a chunk: 16 for each thread of its block.
inline constexpr std::int64_t update_chunk = 4096;

/// What the update works on; all pointers are to device memory.
template <class P, class T>
struct UpdateMemory {
  P* parameters = nullptr;
  P const* gradients = nullptr;
  P* state[2] = {};      ///< of the optimizer; those that it has
  T* rounded = nullptr;  ///< the parameters rounded to T; null where T is P
  std::int64_t parameter_count = 0;

  UpdateChunk const* chunks = nullptr;  ///< a copy of update_chunks(runs, update_chunk)
  std::int64_t chunk_count = 0;
  RunSettings const* settings = nullptr;  ///< a copy of run_settings(runs, optimizer)
  int run_count = 0;
  std::byte* functors = nullptr;       ///< functor_bytes(run_count), aligned to 16 bytes
  double* squares = nullptr;           ///< (chunk_count); only for clipping, as the next three
  ChunkRange const* ranges = nullptr;  ///< a copy of chunk_ranges(runs, update_chunk, range_count)
  int range_count = 0;                 ///< parameters of the network
  double* sums = nullptr;              ///< (range_count)
  ClipRow const* clip_rows = nullptr;  ///< a copy of clip_rows(sets), or null where that is empty
  int clip_sets = 1;
  double const* largest_norms = nullptr;  ///< (clip_sets), as of ClipSets; null where it is 1
  double* scales = nullptr;               ///< (clip_sets); likewise
  int* stopped = nullptr;                 ///< 0 at first; the host may set it to 0 again
};

namespace detail {

/// Makes the functor of one run from the step's state, as engine/step/update.hpp does on the host.
template <class O, class P>
struct PrepareRun {
  using Weight = decltype(make_update<P>(O{}, UpdateSettings{}, ParameterRun<P>{}));
  using Run = RunUpdate<Weight, AverageUpdate<P>>;

  O optimizer;
  ParameterRun<P> all;
  RunSettings const* settings;
  StepState const* state;
  Run* runs;

  TANDEM_HOST_DEVICE void operator()(int run, double const* scales) const {
    RunSettings const own = settings[run];
    UpdateSettings const update{
        .learning_rate = state->learning_rate * static_cast<double>(own.learning_rate_scale),
        .weight_decay = static_cast<double>(own.weight_decay),
        .gradient_scale = scales[own.clip_set] * static_cast<double>(own.gradient_scale),
        .step = state->step + 1};
    runs[run] = Run{make_update<P>(optimizer, update, all),
                    AverageUpdate<P>{all, static_cast<P>(own.rate)}, own.statistic};
  }
};

}  // namespace detail

/// @tparam P  of parameters, gradients and optimizer states
/// @tparam T  of the copy that matrix products read
template <class P, class T>
class UpdateKernels {
  static_assert(std::is_same_v<P, float> || std::is_same_v<P, double>,
                "UpdateKernels<P, T>: P, the type of parameters, must be float or double");

 public:
  UpdateKernels(Optimizer optimizer, UpdateMemory<P, T> const& memory)
      : optimizer_{std::move(optimizer)}, memory_{memory} {}

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
    gradient_squares(stream, memory_.chunks, memory_.chunk_count, memory_.settings,
                     memory_.gradients, memory_.squares);
    join_squares(stream, memory_.ranges, memory_.range_count, memory_.squares, memory_.sums);
  }

  /// Writes the step's result and makes the functors of this step.
  /// @param state  in device memory
  /// @param sums   (microbatches, 1 + metrics), in device memory
  /// @param clips  whether sum_squares() was called for this step; state->clip_norm is the bound
  ///               of set 0
  template <class Result>
  void finish(Stream const& stream, StepState const* state, double const* sums, int microbatches,
              int metrics, int samples, bool clips, Result* result) const {
    StepEnd<Result> const end{.sums = sums,
                              .microbatches = microbatches,
                              .metrics = metrics,
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
                              .stopped = memory_.stopped};
    std::visit(
        [&](auto const& optimizer) {
          finish_step(stream, end, prepare(optimizer, state), memory_.run_count);
        },
        optimizer_);
  }

  void apply(Stream const& stream) const { apply(stream, 0, memory_.chunk_count); }

  /// Updates the parameters, states and rounded copies of @p count chunks from @p first on, unless
  /// a loss was not finite.
  void apply(Stream const& stream, std::int64_t first, std::int64_t count) const {
    std::visit(
        [&](auto const& optimizer) {
          apply_update(stream, memory_.chunks + first, count,
                       static_cast<typename Prepare<decltype(optimizer)>::Run const*>(
                           prepare(optimizer, nullptr).runs),
                       memory_.rounded, memory_.stopped);
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
  template <class O>
  using Prepare = detail::PrepareRun<std::remove_cvref_t<O>, P>;

  template <class O>
  [[nodiscard]] Prepare<O> prepare(O const& optimizer, StepState const* state) const {
    ParameterRun<P> all{.parameter = memory_.parameters, .gradient = memory_.gradients};
    for (int s = 0; s < optimizer.states(); ++s) {
      all.state[s] = memory_.state[s];
    }
    return {optimizer, all, memory_.settings, state,
            reinterpret_cast<typename Prepare<O>::Run*>(memory_.functors)};
  }

  Optimizer optimizer_;
  UpdateMemory<P, T> memory_;
};

}  // namespace tandem::cuda
