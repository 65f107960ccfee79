// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CublasLt: a handle of NVIDIA's matrix library, and check() for its statuses.
///
/// Host API only, so any C++20 compiler takes this header.

#include <string>

#include <cublasLt.h>

#include <tandem/core/error.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>

namespace tandem::cuda {

/// cuBLASLt refused a call.
class CublasLtError : public Error {
 public:
  CublasLtError(cublasStatus_t code, std::string const& what) : Error{what}, code_{code} {}

  [[nodiscard]] cublasStatus_t code() const noexcept { return code_; }

 private:
  cublasStatus_t code_;
};

namespace detail {

constexpr char const* cublaslt_advice(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "check that the driver is as new as the CUDA Toolkit and that the GPU has free memory";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "give the GPU more free memory, or train with smaller microbatches";
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "this GPU lacks what this precision needs; train in Fp32";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "an earlier kernel may have failed; run again under compute-sanitizer";
    default:
      return "this is a mistake in tandem, please report it";
  }
}

}  // namespace detail

/// @throws CublasLtError  @p status is not success; the message names the call's place
inline void check(cublasStatus_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw CublasLtError{status, std::string{"cuBLASLt: "} + cublasLtGetStatusName(status) + ": " +
                                    detail::cublaslt_advice(status) + " (" + file + ":" +
                                    std::to_string(line) + ")"};
  }
}

/// The library's state on one device; RankDevice::library<CublasLt>() makes it when first wanted.
class CublasLt {
 public:
  /// @throws CublasLtError  the device has no memory left for it
  explicit CublasLt(Device device) : handle_{make(device)} {}

  [[nodiscard]] cublasLtHandle_t get() const noexcept { return handle_.get(); }

 private:
  static cublasLtHandle_t make(Device device) {
    ScopedDevice const scope{device};
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle));
    return handle;
  }

  UniqueHandle<cublasLtHandle_t, cublasLtDestroy> handle_;
};

}  // namespace tandem::cuda
