// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Linear on Host by oneDNN. Needs <oneapi/dnnl/dnnl.h>; ops/host/convolution.hpp does without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/by_batch.hpp>
#include <tandem/kernels/onednn/gemm.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/matmul.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/team_size.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/rows.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace onednn {

/// Any Linear: one type for all of a precision.
///
/// Weights stay as the user has them, rounded once a step for BFloat16: a layout of oneDNN's own
/// saves a third of the forward pass and costs twice all of it to make. Measured for 25088 to 4096
/// at batch 32, one thread (Zen 5): in fp32 forward 49 ms as a primitive, 66 as a gemm; gradients
/// 40 and 34 ms as gemms, 60 and 44 as primitives.
template <class T, bool Bias>
class LinearOp {
 public:
  explicit LinearOp(OpSetup const& setup)
      : shape_{setup.node.in},
        in_{tandem::detail::row_size(shape_)},
        out_{tandem::detail::row_size(setup.node.out)},
        threads_{setup.threads} {
    TeamSize const team{threads_};
    scratch_ = passes(shape_.rows(std::max(setup.batch, 1), shape_[0])).scratch_bytes;
    if constexpr (rounds) {
      Descriptor const from = make_descriptor({out_, in_}, dnnl_f32, dnnl_ab);
      Descriptor const to = make_descriptor({out_, in_}, data_type<T>, dnnl_ab);
      round_ = make_reorder(library_, from.get(), to.get());
      scratch_ = std::max(scratch_, round_.scratch_bytes());
    }
  }
  LinearOp(LinearOp const&) = delete;
  LinearOp& operator=(LinearOp const&) = delete;

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = scratch_,
            .packed_bytes = rounds ? out_ * in_ * static_cast<std::int64_t>(sizeof(T)) : 0};
  }

  /// Rounds the weights.
  void pack(Operands<T, float> const& o, host::Device& device) {
    if constexpr (rounds) {
      TeamSize const team{threads_};
      round_.run(library_, device.scratch, o.parameter[0], o.packed);
    }
  }

  void forward(Operands<T, float> const& o, Pass<host::Device> const& p) {
    std::int64_t const rows = p.rows(shape_);
    if (rows == 0) {
      return;
    }
    TeamSize const team{threads_};
    Passes& passes = this->passes(rows);
    if constexpr (Bias) {
      passes.forward.run(library_, scratch(passes, p.device), o.x[0], weights(o), o.y,
                         o.parameter[1]);
    } else {
      passes.forward.run(library_, scratch(passes, p.device), o.x[0], weights(o), o.y);
    }
  }

  void input_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    std::int64_t const rows = p.rows(shape_);
    if (rows == 0) {
      return;
    }
    TeamSize const team{threads_};
    if constexpr (rounds) {
      Passes& passes = this->passes(rows);
      passes.input_gradient.run(library_, scratch(passes, p.device), o.dy, weights(o), o.dx[0]);
    } else {
      gemm(rows, in_, out_, {o.dy, out_}, {o.parameter[0], in_}, false, o.dx[0], in_);
    }
  }

  void weight_gradient(Operands<T, float> const& o, Pass<host::Device> const& p) {
    TeamSize const team{threads_};
    std::int64_t const rows = p.rows(shape_);
    if (rows == 0) {
      if (!p.accumulate) {
        std::fill_n(o.gradient[0], out_ * in_, 0.0F);
      }
    } else if constexpr (rounds) {
      Passes& passes = this->passes(rows);
      (p.accumulate ? passes.weight_gradient_added : passes.weight_gradient)
          .run(library_, scratch(passes, p.device), o.dy, o.x[0], o.gradient[0]);
    } else {
      gemm(out_, in_, rows, {o.dy, out_, true}, {o.x[0], in_}, p.accumulate, o.gradient[0], in_);
    }
    if constexpr (Bias) {
      column_sum(p.device.team, o.dy, rows, out_, out_, o.gradient[1], p.accumulate);
    }
  }

 private:
  static constexpr bool rounds = !std::same_as<T, float>;
  /// Of weights' gradients in bf16: it packs both matrices once, where "brg" transposes one for
  /// each block. Measured for 1024 rows and 384 to 1536 (Zen 4): 6.2 and 6.7 ms; added 6.1 and 7.0.
  static constexpr std::string_view gemm_kernel = "gemm:";

  /// For one number of rows; those that are not needed stay empty.
  struct Passes {
    Primitive forward;
    Primitive input_gradient;
    Primitive weight_gradient;
    Primitive weight_gradient_added;
    std::int64_t scratch_bytes = 0;
  };

  Passes& passes(std::int64_t wanted) {
    return passes_.get(wanted, [&](std::int64_t rows) {
      constexpr dnnl_data_type_t type = data_type<T>;
      Passes made;
      made.forward = make_matmul(library_, {.m = rows,
                                            .n = out_,
                                            .k = in_,
                                            .type = type,
                                            .result_type = type,
                                            .b_transposed = true,
                                            .bias = Bias});
      if constexpr (rounds) {
        made.input_gradient = make_matmul(
            library_, {.m = rows, .n = in_, .k = out_, .type = type, .result_type = type});
        MatmulTask gradient{.m = out_,
                            .n = in_,
                            .k = rows,
                            .type = type,
                            .a_transposed = true,
                            .kernel = gemm_kernel};
        made.weight_gradient = make_matmul(library_, gradient);
        gradient.result = Attributes::Result::added_to;
        made.weight_gradient_added = make_matmul(library_, gradient);
      }
      for (Primitive const* const primitive :
           {&made.forward, &made.input_gradient, &made.weight_gradient,
            &made.weight_gradient_added}) {
        made.scratch_bytes = std::max(made.scratch_bytes, primitive->scratch_bytes());
      }
      return made;
    });
  }

  static void const* weights(Operands<T, float> const& o) {
    if constexpr (rounds) {
      return o.packed;
    } else {
      return o.parameter[0];
    }
  }

  /// The device's, unless so many rows want more than the planned one.
  std::byte* scratch(Passes const& passes, host::Device& device) {
    if (passes.scratch_bytes <= scratch_) {
      return device.scratch;
    }
    auto const wanted = static_cast<std::size_t>(passes.scratch_bytes);
    if (own_scratch_.bytes() < wanted) {
      own_scratch_ = host::Buffer{wanted};
    }
    return own_scratch_.data();
  }

  Shape shape_;
  std::int64_t in_;
  std::int64_t out_;
  int threads_;
  Library library_;
  ByBatch<Passes> passes_;
  Primitive round_;
  std::int64_t scratch_ = 0;
  host::Buffer own_scratch_;
};

}  // namespace onednn

template <int Out, class... Options, class Precision>
struct Op<Linear<Out, Options...>, BasicHost<OneDnn, Precision>>
    : onednn::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias> {
  using onednn::LinearOp<typename Precision::Scalar, Linear<Out, Options...>::bias>::LinearOp;
};

}  // namespace tandem
