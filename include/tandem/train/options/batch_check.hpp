// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks of a batch before any rank sees it: sizes, microbatches, batch norm, labels.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/epoch_order.hpp>
#include <tandem/engine/step/state.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/optim/check_rate.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>

namespace tandem {

/// @throws ContractError  there are more microbatches than samples
TANDEM_ONCE void check_microbatches(int batch, Batching const& batching);

/// @throws ContractError  the training batch cannot be split as the strategy says, or leaves a
///                        batch norm with one value a channel
TANDEM_ONCE void check_training_batch(GraphView network, int batch, Batching const& batching);

/// The indices that a network takes, (samples, time), and a criterion's targets, likewise, which
/// may be -1 for none.
/// @throws ContractError  one is out of range; the message names its sample and its row
TANDEM_ONCE void check_indices(std::span<std::int32_t const> indices, int least, int limit,
                               int time, char const* what, SampleNames const& names = {});

namespace detail {

/// @param counts  whether a label is one; others are ignored
TANDEM_ONCE void check_labels(std::span<std::int32_t const> labels, std::int64_t outputs,
                              bool (*counts)(std::int32_t), SampleNames const& names);

}  // namespace detail

/// Where targets are labels, each must be the index of an output; other integers may be any.
/// @throws ContractError  one is not; the message names its sample
template <class LossType, class MetricType>
void check_labels(std::span<typename LossType::Target const> labels, std::int64_t outputs,
                  SampleNames const& names = {}) {
  if constexpr (targets_are_labels<LossType, MetricType> && !is_of_criterion<LossType>) {
    detail::check_labels(
        labels, outputs, [](std::int32_t label) { return sample_counts<LossType>(label); }, names);
  }
}

/// Soft labels must be shares: 0 or more each, together 1 but for rounding. Those that are not
/// finite pass, since the loss tells of them.
/// @throws ContractError  they are not; the message names their sample
template <class LossType>
void check_soft_labels(std::span<typename LossType::Target const> labels, std::int64_t outputs,
                       SampleNames const& names = {}) {
  if constexpr (requires { LossType::soft_labels; }) {
    for (std::int64_t s = 0; s * outputs < static_cast<std::int64_t>(labels.size()); ++s) {
      double sum = 0.0;
      bool below = false;
      for (std::int64_t c = 0; c < outputs; ++c) {
        float const share = labels[static_cast<std::size_t>(s * outputs + c)];
        below = below || share < 0.0F;
        sum += static_cast<double>(share);
      }
      if (below || sum < 0.999 || sum > 1.001) {
        throw ContractError{"the soft labels of " + names(s) + " are no shares of its classes: " +
                            (below ? std::string{"one is below 0"}
                                   : "their sum is " + std::to_string(sum) + ", not 1") +
                            "; soft_labels(data) makes them of labels"};
      }
    }
  }
}

/// Every batch that is left of an epoch over @p samples, the last one included unless it is
/// dropped. An epoch may have been trained to its end, but not be without any batch.
/// @param done  samples of the epoch that have been trained on
/// @throws ContractError  as check_training_batch(), or there is no batch at all, or there are
///                        fewer samples than @p done
TANDEM_ONCE void check_epoch(GraphView network, std::int64_t samples, std::int64_t done, int batch,
                             bool drop_last, Batching const& batching);

/// Asked for where a function begins, so that its sentence stands before what follows of it.
template <class D, class LossType>
struct TargetsFit {
  static constexpr bool value = true;
  static_assert(std::is_same_v<typename D::Target, typename LossType::Target>,
                "Trainer: the dataset's Target must be the loss's: std::int32_t labels for "
                "SoftmaxCrossEntropy, float for MeanSquaredError, and for SoftCrossEntropy those "
                "of soft_labels(data)");
};

/// What a sample is, of a dataset or as a network takes it.
struct SampleShapes {
  Shape input{};
  int targets = 0;
  Shape second{};  ///< of the second input; of no shape where there is none
};

/// Asked for where a function begins, as TargetsFit is.
template <class Program, Dataset D>
struct InputsFit {
  static constexpr bool value = true;
  static_assert(PairDataset<D> == input_shape<Program>(1).valid(),
                "Trainer: a network on Inputs<A, B> takes a dataset with second_shape(), "
                "second_length(index) and read(index, x, second, y), and no other network does");
};

/// @param data    a dataset's
/// @param wanted  what a network takes, and its loss wants
/// @throws ContractError  they are not the same
TANDEM_ONCE TANDEM_COLD void check_samples(SampleShapes const& data, SampleShapes const& wanted,
                                           Shape const& output);

/// What a batch of sequences is besides its numbers.
struct Sequences {
  int time = 0;  ///< rows of each sample; 0: as many as the network takes
  std::span<std::int32_t const> lengths{};  ///< of each sample, how many of them count; empty: all
  std::span<std::int32_t const> second{};   ///< the second input, where the network has two
  int second_time = 0;
  std::span<std::int32_t const> second_lengths{};
};

/// How many rows the samples of an input have in a batch, of which @p time is said.
/// @throws ContractError  there are not @p samples of them, or a length is out of range
TANDEM_ONCE int check_sequences(Shape const& input, std::size_t numbers, int time,
                                std::span<std::int32_t const> lengths, std::int64_t samples);

/// Checks a batch of the caller's own; returns the number of its samples.
/// @param target   of a sample, where there are so many numbers of @p targets
/// @param numbers  of the first input
/// @throws ContractError  it has no whole samples with targets, or more than @p most
TANDEM_ONCE int check_batch(GraphView network, Shape const& target, std::size_t numbers,
                            std::size_t targets, Sequences const& rows, int most,
                            Batching const& batching);

/// What train() and step() throw when a loss is not finite.
/// @param bad_sample  which one is not finite itself, or ""
TANDEM_ONCE TANDEM_COLD NonFiniteLoss non_finite_loss(std::int64_t step, int microbatch, int rank,
                                                      std::string const& bad_sample);

/// What they throw when all losses are finite, but the gradient of @p parameter is not.
TANDEM_ONCE TANDEM_COLD NonFiniteLoss non_finite_gradient(std::int64_t step,
                                                          std::string const& parameter);

/// What they throw when the loss scale has become as good as nothing.
TANDEM_ONCE TANDEM_COLD NonFiniteLoss lost_loss_scale(std::int64_t step, double scale);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void check_microbatches(int batch, Batching const& batching) {
  int const all = batching.all_microbatches();
  if (batch < all) {
    throw ContractError{"a training batch of " + std::to_string(batch) +
                        " samples cannot be split into " + std::to_string(all) +
                        " microbatches; use a larger batch, fewer microbatches or devices, or "
                        ".drop_last = true for the last batch of an epoch"};
  }
}

TANDEM_ONCE void check_training_batch(GraphView network, int batch, Batching const& batching) {
  check_microbatches(batch, batching);
  int const all = batching.all_microbatches();
  for (int n = 0; n < network.nodes; ++n) {
    Node const& node = network.node[n];
    if (!node.normalizes || node.out[1] * node.out[2] > 1) {
      continue;
    }
    int const apart = node.synchronizes ? batching.microbatches : all;  // the others are together
    for (int m = 0; m < apart; ++m) {
      int samples = 0;
      for (int i = m; i < all; i += apart) {
        samples += microbatch_size(batch, i, batching);
      }
      if (samples == 1) {
        throw ContractError{"batch norm '" + to_string(node.path) +
                            "' has one value a channel in microbatch " + std::to_string(m) +
                            " of a batch of " + std::to_string(batch) +
                            " samples: it has no variance; use a larger batch or fewer "
                            "microbatches, or .drop_last = true"};
      }
    }
  }
}

TANDEM_ONCE void check_indices(std::span<std::int32_t const> indices, int least, int limit,
                               int time, char const* what, SampleNames const& names) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < least || indices[i] >= limit) {
      std::size_t const row = static_cast<std::size_t>(time > 0 ? time : 1);
      throw ContractError{std::string{what} + " " + std::to_string(indices[i]) + " of " +
                          names(static_cast<std::int64_t>(i / row)) + ", position " +
                          std::to_string(i % row) + ", is out of range: the network has " +
                          std::to_string(limit) + " of them"};
    }
  }
}

TANDEM_ONCE void detail::check_labels(std::span<std::int32_t const> labels, std::int64_t outputs,
                                      bool (*counts)(std::int32_t), SampleNames const& names) {
  for (std::size_t s = 0; s < labels.size(); ++s) {
    if ((labels[s] < 0 || labels[s] >= outputs) && counts(labels[s])) {
      throw ContractError{
          "label " + std::to_string(labels[s]) + " of " + names(static_cast<std::int64_t>(s)) +
          " is out of range: the network has " + std::to_string(outputs) + " outputs"};
    }
  }
}

TANDEM_ONCE void check_epoch(GraphView network, std::int64_t samples, std::int64_t done, int batch,
                             bool drop_last, Batching const& batching) {
  if (done > samples) {
    throw ContractError{"train(data, epoch): " + std::to_string(done) +
                        " samples of this epoch have been trained on, but the dataset has only " +
                        std::to_string(samples) +
                        "; give the dataset that the run began with, or begin the epoch anew by "
                        "trainer.set_position(trainer.position().epoch)"};
  }
  std::int64_t const left = samples - done;
  if (left >= batch) {
    check_training_batch(network, batch, batching);
  } else if (done == 0 && (left == 0 || drop_last)) {
    throw ContractError{"an epoch of " + std::to_string(samples) +
                        " samples has no batch to train on: .batch is " + std::to_string(batch) +
                        (drop_last ? " and .drop_last leaves out a smaller one" : "")};
  }
  auto const last = static_cast<int>(left % batch);
  if (last != 0 && !drop_last) {
    check_training_batch(network, last, batching);
  }
}

TANDEM_ONCE void check_samples(SampleShapes const& data, SampleShapes const& wanted,
                               Shape const& output) {
  if (wanted.second.valid()) {
    if (data.second != tokens_shape(wanted.second[0])) {
      throw ContractError{"the dataset's second input has samples of " + to_string(data.second) +
                          ", but the network takes " + to_string(wanted.second)};
    }
    expects(!output.timed || output.clock == 1,
            "Trainer: the targets of a dataset of pairs are rows of the second input, but the "
            "network's output has those of the first; exchange the two");
  }
  if (data.input != wanted.input || data.targets != wanted.targets) {
    bool const are_one_hot = wanted.targets == 1 && data.targets == output.elements();
    throw ContractError{
        "the dataset has samples of " + to_string(data.input) + " with " +
        std::to_string(data.targets) + " targets, but the network takes " +
        to_string(wanted.input) + " and its loss " + std::to_string(wanted.targets) +
        (data.input != wanted.input ? "; augment(data, PadTo{...}) changes a sample's shape"
         : are_one_hot              ? "; if the targets are one-hot, save each class's number "
                                      "instead, as argmax does, or train with SoftCrossEntropy"
                                    : "")};
  }
}

TANDEM_ONCE int check_sequences(Shape const& input, std::size_t numbers, int time,
                                std::span<std::int32_t const> lengths, std::int64_t samples) {
  expects(time >= 0 && (time == 0 || (input.timed && time <= input[0])),
          "step(x, targets, sequences): .time must be at most the network's, and 0 for images");
  int const rows = time > 0 || !input.timed ? time : input[0];
  expects(static_cast<std::int64_t>(numbers) == samples * input.elements(rows),
          "step(x, targets): x must be whole samples, with targets for each");
  expects(lengths.empty() || static_cast<std::int64_t>(lengths.size()) == samples,
          "step(x, targets, sequences): .lengths must have one number a sample");
  for (std::int32_t const length : lengths) {
    expects(length >= 1 && length <= rows,
            "step(x, targets, sequences): each of .lengths must be in [1, time]");
  }
  return rows;
}

TANDEM_ONCE int check_batch(GraphView network, Shape const& target, std::size_t numbers,
                            std::size_t targets, Sequences const& rows, int most,
                            Batching const& batching) {
  Shape const input = network.node[0].out;
  Shape const second = input_shape(network, 1);
  std::int64_t const each = input.elements(rows.time > 0 || !input.timed ? rows.time : input[0]);
  auto const samples = each > 0 ? static_cast<std::int64_t>(numbers) / each : 0;
  Times time;
  time.of[0] = check_sequences(input, numbers, rows.time, rows.lengths, samples);
  if (second.valid() || !rows.second.empty()) {
    time.of[1] =
        check_sequences(second, rows.second.size(), rows.second_time, rows.second_lengths, samples);
  }
  expects(static_cast<std::int64_t>(targets) == samples * target.elements(time[target]),
          "step(x, targets): x must be whole samples, with targets for each");
  expects(samples <= most,
          "step(x, targets): more samples than TrainerOptions::batch, for which memory is planned");
  check_training_batch(network, static_cast<int>(samples), batching);
  return static_cast<int>(samples);
}

TANDEM_ONCE NonFiniteLoss non_finite_loss(std::int64_t step, int microbatch, int rank,
                                          std::string const& bad_sample) {
  return NonFiniteLoss{"step " + std::to_string(step) + ": the loss of microbatch " +
                       std::to_string(microbatch) + " on rank " + std::to_string(rank) +
                       " is not finite" + (bad_sample.empty() ? "" : ", since " + bad_sample) +
                       "; parameters are those of before the step: " +
                       (bad_sample.empty() ? "lower the learning rate, or set clip_norm"
                                           : "mend that sample, or leave it out")};
}

TANDEM_ONCE NonFiniteLoss non_finite_gradient(std::int64_t step, std::string const& parameter) {
  return NonFiniteLoss{"step " + std::to_string(step) + ": the gradient of '" + parameter +
                       "' is not finite, although the loss is; parameters are those of before the "
                       "step: lower the learning rate, or scale the inputs down; and where "
                       "gradients are summed in fp16, take Wire<Bfloat16>"};
}

TANDEM_ONCE NonFiniteLoss lost_loss_scale(std::int64_t step, double scale) {
  return NonFiniteLoss{"step " + std::to_string(step) +
                       ": its gradient is not finite, even with the loss scaled by " +
                       detail::shown(scale) +
                       ", so that scaling is not what it lacks; parameters are those of before the "
                       "step: lower the learning rate, or train in Bf16 or Fp32"};
}

}  // namespace tandem

#endif
