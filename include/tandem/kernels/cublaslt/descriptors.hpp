// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What Matmul tells cuBLASLt: descriptors of one product, and the algorithm that it chose.

#include <cstddef>
#include <cstdint>
#include <optional>

#include <cublasLt.h>

#include <tandem/core/unique_handle.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cublaslt/matmul_shape.hpp>
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
