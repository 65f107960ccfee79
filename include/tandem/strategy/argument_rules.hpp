// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for arguments of strategies that are at fault, each once: the compiler says them
/// where the strategy is a type, read_strategy() where it is a text. rules.hpp has those for what
/// does not go together in a program.

namespace tandem {

namespace detail {

#define TANDEM_ARGUMENT_RULES(RULE)                                                                \
  RULE(microbatches, "Microbatches<Count>: give a positive number")                                \
  RULE(weights,                                                                                    \
       "Weighted<Weights...>: give 1 to 64 numbers of 0 or more, not all 0, whose sum is an int")  \
  RULE(leaves, "Reproducible<Leaves>: give 0 (one a microbatch) or more")                          \
  RULE(slices, "Slices<Count>: give a number from 1 to 1024")                                      \
  RULE(buckets, "BucketBytes<First, Rest>: give positive numbers")                                 \
  RULE(wire, "Wire<E>: E must be BFloat16 or Float16")                                             \
  RULE(checkpoint,                                                                                 \
       "Checkpoint<What>: What is Every<k>, for runs of k top-level layers, or Boundaries, for "   \
       "whole stages")                                                                             \
  RULE(every, "Every<Count>: give a positive number of top-level layers")                          \
  RULE(split, "Split<Count>: give a positive number of top-level layers")                          \
  RULE(auto_parts, "Auto<Parts>: give a positive number of parts")                                 \
  RULE(auto_tops,                                                                                  \
       "Auto<Parts>: the network has fewer top-level layers than Parts; give fewer parts, or "     \
       "write "                                                                                    \
       "nested Sequentials out (ArgumentIs names both numbers)")                                   \
  RULE(split_more,                                                                                 \
       "Split<...>: the counts do not cover the network; add what is missing to the last, or one " \
       "more Split (ArgumentIs names the sum and the network's layers)")                           \
  RULE(split_less,                                                                                 \
       "Split<...>: the counts exceed the network's top-level layers; take away from the last "    \
       "(ArgumentIs names the sum and the network's layers)")                                      \
  RULE(time_chunks, "Chunks<K>: give a positive number of chunks of time")                         \
  RULE(single_options,                                                                             \
       "SingleDevice<Options...>: options are Microbatches, Weighted, Reproducible, BucketBytes "  \
       "and Slices")                                                                               \
  RULE(single_weights,                                                                             \
       "SingleDevice<Microbatches<n>, Weighted<...>>: n must be a multiple of the number of "      \
       "weights")                                                                                  \
  RULE(replicas,                                                                                   \
       "DataParallel<N>: N must be from 1 to 1048576, as all of one Hybrid together, or left "     \
       "out, for as many as the program is started with")                                          \
  RULE(replicas_options,                                                                           \
       "DataParallel<N, Options...>: options are Microbatches, Weighted, Reproducible, Wire, "     \
       "BucketBytes, ShardedState, ShardedGradients, ShardedParameters and Slices")                \
  RULE(replicas_exact,                                                                             \
       "DataParallel<N, Wire<E>, Reproducible<>>: rounding on the way changes the bits with the "  \
       "number of devices; leave one of the two out")                                              \
  RULE(world_weights,                                                                              \
       "DataParallel<by_world, Weighted<...>>: weights are of so many devices; write their "       \
       "number, DataParallel<N, Weighted<...>>")                                                   \
  RULE(named_replicas,                                                                             \
       "fits<Net, DataParallel<>, ...>, device_memory, describe and step_account: a replica's "    \
       "share of the batch depends on how many there are; name their number, DataParallel<N>")     \
  RULE(schedule,                                                                                   \
       "Pipeline<Schedule, Count, ...>: Schedule is GPipe, OneFOneB, Interleaved<v>, "             \
       "ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, VHalf, VMin, DualPipeV, Chimera, DualPipe or "    \
       "PostValidated<one of these>, or an asynchronous one such as PipeDream")                    \
  RULE(count,                                                                                      \
       "Pipeline<Schedule, Count, ...>: Count is the number of microbatches of a replica; give "   \
       "1 or more")                                                                                \
  RULE(count_twice,                                                                                \
       "Pipeline<Schedule, Count, ...>: Count is the number of microbatches already; leave "       \
       "Microbatches out")                                                                         \
  RULE(turning_parts,                                                                              \
       "Pipeline<Schedule, Count, ...>: the parts of the model go down the devices and back up, "  \
       "two a device; give an even number of Splits, or Auto of one")                              \
  RULE(interleaved_parts,                                                                          \
       "Pipeline<Interleaved<v>, Count, ...>: the parts of the model must be a multiple of v; "    \
       "give v Splits a device")                                                                   \
  RULE(order,                                                                                      \
       "Pipeline<Schedule, Count, ...>: the schedule has no order for so many parts and "          \
       "microbatches; see its fits()")                                                             \
  RULE(late_count,                                                                                 \
       "Pipeline<asynchronous schedule, Count, ...>: it updates behind every microbatch; give "    \
       "Count 1, or take PipeDream2BW")                                                            \
  RULE(runs,                                                                                       \
       "Pipeline<Schedule, Count, ...>: the devices would wait for each other forever, or leave "  \
       "passes out; Cut<Net>::verdict says where")                                                 \
  RULE(runs_in_chunks,                                                                             \
       "Pipeline<Schedule, Count, Chunks<K>, ...>: in this schedule a device takes a "             \
       "microbatch's message before it sends others' on, which its chunks cannot, so that they "   \
       "would wait forever; take one of the library's schedules, or leave Chunks out")             \
  RULE(late_chunks,                                                                                \
       "Pipeline<asynchronous schedule, Count, Chunks<K>, ...>: a chunk would go on from states "  \
       "that other weights have made; leave Chunks out, or take a synchronous schedule, such as "  \
       "OneFOneB")                                                                                 \
  RULE(chunks_checkpoint,                                                                          \
       "Pipeline<Schedule, Count, Chunks<K>, ..., Checkpoint<...>>: what a chunk has begun with "  \
       "is gone when it is computed again; leave one of both out")                                 \
  RULE(chunks_leaves,                                                                              \
       "Pipeline<Schedule, Count, Chunks<K>, ..., Reproducible<>>: gradients are added chunk by "  \
       "chunk, so that their bits depend on K; leave one of both out")                             \
  RULE(split_backward,                                                                             \
       "Pipeline<Schedule with I and W, Count, ..., Checkpoint<...>>: its weight gradients need "  \
       "activations for longer than they are computed again; leave Checkpoint out, or take "       \
       "OneFOneB")                                                                                 \
  RULE(late_leaves,                                                                                \
       "Pipeline<asynchronous schedule, ..., Reproducible<>>: its gradients are late by as many "  \
       "steps as there are devices, so other devices give other bits; leave Reproducible out")     \
  RULE(late_checkpoint,                                                                            \
       "Pipeline<Schedule, 1, ..., Checkpoint<...>>: FeaturesReplay and PipelinedModel compute "   \
       "passes again already, and WeightPrediction's weights are gone by then; leave Checkpoint "  \
       "out")                                                                                      \
  RULE(late_parts,                                                                                 \
       "Pipeline<asynchronous schedule, Count, ...>: give 127 parts or fewer, so that versions "   \
       "of weights can be counted")                                                                \
  RULE(averaging,                                                                                  \
       "CrossModelParallel<Rule, How, Options...>: say first how the two models are kept "         \
       "together: AverageGradients, AverageWeights<p>, AverageWeightsAndState<p> or "              \
       "Overlapped<...>")                                                                          \
  RULE(cross_count,                                                                                \
       "CrossPipeline<Count, Rule, ...>: Count is the number of microbatches of both models; "     \
       "give an even number, 2 or more")                                                           \
  RULE(cross_microbatches,                                                                         \
       "CrossModelParallel<Rule, ...>: it has one microbatch a model; for more write "             \
       "CrossPipeline<Count, Rule, ...>, and leave Microbatches out")                              \
  RULE(cross_leaves,                                                                               \
       "CrossModelParallel<Rule, ..., Reproducible<>>: this rule keeps two models, whose "         \
       "gradients are never added, so there is nothing to make reproducible; leave Reproducible "  \
       "out, or average gradients")                                                                \
  RULE(tensor,                                                                                     \
       "TensorParallel<N>: N, the devices that share each layer, must be from 2 to 1024; for "     \
       "one write SingleDevice<>")                                                                 \
  RULE(tensor_options,                                                                             \
       "TensorParallel<N, Options...>: options are Microbatches, Reproducible, Checkpoint, "       \
       "Slices, SplitOutputs, SplitInputs, KeepWhole and SequenceRows")                            \
  RULE(tiles,                                                                                      \
       "SpatialParallel<H, W>: rows and columns of tiles, one of them for each device, must be "   \
       "positive, and from 2 to 1024 in all; for one write SingleDevice<>")                        \
  RULE(tiles_leaves,                                                                               \
       "SpatialParallel<H, W, Reproducible<>>: sums over an image's pixels are cut in H W, so "    \
       "that the bits depend on these; leave Reproducible out (two runs have the same bits)")      \
  RULE(tiles_options,                                                                              \
       "SpatialParallel<H, W, Options...>: options are Microbatches and Checkpoint, and none in "  \
       "a Hybrid behind a model")                                                                  \
  RULE(hybrid_of_two,                                                                              \
       "Hybrid<Outer, ..., Inner>: give a strategy and another within it, such as "                \
       "Hybrid<DataParallel<2>, ModelParallel<Split<a>, Split<b>>>")                               \
  RULE(hybrid_outer,                                                                               \
       "Hybrid<Outer, ..., Inner>: all but the last must be DataParallel; replicas stand "         \
       "outside, and the model that is cut inside, behind it at most a TensorParallel<N> without " \
       "options but Slices and SequenceRows, or a SpatialParallel<H, W>, of one model")            \
  RULE(hybrid_of_replicas,                                                                         \
       "Hybrid<Outer, ..., Inner>: the last must be ModelParallel or Pipeline; for replicas of "   \
       "a whole model write DataParallel alone")                                                   \
  RULE(hybrid_inner,                                                                               \
       "Hybrid<Outer, ..., Inner>: the last must be a strategy that cuts the model: "              \
       "ModelParallel, Pipeline, TensorParallel or SpatialParallel")                               \
  RULE(hybrid_microbatches,                                                                        \
       "Hybrid<DataParallel<N, Microbatches<k>>, Inner>: give the microbatches to the model "      \
       "inside, as ModelParallel<..., Microbatches<k>> or as Pipeline's Count")                    \
  RULE(hybrid_weights,                                                                             \
       "Hybrid<DataParallel<N, Weighted<...>>, Inner>: give one weight a replica of the model "    \
       "(ArgumentIs names the replicas and the weights)")                                          \
  RULE(hybrid_exact,                                                                               \
       "Hybrid<DataParallel<N, Wire<E>>, ...> and Reproducible: rounding on the way changes the "  \
       "bits with the number of devices; leave one of the two out")                                \
  RULE(hybrid_leaves,                                                                              \
       "Hybrid<DataParallel<N, Reproducible<>>, CrossModelParallel<Rule, ...>>: this rule keeps "  \
       "two models, whose gradients are never added; leave Reproducible out, or average "          \
       "gradients")                                                                                \
  RULE(hybrid_worlds,                                                                              \
       "Hybrid<DataParallel<>, DataParallel<N>, ...>: replicas multiply, and those of "            \
       "DataParallel<> are all that the program is started with; leave the other out")

enum class Argument {
#define TANDEM_RULE(name, sentence) name,
  TANDEM_ARGUMENT_RULES(TANDEM_RULE)
#undef TANDEM_RULE
      none
};

/// @param argument  not `none`
constexpr char const* sentence_of(Argument argument) {
  constexpr char const* sentences[] = {
#define TANDEM_RULE(name, sentence) sentence,
      TANDEM_ARGUMENT_RULES(TANDEM_RULE)
#undef TANDEM_RULE
  };
  return sentences[static_cast<int>(argument)];
}

/// A sentence of the list, or one that only texts need.
struct Sentence {
  char const* text;

  constexpr Sentence(char const* own) : text{own} {}                      // NOLINT
  constexpr Sentence(Argument argument) : text{sentence_of(argument)} {}  // NOLINT
};

/// The argument's sentence, where @p Sound does not hold; the compiler prints @p Told.
template <Argument Which, bool Sound, auto... Told>
struct ArgumentIs {
  static constexpr bool value = true;
};
template <Argument Which, auto... Told>
struct ArgumentIs<Which, false, Told...> {
  static constexpr bool value = true;
#define TANDEM_RULE(name, sentence) static_assert(Which != Argument::name, sentence);
  TANDEM_ARGUMENT_RULES(TANDEM_RULE)
#undef TANDEM_RULE
};

#undef TANDEM_ARGUMENT_RULES

}  // namespace detail

}  // namespace tandem
