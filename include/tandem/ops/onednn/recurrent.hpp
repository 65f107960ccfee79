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
#include <string_view>
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
/// parameters have changed, for microbatches of the planned size; others, and gradients of weights,
/// take it as it lies. For BFloat16 all are rounded once. Measured for rows of 32 samples, 1024 to
/// 4096 numbers, one thread (Zen 4): 115 GFLOP/s packed and 85 as it lies in fp32, 228 and 186 in
/// bf16.
template <class T>
class PackedProducts {
 public:
  static constexpr bool packs = true;

  PackedProducts(std::vector<host::RecurrentMatrix> const& matrices, std::int64_t batch,
                 std::int64_t rows, int threads)
      : threads_{threads}, batch_{batch}, of_(matrices.size()) {
    TeamSize const team{threads};
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      of_[i].is = matrices[i];
      if (matrices[i].out > 0) {
        prepare(of_[i], matrices[i].by_row ? batch : rows, rows);
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
      if (m.is.out == 0) {
        continue;
      }
      void const* weight = parameter[m.is.parameter];
      if constexpr (rounds) {
        m.round.run(library_, device.scratch, parameter[m.is.parameter], packed + m.rounded_at);
        weight = packed + m.rounded_at;
      }
      if (m.is.by_row) {
        m.pack_forward.run(library_, device.scratch, weight, packed + m.forward_at);
        m.pack_backward.run(library_, device.scratch, weight, packed + m.backward_at);
      }
    }
  }

  void forward(host::Device& device, int matrix, float const* weight, std::byte const* packed,
               std::int64_t rows, T const* x, float* y) {
    Matrix& m = of_[static_cast<std::size_t>(matrix)];
    bool const in_layout = m.is.by_row && rows == batch_;
    Primitive& product = m.forward.get(rows, [&](std::int64_t) { return forward_of(m, rows); });
    product.run(library_, scratch(product, device), x,
                in_layout ? packed + m.forward_at : plain(m, weight, packed), y);
  }
  void backward(host::Device& device, int matrix, float const* weight, std::byte const* packed,
                std::int64_t rows, T const* dy, float* dx) {
    Matrix& m = of_[static_cast<std::size_t>(matrix)];
    bool const in_layout = m.is.by_row && rows == batch_;
    if constexpr (!rounds) {
      if (!in_layout) {
        return gemm(rows, m.is.in, m.is.out, {dy, m.is.out}, {weight, m.is.in}, m.is.adds_backward,
                    dx, m.is.in);
      }
    }
    Primitive& product = m.backward.get(rows, [&](std::int64_t) { return backward_of(m, rows); });
    product.run(library_, scratch(product, device), dy,
                in_layout ? packed + m.backward_at : plain(m, weight, packed), dx);
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

  struct Matrix {
    host::RecurrentMatrix is;
    ByBatch<Primitive> forward;
    ByBatch<Primitive> backward;
    ByBatch<Primitive> gradient[2];  // the second adds
    Primitive round;
    Primitive pack_forward;
    Primitive pack_backward;
    Descriptor forward_layout;
    Descriptor backward_layout;
    std::int64_t rounded_at = 0;
    std::int64_t forward_at = 0;
    std::int64_t backward_at = 0;
  };

  /// What a step of the planned size wants, and where copies lie among the packed bytes.
  void prepare(Matrix& m, std::int64_t rows, std::int64_t all_rows) {
    m.forward.get(rows, [&](std::int64_t) { return forward_of(m, rows); });
    if (rounds || m.is.by_row) {
      m.backward.get(rows, [&](std::int64_t) { return backward_of(m, rows); });
    }
    if constexpr (rounds) {
      Descriptor const from = make_descriptor({m.is.out, m.is.in}, dnnl_f32, dnnl_ab);
      Descriptor const to = make_descriptor({m.is.out, m.is.in}, type, dnnl_ab);
      m.round = make_reorder(library_, from.get(), to.get());
      want(m.round);
      m.rounded_at = keep(bytes_of(to.get()));
      for (bool const adds : {false, true}) {
        m.gradient[adds ? 1 : 0].get(all_rows,
                                     [&](std::int64_t) { return gradient_of(m, all_rows, adds); });
      }
    }
    if (m.is.by_row) {
      Descriptor const transposed = make_descriptor({m.is.in, m.is.out}, type, dnnl_ba);
      Descriptor const as_it_lies = make_descriptor({m.is.out, m.is.in}, type, dnnl_ab);
      m.pack_forward = make_reorder(library_, transposed.get(), m.forward_layout.get());
      m.pack_backward = make_reorder(library_, as_it_lies.get(), m.backward_layout.get());
      want(m.pack_forward);
      want(m.pack_backward);
      m.forward_at = keep(bytes_of(m.forward_layout.get()));
      m.backward_at = keep(bytes_of(m.backward_layout.get()));
    }
  }
  std::int64_t keep(std::int64_t bytes) {
    std::int64_t const at = packed_;
    packed_ += rounded_up(bytes);
    return at;
  }

  Primitive forward_of(Matrix& m, std::int64_t rows) {
    bool const in_layout = m.is.by_row && rows == batch_;
    return made({.m = rows,
                 .n = m.is.out,
                 .k = m.is.in,
                 .type = type,
                 .b_transposed = true,
                 .b_packed = in_layout,
                 .result = result(m.is.adds)},
                in_layout ? &m.forward_layout : nullptr);
  }
  Primitive backward_of(Matrix& m, std::int64_t rows) {
    bool const in_layout = m.is.by_row && rows == batch_;
    return made({.m = rows,
                 .n = m.is.in,
                 .k = m.is.out,
                 .type = type,
                 .b_packed = in_layout,
                 .result = result(m.is.adds_backward)},
                in_layout ? &m.backward_layout : nullptr);
  }
  Primitive gradient_of(Matrix& m, std::int64_t rows, bool adds) {
    return made({.m = m.is.out,
                 .n = m.is.in,
                 .k = rows,
                 .type = type,
                 .a_transposed = true,
                 .result = result(adds),
                 .kernel = "gemm:"},
                nullptr);  // as LinearOp's
  }
  Primitive made(MatmulTask const& task, Descriptor* layout) {
    Primitive product = make_matmul(library_, task, layout);
    want(product);
    return product;
  }
  static Attributes::Result result(bool adds) {
    return adds ? Attributes::Result::added_to : Attributes::Result::overwritten;
  }

  static void const* plain(Matrix const& m, float const* weight, std::byte const* packed) {
    if constexpr (rounds) {
      return packed + m.rounded_at;
    } else {
      return weight;
    }
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
  std::int64_t batch_;
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
