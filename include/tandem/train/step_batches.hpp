// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepBatches: the data of a step from a loader's batch or a caller's, and what is wrong with it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tandem/data/batch_reader.hpp>
#include <tandem/engine/rank/rank_parts.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/metrics.hpp>
#include <tandem/runtime/host/host.hpp>
#include <tandem/train/options/batch_check.hpp>

namespace tandem {

/// What a loop over steps knows of a network, its loss and its metrics, as values.
/// @tparam Batch  StepBatch
template <class Batch>
struct StepFacts {
  SampleShapes wanted{};
  Shape output{};
  /// Whether the loss is a mean over the samples, not over targets that all must be counted before
  /// the first backward pass.
  bool in_parts = false;
  void (*check)(Batch const&, SampleNames const&) = nullptr;        ///< StepBatches::check()
  void (*check_input)(Batch const&, SampleNames const&) = nullptr;  ///< likewise
  std::string_view const* metric_names = nullptr;
  int metrics = 0;
  std::string (*computes_with)() = nullptr;  ///< the kernels' library

  /// A step's result with the names of its metrics.
  [[nodiscard]] StepResult named(StepResult result) const {
    result.metrics.names = metric_names;
    result.metrics.count = metrics;
    return result;
  }
};

/// A loader's batch as a step's.
template <class Step>
Step step_of(Batch<typename Step::Input, typename Step::TargetType> const& batch) {
  return {.x = batch.x,
          .targets = batch.y,
          .size = batch.size,
          .from = batch.part.begin,
          .to = batch.part.end,
          .time = batch.time,
          .lengths = batch.lengths,
          .second = {batch.second, batch.second_time, batch.second_lengths}};
}

template <class Program, class Backend, class LossType, class MetricType>
struct StepBatches {
  using In = InputOf<Program, Backend>;
  using Target = typename LossType::Target;
  using Type = StepBatch<typename Backend::Master, Target, In>;
  static constexpr auto const& graph = Program::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape second = input_shape<Program>(1);
  static constexpr Shape output = graph.output().out;

  /// @pre check_batch() gave @p samples
  static Type of(std::span<In const> x, std::span<Target const> targets, Sequences const& sequences,
                 int samples) {
    Type batch{.x = x.data(),
               .targets = targets.data(),
               .size = samples,
               .time = rows_of(input, sequences.time),
               .lengths = pointer_to(sequences.lengths)};
    if constexpr (second.valid()) {
      batch.second = {sequences.second.data(), rows_of(second, sequences.second_time),
                      pointer_to(sequences.second_lengths)};
    }
    return batch;
  }

  /// Every index that the network will look up.
  /// @throws ContractError  one is out of range
  static void check_input(Type const& batch, SampleNames const& names) {
    if constexpr (graph.node[0].limit > 0) {
      check_indices(all(batch, batch.x, input), 0, graph.node[0].limit, batch.time, "token", names);
    }
    if constexpr (second.valid()) {
      check_indices(all(batch, batch.second.x, second), 0, graph.node[1].limit, batch.second.time,
                    "token of the second input", names);
    }
  }

  /// The same, and the targets.
  static void check(Type const& batch, SampleNames const& names) {
    check_input(batch, names);
    auto const targets = all(batch, batch.targets, targets_shape<LossType>(output));
    if constexpr (is_of_criterion<LossType>) {
      check_indices(targets, -1, graph.output().limit,
                    output.clock == 0 ? batch.time : batch.second.time, "target", names);
    }
    check_labels<LossType, MetricType>(targets, output.elements(), names);
    check_soft_labels<LossType>(targets, output.elements(), names);
  }

  static constexpr StepFacts<Type> facts{
      .wanted = {.input = input, .targets = LossType::targets(output), .second = second},
      .output = output,
      .in_parts = detail::weight_of<LossType>() == nullptr,
      .check = check,
      .check_input = check_input,
      .metric_names = MetricNames<MetricType>::list,
      .metrics = MetricNames<MetricType>::count,
      .computes_with = Computes<Backend>::with};

 private:
  // How many rows a step has where @p time says so, or as many as there may be.
  static constexpr int rows_of(Shape const& shape, int time) {
    return time > 0 || !shape.timed ? time : shape[0];
  }
  static std::int32_t const* pointer_to(std::span<std::int32_t const> list) {
    return list.empty() ? nullptr : list.data();
  }

  // All numbers that are here of a batch that has samples of @p shape.
  template <class E>
  static std::span<E const> all(Type const& batch, E const* data, Shape const& shape) {
    int const time = rows_of(shape, shape.clock == 0 ? batch.time : batch.second.time);
    return {data, static_cast<std::size_t>((batch.to < 0 ? batch.size : batch.to - batch.from) *
                                           shape.elements(time))};
  }
};

}  // namespace tandem
