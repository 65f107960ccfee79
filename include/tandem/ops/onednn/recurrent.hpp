// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru on Host by oneDNN's products: the passes of ops/host/recurrent.hpp, the weights of
/// what is done row by row packed.
///
/// Not oneDNN's LSTM: its backward is of one speed in fp32 and bf16, it has no projection in bf16,
/// and makes all gradients at once.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/by_batch.hpp>
#include <tandem/kernels/onednn/gemm.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/matmul.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/team_size.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/ops/host/recurrent.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace onednn {

/// As host::PlainProducts, of float or BFloat16.
///
/// A weight that is multiplied row by row has two copies in layouts of the kernels' own, made when
/// parameters have changed; the other, for BFloat16, is rounded then. Layouts are those for 32
/// samples, however many there are, so that no bit depends on the sizes of other microbatches.
/// Measured for rows of 32 samples, 1024 to 4096 numbers, one thread (Zen 4): 115 GFLOP/s packed
/// and 85 as it lies in fp32, 228 and 186 in bf16.
template <class T>
class PackedProducts {
 public:
  static constexpr bool packs = true;

  PackedProducts(std::vector<host::RecurrentMatrix> const& matrices, std::int64_t batch,
                 std::int64_t rows, int threads)
      : threads_{threads}, of_(matrices.size()) {
    TeamSize const team{threads};
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      of_[i].is = matrices[i];
      if (matrices[i].out > 0) {
        prepare(of_[i], matrices[i].by_row ? batch : rows,
                matrices[i].of_later ? rows - batch : rows);
      }
    }
    planned_ = true;
  }

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_; }
  [[nodiscard]] std::int64_t packed_bytes() const { return packed_; }
  [[nodiscard]] TeamSize begin() const { return TeamSize{threads_}; }

  void pack(float* const* parameter, std::byte* packed, host::Device& device) {
    TeamSize const team{threads_};
    for (Matrix& m : of_) {
      for (Copy* const copy : {&m.forward_copy, &m.backward_copy}) {
        if (copy->make) {
          copy->make.run(library_, device.scratch, parameter[m.is.parameter], packed + copy->at);
        }
      }
    }
  }

  void forward(host::Device& device, int matrix, float const* weight, std::byte const* packed,
               std::int64_t rows, T const* x, float* y) {
    Matrix& m = of_[static_cast<std::size_t>(matrix)];
    Primitive& product = m.forward.get(rows, [&](std::int64_t) { return forward_of(m, rows); });
    product.run(library_, scratch(product, device), x, of(m.forward_copy, weight, packed), y);
  }
  void backward(host::Device& device, int matrix, float const* weight, std::byte const* packed,
                std::int64_t rows, T const* dy, float* dx) {
    Matrix& m = of_[static_cast<std::size_t>(matrix)];
    if constexpr (!rounds) {
      if (!m.is.by_row) {
        return gemm(rows, m.is.in, m.is.out, {dy, m.is.out}, {weight, m.is.in}, m.is.adds_backward,
                    dx, m.is.in);
      }
    }
    Primitive& product = m.backward.get(rows, [&](std::int64_t) { return backward_of(m, rows); });
    // What is not multiplied row by row has one copy, as it lies.
    Copy const& copy = m.is.by_row ? m.backward_copy : m.forward_copy;
    product.run(library_, scratch(product, device), dy, of(copy, weight, packed), dx);
  }
  void gradient(host::Device& device, int matrix, std::int64_t rows, T const* dy, T const* x,
                float* dw, bool accumulate) {
    Matrix& m = of_[static_cast<std::size_t>(matrix)];
    if (rows == 0) {
      std::fill_n(dw, accumulate ? 0 : m.is.out * m.is.in, 0.0F);
    } else if constexpr (rounds) {
      Primitive& product = m.gradient[accumulate ? 1 : 0].get(
          rows, [&](std::int64_t) { return gradient_of(m, rows, accumulate); });
      product.run(library_, scratch(product, device), dy, x, dw);
    } else {
      gemm(m.is.out, m.is.in, rows, {dy, m.is.out, true}, {x, m.is.in}, accumulate, dw, m.is.in);
    }
  }
  static void bias_gradient(host::Device& device, T const* dy, std::int64_t rows,
                            std::int64_t columns, float* sums, bool accumulate) {
    column_sum(device.team, dy, rows, columns, columns, sums, accumulate);
  }

 private:
  static constexpr bool rounds = !std::same_as<T, float>;
  static constexpr dnnl_data_type_t type = data_type<T>;
  static constexpr std::int64_t usual_batch = 32;  // what layouts are for

  /// A weight in another layout or type.
  struct Copy {
    Descriptor layout;
    Primitive make;  // of the weight; empty: there is no copy
    std::int64_t at = 0;
  };
  struct Matrix {
    host::RecurrentMatrix is;
    Copy forward_copy;
    Copy backward_copy;
    ByBatch<Primitive> forward;
    ByBatch<Primitive> backward;
    ByBatch<Primitive> gradient[2];  // the second adds
  };

  /// Copies and their places among the packed bytes; primitives for a step of the planned size.
  void prepare(Matrix& m, std::int64_t rows, std::int64_t gradient_rows) {
    if (m.is.by_row) {
      m.forward_copy = copy_in(packed_layout(library_, forward_task(m, usual_batch)),
                               make_descriptor({m.is.in, m.is.out}, dnnl_f32, dnnl_ba));
      m.backward_copy = copy_in(packed_layout(library_, backward_task(m, usual_batch)),
                                make_descriptor({m.is.out, m.is.in}, dnnl_f32, dnnl_ab));
    } else if (rounds) {
      m.forward_copy = copy_in(make_descriptor({m.is.out, m.is.in}, type, dnnl_ab),
                               make_descriptor({m.is.out, m.is.in}, dnnl_f32, dnnl_ab));
    }
    m.forward.get(rows, [&](std::int64_t) { return forward_of(m, rows); });
    if (rounds || m.is.by_row) {
      m.backward.get(rows, [&](std::int64_t) { return backward_of(m, rows); });
    }
    for (bool const adds : {false, true}) {
      if (rounds && gradient_rows > 0) {
        m.gradient[adds ? 1 : 0].get(
            gradient_rows, [&](std::int64_t) { return gradient_of(m, gradient_rows, adds); });
      }
    }
  }
  Copy copy_in(Descriptor layout, Descriptor const& weight) {
    Copy copy;
    copy.make = make_reorder(library_, weight.get(), layout.get());
    want(copy.make);
    copy.at = packed_;
    packed_ += rounded_up(bytes_of(layout.get()));
    copy.layout = std::move(layout);
    return copy;
  }

  [[nodiscard]] MatmulTask forward_task(Matrix const& m, std::int64_t rows) const {
    return {.m = rows,
            .n = m.is.out,
            .k = m.is.in,
            .type = type,
            .b_transposed = true,
            .result = result(m.is.adds),
            .b = m.is.by_row && m.forward_copy.make ? m.forward_copy.layout.get() : nullptr};
  }
  [[nodiscard]] MatmulTask backward_task(Matrix const& m, std::int64_t rows) const {
    return {.m = rows,
            .n = m.is.in,
            .k = m.is.out,
            .type = type,
            .result = result(m.is.adds_backward),
            .b = m.backward_copy.make ? m.backward_copy.layout.get() : nullptr};
  }
  Primitive forward_of(Matrix const& m, std::int64_t rows) { return made(forward_task(m, rows)); }
  Primitive backward_of(Matrix const& m, std::int64_t rows) { return made(backward_task(m, rows)); }
  Primitive gradient_of(Matrix const& m, std::int64_t rows, bool adds) {
    return made({.m = m.is.out,
                 .n = m.is.in,
                 .k = rows,
                 .type = type,
                 .a_transposed = true,
                 .result = result(adds),
                 .kernel = "gemm:"});  // as LinearOp's
  }
  Primitive made(MatmulTask const& task) {
    Primitive product = make_matmul(library_, task);
    want(product);
    return product;
  }
  static Attributes::Result result(bool adds) {
    return adds ? Attributes::Result::added_to : Attributes::Result::overwritten;
  }

  static void const* of(Copy const& copy, float const* weight, std::byte const* packed) {
    return copy.make ? static_cast<void const*>(packed + copy.at) : weight;
  }

  // While the op is made: so much scratch memory is asked for.
  void want(Primitive const& primitive) {
    if (!planned_) {
      scratch_ = std::max(scratch_, primitive.scratch_bytes());
    }
  }
  /// The device's, unless so many rows want more than the planned one.
  std::byte* scratch(Primitive const& product, host::Device& device) {
    if (product.scratch_bytes() <= scratch_) {
      return device.scratch;
    }
    auto const wanted = static_cast<std::size_t>(product.scratch_bytes());
    if (own_scratch_.bytes() < wanted) {
      own_scratch_ = host::Buffer{wanted};
    }
    return own_scratch_.data();
  }

  int threads_;
  Library library_;
  std::vector<Matrix> of_;
  std::int64_t scratch_ = 0;
  std::int64_t packed_ = 0;
  host::Buffer own_scratch_;
  bool planned_ = false;
};

}  // namespace onednn

template <int H, class... Options, class Precision>
struct Op<Lstm<H, Options...>, BasicHost<OneDnn, Precision>>
    : host::RecurrentOp<LstmFunction, typename Precision::Scalar,
                        onednn::PackedProducts<typename Precision::Scalar>> {
  explicit Op(OpSetup const& setup)
      : host::RecurrentOp<LstmFunction, typename Precision::Scalar,
                          onednn::PackedProducts<typename Precision::Scalar>>{
            setup, detail::recurrent_shape<Lstm<H, Options...>>(setup.node.in)} {}
};

template <int H, class... Options, class Precision>
struct Op<Gru<H, Options...>, BasicHost<OneDnn, Precision>>
    : host::RecurrentOp<GruFunction, typename Precision::Scalar,
                        onednn::PackedProducts<typename Precision::Scalar>> {
  explicit Op(OpSetup const& setup)
      : host::RecurrentOp<GruFunction, typename Precision::Scalar,
                          onednn::PackedProducts<typename Precision::Scalar>>{
            setup, detail::recurrent_shape<Gru<H, Options...>>(setup.node.in)} {}
};

}  // namespace tandem
