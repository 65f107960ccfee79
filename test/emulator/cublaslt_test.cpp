// SPDX-License-Identifier: Apache-2.0

/// @file
/// The emulated cuBLASLt refuses what the library would refuse, or would get wrong in silence.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "control.hpp"

namespace {

/// A product of float matrices in column order on device 0, and what a test may spoil of it.
struct Product {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t result{};
  cudaStream_t stream = nullptr;
  float* memory = nullptr;

  Product(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, m, k, static_cast<std::int64_t>(m));
    cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, k, n, static_cast<std::int64_t>(k));
    cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, m, n, static_cast<std::int64_t>(m));
    cublasLtMatmulPreferenceCreate(&preference);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&memory), 1 << 20);
    cudaMemset(memory, 0, 1 << 20);
    cuda_emulator::set_quiet(true);
  }
  Product(Product const&) = delete;
  Product& operator=(Product const&) = delete;
  ~Product() {
    cudaStreamSynchronize(stream);
    cuda_emulator::clear_errors();
    cuda_emulator::set_quiet(false);
    cudaFree(memory);
    cudaStreamDestroy(stream);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatmulDescDestroy(operation);
    cublasLtDestroy(handle);
  }

  void allow(std::uint64_t workspace) {
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace, sizeof workspace);
  }
  cublasStatus_t choose() {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, d, d, preference, 1, &result,
                                          &found);
  }
  cublasStatus_t run(float const* at_a, float* at_d, std::size_t workspace) {
    float const one = 1.0F;
    float const zero = 0.0F;
    return cublasLtMatmul(handle, operation, &one, at_a, a, memory + 4096, b, &zero, at_d, d, at_d,
                          d, &result.algo, memory + 32768, workspace, stream);
  }
};

bool reported(char const* text) {
  return cuda_emulator::last_report().find(text) != std::string::npos;
}

TEST_CASE("cuBLASLt: a sound product runs") {
  Product p{4, 4, 4};
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(p.result.workspaceSize == 0);
  CHECK(p.run(p.memory, p.memory + 8192, 0) == CUBLAS_STATUS_SUCCESS);
  std::vector<float> d(16, 1.0F);
  cudaStreamSynchronize(p.stream);
  cudaMemcpy(d.data(), p.memory + 8192, 64, cudaMemcpyDeviceToHost);
  CHECK(d == std::vector<float>(16, 0.0F));
}

TEST_CASE("cuBLASLt: matrices that do not fit, and types that are not supported") {
  Product p{4, 4, 4};
  std::swap(p.a, p.d);
  CHECK(p.choose() == CUBLAS_STATUS_SUCCESS);
  cublasLtMatrixLayout_t odd = nullptr;
  cublasLtMatrixLayoutCreate(&odd, CUDA_R_32F, 4, 5, 4);
  std::swap(p.a, odd);
  CHECK(p.choose() == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(reported("do not fit"));
  std::swap(p.a, odd);
  cublasLtMatrixLayoutDestroy(odd);
  cublasLtMatrixLayoutCreate(&odd, CUDA_R_64F, 4, 4, 4);
  std::swap(p.b, odd);
  CHECK(p.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  std::swap(p.b, odd);
  cublasLtMatrixLayoutDestroy(odd);
}

TEST_CASE("cuBLASLt: a pointer less aligned than the preference said") {
  Product p{4, 4, 4};  // the preference says 256 where nothing is said
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(p.run(p.memory + 4, p.memory + 8192, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(reported("less aligned"));
}

TEST_CASE("cuBLASLt: a workspace smaller than the algorithm's") {
  Product p{4, 4, 512};
  p.allow(1 << 16);
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(p.result.workspaceSize > 0);
  CHECK(p.run(p.memory, p.memory + 8192, p.result.workspaceSize - 1) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(reported("workspace"));
  CHECK(p.run(p.memory, p.memory + 8192, p.result.workspaceSize) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("cuBLASLt: what GELU saves has rows of multiples of 8, somewhere") {
  Product p{8, 4, 4};
  auto const set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return cublasLtMatmulDescSetAttribute(p.operation, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX);
  for (std::int64_t const distance : {0, 4, 12}) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, distance);
    CHECK(p.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{16});
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(p.run(p.memory, p.memory + 8192, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(reported("what GELU saves"));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(p.memory + 16384));
  CHECK(p.run(p.memory, p.memory + 8192, 0) == CUBLAS_STATUS_SUCCESS);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);  // a vector of another type
  set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  CHECK(p.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("cuBLASLt: memory of the host, an algorithm from nowhere, unknown attributes") {
  Product p{4, 4, 4};
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  alignas(256) static float host[16] = {};
  CHECK(p.run(host, p.memory + 8192, 0) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(reported("not in the device's memory"));
  p.result.algo = {};
  CHECK(p.run(p.memory, p.memory + 8192, 0) == CUBLAS_STATUS_INVALID_VALUE);
  std::int8_t const fast = 1;
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, 1) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &fast, 1) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("cuBLASLt: a stream whose device is not current") {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  REQUIRE(devices >= 2);
  Product p{4, 4, 4};
  REQUIRE(p.choose() == CUBLAS_STATUS_SUCCESS);
  cudaSetDevice(1);
  CHECK(p.run(p.memory, p.memory + 8192, 0) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(reported("not current"));
  cudaSetDevice(0);
}

}  // namespace
