// SPDX-License-Identifier: Apache-2.0

/// @file
/// cuBLASLt as the emulator has it: products in column order, groups, three precisions, the
/// epilogues of BIAS, RELU, GELU (by tanh, saved or not), DGELU and BGRADB.
///
/// Stricter than the library: an attribute that it does not know, a pointer less aligned than the
/// preference said and a device that is not current are errors. Deep products are split in two over
/// the workspace, so that one that is too small, or used twice, shows.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <cublasLt.h>

#include "cublaslt_product.hpp"
#include "stream_work.hpp"

struct cublasLtContext {
  int device;
};

namespace {

using namespace cuda_emulator::cublaslt;

struct Preference {
  std::uint64_t workspace;
  std::uint32_t schemes;
  std::uint32_t alignment[4];  // of A, B, C, D
};

template <class Mine, class Opaque>
Mine& as(Opaque* opaque) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  return *reinterpret_cast<Mine*>(opaque);
}
template <class Mine, class Opaque>
Mine const& as(Opaque const* opaque) {
  static_assert(sizeof(Mine) <= sizeof(Opaque));
  return *reinterpret_cast<Mine const*>(opaque);
}

template <class Opaque, class Mine>
cublasStatus_t create(Opaque** to, Mine const& value) {
  if (to == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *to = new Opaque{};
  as<Mine>(*to) = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refuse(cublasStatus_t status, std::string const& text) {
  cuda_emulator::report("cuBLASLt: " + text);
  return status;
}

template <class Value>
cublasStatus_t store(Value& to, void const* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(Value)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of the wrong size");
  }
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// Epilogues are of the types of neural networks; a vector has the type of D. The default is 1.
bool supports_epilogue(Product const& p, Layout const& d) {
  if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT) {
    return true;
  }
  bool const known = p.sums() || p.epilogue == CUBLASLT_EPILOGUE_DGELU ||
                     (p.epilogue & ~CUBLASLT_EPILOGUE_GELU_AUX_BIAS) == 0 ||
                     (p.epilogue & ~CUBLASLT_EPILOGUE_RELU_BIAS) == 0;
  bool const vector = p.sums() || (p.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  bool const aux = !p.has_aux() || (p.aux_distance % 8 == 0 && p.aux_distance >= d.rows);
  bool const type = p.epilogue == CUBLASLT_EPILOGUE_BIAS || d.type != CUDA_R_64F;
  return known && aux && type && d.groups == 1 && (!vector || p.bias_type == d.type);
}

/// What cuBLASLt supports of what is asked here; its manual's table for cublasLtMatmul().
bool supported(Product const& p, Layout const& a, Layout const& b, Layout const& c,
               Layout const& d) {
  bool const types =
      a.type == b.type && c.type == d.type &&
      ((p.compute == CUBLAS_COMPUTE_64F && p.scale == CUDA_R_64F && a.type == CUDA_R_64F &&
        d.type == CUDA_R_64F) ||
       ((p.compute == CUBLAS_COMPUTE_32F || p.compute == CUBLAS_COMPUTE_32F_FAST_TF32) &&
        p.scale == CUDA_R_32F && a.type == CUDA_R_32F && d.type == CUDA_R_32F) ||
       (p.compute == CUBLAS_COMPUTE_32F && p.scale == CUDA_R_32F &&
        (a.type == CUDA_R_16BF || a.type == CUDA_R_16F) &&
        (d.type == a.type || d.type == CUDA_R_32F)));
  return types && supports_epilogue(p, d);
}

/// Sizes that fit each other; sets m, n, k in the order of columns.
bool consistent(Product const& p, Layout const& a, Layout const& b, Layout const& c,
                Layout const& d, std::int64_t& m, std::int64_t& n, std::int64_t& k) {
  bool const ta = p.transpose_a != CUBLAS_OP_N;
  bool const tb = p.transpose_b != CUBLAS_OP_N;
  m = ta ? a.columns : a.rows;
  k = ta ? a.rows : a.columns;
  n = tb ? b.rows : b.columns;
  auto const sound = [](Layout const& l) {
    return l.rows > 0 && l.columns > 0 && l.distance >= l.rows;
  };
  return k == (tb ? b.columns : b.rows) && d.rows == m && d.columns == n && c.rows == m &&
         c.columns == n && a.groups == d.groups && b.groups == d.groups && c.groups == d.groups &&
         sound(a) && sound(b) && sound(c) && sound(d) &&
         (d.groups == 1 || d.stride >= d.rows || d.distance >= d.stride * d.groups);
}

bool misaligned(void const* pointer, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{cuda_emulator::current_device()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

char const* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INVALID_VALUE";
  }
}
char const* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* to, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(to, Product{compute, scale, CUDA_R_32F, CUBLAS_OP_N, CUBLAS_OP_N,
                            CUBLASLT_EPILOGUE_DEFAULT, nullptr, nullptr, 0});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void const* value, std::size_t bytes) {
  auto& p = as<Product>(d);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return store(p.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return store(p.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return store(p.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return store(p.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return store(p.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return store(p.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return store(p.aux_distance, value, bytes);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute of a product not emulated");
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* to, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t distance) {
  return create(to, Layout{type, 1, static_cast<std::int64_t>(rows),
                           static_cast<std::int64_t>(columns), distance, 0});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void const* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return store(as<Layout>(layout).groups, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return store(as<Layout>(layout).stride, value, bytes);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute of a layout not emulated");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* to) {
  return create(to, Preference{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value, std::size_t bytes) {
  auto& p = as<Preference>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return store(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return store(p.schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return store(p.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return store(p.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return store(p.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return store(p.alignment[3], value, bytes);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an attribute of a preference not emulated");
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  auto const& product = as<Product>(operation);
  auto const& p = as<Preference>(preference);
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  *found = 0;
  if (wanted < 1 ||
      !consistent(product, as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d), m, n, k)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a heuristic for matrices that do not fit");
  }
  if (!supported(product, as<Layout>(a), as<Layout>(b), as<Layout>(c), as<Layout>(d))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Algorithm algorithm{0, 1, 0, {}, magic};
  std::copy(p.alignment, p.alignment + 4, algorithm.alignment);
  std::uint64_t const bytes = 2 * static_cast<std::uint64_t>(m * n * as<Layout>(d).groups) *
                              static_cast<std::uint64_t>(size_of(product.scale));
  if (k >= 256 && bytes <= p.workspace && p.schemes != 0) {
    algorithm.workspace = bytes;
    algorithm.splits = 2;
    algorithm.scheme = p.schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    if (algorithm.scheme == 0) {
      algorithm.scheme = p.schemes;
    }
  }
  results[0] = {};
  as<Algorithm>(&results[0].algo) = algorithm;
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              void const* alpha, void const* at_a, cublasLtMatrixLayout_t a,
                              void const* at_b, cublasLtMatrixLayout_t b, void const* beta,
                              void const* at_c, cublasLtMatrixLayout_t c, void* at_d,
                              cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  Job job{as<Product>(operation),
          as<Layout>(a),
          as<Layout>(b),
          as<Layout>(c),
          as<Layout>(d),
          0,
          0,
          0,
          at_a,
          at_b,
          at_c,
          at_d,
          0.0,
          0.0,
          workspace,
          {}};
  if (!consistent(job.product, job.a, job.b, job.c, job.d, job.m, job.n, job.k)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a product of matrices that do not fit");
  }
  if (algorithm == nullptr || as<Algorithm>(algorithm).magic != magic) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm that no heuristic gave");
  }
  job.algorithm = as<Algorithm>(algorithm);
  int const device = cuda_emulator::device_of(stream);
  if (device != cuda_emulator::current_device() || device != handle->device) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "the stream's device is not current");
  }
  std::uint32_t const* const least = job.algorithm.alignment;
  if (misaligned(at_a, least[0]) || misaligned(at_b, least[1]) || misaligned(at_c, least[2]) ||
      misaligned(at_d, least[3])) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a pointer less aligned than was announced");
  }
  if (workspace_bytes < job.algorithm.workspace ||
      (job.algorithm.workspace > 0 && misaligned(workspace, 256))) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a workspace too small or not aligned");
  }
  auto const reachable = [&](void const* pointer, Layout const& l) {
    return cuda_emulator::device_can_access(
        pointer, static_cast<std::size_t>(extent(l) * size_of(l.type)), device);
  };
  Product const& product = job.product;
  bool const vector = product.sums() || product.has(CUBLASLT_EPILOGUE_BIAS);
  std::int64_t const length = product.sums() ? job.n : job.m;
  Layout const aux{job.d.type, 1, job.m, job.n, product.aux_distance, 0};
  if (product.has_aux() && (product.aux == nullptr || misaligned(product.aux, 16))) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "what GELU saves is nowhere, or not aligned");
  }
  if (!reachable(at_a, job.a) || !reachable(at_b, job.b) || !reachable(at_c, job.c) ||
      !reachable(at_d, job.d) ||
      !cuda_emulator::device_can_access(workspace, job.algorithm.workspace, device) ||
      (vector && !reachable(product.bias, {product.bias_type, 1, length, 1, length, 0})) ||
      (product.has_aux() && !reachable(product.aux, aux))) {
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "a matrix that is not in the device's memory");
  }
  bool const wide = job.product.scale == CUDA_R_64F;
  job.alpha = wide ? *static_cast<double const*>(alpha) : *static_cast<float const*>(alpha);
  job.beta = wide ? *static_cast<double const*>(beta) : *static_cast<float const*>(beta);
  auto const operand = [](void const* pointer, Layout const& l, bool writes) {
    return cuda_emulator::Access{pointer, static_cast<std::size_t>(extent(l) * size_of(l.type)),
                                 writes};
  };
  std::vector<cuda_emulator::Access> const accesses{operand(at_a, job.a, false),
                                                    operand(at_b, job.b, false),
                                                    operand(at_c, job.c, false),
                                                    operand(at_d, job.d, true),
                                                    {workspace, job.algorithm.workspace, true}};
  auto const bytes_of = [](Layout const& l) {
    return l.rows * l.columns * std::max(l.groups, 1) * size_of(l.type);
  };
  std::int64_t const bytes =
      bytes_of(job.a) + bytes_of(job.b) + bytes_of(job.d) + (job.beta != 0 ? bytes_of(job.c) : 0) +
      (vector ? length * size_of(product.bias_type) : 0) + (product.has_aux() ? bytes_of(aux) : 0);
  cudaError_t const queued = cuda_emulator::enqueue_computation(
      stream, "cublasLtMatmul",
      [job] {
        cuda_emulator::poison(job.workspace, job.algorithm.workspace);
        if (job.product.scale == CUDA_R_64F) {
          multiply<double>(job);
        } else {
          multiply<float>(job);
        }
        cuda_emulator::poison(job.workspace, job.algorithm.workspace);
      },
      bytes, accesses);
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
