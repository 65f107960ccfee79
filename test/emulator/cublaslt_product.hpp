// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of the emulator's cuBLASLt: a product of matrices in column order, in groups, its
/// depth in one piece or in pieces that are added over the workspace; and its epilogues.

#include <cstdint>
#include <vector>

#include <cublasLt.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/kernels/functors/activations.hpp>
#include <tandem/kernels/host/gemm.hpp>
#include <tandem/runtime/host/team.hpp>

#include "tf32.hpp"

namespace cuda_emulator::cublaslt {

struct Layout {
  cudaDataType_t type;
  std::int32_t groups;
  std::int64_t rows, columns, distance, stride;
};

struct Product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cudaDataType_t bias_type;
  cublasOperation_t transpose_a, transpose_b;
  cublasLtEpilogue_t epilogue;
  void* bias;  // read, or the sums of B's columns
  void* aux;   // what GELU is applied to
  std::int64_t aux_distance;

  [[nodiscard]] bool has(cublasLtEpilogue_t part) const { return (epilogue & part) == part; }
  [[nodiscard]] bool sums() const { return epilogue == CUBLASLT_EPILOGUE_BGRADB; }
  [[nodiscard]] bool has_aux() const { return (epilogue & 128) != 0; }
};

struct Algorithm {
  std::uint64_t workspace;
  std::uint32_t splits;
  std::uint32_t scheme;
  std::uint32_t alignment[4];
  std::uint64_t magic;
};
inline constexpr std::uint64_t magic = 0x74616e64656d;

inline std::int64_t size_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/// Elements from the first to one past the last of all groups.
inline std::int64_t extent(Layout const& l) {
  if (l.rows == 0 || l.columns == 0 || l.groups == 0) {
    return 0;
  }
  return (l.groups - 1) * l.stride + (l.columns - 1) * l.distance + l.rows;
}

template <class C>
C read(void const* from, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<C>(static_cast<double const*>(from)[i]);
    case CUDA_R_32F:
      return static_cast<C>(static_cast<float const*>(from)[i]);
    case CUDA_R_16F:
      return static_cast<C>(static_cast<float>(static_cast<tandem::Float16 const*>(from)[i]));
    default:
      return static_cast<C>(static_cast<float>(static_cast<tandem::BFloat16 const*>(from)[i]));
  }
}
template <class C>
void write(void* to, cudaDataType_t type, std::int64_t i, C value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(to)[i] = static_cast<double>(value);
      return;
    case CUDA_R_32F:
      static_cast<float*>(to)[i] = static_cast<float>(value);
      return;
    case CUDA_R_16F:
      static_cast<tandem::Float16*>(to)[i] = tandem::Float16{static_cast<float>(value)};
      return;
    default:
      static_cast<tandem::BFloat16*>(to)[i] = tandem::BFloat16{static_cast<float>(value)};
  }
}

struct Job {
  Product product;
  Layout a, b, c, d;
  std::int64_t m, n, k;
  void const* at_a;
  void const* at_b;
  void const* at_c;
  void* at_d;
  double alpha, beta;
  void* workspace;
  Algorithm algorithm;
};

/// op(X) of one group, dense in the order of columns.
template <class C>
std::vector<C> dense(void const* x, Layout const& l, bool transpose, int group, bool tf32) {
  std::vector<C> result(static_cast<std::size_t>(l.rows * l.columns));
  for (std::int64_t j = 0; j < l.columns; ++j) {
    for (std::int64_t i = 0; i < l.rows; ++i) {
      C value = read<C>(x, l.type, group * l.stride + j * l.distance + i);
      if (tf32) {
        value = static_cast<C>(rounded_to_tf32(static_cast<float>(value)));
      }
      result[static_cast<std::size_t>(transpose ? i * l.columns + j : j * l.rows + i)] = value;
    }
  }
  return result;
}

/// What the epilogue makes of an element, and what it saves.
template <class C>
C activated(Job const& job, std::int64_t i, std::int64_t j, C value) {
  std::int64_t const at = j * job.product.aux_distance + i;
  if (job.product.epilogue == CUBLASLT_EPILOGUE_DGELU) {
    return tandem::GeluTanhFunction::gradient(read<C>(job.product.aux, job.d.type, at), value);
  }
  if (job.product.has_aux()) {
    write(job.product.aux, job.d.type, at, value);
  }
  if (job.product.has(CUBLASLT_EPILOGUE_GELU)) {
    return tandem::GeluTanhFunction::value(value);
  }
  return job.product.has(CUBLASLT_EPILOGUE_RELU) && value < C{0} ? C{0} : value;
}

template <class C>
void multiply(Job const& job) {
  static tandem::host::Team team{1};
  static std::vector<C> scratch(static_cast<std::size_t>(tandem::host::gemm_scratch<C>(1)));
  bool const tf32 = job.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  auto const m = static_cast<int>(job.m);
  auto const n = static_cast<int>(job.n);
  auto const k = static_cast<int>(job.k);
  std::int64_t const size = job.m * job.n;
  for (int g = 0; g < job.d.groups; ++g) {
    std::vector<C> const a =
        dense<C>(job.at_a, job.a, job.product.transpose_a != CUBLAS_OP_N, g, tf32);
    std::vector<C> const b =
        dense<C>(job.at_b, job.b, job.product.transpose_b != CUBLAS_OP_N, g, tf32);
    std::vector<C> sum(static_cast<std::size_t>(size));
    auto const splits = static_cast<int>(job.algorithm.splits);
    auto* const partial = splits > 1 ? static_cast<C*>(job.workspace) + g * splits * size : nullptr;
    for (int s = 0; s < splits; ++s) {
      int const first = k * s / splits;
      C* const to = splits > 1 ? partial + s * size : sum.data();
      tandem::host::gemm(team, tandem::host::Transpose::no, tandem::host::Transpose::no, n, m,
                         k * (s + 1) / splits - first, b.data() + first, k,
                         a.data() + std::int64_t{first} * m, m, to, m, false, scratch.data());
    }
    for (int s = 0; s < splits && splits > 1; ++s) {
      for (std::int64_t i = 0; i < size; ++i) {
        C term = partial[s * size + i];
        if (job.algorithm.scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
          std::uint64_t place[1] = {};
          write(place, job.d.type, 0, term);  // as the schemes that add in the type of D
          term = read<C>(place, job.d.type, 0);
        }
        sum[static_cast<std::size_t>(i)] += term;
      }
    }
    for (std::int64_t j = 0; j < job.n && job.product.sums(); ++j) {
      C total{};
      for (std::int64_t p = 0; p < job.k; ++p) {
        total += b[static_cast<std::size_t>(j * job.k + p)];
      }
      write(job.product.bias, job.product.bias_type, j, total);
    }
    for (std::int64_t j = 0; j < job.n; ++j) {
      for (std::int64_t i = 0; i < job.m; ++i) {
        C value = static_cast<C>(job.alpha) * sum[static_cast<std::size_t>(j * job.m + i)];
        if (job.beta != 0.0) {
          value += static_cast<C>(job.beta) *
                   read<C>(job.at_c, job.c.type, g * job.c.stride + j * job.c.distance + i);
        }
        if (job.product.has(CUBLASLT_EPILOGUE_BIAS)) {
          value += read<C>(job.product.bias, job.product.bias_type, i);
        }
        value = activated(job, i, j, value);
        write(job.at_d, job.d.type, g * job.d.stride + j * job.d.distance + i, value);
      }
    }
  }
}

}  // namespace cuda_emulator::cublaslt
