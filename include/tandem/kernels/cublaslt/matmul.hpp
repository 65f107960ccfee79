// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Matmul: one matrix product, its algorithm chosen once, by shape.
///
/// cuBLASLt counts in columns first, so it is told Dᵀ = op(B)ᵀ op(A)ᵀ: no matrix is moved. Sums
/// that are split over the depth are added in a separate step in a fixed order, never in place.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cublasLt.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cublaslt/descriptors.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Workspace that a product may use at most; what it does use is workspace_bytes().
inline constexpr std::int64_t matmul_workspace_limit = std::int64_t{32} << 20;

/// D = alpha op(A) op(B) + beta D. T: type of A and B; Out: of D, the same or, for BFloat16, float.
///
/// Sums are of type double for double and of type float for all others. With beta 1 some kernels
/// round the product to Out before they add it to D (seen on an H100, BFloat16, split sums).
/// Cost:   groups m n k multiply-accumulates; bound by arithmetic unless some size is small.
/// Order:  chosen by cuBLASLt for the shape and the device, the same at each run.
template <class T, class Out = T>
  requires std::same_as<T, Out> ||
      (std::same_as<T, BFloat16>&& std::same_as<Out, float>)class Matmul {
   public:
    using Compute = std::conditional_t<std::same_as<T, double>, double, float>;

    /// The factors of the product and of what D held; beta 0 does not read D.
    struct Scale {
      Compute alpha = 1;
      Compute beta = 0;
    };

    /// @throws CublasLtError  no algorithm for this shape on this device within the limit
    Matmul(CublasLt const& library, MatmulShape const& shape, MatmulMath math = MatmulMath::full,
           std::int64_t workspace_limit = matmul_workspace_limit)
        : library_{&library}, shape_{shape} {
      expect_sound(shape);
      if (work() > 0) {
        prepared_ = detail::prepare_matmul(library, shape, types(math), workspace_limit);
      }
    }

    [[nodiscard]] MatmulShape const& shape() const noexcept { return shape_; }
    [[nodiscard]] std::int64_t workspace_bytes() const noexcept {
      return prepared_.workspace_bytes;
    }

    /// Queues the product. Nothing to do for m, n or groups of 0; for k of 0, D = beta D.
    /// @param workspace  workspace_bytes(), at a multiple of 256; not shared with queued work
    /// @param bias       (n), in the device's memory, where MatmulShape::bias
    /// @pre  D overlaps neither A nor B; beta is 0 or 1 where k is 0
    void run(Stream const& stream, T const* a, T const* b, Out* d, Scale scale,
             std::byte* workspace, Out const* bias = nullptr) {
      if (work() > 0) {
        detail::run_matmul(*library_, prepared_, stream, {b, a, d, bias}, &scale.alpha, &scale.beta,
                           workspace);
      } else if (scale.beta == Compute{0}) {
        clear(stream, d);
      }
    }

   private:
    [[nodiscard]] std::int64_t work() const {
      return shape_.groups > 0 && shape_.m > 0 && shape_.n > 0 ? shape_.k : 0;
    }

    static constexpr detail::MatmulTypes types(MatmulMath math) {
      if constexpr (std::same_as<T, double>) {
        return {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
      } else if constexpr (std::same_as<T, float>) {
        return {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                math == MatmulMath::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
      } else {
        return {CUDA_R_16BF, std::same_as<Out, float> ? CUDA_R_32F : CUDA_R_16BF, CUDA_R_32F,
                CUBLAS_COMPUTE_32F};
      }
    }

    void clear(Stream const& stream, Out* d) const {
      ScopedDevice const scope{stream.device()};
      auto const bytes = static_cast<std::size_t>(shape_.n) * sizeof(Out);
      for (std::int64_t g = 0; g < shape_.groups && bytes > 0; ++g) {
        Out* const first = d + g * shape_.stride_d;
        if (shape_.ldd == shape_.n) {
          check(
              cudaMemsetAsync(first, 0, bytes * static_cast<std::size_t>(shape_.m), stream.get()));
          continue;
        }
        for (std::int64_t i = 0; i < shape_.m; ++i) {
          check(cudaMemsetAsync(first + i * shape_.ldd, 0, bytes, stream.get()));
        }
      }
    }

    CublasLt const* library_;
    MatmulShape shape_;
    detail::PreparedMatmul prepared_{};
  };

}  // namespace tandem::cuda
