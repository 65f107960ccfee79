// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Linear on Cuda: products of cuBLASLt, and their epilogues.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <tandem/core/by_batch.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/activations.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/relu.cuh>
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

/// Whether products of a precision have an epilogue in cuBLASLt; else kernels of ours do the same
/// afterwards. Double has none. Of GELU nothing promises more than the precision of tensor cores.
template <class Precision>
constexpr bool has_epilogue(Epilogue epilogue) {
  if (std::same_as<typename Precision::Scalar, double>) {
    return false;
  }
  bool const gelu = epilogue == Epilogue::gelu || epilogue == Epilogue::saved_gelu ||
                    epilogue == Epilogue::gelu_gradient;
  return !gelu || !std::same_as<Precision, Fp32>;
}

/// Bias, ReLU, GELU by tanh, its gradient and the bias's are computed with the products where
/// cuBLASLt has an algorithm that does, for the number of rows at hand; else by kernels behind
/// them. A bias is added in the type of activations, rounded to it where that is not its own.
/// `saved` is what GELU is applied to, (rows, Out).
template <class Precision, bool Bias>
class LinearOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  LinearOp(OpSetup const& setup, RankDevice& device)
      : library_{&device.library<CublasLt>()},
        shape_{setup.node.in},
        in_{tandem::detail::row_size(setup.node.in)},
        out_{tandem::detail::row_size(setup.node.out)},
        relu_{setup.node.fusion.relu},
        gelu_{setup.node.fusion.gelu},
        saves_{setup.node.fusion.gelu && setup.node.needs_gradient},
        behind_gelu_{setup.node.fusion.activated_by >= 0} {
    std::int64_t const rows = shape_.rows(setup.batch, shape_[0]);
    Products const& p = products(rows);
    limit_ = std::max({p.forward.workspace_bytes(), p.saving.workspace_bytes(),
                       p.input.workspace_bytes(), p.weight.workspace_bytes()});
    scratch_ = limit_;
    if constexpr (Bias) {
      scratch_ = std::max(sums_at() + out_ * static_cast<std::int64_t>(sizeof(P)),
                          column_sum_scratch_bytes<T>(rows, out_));
    }
    saved_ = saves_ ? rows * out_ * static_cast<std::int64_t>(sizeof(T)) : 0;
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .saved_bytes = saved_, .scratch_bytes = scratch_};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    std::int64_t const rows = p.rows(shape_);
    bool const saves = saves_ && p.training;
    Products& all = products(rows);
    Matmul<T>& product = saves ? all.saving : all.forward;
    bool const activated = product.shape().epilogue != Epilogue::none;
    T* const before = saves ? reinterpret_cast<T*>(o.saved) : o.y;  // the activation
    typename Matmul<T>::With with{.saved = activated && saves ? before : nullptr};
    if constexpr (Bias) {
      with.bias = product.shape().bias ? o.weight[1] : nullptr;
    }
    product.run(stream, o.x[0], o.weight[0], activated ? o.y : before, {1, 0}, p.device.scratch,
                with);
    if constexpr (Bias) {
      if (!product.shape().bias) {
        add_bias(stream, before, o.parameter[1], rows, out_);
      }
    }
    if (relu_ && !activated) {
      relu_forward(stream, before, o.y, rows * out_);
    } else if (gelu_ && !activated) {
      activation_forward<GeluTanhFunction>(stream, before, o.y, rows * out_);
    }
  }

  /// Behind a GELU, the gradient of what that one was applied to.
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    std::int64_t const rows = p.rows(shape_);
    Matmul<T>& product = products(rows).input;
    bool const whole = product.shape().epilogue != Epilogue::none;
    T const* const at = reinterpret_cast<T const*>(o.fused.activation);
    product.run(stream, o.dy, o.weight[0], o.dx[0], {1, 0}, p.device.scratch,
                {.at = whole ? at : nullptr});
    if (behind_gelu_ && !whole) {
      activation_gradient<GeluTanhFunction>(stream, at, o.dx[0], o.dx[0], rows * in_);
    }
  }

  /// cuBLASLt overwrites a bias's gradient; what is to be added to one goes through the scratch.
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    std::int64_t const rows = p.rows(shape_);
    Matmul<T, P>& product = products(rows).weight;
    bool const sums = product.shape().epilogue == Epilogue::row_sums;
    typename Matmul<T, P>::With with{};
    if (sums) {
      with.row_sums =
          p.accumulate ? reinterpret_cast<P*>(p.device.scratch + sums_at()) : o.gradient[1];
    }
    product.run(stream, o.dy, o.x[0], o.gradient[0], {1, p.accumulate ? 1.0F : 0.0F},
                p.device.scratch, with);
    if constexpr (Bias) {
      if (!sums) {
        column_sum(stream, o.dy, rows, out_, o.gradient[1], p.accumulate, p.device.scratch);
      } else if (p.accumulate) {
        add(stream, static_cast<P const*>(with.row_sums), o.gradient[1], out_);
      }
    }
  }

 private:
  /// The products for one number of rows.
  struct Products {
    Matmul<T> forward;  ///< with an activation: in evaluation, and where it needs nothing saved
    Matmul<T> saving;   ///< else
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
                              .ldd = out_};
    MatmulShape const input{.m = rows, .n = in_, .k = out_, .lda = out_, .ldb = in_, .ldd = in_};
    MatmulShape const weight{.transpose_a = Transpose::yes,
                             .m = out_,
                             .n = in_,
                             .k = rows,
                             .lda = out_,
                             .ldb = in_,
                             .ldd = in_};
    Epilogue const apply = relu_ ? Epilogue::relu : gelu_ ? Epilogue::gelu : Epilogue::none;
    // What is not wanted is a product of nothing.
    return {with_epilogue<T>(forward, apply, Bias),
            saves_ ? with_epilogue<T>(forward, Epilogue::saved_gelu, Bias)
                   : Matmul<T>{*library_, MatmulShape{}},
            with_epilogue<T>(input, behind_gelu_ ? Epilogue::gelu_gradient : Epilogue::none, false),
            with_epilogue<P>(weight, Bias ? Epilogue::row_sums : Epilogue::none, false)};
  }

  /// With as much of the epilogue and the bias as there is an algorithm for.
  template <class Out>
  [[nodiscard]] Matmul<T, Out> with_epilogue(MatmulShape shape, Epilogue epilogue,
                                             bool bias) const {
    MatmulMath const math = matmul_math<Precision>;
    if (rows_of(shape) > 0) {
      shape.bias = bias;
      for (Epilogue const own : {epilogue, Epilogue::none}) {
        shape.epilogue = own;
        if (!has_epilogue<Precision>(own) || !takes_epilogue(shape.n, own)) {
          continue;
        }
        if (auto found = Matmul<T, Out>::find(*library_, shape, math, limit_)) {
          return *std::move(found);
        }
      }
    }
    shape.bias = false;
    shape.epilogue = Epilogue::none;
    return {*library_, shape, math, limit_};
  }
  /// Of what a product reads of the microbatch.
  static std::int64_t rows_of(MatmulShape const& shape) {
    return shape.transpose_a == Transpose::yes ? shape.k : shape.m;
  }
  /// Where in the scratch the sums of rows are, behind the products' workspace.
  [[nodiscard]] std::int64_t sums_at() const { return (limit_ + 255) / 256 * 256; }

  CublasLt const* library_;
  Shape shape_;
  int in_;
  int out_;
  bool relu_;
  bool gelu_;
  bool saves_;        // what its GELU is applied to
  bool behind_gelu_;  // its input is the output of one
  std::int64_t limit_ = matmul_workspace_limit;
  std::int64_t scratch_ = 0;
  std::int64_t saved_ = 0;
  ByBatch<Products> products_;
};

}  // namespace cuda

template <int Out, class... Options, class Kernels, class Precision>
struct Op<Linear<Out, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::LinearOp<Precision, Linear<Out, Options...>::bias> {
  using cuda::LinearOp<Precision, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem
