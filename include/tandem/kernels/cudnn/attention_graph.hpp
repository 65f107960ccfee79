// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AttentionTask: one pass of attention as cuDNN is asked for it, and its operation graph.
///
/// The graphs are those that NVIDIA's cudnn-frontend makes of attention, operation by operation,
/// since engines know attention by this pattern. The gradient is the one whose sums do not vary:
/// the gradient of the scores is stored in the workspace and multiplied, not added by atomics.
/// Source: NVIDIA/cudnn-frontend, node/scaled_dot_product_flash_attention.h; Dao, arXiv:2307.08691

#include <cstdint>

#include <cudnn.h>

#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/operation_graph.hpp>
#include <tandem/kernels/cudnn/target.hpp>
#include <tandem/kernels/functors/attention.hpp>

namespace tandem::cuda {

enum class AttentionPass : unsigned char { forward, gradient };

/// One pass over so many samples of so many rows, in 16 bits. Tensors lie as Attention's: heads
/// beside one another in rows of x and y, normalisers in fp32 one head behind another.
struct AttentionTask {
  AttentionPass pass = AttentionPass::forward;
  AttentionShape shape{};
  std::int64_t batch = 0;
  std::int64_t time = 0;
  bool lengths = false;                        ///< each sample has its own length
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;  ///< or CUDNN_DATA_HALF

  constexpr bool operator==(AttentionTask const&) const = default;
};

/// The names by which a plan knows its tensors.
enum AttentionTensor : std::int64_t {
  attention_query = 1,
  attention_key,
  attention_value,
  attention_out,
  attention_normalisers,
  attention_lengths,       ///< (B), int32
  attention_scale,         ///< the host's, fp32: 1 / sqrt(D)
  attention_nothing,       ///< the host's, fp32: minus infinity
  attention_one,           ///< the host's, fp32: 1
  attention_out_gradient,  ///< of y
  attention_out_products,  ///< (B, Heads, time), fp32, overwritten: rows of y times those of dy
  attention_query_gradient,
  attention_key_gradient,
  attention_value_gradient,
};

namespace detail {

/// Builds the graph of a task. Letters: B samples, H heads, K key heads, T rows, D numbers of a
/// head.
class AttentionGraph {
 public:
  explicit AttentionGraph(AttentionTask const& task)
      : task_{task},
        rows_{task.batch, task.shape.heads, task.time, 1},
        scores_{task.batch, task.shape.heads, task.time, task.time},
        query_{packed(attention_query, task.shape.heads)},
        key_{transposed(attention_key)},
        scale_{graph_.number(attention_scale, CUDNN_DATA_FLOAT)} {
    if (task.lengths || task.shape.causal) {
      nothing_ = graph_.number(attention_nothing, CUDNN_DATA_FLOAT);
    }
    if (task.lengths) {
      lengths_ = graph_.memory(attention_lengths, CUDNN_DATA_INT32, {task.batch, 1, 1, 1});
    }
    if (task.pass == AttentionPass::forward) {
      add_forward();
    } else {
      add_gradient();
    }
  }

  [[nodiscard]] BackendDescriptor finish(CuDnnTarget const& target) const {
    return graph_.finish(target);
  }

 private:
  using Lengths = OperationGraph::Lengths;

  /// o = softmax(mask(q kᵀ scale)) v, the normaliser of a row being max + log of its sum.
  void add_forward() {
    GraphTensor const value = packed(attention_value, task_.shape.key_heads);
    GraphTensor const out = plain(attention_out);
    GraphTensor s = scaled_scores({length(), length(), nullptr, task_.lengths});
    s = without_padding(s);
    s = causal(s);
    GraphTensor const largest = graph_.between(CUDNN_DATA_FLOAT, rows_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
    GraphTensor const e = apply(CUDNN_POINTWISE_EXP, apply(CUDNN_POINTWISE_SUB, s, largest));
    GraphTensor const total = graph_.between(CUDNN_DATA_FLOAT, rows_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, e, total);
    GraphTensor const logarithm = apply(CUDNN_POINTWISE_LOG, total);
    GraphTensor const normaliser = graph_.memory(attention_normalisers, CUDNN_DATA_FLOAT, rows_);
    graph_.pointwise(CUDNN_POINTWISE_ADD, largest, &logarithm, normaliser);
    GraphTensor const p = graph_.between(task_.type, scores_);
    graph_.pointwise(CUDNN_POINTWISE_DIV, e, &total, p);
    graph_.product(p, value, out, {length(), nullptr, length()});
  }

  /// dv = pᵀ do; ds = p (do vᵀ - rows of o do) scale; dk = dsᵀ q; dq = ds k.
  void add_gradient() {
    GraphTensor const value = transposed(attention_value);
    GraphTensor const out = plain(attention_out);
    GraphTensor const slope = plain(attention_out_gradient);
    GraphTensor const normaliser = graph_.memory(attention_normalisers, CUDNN_DATA_FLOAT, rows_);
    GraphTensor const one = graph_.number(attention_one, CUDNN_DATA_FLOAT);
    // Engines want the sums of the rows scaled, where dropout would scale them, and in memory.
    GraphTensor const sums = graph_.between(CUDNN_DATA_FLOAT, rows_);
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, apply(CUDNN_POINTWISE_MUL, slope, out), sums);
    GraphTensor const products = graph_.memory(attention_out_products, CUDNN_DATA_FLOAT, rows_);
    graph_.pointwise(CUDNN_POINTWISE_MUL, sums, &one, products);

    GraphTensor s = scaled_scores({length(), length(), nullptr});
    s = apply(CUDNN_POINTWISE_SUB, s, normaliser);
    s = without_padding(s);
    s = causal(s);
    GraphTensor const p = apply(CUDNN_POINTWISE_EXP, s);
    multiply_rows(p, slope, attention_value_gradient);

    GraphTensor dp = graph_.between(CUDNN_DATA_FLOAT, scores_);
    graph_.product(slope, value, dp, {length(), length(), nullptr});
    dp = apply(CUDNN_POINTWISE_SUB, dp, products);
    dp = apply(CUDNN_POINTWISE_MUL, dp, p);
    GraphTensor const ds = apply(CUDNN_POINTWISE_MUL, dp, scale_);
    multiply_rows(ds, query_, attention_key_gradient);

    GraphTensor const key =
        graph_.between(task_.type, exchanged(key_.extents), exchanged(key_.strides));
    graph_.transpose(key_, key);
    graph_.product(ds, key, packed(attention_query_gradient, task_.shape.heads),
                   {length(), nullptr, length()});
  }

  /// (B, heads, T, D) within the rows of x.
  GraphTensor packed(std::int64_t id, std::int64_t heads) {
    std::int64_t const width = task_.shape.width;
    std::int64_t const row = task_.shape.row();
    return graph_.memory(id, task_.type, {task_.batch, heads, task_.time, width},
                         {task_.time * row, width, row, 1});
  }
  /// (B, K, D, T) within the rows of x.
  GraphTensor transposed(std::int64_t id) {
    std::int64_t const width = task_.shape.width;
    std::int64_t const row = task_.shape.row();
    return graph_.memory(id, task_.type, {task_.batch, task_.shape.key_heads, width, task_.time},
                         {task_.time * row, width, 1, row});
  }
  /// (B, H, T, D) within the rows of y.
  GraphTensor plain(std::int64_t id) {
    std::int64_t const width = task_.shape.width;
    std::int64_t const row = task_.shape.out();
    return graph_.memory(id, task_.type, {task_.batch, task_.shape.heads, task_.time, width},
                         {task_.time * row, width, row, 1});
  }
  static Four exchanged(Four const& f) { return {f[0], f[1], f[3], f[2]}; }
  [[nodiscard]] GraphTensor const* length() const { return task_.lengths ? &lengths_ : nullptr; }

  GraphTensor apply(cudnnPointwiseMode_t mode, GraphTensor const& x) {
    GraphTensor const y = graph_.between(CUDNN_DATA_FLOAT, x.extents);
    graph_.pointwise(mode, x, nullptr, y);
    return y;
  }
  GraphTensor apply(cudnnPointwiseMode_t mode, GraphTensor const& x, GraphTensor const& b) {
    GraphTensor const y = graph_.between(CUDNN_DATA_FLOAT, x.extents);
    graph_.pointwise(mode, x, &b, y);
    return y;
  }

  GraphTensor scaled_scores(Lengths const& lengths) {
    GraphTensor const s = graph_.between(CUDNN_DATA_FLOAT, scores_);
    graph_.product(query_, key_, s, lengths);
    return apply(CUDNN_POINTWISE_MUL, s, scale_);
  }

  GraphTensor place(std::int64_t axis, GraphTensor const& s, cudnnDataType_t math) {
    GraphTensor const i = graph_.between(CUDNN_DATA_INT32, scores_);
    graph_.index(axis, s, i, math);
    return i;
  }
  GraphTensor compare(cudnnPointwiseMode_t mode, GraphTensor const& a, GraphTensor const& b) {
    GraphTensor const y = graph_.between(CUDNN_DATA_BOOLEAN, scores_);
    graph_.pointwise(mode, a, &b, y, CUDNN_DATA_BOOLEAN);
    return y;
  }
  GraphTensor keep(GraphTensor const& condition, GraphTensor const& s) {
    GraphTensor const y = graph_.between(CUDNN_DATA_FLOAT, scores_);
    graph_.select(condition, s, nothing_, y);
    return y;
  }
  GraphTensor without_padding(GraphTensor const& s) {
    if (!task_.lengths) {
      return s;
    }
    GraphTensor const row = place(2, s, CUDNN_DATA_INT32);
    GraphTensor const column = place(3, s, CUDNN_DATA_INT32);
    GraphTensor const row_counts = compare(CUDNN_POINTWISE_CMP_LT, row, lengths_);
    GraphTensor const column_counts = compare(CUDNN_POINTWISE_CMP_LT, column, lengths_);
    return keep(compare(CUDNN_POINTWISE_LOGICAL_AND, row_counts, column_counts), s);
  }
  GraphTensor causal(GraphTensor const& s) {
    if (!task_.shape.causal) {
      return s;
    }
    GraphTensor const row = place(2, s, CUDNN_DATA_FLOAT);
    GraphTensor const column = place(3, s, CUDNN_DATA_FLOAT);
    return keep(compare(CUDNN_POINTWISE_CMP_GE, row, column), s);
  }

  /// The gradient of keys or values: mᵀ x of each head, added over the heads that share one.
  void multiply_rows(GraphTensor const& m, GraphTensor const& x, std::int64_t id) {
    GraphTensor const mt =
        graph_.between(task_.type, exchanged(scores_), exchanged(packed_strides(scores_)));
    graph_.transpose(m, mt);
    GraphTensor const gradient = packed(id, task_.shape.key_heads);
    if (task_.shape.group() == 1) {
      graph_.product(mt, x, gradient, {length(), nullptr, length()});
      return;
    }
    GraphTensor const heads =
        graph_.between(task_.type, {task_.batch, task_.shape.heads, task_.time, task_.shape.width});
    graph_.product(mt, x, heads, {length(), nullptr, length()});
    graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, heads, gradient);
  }

  AttentionTask task_;
  OperationGraph graph_;
  Four rows_;
  Four scores_;
  GraphTensor query_;
  GraphTensor key_;
  GraphTensor scale_;
  GraphTensor nothing_{};
  GraphTensor lengths_{};
};

inline BackendDescriptor make_graph(CuDnnTarget const& target, AttentionTask const& task) {
  return AttentionGraph{task}.finish(target);
}

}  // namespace detail

}  // namespace tandem::cuda
