// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PlainProducts: the products of a recurrent layer with its weights, by the portable gemm; and how
/// a layer names its matrices and parameters.

#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/kernels/functors/recurrent.hpp>
#include <tandem/kernels/host/gemm.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::host {

/// One weight of a recurrent layer.
struct RecurrentMatrix {
  enum Kind : int { input, state, projection };
  static constexpr int kinds = 3;

  std::int64_t out = 0;
  std::int64_t in = 0;
  int parameter = 0;           ///< its place among the layer's
  bool by_row = false;         ///< multiplied with a row of all samples at a time
  bool adds = false;           ///< y += x Wᵀ; else =
  bool adds_backward = false;  ///< dx += dy W; else =
  bool of_later = false;       ///< its gradient is of all rows but the first time's
};

/// Where a layer's parameters stand: of each direction W_ih, W_hh, its biases, and the projection.
class RecurrentParameters {
 public:
  explicit RecurrentParameters(RecurrentShape const& shape)
      : biases_{shape.biases}, each_{2 + shape.biases + (shape.projected ? 1 : 0)} {}

  [[nodiscard]] int weight(int direction, RecurrentMatrix::Kind kind) const {
    return direction * each_ +
           (kind == RecurrentMatrix::projection ? 2 + biases_ : static_cast<int>(kind));
  }
  [[nodiscard]] int bias(int direction, int which) const { return direction * each_ + 2 + which; }

 private:
  int biases_;
  int each_;
};

/// All of a layer's, those of direction d from d * RecurrentMatrix::kinds; empty ones have out 0.
/// @param begins_empty  whether states before the first row are 0
TANDEM_ONCE std::vector<RecurrentMatrix> matrices_of(RecurrentShape const& shape, int gates,
                                                     bool begins_empty);

/// x (rows, in), y (rows, out), W (out, in), each row-major.
template <class T>
class PlainProducts {
 public:
  static constexpr bool packs = false;
  struct Guard {};

  PlainProducts(std::vector<RecurrentMatrix> const& matrices, std::int64_t /*batch*/,
                std::int64_t /*rows*/, int threads)
      : matrices_{matrices},
        scratch_{gemm_scratch<T>(threads) * static_cast<std::int64_t>(sizeof(T))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_; }
  [[nodiscard]] static std::int64_t packed_bytes() { return 0; }
  [[nodiscard]] static Guard begin() { return {}; }

  /// y = x Wᵀ, or y += where the matrix says so.
  void forward(Device& device, int matrix, T const* weight, std::byte const* /*packed*/,
               std::int64_t rows, T const* x, T* y) {
    RecurrentMatrix const& m = matrices_[static_cast<std::size_t>(matrix)];
    multiply(device, Transpose::no, Transpose::yes, rows, m.out, m.in, x, m.in, weight, m.in, y,
             m.out, m.adds);
  }
  /// dx = dy W, or dx += where the matrix says so.
  void backward(Device& device, int matrix, T const* weight, std::byte const* /*packed*/,
                std::int64_t rows, T const* dy, T* dx) {
    RecurrentMatrix const& m = matrices_[static_cast<std::size_t>(matrix)];
    multiply(device, Transpose::no, Transpose::no, rows, m.in, m.out, dy, m.out, weight, m.in, dx,
             m.in, m.adds_backward);
  }
  /// dW = dyᵀ x, or dW +=.
  void gradient(Device& device, int matrix, std::int64_t rows, T const* dy, T const* x, T* dw,
                bool accumulate) {
    RecurrentMatrix const& m = matrices_[static_cast<std::size_t>(matrix)];
    multiply(device, Transpose::yes, Transpose::no, m.out, m.in, rows, dy, m.out, x, m.in, dw, m.in,
             accumulate);
  }
  /// sums[j] = the sum of dy[.][j] over the rows in order, or +=.
  static void bias_gradient(Device& device, T const* dy, std::int64_t rows, std::int64_t columns,
                            T* sums, bool accumulate) {
    device.team.parallel_for(columns, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = begin; j < end; ++j) {
        T total{0};
        for (std::int64_t row = 0; row < rows; ++row) {
          total += dy[row * columns + j];
        }
        sums[j] = accumulate ? sums[j] + total : total;
      }
    });
  }

 private:
  void multiply(Device& device, Transpose transpose_a, Transpose transpose_b, std::int64_t m,
                std::int64_t n, std::int64_t k, T const* a, std::int64_t lda, T const* b,
                std::int64_t ldb, T* c, std::int64_t ldc, bool accumulate) const {
    gemm(device.team, transpose_a, transpose_b, static_cast<int>(m), static_cast<int>(n),
         static_cast<int>(k), a, static_cast<int>(lda), b, static_cast<int>(ldb), c,
         static_cast<int>(ldc), accumulate, device.template scratch_as<T>());
  }

  std::vector<RecurrentMatrix> matrices_;
  std::int64_t scratch_;
};

}  // namespace tandem::host

#if TANDEM_BODIES

namespace tandem::host {

TANDEM_ONCE std::vector<RecurrentMatrix> matrices_of(RecurrentShape const& shape, int gates,
                                                     bool begins_empty) {
  std::vector<RecurrentMatrix> all;
  RecurrentParameters const parameters{shape};
  bool const lstm = gates == 4;
  for (int d = 0; d < shape.directions; ++d) {
    auto const of = [&](RecurrentMatrix::Kind kind) { return parameters.weight(d, kind); };
    all.push_back(
        {gates * shape.hidden, shape.inputs, of(RecurrentMatrix::input), false, false, d > 0});
    all.push_back({gates * shape.hidden, shape.handed, of(RecurrentMatrix::state), true, lstm,
                   !lstm, begins_empty});
    all.push_back({shape.projected ? shape.handed : 0, shape.hidden,
                   of(RecurrentMatrix::projection), true, false, false});
  }
  return all;
}

}  // namespace tandem::host

#endif
