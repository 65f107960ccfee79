// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What each op of Cuda queues in a training step, a line a kernel: for accounts made without a
/// GPU.
///
/// Of the backends with cuDNN, where cuDNN and cuBLASLt have an engine or algorithm for all that is
/// asked of them. A call of theirs counts as one kernel, and reads and writes its operands once;
/// workspaces are not counted, nor what a cache keeps within one kernel. Beside the ops themselves,
/// which say how: test/cuda/engine/account_test.cu records steps and compares kernel by kernel.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/kernels/cuda/attention_chunks.hpp>
#include <tandem/ops/cuda/launch_sizes.hpp>
#include <tandem/ops/cuda/launch_table_sequences.hpp>

namespace tandem::cuda {

namespace detail {

using S = LaunchSizes;
using enum KernelPass;

constexpr bool always(S const&) { return true; }
constexpr double none(S const&) { return 0; }
constexpr double x(S const& s) { return s.x; }
constexpr double y(S const& s) { return s.y; }
constexpr double x_and_y(S const& s) { return s.x + s.y; }
constexpr double both_and_x(S const& s) { return 2 * s.x + s.y; }  // x, dy and dx
constexpr double products(S const& s) { return s.products(); }
constexpr double weight_bytes(S const& s) { return s.rounded(s.weights); }
constexpr double x_and_weights(S const& s) { return s.x + s.rounded(s.weights); }
constexpr double y_and_weights(S const& s) { return s.y + s.rounded(s.weights); }

// Partial sums over the rows of y: a bias's gradient.
constexpr double y_partial(S const& s) {
  return s.partial(1, s.rows(s.node.out), S::columns(s.node.out));
}
// Two over the rows of x: norms.
constexpr double x_partial(S const& s) {
  return s.partial(2, s.rows(s.node.in), S::columns(s.node.in));
}

// Of an image with few channels or few pixels: see transpose().
constexpr bool is_narrow(S const& s) {
  return std::min(s.node.in[0], s.node.in[1] * s.node.in[2]) <= 8;
}
constexpr bool is_wide(S const& s) { return !is_narrow(s); }

constexpr bool has_bias(S const& s) { return s.biases > 0; }
constexpr bool own_bias(S const& s) { return s.biases > 0 && !s.node.fusion.absorbed; }
constexpr bool adds(S const& s) { return s.accumulates; }
constexpr double batch_norm_sums_read(S const& s) {
  return s.x + s.y + x_partial(s) + s.kept(4 * s.weights);
}
constexpr double joint_sums(S const& s) { return 8 * (2 * s.weights + 1); }
constexpr double joins(S const& s) { return (s.joins_tiles ? 1 : 0) + (s.joins ? 1 : 0); }
constexpr double joined_sums(S const& s) { return joins(s) * joint_sums(s); }
constexpr bool applies(S const& s) { return s.node.fusion.activated_by < 0; }
constexpr bool not_summed(S const& s) { return s.node.fusion.summed_by < 0; }
constexpr bool has_slice(S const& s) {
  return s.in_chunks() || (s.node.out.rank != 3 && (s.node.sharing.dealt == Dealt::inside ||
                                                    s.node.sharing.dealt == Dealt::between));
}
constexpr bool has_all(S const& s) { return !has_slice(s); }

// A GELU in the epilogue of a product: see LinearOp.
constexpr bool gelu_apart(S const& s) {
  return s.node.fusion.gelu && (s.fp32 || S::columns(s.node.out) % 8 != 0);
}
constexpr bool gelu_gradient_apart(S const& s) {
  return s.node.fusion.activated_by >= 0 && (s.fp32 || S::columns(s.node.in) % 8 != 0);
}
constexpr double gelu_saved(S const& s) { return s.node.fusion.gelu ? s.y : 0; }
constexpr double gelu_read(S const& s) { return s.node.fusion.activated_by >= 0 ? s.x : 0; }

constexpr double cells(S const& s) { return s.y / s.scalar * s.traits.cell_bytes; }

// Of an attention.
constexpr AttentionShape shape_of(S const& s) {
  int const parts = s.traits.heads + 2 * s.traits.key_heads;
  return {s.traits.heads, s.traits.key_heads, s.node.in[1] / (parts > 0 ? parts : 1),
          s.node.in[0] * s.node.sequence.chunks};
}
constexpr bool fused(S const& s) {
  return s.scalar == 2 && s.traits.dropout == 0 && !s.in_chunks();
}
constexpr bool apart(S const& s) { return !fused(s); }
// Rows that a row looks at, in chunks of time those before it, too.
constexpr int key_rows(S const& s) { return (s.chunk + 1) * s.node.in[0]; }
constexpr double real_bytes(S const& s) { return s.scalar == 8 ? 8 : 4; }
constexpr AttentionChunks score_chunks(S const& s) {
  int const element = 2 * (static_cast<int>(real_bytes(s)) + (s.scalar == 2 ? 2 : 0));
  AttentionShape const shape = shape_of(s);
  int const time = s.node.in[0];
  std::int64_t const limit = attention_scores_limit / element;
  return attention_chunks(
      shape, s.batch, time, key_rows(s),
      s.in_chunks() ? attention_chunks(shape, s.largest, time, shape.longest, limit).elements()
                    : limit);
}
constexpr double chunk_count(S const& s) {
  double count = 0;
  score_chunks(s).each([&](AttentionChunk const&) { ++count; });
  return count;
}
constexpr double product_calls(S const& s) {  // of one kind of product
  double count = 0;
  score_chunks(s).each([&](AttentionChunk const& c) { count += c.samples * shape_of(s).group(); });
  return count;
}
constexpr double scores(S const& s) {  // of all heads and samples
  return static_cast<double>(s.batch) * s.traits.heads * s.node.in[0] * key_rows(s);
}
constexpr double real_scores(S const& s) { return scores(s) * real_bytes(s); }
constexpr double head_rows(S const& s) { return 4.0 * s.batch * s.traits.heads * s.node.in[0]; }
// Gradients of keys and values that heads share are read where another head's is added.
// So are all of them where a later chunk of time has left some, each in the type of sums.
constexpr double key_gradients(S const& s) {
  return 2 * s.y * (s.chunk + 1) * (s.in_chunks() ? real_bytes(s) / s.scalar : 1);
}
constexpr double added_again(S const& s) {
  return key_gradients(s) * (s.last_chunk() ? shape_of(s).group() - 1 : shape_of(s).group()) /
         shape_of(s).group();
}
// A product reads the rows of each head, and as many keys as these have.
constexpr double head_and_key_rows(S const& s, int heads, int keys) {
  return s.y * (heads + keys * (s.chunk + 1));
}
constexpr double attention_products(S const& s) {
  return s.products() * (s.chunk + 1) / s.node.sequence.chunks;
}
// Keys and values, as they are gathered from chunks of time; and those of the chunk's own rows.
constexpr double kept_keys(S const& s) {
  AttentionShape const shape = shape_of(s);
  return s.rounded(1.0 * s.batch * key_rows(s) * static_cast<double>(shape.row() - shape.out()));
}
constexpr double own_keys(S const& s) { return kept_keys(s) / (s.chunk + 1); }
constexpr bool gathers(S const& s) { return s.in_chunks(); }
constexpr double pieces(S const& s) {
  std::int64_t const time = (s.node.in[0] + 127) / 128 * 128;
  std::int64_t const shared =
      shape_of(s).group() > 1 ? 4 * std::int64_t{s.node.in[0]} * shape_of(s).width : 0;
  std::int64_t const sample = s.traits.heads * (2 * time * time + shared) + 4096;
  std::int64_t const fit = std::max<std::int64_t>((std::int64_t{512} << 20) / sample, 1);
  return static_cast<double>((s.batch + fit - 1) / fit);
}

// Of a GroupNorm: mean and inverse of each group; two sums of each channel.
constexpr double group_moments(S const& s) { return s.kept(2.0 * s.batch * s.traits.groups); }
constexpr double group_sums(S const& s) { return s.kept(2.0 * s.batch * s.node.in[0]); }

// Cosine and sine of each pair of a head in each row.
constexpr double angles(S const& s) { return s.kept(1.0 * s.node.in[0] * s.traits.head_size); }

// Of an embedding and of a criterion.
constexpr double tokens(S const& s) { return static_cast<double>(s.rows(s.node.in)); }
constexpr double token_bytes(S const& s) {
  return 4.0 * s.batch * static_cast<double>(s.node.in.elements());
}
// Of the words of all ranks that share a table.
constexpr double run_bytes(S const& s) {
  return 8.0 * s.weights / S::columns(s.node.out) * s.node.sharing.slices;
}

// Of an embedding whose gradient is GradientRows: the numbers that are sorted, four bytes each, and
// the values of as many rows as there may be; of an earlier microbatch these are moved.
constexpr bool dense_rows(S const& s) { return !s.traits.touched.sparse(); }
constexpr bool sparse_rows(S const& s) { return s.traits.touched.sparse(); }
constexpr bool adds_rows(S const& s) { return sparse_rows(s) && s.accumulates; }
constexpr double most_rows(S const& s) {
  auto const rows = static_cast<std::int64_t>(s.weights) / S::columns(s.node.out);
  return static_cast<double>(s.traits.touched.most(rows, s.largest, s.microbatches));
}
constexpr double pass_rows(S const& s) {  // at most
  return std::min(token_bytes(s) / 4, most_rows(s));
}
constexpr double row_keys(S const& s) {
  return token_bytes(s) + (s.accumulates ? 4 * most_rows(s) : 0);
}
constexpr double row_block(S const& s) {
  return static_cast<double>(gradient_rows_bytes(static_cast<std::int64_t>(most_rows(s)),
                                                 S::columns(s.node.out), s.master));
}
constexpr double row_values(S const& s) {  // of what a pass leaves
  return s.kept((s.accumulates ? most_rows(s) : pass_rows(s)) * S::columns(s.node.out));
}

constexpr double logits(S const& s) {
  return s.rounded(s.weights / S::columns(s.node.in)) * static_cast<double>(s.rows(s.node.in));
}
constexpr bool all_words(S const& s) { return s.traits.sampled == 0; }
constexpr bool own_words(S const& s) { return s.node.sharing.dealt == Dealt::vocabulary; }
constexpr bool words_of_one(S const& s) { return all_words(s) && !own_words(s); }
// What ranks that share words bring together of a row: four doubles each.
constexpr double word_parts(S const& s) { return 32 * tokens(s); }
constexpr double all_word_parts(S const& s) { return word_parts(s) * s.node.sharing.slices; }
constexpr double criterion_products(S const& s) { return 2 * s.weights * tokens(s); }
// Rows come in chunks, whose logits are made again for each gradient: see VocabularyOp.
constexpr bool in_chunks(S const& s) { return s.traits.chunk_rows > 0; }
constexpr double row_chunks(S const& s) {
  std::int64_t const rows = s.rows(s.node.in);
  std::int64_t const chunk = in_chunks(s) ? (s.traits.chunk_rows + 7) / 8 * 8 : rows;
  return static_cast<double>((rows + chunk - 1) / chunk);
}
constexpr double chunks_added(S const& s) {  // to gradients that are there
  return row_chunks(s) - (s.accumulates ? 0 : 1);
}
constexpr bool makes_again(S const& s) { return all_words(s) && in_chunks(s); }
constexpr bool makes_again_of_one(S const& s) { return words_of_one(s) && in_chunks(s); }
constexpr bool makes_again_own(S const& s) { return own_words(s) && in_chunks(s); }
constexpr double criterion_read(S const& s) {
  return s.x + row_chunks(s) * s.rounded(s.weights + s.biases);
}
constexpr double own_gradients_read(S const& s) { return logits(s) + word_parts(s); }

inline constexpr LaunchRow launch_rows[] = {
    // clang-format off
    {"Conv2d", forward, always, "cudnnBackendExecute", x_and_weights, y, products},
    {"Conv2d", forward, own_bias, "column_map_kernel:AddBiasMap", [](S const& s) { return s.y + s.kept(s.biases); }, y},
    {"Conv2d", input_gradient, always, "cudnnBackendExecute", y_and_weights, x, products},
    {"Conv2d", weight_gradient, always, "cudnnBackendExecute", x_and_y, weight_bytes, products},
    {"Conv2d", weight_gradient, [](S const& s) { return (s.accumulates || s.siblings > 1) && !s.mixed(); }, "cast_many_kernel", [](S const& s) { return s.kept((s.accumulates ? 2 : 1) * s.weights); }, [](S const& s) { return s.kept(s.weights); }},
    {"Conv2d", weight_gradient, own_bias, "column_sums_kernel:ColumnSumTerm", [](S const& s) { return s.y + y_partial(s); }, [](S const& s) { return y_partial(s) + s.kept(s.biases); }},

    {"BatchNorm2d", forward, always, "column_moments_kernel", [](S const& s) { return s.x + x_partial(s); }, [](S const& s) { return x_partial(s) + s.kept(3 * s.weights); }},
    {"BatchNorm2d", forward, always, "column_map_kernel:BatchNormMap", [](S const& s) { return s.x + s.kept(4 * s.weights); }, y},
    {"BatchNorm2d", input_gradient, always, "column_sums_kernel:BatchNormSumsTerm", batch_norm_sums_read, [](S const& s) { return x_partial(s) + s.kept((s.node.frozen || s.apart ? 2 : 6) * s.weights); }},
    {"BatchNorm2d", input_gradient, always, "column_map_kernel:BatchNormGradientMap", [](S const& s) { return s.x + s.y + s.kept(6 * s.weights); }, x},
    {"BatchNorm2d", weight_gradient, [](S const& s) { return !s.gives_input_gradient; }, "column_sums_kernel:BatchNormSumsTerm", batch_norm_sums_read, [](S const& s) { return x_partial(s) + s.kept(6 * s.weights); }},
    {"BatchNorm2d", weight_gradient, [](S const& s) { return s.gives_input_gradient && s.apart; }, "batch_norm_weight_gradient_kernel", [](S const& s) { return s.kept(4 * s.weights); }, [](S const& s) { return s.kept(4 * s.weights); }},

    {"SyncBatchNorm2d", forward, always, "column_moments_kernel", [](S const& s) { return s.x + x_partial(s); }, [](S const& s) { return x_partial(s) + s.kept(3 * s.weights); }},
    {"SyncBatchNorm2d", forward, always, "each_kernel:PutLocalSums", [](S const& s) { return s.kept(3 * s.weights); }, joint_sums},
    {"SyncBatchNorm2d", forward, always, "ncclAllReduce", joined_sums, joined_sums, none, joins},
    {"SyncBatchNorm2d", forward, always, "each_kernel:PutJointStatistics", [](S const& s) { return joint_sums(s) + s.kept(s.weights); }, [](S const& s) { return s.kept(3 * s.weights); }},
    {"SyncBatchNorm2d", forward, always, "column_map_kernel:BatchNormMap", [](S const& s) { return s.x + s.kept(4 * s.weights); }, y},
    {"SyncBatchNorm2d", input_gradient, always, "column_sums_kernel:BatchNormSumsTerm", batch_norm_sums_read, [](S const& s) { return x_partial(s) + s.kept(2 * s.weights); }},
    {"SyncBatchNorm2d", input_gradient, always, "each_kernel:PutLocalGradientSums", [](S const& s) { return s.kept(2 * s.weights); }, joint_sums},
    {"SyncBatchNorm2d", input_gradient, always, "ncclAllReduce", joined_sums, joined_sums, none, joins},
    {"SyncBatchNorm2d", input_gradient, always, "each_kernel:PutGradientMeans", joint_sums, [](S const& s) { return s.kept(2 * s.weights); }},
    {"SyncBatchNorm2d", input_gradient, always, "column_map_kernel:BatchNormGradientMap", [](S const& s) { return s.x + s.y + s.kept(6 * s.weights); }, x},
    {"SyncBatchNorm2d", weight_gradient, [](S const& s) { return !s.gives_input_gradient; }, "column_sums_kernel:BatchNormSumsTerm", batch_norm_sums_read, [](S const& s) { return x_partial(s) + s.kept(2 * s.weights); }},
    {"SyncBatchNorm2d", weight_gradient, always, "each_kernel:PutJointWeightGradient", [](S const& s) { return s.kept(4 * s.weights); }, [](S const& s) { return s.kept(4 * s.weights); }},

    {"ReLU", forward, applies, "map_kernel:Rectify", x, y},
    {"ReLU", input_gradient, always, "map_kernel:RectifyGradient", [](S const& s) { return 2 * s.y; }, x},
    {"GeluTanh", forward, applies, "map_kernel:ActivationValue", x, y},
    {"GeluTanh", input_gradient, always, "map_kernel:ActivationGradient", x_and_y, x},
    {"Gelu", forward, always, "map_kernel:ActivationValue", x, y},
    {"Gelu", input_gradient, always, "map_kernel:ActivationGradient", x_and_y, x},
    {"SiLU", forward, always, "map_kernel:ActivationValue", x, y},
    {"SiLU", input_gradient, always, "map_kernel:ActivationGradient", x_and_y, x},
    {"Sigmoid", forward, always, "map_kernel:ActivationValue", x, y},
    {"Sigmoid", input_gradient, always, "map_kernel:ActivationGradient", x_and_y, x},
    {"Tanh", forward, always, "map_kernel:ActivationValue", x, y},
    {"Tanh", input_gradient, always, "map_kernel:ActivationGradient", x_and_y, x},
    {"Dropout", forward, [](S const& s) { return not_summed(s) && has_all(s); }, "dropout_kernel", x, y},
    {"Dropout", input_gradient, has_all, "dropout_kernel", y, x},
    {"Dropout", forward, has_slice, "drop_columns_kernel", x, y},
    {"Dropout", input_gradient, has_slice, "drop_columns_kernel", y, x},

    {"MaxPool2d", forward, always, "max_pool_kernel", x, [](S const& s) { return s.y + cells(s); }},
    {"MaxPool2d", input_gradient, always, "max_pool_gradient_kernel", [](S const& s) { return s.y + cells(s); }, x},
    {"AvgPool2d", forward, always, "avg_pool_kernel", x, y},
    {"AvgPool2d", input_gradient, always, "avg_pool_gradient_kernel", y, x},
    {"GlobalAvgPool", forward, always, "global_avg_pool_kernel", x, y},
    {"GlobalAvgPool", input_gradient, always, "global_avg_pool_gradient_kernel", y, x},
    {"Subsample2d", forward, always, "subsample_kernel", y, y},
    {"Subsample2d", input_gradient, always, "subsample_gradient_kernel", y, x},
    {"Flatten", forward, is_wide, "transpose_kernel", x, y},
    {"Flatten", input_gradient, is_wide, "transpose_kernel", y, x},
    {"Flatten", forward, is_narrow, "transpose_narrow_kernel", x, y},
    {"Flatten", input_gradient, is_narrow, "transpose_narrow_kernel", y, x},
    {"Concat", forward, always, "concat_kernel", [](S const& s) { return s.inputs; }, y},
    {"Concat", input_gradient, always, "concat_kernel", y, [](S const& s) { return s.inputs; }},
    {"Add", forward, not_summed, "map_kernel:SumBody", [](S const& s) { return s.inputs; }, y},

    {"Multiply", forward, always, "map_kernel:ProductBody", [](S const& s) { return s.inputs; }, y},
    {"Multiply", input_gradient, always, "map_kernel:ProductBody", [](S const& s) { return s.node.edges * s.inputs; }, [](S const& s) { return s.inputs; }, none, [](S const& s) { return static_cast<double>(s.node.edges); }},

    {"Linear", forward, always, "cublasLtMatmul", [](S const& s) { return s.x + s.rounded(s.weights + s.biases); }, [](S const& s) { return s.y + (gelu_apart(s) ? 0 : gelu_saved(s)); }, products},
    {"Linear", forward, gelu_apart, "map_kernel:ActivationValue", y, y},
    {"Linear", input_gradient, always, "cublasLtMatmul", [](S const& s) { return y_and_weights(s) + (gelu_gradient_apart(s) ? 0 : gelu_read(s)); }, x, products},
    {"Linear", input_gradient, gelu_gradient_apart, "map_kernel:ActivationGradient", [](S const& s) { return 2 * s.x; }, x},
    {"Linear", weight_gradient, always, "cublasLtMatmul", [](S const& s) { return s.x + s.y + (s.accumulates ? s.kept(s.weights) : 0); }, [](S const& s) { return s.kept(s.weights + s.biases); }, products},
    {"Linear", weight_gradient, [](S const& s) { return has_bias(s) && adds(s); }, "map_kernel:Plus", [](S const& s) { return s.kept(2 * s.biases); }, [](S const& s) { return s.kept(s.biases); }},

    {"Bias", forward, always, "column_map_kernel:AddBiasMap", [](S const& s) { return s.x + s.kept(s.weights); }, y},
    {"Bias", weight_gradient, always, "column_sums_kernel:ColumnSumTerm", [](S const& s) { return s.y + y_partial(s); }, [](S const& s) { return y_partial(s) + s.kept(s.weights); }},

    {"LayerNorm", forward, always, "row_norm_kernel", [](S const& s) { return s.x * (s.node.fusion.sums >= 0 ? 2 : 1) + s.kept(s.numbers); }, [](S const& s) { return s.y * (s.node.fusion.sums >= 0 ? 2 : 1) + 8.0 * tokens(s); }},
    {"LayerNorm", input_gradient, always, "row_norm_input_gradient_kernel", [](S const& s) { return s.x + s.y + (s.node.fusion.joined ? s.x : 0) + 8.0 * tokens(s); }, x},
    {"LayerNorm", weight_gradient, always, "column_sums_kernel:RowNormWeightTerm", [](S const& s) { return s.x + s.y + x_partial(s); }, [](S const& s) { return x_partial(s) + s.kept(s.numbers); }},
    {"RmsNorm", forward, always, "row_norm_kernel", [](S const& s) { return s.x * (s.node.fusion.sums >= 0 ? 2 : 1) + s.kept(s.numbers); }, [](S const& s) { return s.y * (s.node.fusion.sums >= 0 ? 2 : 1) + 4.0 * tokens(s); }},
    {"RmsNorm", input_gradient, always, "row_norm_input_gradient_kernel", [](S const& s) { return s.x + s.y + (s.node.fusion.joined ? s.x : 0) + 4.0 * tokens(s); }, x},
    {"RmsNorm", weight_gradient, always, "column_sums_kernel:RowNormWeightTerm", [](S const& s) { return s.x + s.y + y_partial(s); }, [](S const& s) { return y_partial(s) + s.kept(s.numbers); }},
    {"Softmax", forward, always, "softmax_kernel", x, y},
    {"Softmax", input_gradient, always, "softmax_gradient_kernel", [](S const& s) { return 2 * s.y; }, x},
    {"SwiGlu", forward, always, "column_map_kernel:SwiGluMap", x, y},
    {"SwiGlu", input_gradient, always, "column_map_kernel:SwiGluGradientMap", x_and_y, x},

    {"GroupNorm", forward, always, "group_moments_kernel", x, group_moments},
    {"GroupNorm", forward, always, "group_norm_kernel", [](S const& s) { return s.x + s.kept(s.numbers) + group_moments(s); }, y},
    {"GroupNorm", input_gradient, always, "group_norm_sums_kernel", x_and_y, group_sums},
    {"GroupNorm", input_gradient, always, "each_kernel:GroupSlopeMeans", [](S const& s) { return group_sums(s) + s.kept(s.weights); }, group_moments},
    {"GroupNorm", input_gradient, always, "group_norm_gradient_kernel", [](S const& s) { return s.x + s.y + s.kept(s.weights) + 2 * group_moments(s); }, x},
    {"GroupNorm", weight_gradient, [](S const& s) { return !s.gives_input_gradient; }, "group_norm_sums_kernel", x_and_y, group_sums},
    {"GroupNorm", weight_gradient, always, "each_kernel:GroupWeightGradient", group_sums, [](S const& s) { return s.kept(s.numbers); }},

    {"Embedding", forward, always, "embedding_kernel", [](S const& s) { return token_bytes(s) + s.y; }, y},
    {"Embedding", weight_gradient, dense_rows, "memset", none, run_bytes},
    {"Embedding", weight_gradient, dense_rows, "each_kernel:Count", none, token_bytes},
    {"Embedding", weight_gradient, dense_rows, "cub::DeviceRadixSort", [](S const& s) { return 2 * token_bytes(s); }, [](S const& s) { return 2 * token_bytes(s); }},
    {"Embedding", weight_gradient, dense_rows, "each_kernel:MarkRun", token_bytes, run_bytes},
    {"Embedding", weight_gradient, dense_rows, "embedding_gradient_kernel", [](S const& s) { return s.y + token_bytes(s) + run_bytes(s); }, [](S const& s) { return s.kept(s.weights); }},
    {"Embedding", weight_gradient, adds_rows, "copy", row_block, row_block},
    {"Embedding", weight_gradient, sparse_rows, "each_kernel:RowKeys", row_keys, [](S const& s) { return 2 * row_keys(s); }},
    {"Embedding", weight_gradient, sparse_rows, "cub::DeviceRadixSort", [](S const& s) { return 2 * row_keys(s); }, [](S const& s) { return 2 * row_keys(s); }},
    {"Embedding", weight_gradient, sparse_rows, "cub::DeviceSelect", [](S const& s) { return 2 * row_keys(s); }, [](S const& s) { return 2 * row_keys(s); }},
    {"Embedding", weight_gradient, sparse_rows, "each_kernel:OpenRows", row_keys, row_keys},
    {"Embedding", weight_gradient, sparse_rows, "embedding_rows_kernel", [](S const& s) { return s.y + 2 * row_keys(s) + (s.accumulates ? row_values(s) : 0); }, row_values},
    {"Positions", forward, always, "column_map_kernel:AddBiasMap", [](S const& s) { return s.x + s.kept(s.weights) / s.node.sequence.chunks; }, y},
    {"Positions", input_gradient, always, "copy", y, x},
    {"Positions", weight_gradient, [](S const& s) { return s.in_chunks() && !s.accumulates; }, "memset", none, [](S const& s) { return s.kept(s.weights); }},
    {"Positions", weight_gradient, always, "column_sums_kernel:ColumnSumTerm", y, [](S const& s) { return s.kept(s.weights) / s.node.sequence.chunks; }},

    {"RotaryPositions", forward, always, "each_kernel:RotaryAngle", none, angles},
    {"RotaryPositions", forward, always, "rotate_kernel", [](S const& s) { return s.x + angles(s); }, y},
    {"RotaryPositions", input_gradient, always, "each_kernel:RotaryAngle", none, angles},
    {"RotaryPositions", input_gradient, always, "rotate_kernel", [](S const& s) { return s.y + angles(s); }, x},

    {"Attention", forward, fused, "cudnnBackendExecute", x, [](S const& s) { return s.y + head_rows(s); }, products},
    {"Attention", input_gradient, fused, "cudnnBackendExecute", [](S const& s) { return s.x + 2 * s.y + head_rows(s); }, x, [](S const& s) { return 2.5 * s.products(); }, pieces},
    {"Attention", forward, gathers, "each_kernel:GatherKeys", kept_keys, kept_keys},
    {"Attention", forward, apart, "cublasLtMatmul", [](S const& s) { return head_and_key_rows(s, 1, 2) + s.rounded(scores(s)); }, [](S const& s) { return s.y + real_scores(s); }, attention_products, [](S const& s) { return 2 * product_calls(s); }},
    {"Attention", forward, apart, "attention_softmax_kernel", real_scores, [](S const& s) { return s.rounded(scores(s)) + head_rows(s); }, none, chunk_count},
    {"Attention", input_gradient, gathers, "each_kernel:GatherKeys", kept_keys, kept_keys},
    {"Attention", input_gradient, gathers, "each_kernel:TakeKeyGradients", [](S const& s) { return own_keys(s) * real_bytes(s) / s.scalar; }, own_keys},
    {"Attention", input_gradient, apart, "cublasLtMatmul", [](S const& s) { return head_and_key_rows(s, 4, 3) + added_again(s) + s.rounded(3 * scores(s)); }, [](S const& s) { return s.y + key_gradients(s) + 2 * real_scores(s); }, [](S const& s) { return 2.5 * attention_products(s); }, [](S const& s) { return 5 * product_calls(s); }},
    {"Attention", input_gradient, apart, "attention_softmax_gradient_kernel", [](S const& s) { return 2 * real_scores(s) + 2 * s.y + head_rows(s); }, [](S const& s) { return s.rounded(2 * scores(s)); }, none, chunk_count},

    {"Vocabulary", forward, all_words, "cublasLtMatmul", criterion_read, logits, criterion_products, row_chunks},
    {"Vocabulary", forward, words_of_one, "vocabulary_rows_kernel", logits, [](S const& s) { return (in_chunks(s) ? 0 : logits(s)) + s.y; }, none, row_chunks},
    {"Vocabulary", forward, own_words, "vocabulary_parts_kernel", logits, word_parts, none, row_chunks},
    {"Vocabulary", forward, own_words, "ncclAllGather", word_parts, all_word_parts},
    {"Vocabulary", forward, own_words, "each_kernel:JoinVocabularyParts", all_word_parts, [](S const& s) { return (in_chunks(s) ? 2 : 1) * word_parts(s) + s.y; }},
    {"Vocabulary", forward, [](S const& s) { return own_words(s) && !in_chunks(s); }, "vocabulary_part_gradients_kernel", own_gradients_read, logits},
    {"Vocabulary", input_gradient, makes_again, "cublasLtMatmul", criterion_read, logits, criterion_products, row_chunks},
    {"Vocabulary", input_gradient, makes_again_of_one, "vocabulary_rows_kernel", logits, logits, none, row_chunks},
    {"Vocabulary", input_gradient, makes_again_own, "vocabulary_part_gradients_kernel", own_gradients_read, logits, none, row_chunks},
    {"Vocabulary", input_gradient, all_words, "cublasLtMatmul", [](S const& s) { return logits(s) + row_chunks(s) * s.rounded(s.weights); }, x, criterion_products, row_chunks},
    {"Vocabulary", weight_gradient, makes_again, "cublasLtMatmul", criterion_read, logits, criterion_products, row_chunks},
    {"Vocabulary", weight_gradient, makes_again_of_one, "vocabulary_rows_kernel", logits, logits, none, row_chunks},
    {"Vocabulary", weight_gradient, makes_again_own, "vocabulary_part_gradients_kernel", own_gradients_read, logits, none, row_chunks},
    {"Vocabulary", weight_gradient, all_words, "cublasLtMatmul", [](S const& s) { return s.x + logits(s) + chunks_added(s) * s.kept(s.weights); }, [](S const& s) { return row_chunks(s) * s.kept(s.weights + s.biases); }, criterion_products, row_chunks},
    {"Vocabulary", weight_gradient, [](S const& s) { return all_words(s) && has_bias(s) && chunks_added(s) > 0; }, "map_kernel:Plus", [](S const& s) { return chunks_added(s) * s.kept(2 * s.biases); }, [](S const& s) { return chunks_added(s) * s.kept(s.biases); }, none, chunks_added},
    // clang-format on
};

}  // namespace detail

/// f(LaunchRow) for each line that an op has.
template <class F>
void each_launch_row(std::string_view layer, F const& f) {
  for (std::span<LaunchRow const> const rows :
       {std::span<LaunchRow const>{detail::launch_rows},
        std::span<LaunchRow const>{detail::launch_rows_of_sequences}}) {
    for (LaunchRow const& row : rows) {
      if (row.layer == layer) {
        f(row);
      }
    }
  }
}

/// Whether an op has lines; if not, nothing is known of what it queues.
TANDEM_ONCE bool has_launches(std::string_view layer);

/// What transform.cuh takes in place of @p kernel for so many bytes of one.
TANDEM_ONCE std::string_view transform_kernel(std::string_view kernel, double written,
                                              LaunchSizes const& s);

/// f(Launch) for what a pass of a node queues.
template <class F>
void each_launch(LaunchSizes const& sizes, KernelPass pass, F const& f) {
  bool const alone = sizes.node.synchronizes && !sizes.joins;  // then it has nothing to add
  std::string_view const layer = sizes.joins_tiles ? "SyncBatchNorm2d"
                                 : alone           ? "BatchNorm2d"
                                                   : sizes.node.name;
  each_launch_row(layer, [&](LaunchRow const& row) {
    if (row.pass == pass && row.when(sizes)) {
      double const written = row.written(sizes);
      double const times = row.times(sizes);
      f(Launch{transform_kernel(row.kernel, written / times, sizes), times, row.read(sizes),
               written, row.operations(sizes)});
    }
  });
}

}  // namespace tandem::cuda

#if TANDEM_BODIES

namespace tandem::cuda {

TANDEM_ONCE bool has_launches(std::string_view layer) {
  bool has = false;
  each_launch_row(layer, [&](LaunchRow const&) { has = true; });
  return has;
}

TANDEM_ONCE std::string_view transform_kernel(std::string_view kernel, double written,
                                              LaunchSizes const& s) {
  if (!kernel.starts_with("map_kernel:") || kernel.ends_with("Body")) {
    return kernel;
  }
  bool const sum = kernel.ends_with(":Plus");
  int const element = sum || kernel.ends_with(":AsItIs") ? s.master : s.scalar;
  int const smallest = sum && s.node.layer == LayerKind::linear ? s.master : s.scalar;
  bool const packs = static_cast<std::int64_t>(written / element) % (16 / smallest) == 0;
  return packs && written >= (1 << 20) ? "cub::DeviceTransform::Transform" : kernel;
}

}  // namespace tandem::cuda

#endif
