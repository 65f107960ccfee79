// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UpdateKernels: the optimizer on Cuda, over a rank's flat arrays, without a host in between.
///
/// It owns no memory: the engine gives it device pointers once. A step calls sum_squares (with
/// clipping) or check_gradients, then finish and apply, four launches for all parameters together;
/// two more by tensor, and of GradientRows each parameter's own.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/finish_step.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/update.cuh>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/ops/step_state.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {
namespace cuda {

/// What the update works on; all pointers are to device memory.
template <class P, class T>
struct UpdateMemory {
  P* parameters = nullptr;
  P const* gradients = nullptr;
  P* state[most_states] = {};  ///< of the optimizer; those that it has
  T* rounded = nullptr;        ///< the parameters rounded to T; null where T is P
  std::int64_t parameter_count = 0;

  UpdateChunk const* chunks = nullptr;  ///< a copy of update_chunks(runs, update_chunk)
  std::int64_t chunk_count = 0;
  UpdateChunk const* own_chunks = nullptr;  ///< those that are updated here; may be `chunks`
  std::int64_t own_count = 0;
  RunSettings const* settings = nullptr;  ///< a copy of run_settings(runs, optimizer)
  int run_count = 0;
  std::byte* functors = nullptr;  ///< functor_bytes(run_count), aligned to 16 bytes
  double* squares =
      nullptr;  ///< (chunk_count, and those of rows behind); only for clipping, as `ranges`
  ChunkRange const* ranges = nullptr;  ///< a copy of chunk_ranges(runs, update_chunk, range_count)
  int range_count = 0;                 ///< parameters of the network
  double* sums = nullptr;              ///< (range_count)
  ClipRow const* clip_rows = nullptr;  ///< a copy of clip_rows(sets), or null where that is empty
  int clip_sets = 1;
  double const* largest_norms = nullptr;  ///< (clip_sets), as of ClipSets; null where it is 1
  double* scales = nullptr;  ///< (clip_sets); likewise; of an own optimizer always there
  ChunkRange const* norm_ranges = nullptr;  ///< a copy of norm_ranges(runs, update_chunk)
  double* norm_squares = nullptr;  ///< (2 chunk_count); for an optimizer by tensor, as the next
  double* norms = nullptr;         ///< (2 run_count)
  int* stopped = nullptr;          ///< an UpdateFlag: 0 at first; the host may set it to 0 again
  ScaledLoss* scaling = nullptr;   ///< where gradients are scaled; null: they are not
  LossScaling scaling_rule{};
};

/// Makes a parameter's sum infinite if a number of its GradientRows is not finite.
template <class P>
struct CheckRows {
  GradientRows<P> rows;
  double* sum;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (i < std::int64_t{*rows.count} * rows.width && !is_finite(double{rows.value[i]})) {
      *sum = HUGE_VAL;
    }
  }
};

/// Makes a sum infinite if one of several others is not finite.
struct SpoilSum {
  double const* others;
  double* sum;
  TANDEM_HOST_DEVICE void operator()(std::int64_t i) const {
    if (!is_finite(others[i])) {
      *sum = HUGE_VAL;
    }
  }
};

/// A step of one parameter's rows.
template <class P>
struct RowUpdate {
  RowRun at{};
  GradientRows<P> rows{};  ///< of all replicas
};

namespace detail {

using tandem::detail::is_alternative;
using tandem::detail::places_of;

/// Makes the functor of one run from the step's state, as engine/step/update.hpp does on the host.
template <class O, class P>
struct PrepareRun {
  static constexpr int states = is_alternative<O> ? 2 : places_of<O>;
  using Weight = decltype(make_update<P>(std::declval<O const&>(), UpdateSettings{},
                                         ParameterRun<P, states>{}));
  using Run = RunUpdate<Weight, AverageUpdate<P, states>>;

  O optimizer;
  ParameterRun<P, states> all;
  RunSettings const* settings;
  StepState const* state;
  Run* runs;
  ScaledLoss const* scaling = nullptr;

  TANDEM_HOST_DEVICE void operator()(int run, double const* scales) const {
    runs[run] = make(run, scales);
  }
  TANDEM_HOST_DEVICE Run make(int run, double const* scales) const {
    RunSettings const own = settings[run];
    UpdateSettings const update{
        .learning_rate = state->learning_rate * static_cast<double>(own.learning_rate_scale),
        .weight_decay = static_cast<double>(own.weight_decay),
        .gradient_scale = scales[own.clip_set] * static_cast<double>(own.gradient_scale),
        .step = state->step + 1 - (scaling != nullptr ? scaling->now.skipped : 0) - own.missed,
        .clip_value = own.clip_value};
    ParameterRun<P, states> of_run = all;
    of_run.parameter -= own.parameter_lag;
    of_run.gradient -= own.gradient_lag;
    for (P*& state_of_run : of_run.state) {
      state_of_run = state_of_run != nullptr ? state_of_run - own.lag : nullptr;
    }
    return {make_update<P>(optimizer, update, of_run),
            AverageUpdate<P, states>{of_run, static_cast<P>(own.rate)}, own.statistic};
  }
};

}  // namespace detail

/// What UpdateKernels calls of an optimizer whose type it does not know.
template <class P, class T>
struct BoundUpdate : AnyOptimizer {
  /// One step of @p count chunks from @p first on, unless a loss was not finite.
  /// @param state  in device memory
  virtual void update(Stream const& stream, UpdateMemory<P, T> const& memory,
                      StepState const* state, std::int64_t first, std::int64_t count) const = 0;
  /// One step of these rows, likewise.
  /// @pre keeps_untouched, and no weight decay
  virtual void update_rows(Stream const& stream, UpdateMemory<P, T> const& memory,
                           StepState const* state, RowUpdate<P> const& update) const = 0;
};

namespace detail {

/// The functor of a run, which a block makes for itself.
template <class Prepare>
struct MakeRun {
  using Run = typename Prepare::Run;

  Prepare prepare;
  double const* scales;
  double const* norms;  // (2, runs), once they are there
  int runs;

  __device__ Run operator()(int run) const {
    Run made = prepare.make(run, scales);
    if constexpr (requires { made.weight.take_norms(1.0, 1.0); }) {
      if (norms != nullptr) {
        made.weight.take_norms(norms[run], norms[runs + run]);
      }
    }
    return made;
  }
};

}  // namespace detail
}  // namespace cuda

template <class Kernels, class Precision>
struct BoundOptimizer<BasicCuda<Kernels, Precision>>
    : cuda::BoundUpdate<typename Precision::Master, typename Precision::Scalar> {};

namespace detail {

/// One launch; of a TensorOptimizer three.
template <class Kernels, class Precision, class O>
struct BoundTo<BasicCuda<Kernels, Precision>, O> final
    : BoundOptimizer<BasicCuda<Kernels, Precision>> {
  using P = typename Precision::Master;
  using T = typename Precision::Scalar;

  explicit BoundTo(O const& o) : optimizer{o} { describe_optimizer(o, *this); }

  void update(cuda::Stream const& stream, cuda::UpdateMemory<P, T> const& memory,
              StepState const* state, std::int64_t first, std::int64_t count) const override {
    Make make = maker(memory, state);
    if constexpr (TensorOptimizer<O>) {
      cuda::move_states(stream, memory.chunks + first, count, memory.chunk_count, make,
                        memory.norm_squares + first, memory.stopped);
      cuda::join_squares(stream, memory.norm_ranges, std::int64_t{2} * memory.run_count,
                         memory.norm_squares, memory.norms);
      make.norms = memory.norms;
    }
    cuda::make_and_apply(stream, memory.own_chunks + first, count, make, memory.rounded,
                         memory.stopped);
  }

  void update_rows(cuda::Stream const& stream, cuda::UpdateMemory<P, T> const& memory,
                   StepState const* state, cuda::RowUpdate<P> const& update) const override {
    if constexpr (keeps_untouched<O> && ElementOptimizer<O>) {
      cuda::update_rows(stream, update.rows, update.at.begin, update.at.run, maker(memory, state),
                        memory.rounded, memory.stopped);
    }
  }

  O optimizer;

 private:
  using Make = cuda::detail::MakeRun<cuda::detail::PrepareRun<O, P>>;

  [[nodiscard]] Make maker(cuda::UpdateMemory<P, T> const& memory, StepState const* state) const {
    ParameterRun<P, most_states> all{.parameter = memory.parameters, .gradient = memory.gradients};
    for (int s = 0; s < static_cast<int>(this->states.size()); ++s) {
      all.state[s] = memory.state[s];
    }
    return {{optimizer, run_of_type<places_of<O>>(*this, all), memory.settings, state, nullptr,
             memory.scaling},
            memory.scales,
            nullptr,
            memory.run_count};
  }
};

}  // namespace detail
}  // namespace tandem

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

  /// In place of sum_squares(), the sum of a parameter whose gradient here is not finite becomes
  /// infinite; others stay. @pre all are finite, or the update is stopped
  void check_gradients(Stream const& stream) const {
    cuda::check_gradients(stream, memory_.own_chunks, memory_.own_count, memory_.settings,
                          memory_.gradients, memory_.sums);
    for (RowUpdate<P> const& own : rows_) {
      each(stream, own.rows.most * own.rows.width,
           CheckRows<P>{own.rows, memory_.sums + own.at.parameter});
    }
  }
  /// After check_gradients(): *sum becomes infinite if a gradient is not finite.
  void spoil(Stream const& stream, double* sum) const {
    each(stream, memory_.range_count, SpoilSum{memory_.sums, sum});
  }

  /// Writes the step's result and makes the functors of this step.
  /// @param state  in device memory
  /// @param sums   (microbatches, 1 + metrics), in device memory
  /// @param lanes  (1 + metrics, exact_lanes), likewise, as StepEnd has them
  /// @param sees   whether sum_squares() or check_gradients() was called for this step
  /// @param clips  whether state->clip_norm is the bound of set 0; sum_squares() was called then
  template <class Result>
  void finish(Stream const& stream, StepState const* state, double const* sums, int microbatches,
              int metrics, double const* lanes, int samples, bool sees, bool clips,
              Result* result) const {
    StepEnd<Result> const end{.sums = sums,
                              .microbatches = microbatches,
                              .metrics = metrics,
                              .lanes = lanes,
                              .samples = samples,
                              .targets = &state->targets,
                              .counted = &state->counted,
                              .squares = sees ? memory_.sums : nullptr,
                              .squares_count = memory_.range_count,
                              .clip_norm = clips ? &state->clip_norm : nullptr,
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
