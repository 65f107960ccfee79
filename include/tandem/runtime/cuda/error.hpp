// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CudaError and check(): every call of the CUDA runtime goes through one of them.
///
/// check() is a function, so its argument runs once; it throws with the place of its caller. Errors
/// of the machine (no driver, no such GPU, code for another GPU) become a sentence that says what
/// to do, with the versions and the GPU that CUDA names. Every other code keeps CUDA's own text.

#include <cstdio>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::cuda {

namespace detail {

/// 13020 -> "13.2", as cudaRuntimeGetVersion() counts.
inline std::string version_name(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

inline std::string driver_sentence() {
  int driver = 0;
  int runtime = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "no NVIDIA driver is installed on this machine; install one, or use the backend Host";
  }
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  return "the NVIDIA driver is too old: it supports CUDA " + version_name(driver) +
         " and this program was compiled with CUDA " + version_name(runtime) +
         "; install a newer driver, or compile with an older CUDA Toolkit";
}

inline std::string architecture_sentence() {
  int ordinal = 0;
  int major = 0;
  int minor = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal) != cudaSuccess) {
    return "this program has no code for this GPU; compile it with nvcc -arch=native";
  }
  std::string const architecture = std::to_string(major) + std::to_string(minor);
  return "this program has no code for GPU " + std::to_string(ordinal) +
         "; compile it with nvcc -arch=sm_" + architecture +
         " (with CMake: CMAKE_CUDA_ARCHITECTURES=" + architecture + ")";
}

}  // namespace detail

/// One sentence without a full stop. Leaves CUDA's record of the last error as it may be.
inline std::string sentence(cudaError_t code) {
  switch (code) {
    case cudaErrorInsufficientDriver:
      return detail::driver_sentence();
    case cudaErrorStubLibrary:
      return "the program runs against the stub of the NVIDIA driver; take the CUDA Toolkit's "
             "stubs folder out of LD_LIBRARY_PATH";
    case cudaErrorNoDevice:
      return "this machine has no NVIDIA GPU that this program may use; look at nvidia-smi and at "
             "CUDA_VISIBLE_DEVICES, or use the backend Host";
    case cudaErrorInvalidDevice:
      return "there is no such GPU; look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case cudaErrorDevicesUnavailable:
      return "the GPU is in use by another process, or its mode is exclusive; look at nvidia-smi";
    case cudaErrorSystemNotReady:
      return "the GPUs are not ready: start the NVIDIA fabric manager (the service "
             "nvidia-fabricmanager)";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      return detail::architecture_sentence();
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return std::string{cudaGetErrorString(code)} +
             ": a kernel that was queued earlier has failed; run the program in compute-sanitizer "
             "to see which";
    default:
      return cudaGetErrorString(code);
  }
}

/// A call of the CUDA runtime failed.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, char const* file, int line)
      : Error{message(code, file, line)}, code_{code} {}

  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// As in CUDA's documentation, such as "cudaErrorInvalidValue".
  [[nodiscard]] char const* name() const noexcept { return cudaGetErrorName(code_); }

 private:
  static std::string message(cudaError_t code, char const* file, int line) {
    return sentence(code) + " (" + cudaGetErrorName(code) + ", " + file + ":" +
           std::to_string(line) + ")";
  }

  cudaError_t code_;
};

namespace detail {

[[noreturn]] TANDEM_NOINLINE inline void fail(cudaError_t code, char const* file, int line) {
  static_cast<void>(cudaGetLastError());  // it is reported here; leave none for a later check
  throw CudaError{code, file, line};
}

}  // namespace detail

/// @throws CudaError  @p status is no success; CUDA's own record of the last error is cleared
inline void check(cudaError_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != cudaSuccess) {
    detail::fail(status, file, line);
  }
}

/// check() for destructors: a line on the error stream instead of an exception.
///
/// Says nothing while an exception unwinds the stack, which is then the error worth reading, and
/// nothing at the end of the program, when CUDA has already freed everything.
inline void report(cudaError_t status, char const* file = __builtin_FILE(),
                   int line = __builtin_LINE()) noexcept {
  if (status == cudaSuccess) {
    return;
  }
  static_cast<void>(cudaGetLastError());
  if (status != cudaErrorCudartUnloading && std::uncaught_exceptions() == 0) {
    char text[512];
    int const length =
        std::snprintf(text, sizeof text, "tandem: %s (%s, %s:%d)\n", cudaGetErrorString(status),
                      cudaGetErrorName(status), file, line);
    if (length > 0) {
      std::fputs(text, stderr);
    }
  }
}

}  // namespace tandem::cuda
