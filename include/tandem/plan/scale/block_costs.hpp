// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// block_costs: the nodes of a transformer's block, and its ends, on one device of those that share
/// it by tensor parallelism.

#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/plan/cost/cost_graph.hpp>
#include <tandem/plan/cost/kernel_times.hpp>
#include <tandem/plan/scale/transformer_sizes.hpp>

namespace tandem {

/// A device's part of a block.
struct TensorShare {
  int tensor = 1;              ///< devices that share each product, by columns and then by rows
  int sequence = 1;            ///< parts of each sequence, of which a device does one at a time
  bool sequence_rows = false;  ///< these have a part of the rows each of what they would repeat
};

/// The nodes of a block of @p sizes for a microbatch of @p samples, in the order of models::Gpt's:
/// norm, queries with keys and values, attention, its output, sum; norm, up, activation, down, sum.
/// Without dropout and tensor parallelism they are those of GptGraph as static_costs() has them,
/// where products are bound by math. Collectives are not in them.
/// @throws ContractError  sizes are not valid, or the devices do not divide the heads
TANDEM_ONCE [[nodiscard]] std::vector<CostNode> block_costs(TransformerSizes const& sizes,
                                                            KernelTimes const& times,
                                                            TensorShare share, int samples);

/// What stands before the blocks, of so many tokens: rows of the words that are looked up.
TANDEM_ONCE [[nodiscard]] CostNode words_costs(TransformerSizes const& sizes,
                                               KernelTimes const& times, double tokens);

/// What stands behind them: the logits of all words, in fp32 for the loss, which reads and writes
/// them four times, and their gradient once more; @p tensor devices have a part of the words each.
TANDEM_ONCE [[nodiscard]] CostNode logits_costs(TransformerSizes const& sizes,
                                                KernelTimes const& times, int tensor,
                                                double tokens);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

struct BlockCosts {
  TransformerSizes const& sizes;
  KernelTimes times;
  TensorShare share;
  double samples;
  double rows = samples * static_cast<double>(sizes.context) / share.sequence;
  double element = element_bytes(times.precision);
  double whole = share.sequence_rows ? share.tensor : 1;  // parts of what all devices have

  [[nodiscard]] static double real(std::int64_t size) { return static_cast<double>(size); }
  [[nodiscard]] std::int64_t output(double columns) const {
    return static_cast<std::int64_t>(rows * columns * element);
  }
  [[nodiscard]] std::int64_t weights(double count) const {
    return static_cast<std::int64_t>(count * master_bytes(times.precision));
  }

  [[nodiscard]] CostNode norm() const {
    double const bytes = rows * real(sizes.width) * element / whole;
    return {.name = "LayerNorm",
            .forward = times.pass(2 * bytes),
            .backward = times.pass(3 * bytes),
            .output_bytes = output(real(sizes.width)),
            .parameter_bytes = weights(2 * real(sizes.width))};
  }
  // Of (rows, in) and (in, out): backward once for the input, once for the weights.
  [[nodiscard]] CostNode linear(double in, double out, double bias) const {
    return {.name = "Linear",
            .forward = times.product(rows, out, in),
            .backward = times.product(rows, in, out) + times.product(in, out, rows),
            .output_bytes = output(out),
            .parameter_bytes = weights(in * out + bias)};
  }
  [[nodiscard]] CostNode attention() const {
    double const t = real(sizes.context);
    double const heads = samples * real(sizes.heads) / share.tensor;
    double const channels = real(sizes.width) / real(sizes.heads);
    CostNode node{.name = "Attention", .output_bytes = output(real(sizes.width) / share.tensor)};
    if (sizes.attention == AttentionKernels::fused) {
      double const pairs = sizes.causal ? t * (t + 1) / 2 : t * t;
      double const bytes = 4 * heads * t * channels * element;
      double const part = pairs / share.sequence;  // each has as many pairs as the others
      node.forward = times.run(4 * heads * part * channels, times.attention_share(), bytes);
      node.backward = times.run(10 * heads * part * channels, times.attention_share(), 2 * bytes);
      return node;
    }
    // Scores are read and written by the softmax, and by dropout, whose mask is a byte.
    double const scores = heads * t * t;
    double const drop = sizes.dropout ? times.pass(scores * (2 * element + 1)) : 0;
    node.forward = times.product(t, t, channels, heads) + times.pass(2 * scores * element) + drop +
                   times.product(t, channels, t, heads);
    node.backward = 2 * times.product(t, t, channels, heads) +
                    2 * times.product(t, channels, t, heads) + drop +
                    times.pass(3 * scores * element);
    return node;
  }
  [[nodiscard]] CostNode sum() const {
    double const count = rows * real(sizes.width) / whole;
    double const mask = sizes.dropout ? 1 : 0;
    return {.name = "Add",
            .forward = times.pass(count * (3 * element + mask)),
            .backward = sizes.dropout ? times.pass(count * (2 * element + mask)) : 0,
            .output_bytes = output(real(sizes.width))};
  }
  [[nodiscard]] CostNode gelu(double inner) const {
    double const in = sizes.gated ? 2 : 1;
    double const count = rows * inner * element;
    return {.name = sizes.gated ? "Gate" : "GeluTanh",
            .forward = times.pass(count * (in + 1)),
            .backward = times.pass(count * (2 * in + 1)),
            .output_bytes = output(inner)};
  }
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::vector<CostNode> block_costs(TransformerSizes const& sizes,
                                              KernelTimes const& times, TensorShare share,
                                              int samples) {
  check_sizes(sizes);
  expects(
      samples >= 1 && share.tensor >= 1 && share.sequence >= 1 && sizes.heads % share.tensor == 0,
      "block_costs(sizes, times, share, samples): give a sample or more, and devices that "
      "divide the heads");
  detail::BlockCosts const block{sizes, times, share, static_cast<double>(samples)};
  double const width = static_cast<double>(sizes.width);
  double const inner = static_cast<double>(sizes.inner()) / share.tensor;
  double const projections = static_cast<double>(sizes.projections()) / share.tensor;
  double const up = inner * (sizes.gated ? 2 : 1);
  return {block.norm(),
          block.linear(width, projections, projections),
          block.attention(),
          block.linear(width / share.tensor, width, width),
          block.sum(),
          block.norm(),
          block.linear(width, up, up),
          block.gelu(inner),
          block.linear(inner, width, width),
          block.sum()};
}

TANDEM_ONCE CostNode words_costs(TransformerSizes const& sizes, KernelTimes const& times,
                                 double tokens) {
  double const bytes = tokens * static_cast<double>(sizes.width) * element_bytes(times.precision);
  return {.name = "Embedding",
          .forward = times.pass(3 * bytes),
          .backward = times.pass(3 * bytes),
          .output_bytes = static_cast<std::int64_t>(bytes)};
}

TANDEM_ONCE CostNode logits_costs(TransformerSizes const& sizes, KernelTimes const& times,
                                  int tensor, double tokens) {
  double const rows = sizes.predicted * tokens;
  double const words = static_cast<double>(sizes.vocabulary) / tensor;
  double const width = static_cast<double>(sizes.width);
  return {.name = "Vocabulary",
          .forward = times.product(rows, words, width) + 4 * times.pass(rows * words * 4),
          .backward = times.product(rows, width, words) + times.product(words, width, rows) +
                      times.pass(rows * words * 6)};
}

}  // namespace tandem

#endif
