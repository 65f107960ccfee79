// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of CrossModelParallel and CrossPipeline that do not go together.

#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/strategy/types/model_checks.hpp>
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
  static_assert(AveragingRule<Rule>,
                "CrossModelParallel<Rule, How, Options...>: say first how the two models are kept "
                "together: AverageGradients, AverageWeights<p>, AverageWeightsAndState<p> or "
                "Overlapped<...>");
  static_assert(begins,
                "CrossModelParallel<Rule, How, Options...>: say how the model is cut: Split<a>, "
                "Split<b>, ... or Auto<Parts>; Placed<table> is for ModelParallel");
  static_assert(once,
                "CrossModelParallel<Rule, ...>: it has one microbatch a model; for more write "
                "CrossPipeline<Count, Rule, ...>, and leave Microbatches out");
  static_assert(options,
                "CrossModelParallel<Rule, How, Options...>: options behind Split<a>, Split<b>, "
                "... or Auto<Parts> are Reproducible, Checkpoint and BucketBytes");
  static_assert(!sound || parts >= 2,
                "CrossModelParallel<Rule, How, ...>: two models lie in opposite directions on the "
                "devices; cut the model into 2 parts or more");
  static_assert(!sound || (Count >= 2 && Count % 2 == 0),
                "CrossPipeline<Count, Rule, ...>: Count is the number of microbatches of both "
                "models; give an even number, 2 or more");
  static_assert(!sound || !repeats_two_models<Rule, Arguments...>,
                "CrossModelParallel<Rule, ..., Reproducible<>>: this rule keeps two models, whose "
                "gradients are never added, so there is nothing to make reproducible; leave "
                "Reproducible out, or average gradients");
};

}  // namespace detail

}  // namespace tandem
