// SPDX-License-Identifier: Apache-2.0
// Allocation while the host waits: cudaMalloc and pinned host memory.

#include <algorithm>

#include "memory.hpp"
#include "state.hpp"

namespace cuda_emulator {

Allocation* allocate_or_drain(Kind kind, std::size_t bytes, int device, void const* pool) {
  if (Allocation* const made = allocate(kind, bytes, device, pool)) {
    return made;
  }
  auto const all = emulator().streams;
  for (auto const& [handle, stream] : all) {
    if (stream->device == device && !stream->items.empty()) {
      advance({stream, stream->end() - 1});
    }
  }
  return allocate(kind, bytes, device, pool);
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

namespace {

// Makes an allocation while the host waits; allocating may wait for the device.
cudaError_t allocate_now(void** pointer, Kind kind, std::size_t bytes) {
  if (pointer == nullptr) {
    return cudaErrorInvalidValue;
  }
  *pointer = nullptr;
  if (cudaError_t const status = check_no_capture(); status != cudaSuccess) {
    return status;
  }
  if (cudaError_t const status = device_failure(); status != cudaSuccess) {
    return status;
  }
  if (bytes == 0) {
    return cudaSuccess;
  }
  Allocation const* const made = allocate_or_drain(kind, bytes, current_device(), nullptr);
  if (made == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  *pointer = made->begin;
  return cudaSuccess;
}

// cudaFree and cudaFreeHost wait for the device before memory goes away.
cudaError_t free_now(void* pointer, bool host) {
  auto held = lock();
  if (pointer == nullptr) {
    return cudaSuccess;
  }
  if (cudaError_t const status = check_no_capture(); status != cudaSuccess) {
    return status;
  }
  Allocation const* const a = find_allocation(pointer, 0);
  if (a == nullptr || a->begin != pointer || a->leaving ||
      a->kind != (host ? Kind::pinned : Kind::device)) {
    report("a free of memory " + std::string{describe_foreign(pointer)});
    return cudaErrorInvalidValue;
  }
  force_device(held, a->device);
  note_host_access(host ? "cudaFreeHost" : "cudaFree", a->device, {a->begin, a->bytes, true});
  release(pointer);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  auto const held = lock();
  return result(allocate_now(pointer, Kind::device, bytes));
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  auto const held = lock();
  return result(allocate_now(pointer, Kind::pinned, bytes));
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFree(void* pointer) { return result(free_now(pointer, false)); }

cudaError_t cudaFreeHost(void* pointer) { return result(free_now(pointer, true)); }

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  auto const held = lock();
  if (pointer == nullptr || bytes == 0) {
    return result(cudaErrorInvalidValue);
  }
  return result(register_host(pointer, bytes, current_device()) != nullptr
                    ? cudaSuccess
                    : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  auto held = lock();
  Allocation const* const a = find_allocation(pointer, 0);
  if (a == nullptr || a->begin != pointer || a->kind != Kind::registered) {
    return result(cudaErrorHostMemoryNotRegistered);
  }
  force_device(held, a->device);
  release(pointer);
  return result(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  auto const held = lock();
  *total = memory_limit();
  *available = *total - std::min(*total, used_bytes(current_device()));
  return result(cudaSuccess);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  auto const held = lock();
  Allocation const* const a = find_allocation(pointer, 1);
  *attributes = {};
  attributes->device = a == nullptr ? cudaInvalidDeviceId : a->device;
  if (a == nullptr) {
    attributes->type = cudaMemoryTypeUnregistered;
  } else if (a->kind == Kind::device) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  } else {
    attributes->type = cudaMemoryTypeHost;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return result(cudaSuccess);
}

}  // extern "C"
