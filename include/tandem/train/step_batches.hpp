// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// StepBatches: the data of a step from a loader's batch or a caller's, and what is wrong with it.

#include <cstddef>
#include <cstdint>
#include <span>

#include <tandem/data/batch_reader.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/metrics.hpp>
#include <tandem/train/options/batch_check.hpp>

namespace tandem {

template <class Program, class Backend, class LossType, class MetricType>
struct StepBatches {
  using In = InputOf<Program, Backend>;
  using Target = typename LossType::Target;
  using Type = StepBatch<typename Backend::Master, Target, In>;
  static constexpr auto const& graph = Program::network;
  static constexpr Shape input = graph.node[0].out;
  static constexpr Shape second = input_shape<Program>(1);
  static constexpr Shape output = graph.output().out;

  static Type of(Batch<In, Target> const& batch) {
    return {.x = batch.x,
            .targets = batch.y,
            .size = batch.size,
            .from = batch.part.begin,
            .to = batch.part.end,
            .time = batch.time,
            .lengths = batch.lengths,
            .second = {batch.second, batch.second_time, batch.second_lengths}};
  }

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

  /// A step's result with the names of its metrics.
  static StepResult named(StepResult result) {
    result.metrics.names = MetricNames<MetricType>::list;
    result.metrics.count = MetricNames<MetricType>::count;
    return result;
  }

  /// Whether ranks need nothing of a batch but their own samples: it is no pipeline that keeps the
  /// batches of several steps, and the loss is a mean over the samples, not over targets that all
  /// must be counted before the first backward pass.
  static constexpr bool in_parts =
      !Program::asynchrony.on() && !Program::post_validated && !requires(Target const* targets) {
    LossType::weight({targets, 0}, 0, 0);
  };

  /// Every index that the network will look up.
  /// @throws ContractError  one is out of range
  static void check_input(Type const& batch, SampleNames const& names = {}) {
    if constexpr (graph.node[0].limit > 0) {
      check_indices(all(batch, batch.x, input), 0, graph.node[0].limit, batch.time, "token", names);
    }
    if constexpr (second.valid()) {
      check_indices(all(batch, batch.second.x, second), 0, graph.node[1].limit, batch.second.time,
                    "token of the second input", names);
    }
  }

  /// The same, and the targets.
  static void check(Type const& batch, SampleNames const& names = {}) {
    check_input(batch, names);
    auto const targets = all(batch, batch.targets, targets_shape<LossType>(output));
    if constexpr (is_of_criterion<LossType>) {
      check_indices(targets, -1, graph.output().limit,
                    output.clock == 0 ? batch.time : batch.second.time, "target", names);
    }
    check_labels<LossType, MetricType>(targets, output.elements(), names);
    check_soft_labels<LossType>(targets, output.elements(), names);
  }

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
