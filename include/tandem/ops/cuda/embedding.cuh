// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Embedding, Positions and RotaryPositions on Cuda.

#include <algorithm>
#include <cstdint>

#include <tandem/graph/columns.hpp>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/embedding.cuh>
#include <tandem/kernels/cuda/gradient_rows.cuh>
#include <tandem/kernels/cuda/positions.cuh>
#include <tandem/kernels/cuda/rotary.cuh>
#include <tandem/kernels/functors/table_rows.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Embedding of a precision. Its input are indices, and has no gradient.
template <class Precision>
class EmbeddingOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// @param vocabulary  of all ranks that share the table: this one may have a slice of it
  /// @param by_rows     the weight's gradient is GradientRows, which have scratch of their own
  EmbeddingOp(OpSetup const& setup, RankDevice const& device, int vocabulary, bool by_rows)
      : in_{setup.node.in},
        own_{rows_of(vocabulary, setup.slice)},
        vocabulary_{own_.count * setup.slice.count},
        by_rows_{by_rows},
        channels_{setup.node.out[1]},
        scratch_{by_rows ? 0
                         : token_runs_scratch_bytes(
                               device.compute, std::max(setup.batch, 1) * in_[0], vocabulary_)} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    embedding_forward(p.device.compute, indices(o), p.elements(in_), own_, channels_, o.weight[0],
                      o.y);
  }
  void input_gradient(Operands<T, P> const& /*operands*/, Pass<RankDevice> const& /*pass*/) const {}
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    auto const tokens = static_cast<std::int32_t>(p.elements(in_));
    if (by_rows_) {
      embedding_gradient_rows(p.device.compute, indices(o), tokens, o.dy, o.rows[0], p.accumulate);
    } else {
      embedding_gradient(p.device.compute, indices(o), tokens, vocabulary_, own_, channels_, o.dy,
                         o.gradient[0], p.accumulate, p.device.scratch, scratch_);
    }
  }

 private:
  static TableRows rows_of(int vocabulary, Slice slice) {
    int const count = padded_slice(vocabulary, slice.count);
    return {slice.number * count, count};
  }
  static std::int32_t const* indices(Operands<T, P> const& o) {
    return reinterpret_cast<std::int32_t const*>(o.x[0]);
  }

  Shape in_;
  TableRows own_;   // those behind the table's end are no index
  int vocabulary_;  // of all ranks, these among them
  bool by_rows_;
  int channels_;
  std::int64_t scratch_;
};

/// A sample's rows are one row of time C numbers, and the samples the rows.
template <class Precision>
class PositionsOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  PositionsOp(OpSetup const& setup, RankDevice&)
      : shape_{setup.node.in},
        longest_{shape_.elements() * setup.node.sequence.chunks},
        scratch_{positions_scratch_bytes<T>(setup.batch, static_cast<int>(shape_.elements()))} {}

  [[nodiscard]] OpNeeds needs() const { return {.scratch_bytes = scratch_}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    P const* const table = o.parameter[0] + std::int64_t{p.sequence.first_row()} * shape_[1];
    positions_forward(p.device.compute, o.x[0], table, p.batch, elements(p), o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    copy(p.device.compute, o.dy, o.dx[0], p.elements(shape_));
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    std::int64_t const first = std::int64_t{p.sequence.first_row()} * shape_[1];
    if (p.sequence.is_chunk() && !p.accumulate) {
      fill(p.device.compute, o.gradient[0], longest_, P{0});
    }
    positions_gradient(p.device.compute, o.dy, p.batch, elements(p), longest_ - first,
                       o.gradient[0] + first, p.accumulate || p.sequence.is_chunk(),
                       p.device.scratch);
  }

 private:
  [[nodiscard]] int elements(Pass<RankDevice> const& p) const {
    return static_cast<int>(shape_.elements(p.time));
  }

  Shape shape_;
  std::int64_t longest_;  // elements of a sample in all its chunks
  std::int64_t scratch_;
};

/// Each pass makes its angles anew, in scratch memory.
template <class Precision>
class RotaryPositionsOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  RotaryPositionsOp(OpSetup const& setup, int all, int turned, double base)
      : shape_{setup.node.in}, heads_{all, turned, shape_[1] / all}, base_{base} {}

  [[nodiscard]] OpNeeds needs() const {
    return {.scratch_bytes = Table::bytes(shape_[0], heads_.size)};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    turn(p, o.x[0], false, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) const {
    turn(p, o.dy, true, o.dx[0]);
  }

 private:
  using Table = RotaryTable<ComputeType<T>>;

  void turn(Pass<RankDevice> const& p, T const* x, bool backwards, T* y) const {
    Table const table = Table::at(p.device.scratch, p.time, heads_.size);
    rotary_table(p.device.compute, p.time, heads_.size, base_, table, p.sequence.first_row());
    rotate(p.device.compute, p.batch, p.time, heads_, x, table, backwards, y);
  }

  Shape shape_;
  RotaryHeads heads_;
  double base_;
};

}  // namespace cuda

template <int V, int C, class... Options, class Kernels, class Precision>
struct Op<Embedding<V, C, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::EmbeddingOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice const& device)
      : cuda::EmbeddingOp<Precision>{setup, device, V, has_row_gradient<Options...>()} {}
};

template <int V, int C, class... Options, class Kernels, class Precision>
struct Op<WordSlice<Embedding<V, C, Options...>>, BasicCuda<Kernels, Precision>>
    : cuda::EmbeddingOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice const& device)
      : cuda::EmbeddingOp<Precision>{setup, device, V, has_row_gradient<Options...>()} {}
};

template <class... Options, class Kernels, class Precision>
struct Op<Positions<Options...>, BasicCuda<Kernels, Precision>> : cuda::PositionsOp<Precision> {
  using cuda::PositionsOp<Precision>::PositionsOp;
};

template <int Heads, class... Options, class Kernels, class Precision>
struct Op<RotaryPositions<Heads, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::RotaryPositionsOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice&)
      : cuda::RotaryPositionsOp<Precision>{
            setup, RotaryPositions<Heads, Options...>::options.all() / setup.slice.count,
            RotaryPositions<Heads, Options...>::options.turned() / setup.slice.count,
            RotaryPositions<Heads, Options...>::options.base} {}
};

}  // namespace tandem
