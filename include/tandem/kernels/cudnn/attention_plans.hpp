// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AttentionPlans: engines of cuDNN for attention, one for each task, shared by a device's layers.
///
/// The graphs are those that NVIDIA's cudnn-frontend makes of attention, operation by operation,
/// since engines know attention by this pattern. The gradient is the one whose sums do not vary:
/// the gradient of the scores is stored in the workspace and multiplied, not added by atomics.
/// Source: NVIDIA/cudnn-frontend, node/scaled_dot_product_flash_attention.h; Dao, arXiv:2307.08691

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/kernels/cudnn/library.hpp>
#include <tandem/kernels/cudnn/operation_graph.hpp>
#include <tandem/kernels/cudnn/target.hpp>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

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

/// Workspace that a pass of attention may use at most: samples go in pieces to stay within it.
inline constexpr std::int64_t attention_workspace_limit = std::int64_t{512} << 20;

/// Workspace of the gradient for each sample, or a little more: a gradient of the scores in 16
/// bits, its rows and columns in tiles, and one of the keys and values of each head that shares
/// them.
constexpr std::int64_t attention_sample_bytes(AttentionShape const& shape, std::int64_t time) {
  std::int64_t const rows = (time + 127) / 128 * 128;
  std::int64_t const shared = shape.group() > 1 ? 4 * time * shape.width : 0;
  return shape.heads * (2 * rows * rows + shared) + 4096;
}

/// Samples whose gradient is computed at once: as many as the limit allows, in pieces of about
/// equal size. Each piece's normalisers begin at a multiple of 16 bytes, which the engines are
/// promised, so a piece that is followed by another may have up to 3 samples above the limit.
constexpr std::int64_t attention_piece(AttentionShape const& shape, std::int64_t batch,
                                       std::int64_t time, std::int64_t limit) {
  std::int64_t const fit = std::max<std::int64_t>(limit / attention_sample_bytes(shape, time), 1);
  if (batch <= fit) {
    return batch;
  }
  std::int64_t const step = 4 / std::gcd(std::int64_t{4}, shape.heads * time);
  std::int64_t const most = std::max<std::int64_t>(fit / step, 1) * step;
  std::int64_t const pieces = (batch + most - 1) / most;
  std::int64_t const equal = (batch + pieces - 1) / pieces;
  return std::min((equal + step - 1) / step * step, batch);
}

/// What cuDNN's tensors of attention are made from; each may be null where a pass has no use for
/// it. @tparam T  BFloat16 or Float16
template <class T>
struct AttentionPointers {
  T const* x = nullptr;
  T const* y = nullptr;  ///< forward writes it
  float* normalisers = nullptr;
  std::int32_t const* lengths = nullptr;
  T const* dy = nullptr;
  T* dx = nullptr;
  float* products = nullptr;  ///< (B, Heads, time): scratch of the gradient
};

namespace detail {

/// Whether a task is one that engines compute, as far as NVIDIA says; then they may decline still.
/// Before 9.15.1 cuDNN has faults in the gradient of times that 128 does not divide.
inline bool attention_has_engines(AttentionTask const& task) {
  constexpr std::size_t first_version = 91501;
  constexpr int widest = 256;
  return cudnnGetVersion() >= first_version && task.shape.width % 8 == 0 &&
         task.shape.width <= widest && task.time > 1 && task.batch > 0;
}

/// The first engine for a task, if there is one. What cuDNN has against it is no error: there are
/// products and a softmax.
inline std::optional<Engine> find_engine(CuDnnTarget const& target, AttentionTask const& task,
                                         std::int64_t workspace_limit) {
  if (!attention_has_engines(task)) {
    return std::nullopt;
  }
  try {
    std::vector<Engine> found =
        find_engines(target, make_graph(target, task), true, workspace_limit, 1);
    return found.empty() ? std::nullopt : std::optional<Engine>{std::move(found.front())};
  } catch (CuDnnError const&) {
    return std::nullopt;
  }
}

/// Queues a task: all its samples.
template <class T>
void execute(CuDnnLibrary& library, Engine const& engine, Stream const& stream,
             AttentionTask const& task, AttentionPointers<T> const& at, std::byte* workspace) {
  AttentionShape const& shape = task.shape;
  float const scale = 1.0F / std::sqrt(static_cast<float>(shape.width));
  float const nothing = -std::numeric_limits<float>::infinity();
  float const one = 1.0F;
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  auto const add = [&](std::int64_t id, void const* pointer) {
    ids.push_back(id);
    pointers.push_back(const_cast<void*>(pointer));
  };
  add(attention_query, at.x + shape.query(0));
  add(attention_key, at.x + shape.key(0));
  add(attention_value, at.x + shape.value(0));
  add(attention_out, at.y);
  add(attention_normalisers, at.normalisers);
  add(attention_scale, &scale);
  if (task.lengths || shape.causal) {
    add(attention_nothing, &nothing);
  }
  if (task.lengths) {
    add(attention_lengths, at.lengths);
  }
  if (task.pass == AttentionPass::gradient) {
    add(attention_one, &one);
    add(attention_out_gradient, at.dy);
    add(attention_out_products, at.products);
    add(attention_query_gradient, at.dx + shape.query(0));
    add(attention_key_gradient, at.dx + shape.key(0));
    add(attention_value_gradient, at.dx + shape.value(0));
  }
  execute(library, engine, stream, ids, pointers, workspace);
}

}  // namespace detail

/// Engines by task. RankDevice::library<AttentionPlans>() makes it, so that twelve equal layers
/// wait for one.
///
/// Cost: at the first request for a task half a second of the CPU, in which cuDNN compiles.
class AttentionPlans {
 public:
  explicit AttentionPlans(Device device) : device_{device} {}

  /// The engine for @p task, or null: cuDNN has none, or only one that wants more workspace.
  [[nodiscard]] detail::Engine const* find(CuDnnLibrary const& library, AttentionTask const& task,
                                           std::int64_t workspace_limit) {
    auto known = std::find_if(entries_.begin(), entries_.end(),
                              [&](Entry const& entry) { return entry.task == task; });
    if (known == entries_.end()) {
      ScopedDevice const scope{device_};
      std::optional<detail::Engine> engine =
          detail::find_engine(library, task, attention_workspace_limit);
      entries_.push_back(
          {task, engine ? std::make_unique<detail::Engine>(std::move(*engine)) : nullptr});
      known = entries_.end() - 1;
    }
    detail::Engine const* const engine = known->engine.get();
    return engine != nullptr && engine->workspace_bytes <= workspace_limit ? engine : nullptr;
  }

 private:
  struct Entry {
    AttentionTask task;
    std::unique_ptr<detail::Engine> engine;
  };
  Device device_;
  std::vector<Entry> entries_;
};

}  // namespace tandem::cuda
