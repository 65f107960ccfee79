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
#include <optional>
#include <type_traits>
#include <utility>

#include <cublasLt.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/kernels/cublaslt/descriptors.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Workspace that a product may use at most; what it does use is workspace_bytes().
inline constexpr std::int64_t matmul_workspace_limit = std::int64_t{32} << 20;

/// D = alpha op(A) op(B) + beta D. T: type of A and B; Out: of D, the same or, for BFloat16 and
/// Float16, float.
///
/// Sums of rows are of type Out, and of what is multiplied; GELU takes D before it is rounded.
/// Sums are of type double for double and of type float for all others. With beta 1 some kernels
/// round the product to Out before they add it to D (seen on an H100, BFloat16, split sums).
/// Cost:   groups m n k multiply-accumulates; bound by arithmetic unless some size is small.
/// Order:  chosen by cuBLASLt for the shape and the device, the same at each run.
template <class T, class Out = T>
  requires std::same_as<T, Out> ||
      ((std::same_as<T, BFloat16> ||
        std::same_as<T, Float16>)&&std::same_as<Out, float>)class Matmul {
   public:
    using Compute = std::conditional_t<std::same_as<T, double>, double, float>;

    /// The factors of the product and of what D held; beta 0 does not read D.
    struct Scale {
      Compute alpha = 1;
      Compute beta = 0;
    };

    /// What a product reads and writes besides its matrices; all in the device's memory.
    struct With {
      Out const* bias = nullptr;  ///< (n), where MatmulShape::bias
      Out* row_sums = nullptr;    ///< (m), of Epilogue::row_sums
      Out* saved = nullptr;       ///< (m, n), of Epilogue::saved_gelu
      Out const* at = nullptr;    ///< (m, n), of Epilogue::gelu_gradient: what was saved
    };

    /// @throws CublasLtError  no algorithm for this shape on this device within the limit
    Matmul(CublasLt const& library, MatmulShape const& shape, MatmulMath math = MatmulMath::full,
           std::int64_t workspace_limit = matmul_workspace_limit)
        : Matmul{shape, library} {
      if (!prepare(math, workspace_limit)) {
        throw CublasLtError{
            CUBLAS_STATUS_NOT_SUPPORTED,
            "cuBLASLt has no algorithm for the product " + to_string(shape) +
                " in this precision on this GPU; train in Fp32, or with a smaller batch"};
      }
    }

    /// The same, or nothing where there is no algorithm, as for some epilogues.
    static std::optional<Matmul> find(CublasLt const& library, MatmulShape const& shape,
                                      MatmulMath math, std::int64_t workspace_limit) {
      Matmul matmul{shape, library};
      return matmul.prepare(math, workspace_limit) ? std::optional{std::move(matmul)}
                                                   : std::nullopt;
    }

    [[nodiscard]] MatmulShape const& shape() const noexcept { return shape_; }
    [[nodiscard]] std::int64_t workspace_bytes() const noexcept {
      return prepared_.workspace_bytes;
    }

    /// Queues the product. Nothing to do for m, n or groups of 0; for k of 0, D = beta D.
    /// @param workspace  workspace_bytes(), at a multiple of 256; not shared with queued work
    /// @pre  D overlaps neither A nor B; beta is 0 or 1 where k is 0
    void run(Stream const& stream, T const* a, T const* b, Out* d, Scale scale,
             std::byte* workspace, With const& with = {}) {
      if (work() > 0) {
        void const* const vector = with.row_sums != nullptr ? with.row_sums : with.bias;
        void const* const saved = with.saved != nullptr ? with.saved : with.at;
        detail::run_matmul(*library_, prepared_, stream, {b, a, d, vector, saved}, &scale.alpha,
                           &scale.beta, workspace);
      } else if (scale.beta == Compute{0}) {
        clear(stream, d);
      }
    }

   private:
    Matmul(MatmulShape const& shape, CublasLt const& library) : library_{&library}, shape_{shape} {
      expect_sound(shape);
    }

    bool prepare(MatmulMath math, std::int64_t workspace_limit) {
      if (work() == 0) {
        return true;
      }
      auto found = detail::prepare_matmul(*library_, shape_, types(math), workspace_limit);
      if (found) {
        prepared_ = *std::move(found);
      }
      return found.has_value();
    }

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
        constexpr cudaDataType_t type = std::same_as<T, Float16> ? CUDA_R_16F : CUDA_R_16BF;
        return {type, std::same_as<Out, float> ? CUDA_R_32F : type, CUDA_R_32F, CUBLAS_COMPUTE_32F};
      }
    }

    void clear(Stream const& stream, Out* d) const {
      ScopedDevice const scope{stream.device()};
      auto const bytes = static_cast<std::size_t>(shape_.n) * sizeof(Out);
      for (std::int64_t g = 0; g < shape_.groups && bytes > 0; ++g) {
        Out* const first = d + g * shape_.stride_d;
        if (shape_.ldd == shape_.n) {
          clear_bytes(first, bytes * static_cast<std::size_t>(shape_.m), stream);
          continue;
        }
        for (std::int64_t i = 0; i < shape_.m; ++i) {
          clear_bytes(first + i * shape_.ldd, bytes, stream);
        }
      }
    }

    CublasLt const* library_;
    MatmulShape shape_;
    detail::PreparedMatmul prepared_{};
  };

}  // namespace tandem::cuda
