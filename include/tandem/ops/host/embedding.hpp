// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Embedding, Positions and RotaryPositions on Host, with oneDNN and without.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <tandem/graph/columns.hpp>
#include <tandem/kernels/host/elementwise.hpp>
#include <tandem/kernels/host/embedding.hpp>
#include <tandem/kernels/host/gradient_rows.hpp>
#include <tandem/kernels/host/rotary.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// Any Embedding of a precision. Its input are indices, and has no gradient.
template <class T, class P>
class EmbeddingOp {
 public:
  /// @param vocabulary  of all ranks that share the table: this one may have a slice of it
  /// @param by_rows     the weight's gradient is GradientRows
  EmbeddingOp(OpSetup const& setup, int vocabulary, bool by_rows)
      : in_{setup.node.in},
        vocabulary_{padded_slice(vocabulary, setup.slice.count)},
        first_{setup.slice.number * vocabulary_},
        by_rows_{by_rows},
        channels_{setup.node.out[1]},
        rows_{std::int64_t{std::max(setup.batch, 1)} * in_[0]} {}

  [[nodiscard]] OpNeeds needs() const {
    std::int64_t const numbers =
        by_rows_ ? embedding_rows_scratch(rows_) : embedding_scratch(rows_, vocabulary_);
    return {.input = true,
            .scratch_bytes = numbers * static_cast<std::int64_t>(sizeof(std::int32_t))};
  }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    embedding_forward(p.device.team, p.elements(in_), own(), channels_, indices(o), o.parameter[0],
                      o.y);
  }
  void input_gradient(Operands<T, P> const& /*operands*/, Pass<Device> const& /*pass*/) const {}
  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    auto* const scratch = p.device.template scratch_as<std::int32_t>();
    if (by_rows_) {
      embedding_gradient_rows(p.device.team, p.elements(in_), vocabulary_, indices(o), o.dy,
                              o.rows[0], p.accumulate, scratch);
    } else {
      embedding_gradient(p.device.team, p.elements(in_), own(), channels_, indices(o), o.dy,
                         o.gradient[0], p.accumulate, scratch);
    }
  }

 private:
  // Those behind the table's end are no index.
  [[nodiscard]] TableRows own() const { return {first_, vocabulary_}; }
  static std::int32_t const* indices(Operands<T, P> const& o) {
    return reinterpret_cast<std::int32_t const*>(o.x[0]);
  }

  Shape in_;
  int vocabulary_;
  int first_;
  bool by_rows_;
  int channels_;
  std::int64_t rows_;  // at most
};

template <class T, class P>
class PositionsOp {
 public:
  explicit PositionsOp(OpSetup const& setup)
      : shape_{setup.node.in}, longest_{shape_[0] * setup.node.sequence.chunks} {}

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    positions_forward(p.device.team, p.batch, p.time, shape_[1], o.x[0],
                      o.parameter[0] + std::int64_t{p.sequence.first_row()} * shape_[1], o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    copy(p.device.team, o.dy, o.dx[0], p.elements(shape_));
  }
  void weight_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    if (p.sequence.is_chunk() && !p.accumulate) {
      std::fill_n(o.gradient[0], std::int64_t{longest_} * shape_[1], P{0});
    }
    int const first = p.sequence.first_row();
    positions_gradient(p.device.team, p.batch, p.time, longest_ - first, shape_[1], o.dy,
                       o.gradient[0] + std::int64_t{first} * shape_[1],
                       p.accumulate || p.sequence.is_chunk());
  }

 private:
  Shape shape_;
  int longest_;  // of a sample in all its chunks
};

/// The cosines and sines of all times are made once.
template <class T, class P>
class RotaryPositionsOp {
 public:
  RotaryPositionsOp(OpSetup const& setup, int all, int turned, double base)
      : shape_{setup.node.in}, heads_{all, turned, shape_[1] / all} {
    int const longest = shape_[0] * setup.node.sequence.chunks;
    auto const size = static_cast<std::size_t>(longest) * static_cast<std::size_t>(heads_.half());
    cosine_.resize(size);
    sine_.resize(size);
    rotary_table(longest, heads_.size, base, cosine_.data(), sine_.data());
  }

  [[nodiscard]] OpNeeds needs() const { return {}; }

  void forward(Operands<T, P> const& o, Pass<Device> const& p) const {
    std::int64_t const first = this->first(p);
    rotate(p.device.team, p.batch, p.time, heads_, o.x[0], cosine_.data() + first,
           sine_.data() + first, false, o.y);
  }
  void input_gradient(Operands<T, P> const& o, Pass<Device> const& p) const {
    std::int64_t const first = this->first(p);
    rotate(p.device.team, p.batch, p.time, heads_, o.dy, cosine_.data() + first,
           sine_.data() + first, true, o.dx[0]);
  }

 private:
  [[nodiscard]] std::int64_t first(Pass<Device> const& p) const {
    return std::int64_t{p.sequence.first_row()} * heads_.half();
  }

  Shape shape_;
  RotaryHeads heads_;
  std::vector<Real<T>> cosine_;  // (T, D / 2)
  std::vector<Real<T>> sine_;
};

}  // namespace host

template <int V, int C, class... Options, class Kernels, class Precision>
struct Op<Embedding<V, C, Options...>, BasicHost<Kernels, Precision>>
    : host::EmbeddingOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::EmbeddingOp<typename Precision::Scalar, typename Precision::Master>{
            setup, V, has_row_gradient<Options...>()} {}
};

template <class... Options, class Kernels, class Precision>
struct Op<Positions<Options...>, BasicHost<Kernels, Precision>>
    : host::PositionsOp<typename Precision::Scalar, typename Precision::Master> {
  using host::PositionsOp<typename Precision::Scalar, typename Precision::Master>::PositionsOp;
};

template <int Heads, class... Options, class Kernels, class Precision>
struct Op<RotaryPositions<Heads, Options...>, BasicHost<Kernels, Precision>>
    : host::RotaryPositionsOp<typename Precision::Scalar, typename Precision::Master> {
  explicit Op(OpSetup const& setup)
      : host::RotaryPositionsOp<typename Precision::Scalar, typename Precision::Master>{
            setup, RotaryPositions<Heads, Options...>::options.all() / setup.slice.count,
            RotaryPositions<Heads, Options...>::options.turned() / setup.slice.count,
            RotaryPositions<Heads, Options...>::options.base} {}
};

}  // namespace tandem
