// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RecurrentProducts: the products of one direction of an Lstm or Gru by cuBLASLt; no CUDA kernel.
///
/// Everything lies sample by sample, (B, time, ·), as the network has it, so that all rows are one
/// matrix and a row of all samples is one, too, whose rows are far apart.

#include <algorithm>
#include <cstdint>
#include <deque>

#include <tandem/core/by_batch.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/functors/recurrent.hpp>

namespace tandem::cuda {

/// Where a row of all samples is: among all rows of their samples, or in memory of its own, of
/// whose samples each begins so many elements of T behind the one before.
struct RecurrentStride {
  std::int64_t batch;
  std::int64_t time;      ///< rows of a sample in the arrays that have all
  std::int64_t apart;     ///< of h: from sample to sample
  std::int64_t inner;     ///< of what a projection is of
  bool training = false;  ///< products of backward are wanted, too

  friend constexpr bool operator==(RecurrentStride const&, RecurrentStride const&) = default;
};

/// @tparam T  of what is multiplied; sums are of type R, gradients of weights as well
template <class T, class R>
class RecurrentProducts {
 public:
  /// Of all rows of all samples.
  struct OfAll {
    Matmul<T, R> forward;    ///< (rows, In) with weight_ih: (rows, G H)
    Matmul<T> backward;      ///< (rows, G H) with weight_ih: (rows, In)
    Matmul<T, R> weight_ih;  ///< (rows, G H)ᵀ (rows, In)
    Matmul<T, R> weight_hh;  ///< (rows, G H)ᵀ (rows, P)
    Matmul<T, R> weight_hr;  ///< (rows, P)ᵀ (rows, H)
  };
  /// Of a row of all samples.
  struct OfRow {
    Matmul<T, R> state;            ///< (B, P) with weight_hh: (B, G H)
    Matmul<T, R> projection;       ///< (B, H) with weight_hr: (B, P)
    Matmul<T, R> state_back;       ///< (B, G H) with weight_hh: (B, P)
    Matmul<T, R> projection_back;  ///< (B, P) with weight_hr: (B, H)
  };

  RecurrentProducts(CublasLt const& library, RecurrentShape const& shape, int gates,
                    MatmulMath math, std::int64_t batch)
      : library_{&library},
        shape_{shape},
        gates_{gates},
        width_{gates * shape.hidden},
        math_{math} {
    OfAll const& all = of_all(batch * shape.longest);
    OfRow const& row = of_row(trained(batch, shape.longest));
    limit_ = std::max({all.forward.workspace_bytes(), all.backward.workspace_bytes(),
                       all.weight_ih.workspace_bytes(), all.weight_hh.workspace_bytes(),
                       all.weight_hr.workspace_bytes(), row.state.workspace_bytes(),
                       row.projection.workspace_bytes(), row.state_back.workspace_bytes(),
                       row.projection_back.workspace_bytes()});
  }

  /// Of any product.
  [[nodiscard]] std::int64_t workspace_bytes() const { return limit_; }

  [[nodiscard]] RecurrentStride trained(std::int64_t batch, std::int64_t time) const {
    return {batch, time, time * shape_.handed, time * shape_.hidden, true};
  }

  OfAll& of_all(std::int64_t rows) {
    return all_.get(rows, [this](std::int64_t count) { return make_all(count); });
  }
  OfRow& of_row(RecurrentStride const& stride) {
    for (Row& row : rows_) {
      if (row.stride == stride) {
        return row.products;
      }
    }
    rows_.push_back({stride, make_row(stride)});
    return rows_.back().products;
  }

 private:
  struct Row {
    RecurrentStride stride;
    OfRow products;
  };

  [[nodiscard]] OfAll make_all(std::int64_t rows) const {
    std::int64_t const in = shape_.inputs;
    std::int64_t const projected = shape_.projected ? shape_.handed : 0;
    MatmulShape const forward{.transpose_b = Transpose::yes,
                              .m = rows,
                              .n = width_,
                              .k = in,
                              .lda = in,
                              .ldb = in,
                              .ldd = width_};
    MatmulShape const backward{
        .m = rows, .n = in, .k = width_, .lda = width_, .ldb = in, .ldd = in};
    return {{*library_, forward, math_, limit_},
            {*library_, backward, math_, limit_},
            weight(rows, width_, in),
            weight(rows, width_, shape_.handed),
            weight(rows, projected, shape_.hidden)};
  }
  [[nodiscard]] Matmul<T, R> weight(std::int64_t rows, std::int64_t out, std::int64_t in) const {
    return {*library_,
            {.transpose_a = Transpose::yes,
             .m = out,
             .n = in,
             .k = rows,
             .lda = out,
             .ldb = in,
             .ldd = in},
            math_,
            limit_};
  }

  [[nodiscard]] OfRow make_row(RecurrentStride const& s) const {
    bool const lstm = gates_ == 4;
    std::int64_t const hidden = shape_.hidden;
    std::int64_t const handed = shape_.handed;
    std::int64_t const projected = shape_.projected ? s.batch : 0;
    std::int64_t const back = s.training ? s.batch : 0;
    std::int64_t const all_gates = s.time * width_;
    return {row(s.batch, width_, handed, Transpose::yes, s.apart, lstm ? all_gates : width_),
            row(projected, handed, hidden, Transpose::yes, s.inner, handed),
            row(back, handed, width_, Transpose::no, all_gates, handed),
            row(std::min(projected, back), hidden, handed, Transpose::no, s.time * handed, hidden)};
  }
  /// A row of k numbers of each of @p m samples.
  [[nodiscard]] Matmul<T, R> row(std::int64_t m, std::int64_t n, std::int64_t k, Transpose weight,
                                 std::int64_t lda, std::int64_t ldd) const {
    return {*library_,
            {.transpose_b = weight,
             .m = m,
             .n = n,
             .k = k,
             .lda = std::max(lda, k),
             .ldb = weight == Transpose::yes ? k : n,
             .ldd = std::max(ldd, n),
             .alignment_a = alignment_of(k * static_cast<std::int64_t>(sizeof(T))),
             .alignment_d = alignment_of(n * static_cast<std::int64_t>(sizeof(R)))},
            math_,
            limit_};
  }

  CublasLt const* library_;
  RecurrentShape shape_;
  int gates_;
  std::int64_t width_;
  MatmulMath math_;
  std::int64_t limit_ = matmul_workspace_limit;
  ByBatch<OfAll> all_;
  std::deque<Row> rows_;  // addresses stay valid
};

}  // namespace tandem::cuda
