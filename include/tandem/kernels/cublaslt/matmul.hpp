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
#include <tandem/core/unique_handle.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda::detail {

/// Element types of one product.
struct MatmulTypes {
  cudaDataType_t in;
  cudaDataType_t out;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

/// In cuBLASLt's order: left is our B, right our A, transposed both.
struct MatmulPointers {
  void const* left;
  void const* right;
  void* out;
  void const* vector;  ///< the bias, or where row sums go; null: neither
  void const* saved;   ///< what GELU saves, or has saved; null: nothing
};

using MatmulDescriptor = UniqueHandle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LayoutDescriptor = UniqueHandle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using PreferenceDescriptor =
    UniqueHandle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// A product that is ready to be queued.
struct PreparedMatmul {
  MatmulDescriptor product{};
  LayoutDescriptor left{};
  LayoutDescriptor right{};
  LayoutDescriptor out{};
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace_bytes = 0;
};

template <class Value>
void set(MatmulDescriptor const& d, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(d.get(), attribute, &value, sizeof value));
}
template <class Value>
void set(LayoutDescriptor const& d, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  check(cublasLtMatrixLayoutSetAttribute(d.get(), attribute, &value, sizeof value));
}
template <class Value>
void set(PreferenceDescriptor const& d, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(d.get(), attribute, &value, sizeof value));
}

/// A matrix that lies row-major as (rows, columns).
inline LayoutDescriptor make_layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                    std::int64_t distance, std::int64_t groups,
                                    std::int64_t stride) {
  cublasLtMatrixLayout_t raw = nullptr;
  check(cublasLtMatrixLayoutCreate(&raw, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), distance));
  LayoutDescriptor layout{raw};
  if (groups > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(groups));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  return layout;
}

/// Row-major sums of op(A)'s rows are sums over the depth of cuBLASLt's B.
constexpr cublasLtEpilogue_t epilogue_of(MatmulShape const& s) {
  switch (s.epilogue) {
    case Epilogue::relu:
      return s.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::gelu:
      return s.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Epilogue::saved_gelu:
      return s.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::row_sums:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::none:
      break;
  }
  return s.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

inline MatmulDescriptor make_product(MatmulShape const& s, MatmulTypes const& types) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, types.compute, types.scale));
  MatmulDescriptor product{raw};
  set(product, CUBLASLT_MATMUL_DESC_TRANSA,
      s.transpose_b == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB,
      s.transpose_a == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
  if (s.bias || s.epilogue == Epilogue::row_sums) {
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types.out);
  }
  if (s.epilogue == Epilogue::saved_gelu || s.epilogue == Epilogue::gelu_gradient) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.n);
  }
  return product;
}

inline PreferenceDescriptor make_preference(MatmulShape const& s, std::int64_t workspace_limit) {
  cublasLtMatmulPreference_t raw = nullptr;
  check(cublasLtMatmulPreferenceCreate(&raw));
  PreferenceDescriptor preference{raw};
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::uint64_t>(workspace_limit));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
      static_cast<std::uint32_t>(s.alignment_b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      static_cast<std::uint32_t>(s.alignment_a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<std::uint32_t>(s.alignment_d));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
      static_cast<std::uint32_t>(s.alignment_d));
  return preference;
}

/// Whether cuBLASLt has an algorithm for the product @p p; then it is the product's.
inline bool find_algorithm(CublasLt const& library, PreparedMatmul& p,
                           PreferenceDescriptor const& preference) {
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasStatus_t const status = cublasLtMatmulAlgoGetHeuristic(
      library.get(), p.product.get(), p.left.get(), p.right.get(), p.out.get(), p.out.get(),
      preference.get(), 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    return false;
  }
  check(status);
  check(result.state);
  p.algorithm = result.algo;
  p.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
  return true;
}

/// Nothing where there is no algorithm for this shape on this device within the limit.
inline std::optional<PreparedMatmul> prepare_matmul(CublasLt const& library, MatmulShape const& s,
                                                    MatmulTypes const& types,
                                                    std::int64_t workspace_limit) {
  bool const ta = s.transpose_a == Transpose::yes;
  bool const tb = s.transpose_b == Transpose::yes;
  PreparedMatmul p{
      make_product(s, types),
      make_layout(types.in, tb ? s.n : s.k, tb ? s.k : s.n, s.ldb, s.groups, s.stride_b),
      make_layout(types.in, ta ? s.k : s.m, ta ? s.m : s.k, s.lda, s.groups, s.stride_a),
      make_layout(types.out, s.m, s.n, s.ldd, s.groups, s.stride_d)};
  if (!find_algorithm(library, p, make_preference(s, workspace_limit))) {
    return std::nullopt;
  }
  return p;
}

inline void run_matmul(CublasLt const& library, PreparedMatmul const& p, Stream const& stream,
                       MatmulPointers const& at, void const* alpha, void const* beta,
                       std::byte* workspace) {
  if (at.vector != nullptr) {
    set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.vector);
  }
  if (at.saved != nullptr) {
    set(p.product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at.saved);
  }
  ScopedDevice const scope{stream.device()};
  check(cublasLtMatmul(library.get(), p.product.get(), alpha, at.left, p.left.get(), at.right,
                       p.right.get(), beta, at.out, p.out.get(), at.out, p.out.get(), &p.algorithm,
                       workspace, static_cast<std::size_t>(p.workspace_bytes), stream.get()));
}

}  // namespace tandem::cuda::detail

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
