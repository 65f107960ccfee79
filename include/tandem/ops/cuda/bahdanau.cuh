// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bahdanau on Cuda: products of cuBLASLt around the kernels of kernels/cuda/bahdanau.cuh.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <type_traits>

#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/bahdanau.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/transform.cuh>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/ops/cuda/array_cutter.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Bahdanau of a precision.
///
/// `saved` has what both products make, the probabilities, and their gradients: those of the
/// weights are made of them, whenever that is. Queries, keys and scores are of the type of
/// parameters, what is multiplied is of that of activations.
template <class Precision>
class BahdanauOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  BahdanauOp(OpSetup const& setup, RankDevice& device, int hidden)
      : library_{&device.library<CublasLt>()},
        hidden_{hidden},
        query_{setup.inputs[0][1]},
        channels_{setup.inputs[1][1]},
        alike_{setup.inputs[0].clock == setup.inputs[1].clock},
        goes_back_{setup.wants_input_gradient} {
    longest_ = rows_of(std::max(setup.batch, 1), setup.inputs[0][0], setup.inputs[1][0]);
    Products const& p = products(longest_);
    limit_ = std::max(
        {p.query.workspace_bytes(), p.key.workspace_bytes(), p.context.workspace_bytes(),
         p.slope.workspace_bytes(), p.value.workspace_bytes(), p.query_back.workspace_bytes(),
         p.key_back.workspace_bytes(), p.weight_q.workspace_bytes(), p.weight_k.workspace_bytes()});
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .saved_bytes = Saved{longest_, nullptr}.bytes,
            .scratch_bytes = std::max(
                work_at() + Work{longest_, nullptr}.bytes,
                column_sum_scratch_bytes<T>(longest_.query_rows(), static_cast<int>(hidden_)))};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    AdditiveRows const rows = this->rows(p);
    Work const work{rows, p.device.scratch + work_at()};
    Saved const s = p.training ? Saved{rows, o.saved} : Saved{rows, work.instead_of_saved};
    Products& by = products(rows);
    by.query.run(stream, o.x[0], o.weight[0], s.q, {1, 0}, p.device.scratch);
    by.key.run(stream, o.x[1], o.weight[1], s.k, {1, 0}, p.device.scratch);
    P* scores = work.scores;
    if constexpr (std::is_same_v<T, P>) {
      scores = s.p;
    }
    additive_scale<P>(stream, hidden_, o.parameter[2], o.parameter[4], s.scale);
    additive_scores(stream, rows, terms(o, s), scores);
    additive_softmax<P>(stream, rows, scores, s.p);
    by.context.run(stream, s.p, o.x[1], o.y, {1, 0}, p.device.scratch);
  }

  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    AdditiveRows const rows = this->rows(p);
    Saved const s{rows, o.saved};
    Products& by = products(rows);
    core_gradient(o, p);
    if (o.dx[0] != nullptr) {
      by.query_back.run(stream, s.dq, o.weight[0], o.dx[0], {1, 0}, p.device.scratch);
    }
    if (o.dx[1] != nullptr) {  // added in T
      by.value.run(stream, s.p, o.dy, o.dx[1], {1, 0}, p.device.scratch);
      by.key_back.run(stream, s.dk, o.weight[1], o.dx[1], {1, 1}, p.device.scratch);
    }
  }

  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    AdditiveRows const rows = this->rows(p);
    Saved const s{rows, o.saved};
    Products& by = products(rows);
    if (!goes_back_) {
      core_gradient(o, p);
    }
    typename Matmul<T, P>::Scale const scale{1, static_cast<P>(p.accumulate ? 1 : 0)};
    by.weight_q.run(stream, s.dq, o.x[0], o.gradient[0], scale, p.device.scratch);
    by.weight_k.run(stream, s.dk, o.x[1], o.gradient[1], scale, p.device.scratch);
    column_sum(stream, static_cast<T const*>(s.dq), rows.query_rows(), static_cast<int>(hidden_),
               o.gradient[3], p.accumulate, p.device.scratch);
    additive_scale_gradient<P>(stream, hidden_, o.parameter[2], o.parameter[4], s.dunit,
                               o.gradient[2], o.gradient[4], p.accumulate);
  }

 private:
  static_assert(std::is_same_v<P, ComputeType<T>>);

  struct Products {
    AdditiveRows rows;
    Matmul<T, P> query;     ///< (B Tq, Cq) with linear_q: (B Tq, H)
    Matmul<T, P> key;       ///< (B Tk, Cm) with linear_k: (B Tk, H)
    Matmul<T> context;      ///< of a sample: (Tq, Tk) (Tk, Cm)
    Matmul<T, P> slope;     ///< of a sample: (Tq, Cm) (Tk, Cm)ᵀ
    Matmul<T> value;        ///< of a sample: (Tq, Tk)ᵀ (Tq, Cm)
    Matmul<T> query_back;   ///< (B Tq, H) with linear_q: (B Tq, Cq)
    Matmul<T> key_back;     ///< (B Tk, H) with linear_k: (B Tk, Cm)
    Matmul<T, P> weight_q;  ///< (B Tq, H)ᵀ (B Tq, Cq)
    Matmul<T, P> weight_k;  ///< (B Tk, H)ᵀ (B Tk, Cm)
  };

  /// From forward to backward.
  struct Saved {
    P* q;
    P* k;
    P* dunit;  ///< (H), of all samples
    P* scale;  ///< g / |v|
    T* p;
    T* dq;
    T* dk;
    std::int64_t bytes;

    Saved(AdditiveRows const& rows, std::byte* at) {
      ArrayCutter<16> cut{at};
      q = cut.template next<P>(rows.query_rows() * rows.hidden);
      k = cut.template next<P>(rows.key_rows() * rows.hidden);
      dunit = cut.template next<P>(rows.hidden);
      scale = cut.template next<P>(1);
      p = cut.template next<T>(rows.scores());
      dq = cut.template next<T>(rows.query_rows() * rows.hidden);
      dk = cut.template next<T>(rows.key_rows() * rows.hidden);
      bytes = cut.used();
    }
  };

  /// Of one pass: scores, and either what evaluation has in place of `saved`, or in backward the
  /// gradient of the scores' vector of each query, and what sums those.
  struct Work {
    P* scores;  ///< where probabilities are of another type; in backward their gradients
    std::byte* instead_of_saved;
    P* dunit;
    std::byte* sums;
    std::int64_t bytes;

    Work(AdditiveRows const& rows, std::byte* at) {
      ArrayCutter<256> cut{at};
      scores = cut.template next<P>(rows.scores());
      ArrayCutter<256> or_else = cut;
      instead_of_saved = cut.template next<std::byte>(Saved{rows, nullptr}.bytes);
      dunit = or_else.template next<P>(rows.query_rows() * rows.hidden);
      sums = or_else.template next<std::byte>(
          column_sum_scratch_bytes<P>(rows.query_rows(), static_cast<int>(rows.hidden)));
      bytes = std::max(cut.used(), or_else.used());
    }
  };

  [[nodiscard]] AdditiveRows rows_of(std::int64_t batch, std::int64_t queries,
                                     std::int64_t keys) const {
    return {batch, queries, keys, hidden_, AdditiveRows::apart_of<T>(keys)};
  }
  // The second input may be of the other clock.
  [[nodiscard]] AdditiveRows rows(Pass<RankDevice> const& p) const {
    AdditiveRows rows = rows_of(p.batch, p.time, alike_ ? p.time : p.other_clock.time);
    rows.lengths = alike_ ? p.lengths : p.other_clock.lengths;
    return rows;
  }
  static AdditiveTerms<P> terms(Operands<T, P> const& o, Saved const& s) {
    return {s.q, s.k, o.parameter[2], o.parameter[3], s.scale};
  }
  [[nodiscard]] std::int64_t work_at() const { return (limit_ + 255) / 256 * 256; }

  /// dq, dk and the gradient of the scores' vector.
  void core_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    AdditiveRows const rows = this->rows(p);
    Saved const s{rows, o.saved};
    Work const work{rows, p.device.scratch + work_at()};
    products(rows).slope.run(stream, o.dy, o.x[1], work.scores, {1, 0}, p.device.scratch);
    additive_softmax_gradient<P>(stream, rows, static_cast<T const*>(s.p), work.scores);
    each(stream, rows.query_rows() * hidden_,
         AdditiveQueryGradient<T>{rows, terms(o, s), work.scores, s.dq, work.dunit});
    each(stream, rows.key_rows() * hidden_,
         AdditiveKeyGradient<T>{rows, terms(o, s), work.scores, s.dk});
    column_sum(stream, static_cast<P const*>(work.dunit), rows.query_rows(),
               static_cast<int>(hidden_), s.dunit, false, work.sums);
  }

  Products& products(AdditiveRows const& rows) {
    for (Products& p : products_) {
      if (p.rows.batch == rows.batch && p.rows.queries == rows.queries &&
          p.rows.keys == rows.keys) {
        return p;
      }
    }
    products_.push_back(make(rows));
    return products_.back();
  }

  [[nodiscard]] Products make(AdditiveRows const& r) const {
    std::int64_t const of_query = r.query_rows();
    std::int64_t const of_key = r.key_rows();
    return {r,
            plain<P>(Transpose::yes, of_query, hidden_, query_),
            plain<P>(Transpose::yes, of_key, hidden_, channels_),
            of_samples<T>(r, Transpose::no, Transpose::no, r.queries, channels_, r.keys, r.apart,
                          channels_, channels_),
            of_samples<P>(r, Transpose::no, Transpose::yes, r.queries, r.keys, channels_, channels_,
                          channels_, r.apart),
            of_samples<T>(r, Transpose::yes, Transpose::no, r.keys, channels_, r.queries, r.apart,
                          channels_, channels_),
            plain<T>(Transpose::no, of_query, query_, hidden_),
            plain<T>(Transpose::no, of_key, channels_, hidden_),
            weight(of_query, query_),
            weight(of_key, channels_)};
  }
  /// Rows times a weight.
  template <class Out>
  [[nodiscard]] Matmul<T, Out> plain(Transpose weight, std::int64_t m, std::int64_t n,
                                     std::int64_t k) const {
    return made<Out>({.transpose_b = weight,
                      .m = m,
                      .n = n,
                      .k = k,
                      .lda = k,
                      .ldb = weight == Transpose::yes ? k : n,
                      .ldd = n});
  }
  /// (rows, H)ᵀ (rows, in).
  [[nodiscard]] Matmul<T, P> weight(std::int64_t rows, std::int64_t in) const {
    return made<P>({.transpose_a = Transpose::yes,
                    .m = hidden_,
                    .n = in,
                    .k = rows,
                    .lda = hidden_,
                    .ldb = in,
                    .ldd = in});
  }
  /// A product of each sample, whose matrices lie behind one another.
  template <class Out>
  [[nodiscard]] Matmul<T, Out> of_samples(AdditiveRows const& r, Transpose a, Transpose b,
                                          std::int64_t m, std::int64_t n, std::int64_t k,
                                          std::int64_t lda, std::int64_t ldb,
                                          std::int64_t ldd) const {
    constexpr auto in = static_cast<std::int64_t>(sizeof(T));
    std::int64_t const stride_a = (a == Transpose::yes ? k : m) * lda;
    std::int64_t const stride_b = (b == Transpose::yes ? n : k) * ldb;
    return made<Out>(
        {.transpose_a = a,
         .transpose_b = b,
         .m = m,
         .n = n,
         .k = k,
         .lda = lda,
         .ldb = ldb,
         .ldd = ldd,
         .groups = r.batch,
         .stride_a = stride_a,
         .stride_b = stride_b,
         .stride_d = m * ldd,
         .alignment_a = alignment_of(stride_a * in),
         .alignment_b = alignment_of(stride_b * in),
         .alignment_d = alignment_of(m * ldd * static_cast<std::int64_t>(sizeof(Out)))});
  }
  template <class Out>
  [[nodiscard]] Matmul<T, Out> made(MatmulShape const& shape) const {
    return {*library_, shape, matmul_math<Precision>, limit_};
  }

  CublasLt const* library_;
  AdditiveRows longest_{};
  std::int64_t hidden_;
  std::int64_t query_;
  std::int64_t channels_;
  bool alike_;
  bool goes_back_;
  std::int64_t limit_ = matmul_workspace_limit;
  std::deque<Products> products_;  // addresses stay valid
};

}  // namespace cuda

template <int Width, class... Options, class Kernels, class Precision>
struct Op<Bahdanau<Width, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::BahdanauOp<Precision> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::BahdanauOp<Precision>{setup, device, Width} {}
};

}  // namespace tandem
