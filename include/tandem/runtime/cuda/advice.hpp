// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// sentence(): what a CUDA error means and what to do about it.
///
/// Asks CUDA for the versions and the GPU that the sentence names; every other code keeps the text
/// that CUDA has for it.

#include <string>

#include <cuda_runtime_api.h>

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

}  // namespace tandem::cuda
