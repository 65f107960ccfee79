// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What Matmul tells cuBLASLt: descriptors of one product, and the algorithm that it chose.

#include <cstddef>
#include <cstdint>
#include <string>

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
  void const* bias;
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

inline MatmulDescriptor make_product(MatmulShape const& s, MatmulTypes const& types) {
  cublasLtMatmulDesc_t raw = nullptr;
  check(cublasLtMatmulDescCreate(&raw, types.compute, types.scale));
  MatmulDescriptor product{raw};
  set(product, CUBLASLT_MATMUL_DESC_TRANSA,
      s.transpose_b == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB,
      s.transpose_a == Transpose::yes ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (s.bias) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, types.out);
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

/// @throws CublasLtError  no algorithm for this shape on this device within the limit
inline PreparedMatmul prepare_matmul(CublasLt const& library, MatmulShape const& s,
                                     MatmulTypes const& types, std::int64_t workspace_limit) {
  bool const ta = s.transpose_a == Transpose::yes;
  bool const tb = s.transpose_b == Transpose::yes;
  PreparedMatmul p{
      make_product(s, types),
      make_layout(types.in, tb ? s.n : s.k, tb ? s.k : s.n, s.ldb, s.groups, s.stride_b),
      make_layout(types.in, ta ? s.k : s.m, ta ? s.m : s.k, s.lda, s.groups, s.stride_a),
      make_layout(types.out, s.m, s.n, s.ldd, s.groups, s.stride_d)};
  PreferenceDescriptor const preference = make_preference(s, workspace_limit);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasStatus_t const status = cublasLtMatmulAlgoGetHeuristic(
      library.get(), p.product.get(), p.left.get(), p.right.get(), p.out.get(), p.out.get(),
      preference.get(), 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    throw CublasLtError{
        CUBLAS_STATUS_NOT_SUPPORTED,
        "cuBLASLt has no algorithm for the product " + to_string(s) +
            " in this precision on this GPU; train in Fp32, or with a smaller batch"};
  }
  check(status);
  check(result.state);
  p.algorithm = result.algo;
  p.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
  return p;
}

inline void run_matmul(CublasLt const& library, PreparedMatmul const& p, Stream const& stream,
                       MatmulPointers const& at, void const* alpha, void const* beta,
                       std::byte* workspace) {
  if (at.bias != nullptr) {
    set(p.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
  }
  ScopedDevice const scope{stream.device()};
  check(cublasLtMatmul(library.get(), p.product.get(), alpha, at.left, p.left.get(), at.right,
                       p.right.get(), beta, at.out, p.out.get(), at.out, p.out.get(), &p.algorithm,
                       workspace, static_cast<std::size_t>(p.workspace_bytes), stream.get()));
}

}  // namespace tandem::cuda::detail
