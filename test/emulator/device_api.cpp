// SPDX-License-Identifier: Apache-2.0
// Devices, versions and errors: each GPU looks like an H100 with little memory.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "memory.hpp"
#include "state.hpp"

namespace cuda_emulator {
namespace {

thread_local int current = 0;
thread_local cudaError_t last_error = cudaSuccess;

struct Named {
  cudaError_t code;
  char const* name;
  char const* text;
};

#define CUDA_EMULATOR_ERROR(code, text) \
  { code, #code, text }
constexpr Named errors[] = {
    CUDA_EMULATOR_ERROR(cudaSuccess, "no error"),
    CUDA_EMULATOR_ERROR(cudaErrorInvalidValue, "invalid argument"),
    CUDA_EMULATOR_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    CUDA_EMULATOR_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    CUDA_EMULATOR_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    CUDA_EMULATOR_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    CUDA_EMULATOR_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    CUDA_EMULATOR_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    CUDA_EMULATOR_ERROR(cudaErrorIllegalState,
                        "the operation cannot be performed in the present state"),
    CUDA_EMULATOR_ERROR(cudaErrorNotReady, "device not ready"),
    CUDA_EMULATOR_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    CUDA_EMULATOR_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                        "part or all of the requested memory range is already mapped"),
    CUDA_EMULATOR_ERROR(cudaErrorHostMemoryNotRegistered,
                        "pointer does not correspond to a registered memory region"),
    CUDA_EMULATOR_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    CUDA_EMULATOR_ERROR(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    CUDA_EMULATOR_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    CUDA_EMULATOR_ERROR(cudaErrorNotSupported, "operation not supported"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureUnsupported,
                        "operation not permitted when stream is capturing"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureInvalidated,
                        "operation failed due to a previous error during capture"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureMerge,
                        "operation would result in a merge of separate capture sequences"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureUnmatched,
                        "capture was not ended in the same stream as it began"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureIsolation,
                        "dependency created on uncaptured work in another stream"),
    CUDA_EMULATOR_ERROR(
        cudaErrorStreamCaptureImplicit,
        "operation would make the legacy stream depend on a capturing blocking stream"),
    CUDA_EMULATOR_ERROR(cudaErrorCapturedEvent,
                        "operation not permitted on an event last recorded in a capturing stream"),
    CUDA_EMULATOR_ERROR(cudaErrorStreamCaptureWrongThread,
                        "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef CUDA_EMULATOR_ERROR

Named const* find_error(cudaError_t code) {
  for (Named const& error : errors) {
    if (error.code == code) {
      return &error;
    }
  }
  return nullptr;
}

int attribute_of(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return 232448;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return 233472;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return 1024;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrMultiProcessorCount:
      return 132;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrL2CacheSize:
      return 50 << 20;
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 5120;
    case cudaDevAttrMemoryClockRate:
      return 2619000;
    case cudaDevAttrClockRate:
      return 1980000;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrStreamPrioritiesSupported:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

int device_count() {
  static int const count = [] {
    char const* const text = std::getenv("EMULATED_GPUS");
    return text != nullptr ? std::atoi(text) : 4;
  }();
  return count;
}

int current_device() { return current; }

cudaError_t result(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) {
    last_error = status;
  }
  return status;
}

bool is_peer(int device, int other) { return emulator().peers && device != other; }

bool reaches(int device, Allocation const& allocation) {
  return allocation.kind != Kind::device || allocation.device == device ||
         (allocation.pool != nullptr
              ? pool_is_open_to(device, allocation.pool)
              : emulator().peer_access.count({device, allocation.device}) != 0);
}

cudaError_t device_failure() {
  auto const found = emulator().failures.find(current);
  return found == emulator().failures.end() ? cudaSuccess : found->second;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return result(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return result(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  current = device;
  return result(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  *value = attribute_of(attribute);
  return result(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  auto const held = lock();
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU");
  properties->totalGlobalMem = memory_limit();
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = 232448;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->multiProcessorCount = 132;
  properties->major = 9;
  properties->unifiedAddressing = 1;
  properties->l2CacheSize = 50 << 20;
  return result(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
  auto const held = lock();
  bool const valid = device >= 0 && device < device_count() && peer >= 0 && peer < device_count();
  if (!valid) {
    return result(cudaErrorInvalidDevice);
  }
  *possible = is_peer(device, peer) ? 1 : 0;
  return result(cudaSuccess);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  auto const held = lock();
  if (flags != 0) {
    return result(cudaErrorInvalidValue);
  }
  if (peer < 0 || peer >= device_count() || !is_peer(current, peer)) {
    return result(cudaErrorInvalidDevice);
  }
  bool const added = emulator().peer_access.emplace(current, peer).second;
  return result(added ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  auto const held = lock();
  bool const was = emulator().peer_access.erase({current, peer}) == 1;
  return result(was ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  return result(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return result(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return result(cudaSuccess);
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return last_error; }

char const* cudaGetErrorName(cudaError_t code) {
  Named const* const found = find_error(code);
  return found != nullptr ? found->name : "cudaErrorUnknown";
}

char const* cudaGetErrorString(cudaError_t code) {
  Named const* const found = find_error(code);
  return found != nullptr ? found->text : "unknown error";
}

}  // extern "C"
