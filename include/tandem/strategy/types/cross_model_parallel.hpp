// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CrossModelParallel: two models on the same devices in opposite directions, kept together by an
/// averaging rule.

#include <tandem/schedule/orders/cross_model.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/types/model_checks.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/strategy/types/pipeline_checks.hpp>

namespace tandem {

namespace detail {

/// Whether bits are asked for that no number of devices changes, by a rule that never adds the sums
/// of the two models.
template <class Rule, class... Arguments>
inline constexpr bool repeats_two_models = false;
template <AveragingRule Rule, class... Arguments>
inline constexpr bool repeats_two_models<Rule, Arguments...> =
    Rule::averaging.keeps_two() && gather_batching<1, Arguments...>().reproducible;

template <int Count, class Rule, class... Arguments>
concept CrossModelArguments = AveragingRule<Rule> && PipelineArguments<Arguments...> &&
                              (parts_of<typename Cutting<Arguments...>::type> >= 2) &&
                              Count >= 2 && Count % 2 == 0 &&
                              !repeats_two_models<Rule, Arguments...>;

template <int Count, class Rule, class... Arguments>
struct CrossModelArgumentsAreSound {
  static constexpr bool value = true;
  static constexpr bool begins = BeginsWithAChain<Arguments...>::value;
  static constexpr bool once = !counts_microbatches<Arguments...>;
  static constexpr bool options = !begins || !once || RestIsOptions<Arguments...>::value;
  static constexpr bool sound = AveragingRule<Rule> && begins && once && options;
  static constexpr int parts = parts_of<typename Cutting<Arguments...>::type>;
  static_assert(ArgumentIs<Argument::averaging, AveragingRule<Rule>>::value);
  static_assert(begins,
                "CrossModelParallel<Rule, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>; Placed<table> is for ModelParallel");
  static_assert(ArgumentIs<Argument::cross_microbatches, once>::value);
  static_assert(options,
                "CrossModelParallel<Rule, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint and BucketBytes");
  static_assert(!sound || parts >= 2,
                "CrossModelParallel<Rule, How, ...>: two models lie in opposite directions on the "
                "devices; cut the model into 2 parts or more");
  static_assert(
      ArgumentIs<Argument::cross_count, (!sound || (Count >= 2 && Count % 2 == 0)), Count>::value);
  static_assert(ArgumentIs<Argument::cross_leaves,
                           (!sound || !repeats_two_models<Rule, Arguments...>)>::value);
};

}  // namespace detail

/// CrossModelParallel with Count microbatches, one half of them for each model, in the order of
/// Chimera. The primary template is the error path.
template <int Count, class Rule, class... Arguments>
struct CrossPipeline : detail::NoModel {
  static_assert(detail::CrossModelArgumentsAreSound<Count, Rule, Arguments...>::value);
};

template <int Count, class Rule, class... Arguments>
  requires detail::CrossModelArguments<Count, Rule, Arguments...>
struct CrossPipeline<Count, Rule, Arguments...>
    : detail::PipelineModel<CrossModel, Count, typename detail::Cutting<Arguments...>::type> {
  using Model =
      detail::PipelineModel<CrossModel, Count, typename detail::Cutting<Arguments...>::type>;
  static constexpr Averaging averaging = Rule::averaging;
  static constexpr Mesh mesh{Axis::model, Model::devices};
  static constexpr int ranks = mesh.size();
  static constexpr CheckpointRule checkpoint = detail::checkpoint_of<Arguments...>();
  /// In so many replicas, with options of the strategy around it.
  template <int Replicas, class... More>
  static constexpr Batching batching_for =
      detail::gather_batching<Replicas, Arguments..., More...>(Count);
  static constexpr Batching batching =
      detail::ModelKeepsLeaves<batching_for<1>.reproducible, batching_for<1>.leaves, Count,
                               Model::copies>::checked(batching_for<1>);
};

/// Part k of model X is on device k, that of model Y on device p - 1 - k; X trains on the first
/// half of the batch and Y on the second, both waves at the same time:
///
///   device 0 | FX       FY BY       BX     CrossModelParallel<AverageGradients, Split<a>,
///   device 1 |    FX FY       BY BX                           Split<b>, Split<c>, Split<d>>
///   device 2 |    FY FX       BX BY
///   device 3 | FY       FX BX       BY
///
/// Rule, how they are kept together: AverageGradients, AverageWeights<p>,
/// AverageWeightsAndState<p>, Overlapped<…>. Behind it Split<a>, Split<b>, … or Auto<Parts>, and as
/// options Reproducible (with AverageGradients), Checkpoint, BucketBytes.
/// Memory: a device has the parameters and the activations of two parts, one of each model.
/// Comm: as ModelParallel, for either half; and each part once every p steps, between the two
/// devices that have it.
/// Source: Xu and Bai 2023. The primary template is the error path.
template <class Rule, class... Arguments>
struct CrossModelParallel : CrossPipeline<2, Rule, Arguments...> {};

}  // namespace tandem
