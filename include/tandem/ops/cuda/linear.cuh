// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Linear on Cuda: products of cuBLASLt.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <tandem/core/by_batch.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// How products of a precision round their inputs.
template <class Precision>
inline constexpr MatmulMath matmul_math =
    std::same_as<Precision, Tf32> ? MatmulMath::tf32 : MatmulMath::full;

/// Whether cuBLASLt adds a bias of a precision in the product; else a kernel adds it afterwards.
template <class Precision>
inline constexpr bool bias_in_product = std::same_as<typename Precision::Scalar, float>;

template <class Precision, bool Bias>
class LinearOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  LinearOp(OpSetup const& setup, RankDevice& device)
      : library_{&device.library<CublasLt>()},
        shape_{setup.node.in},
        in_{tandem::detail::row_size(setup.node.in)},
        out_{tandem::detail::row_size(setup.node.out)} {
    std::int64_t const rows = shape_.rows(setup.batch, shape_[0]);
    Products const& p = products(rows);
    planned_ = std::max(
        {p.forward.workspace_bytes(), p.input.workspace_bytes(), p.weight.workspace_bytes()});
    limit_ = planned_;
    if constexpr (Bias) {
      planned_ = std::max(planned_, column_sum_scratch_bytes<T>(rows, out_));
    }
  }

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .scratch_bytes = planned_}; }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    T const* bias = nullptr;
    if constexpr (Bias && bias_in_product<Precision>) {
      bias = o.parameter[1];
    }
    products(p.rows(shape_))
        .forward.run(stream, o.x[0], o.weight[0], o.y, {1, 0}, p.device.scratch, bias);
    if constexpr (Bias && !bias_in_product<Precision>) {
      add_bias(stream, o.y, o.parameter[1], p.rows(shape_), out_);
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    products(p.rows(shape_))
        .input.run(p.device.compute, o.dy, o.weight[0], o.dx[0], {1, 0}, p.device.scratch);
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    products(p.rows(shape_))
        .weight.run(stream, o.dy, o.x[0], o.gradient[0], {1, p.accumulate ? 1.0F : 0.0F},
                    p.device.scratch);
    if constexpr (Bias) {
      column_sum(stream, o.dy, p.rows(shape_), out_, o.gradient[1], p.accumulate, p.device.scratch);
    }
  }

 private:
  /// The products for one number of rows.
  struct Products {
    Matmul<T> forward;
    Matmul<T> input;
    Matmul<T, P> weight;
  };

  Products& products(std::int64_t rows) {
    return products_.get(rows, [this](std::int64_t count) { return make(count); });
  }

  [[nodiscard]] Products make(std::int64_t rows) const {
    MatmulShape const forward{.transpose_b = Transpose::yes,
                              .m = rows,
                              .n = out_,
                              .k = in_,
                              .lda = in_,
                              .ldb = in_,
                              .ldd = out_,
                              .bias = Bias && bias_in_product<Precision>};
    MatmulShape const input{.m = rows, .n = in_, .k = out_, .lda = out_, .ldb = in_, .ldd = in_};
    MatmulShape const weight{.transpose_a = Transpose::yes,
                             .m = out_,
                             .n = in_,
                             .k = rows,
                             .lda = out_,
                             .ldb = in_,
                             .ldd = in_};
    MatmulMath const math = matmul_math<Precision>;
    return {{*library_, forward, math, limit_},
            {*library_, input, math, limit_},
            {*library_, weight, math, limit_}};
  }

  CublasLt const* library_;
  Shape shape_;
  int in_;
  int out_;
  std::int64_t limit_ = matmul_workspace_limit;
  std::int64_t planned_ = 0;
  ByBatch<Products> products_;
};

}  // namespace cuda

template <int Out, class... Options, class Kernels, class Precision>
struct Op<Linear<Out, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::LinearOp<Precision, Linear<Out, Options...>::bias> {
  using cuda::LinearOp<Precision, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem
