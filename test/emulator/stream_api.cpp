// SPDX-License-Identifier: Apache-2.0
// cudaStream*: creation, waiting, host functions. Captures are in capture_api.cpp.

#include "state.hpp"

using namespace cuda_emulator;

namespace {

cudaError_t make_stream(cudaStream_t* stream, unsigned flags, int priority) {
  auto const held = lock();
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return result(cudaErrorInvalidValue);
  }
  if (cudaError_t const status = device_failure(); status != cudaSuccess) {
    return result(status);
  }
  auto made = std::make_shared<CUstream_st>();
  made->device = current_device();
  made->flags = flags;
  made->priority = priority;
  *stream = made.get();
  emulator().streams.emplace(made.get(), std::move(made));
  return result(cudaSuccess);
}

// What every function that waits for a stream checks first.
cudaError_t may_wait(std::shared_ptr<CUstream_st> const& stream) {
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture != nullptr) {
    return break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  return check_no_capture();
}

cudaError_t failure_of(CUstream_st const& stream) {
  auto const found = emulator().failures.find(stream.device);
  return found == emulator().failures.end() ? cudaSuccess : found->second;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return make_stream(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return make_stream(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return make_stream(stream, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return result(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (found == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  *priority = found->priority;
  return result(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (found == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  *flags = found->flags;
  return result(cudaSuccess);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (found == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  *device = found->device;
  return result(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto const held = lock();
  auto const found = emulator().streams.find(stream);
  if (found == emulator().streams.end()) {
    return result(cudaErrorInvalidResourceHandle);
  }
  auto const destroyed = found->second;
  if (destroyed->capture != nullptr) {
    std::erase(destroyed->capture->streams, destroyed.get());
    break_capture(*destroyed->capture, cudaErrorStreamCaptureInvalidated);
  }
  if (!destroyed->items.empty()) {
    emulator().orphans.push_back(destroyed);  // CUDA lets the work finish
  }
  emulator().streams.erase(found);
  return result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto held = lock();
  auto const found = find_stream(stream);
  if (cudaError_t const status = may_wait(found); status != cudaSuccess) {
    return result(status);
  }
  force_all(held, found);
  return result(failure_of(*found));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (cudaError_t const status = may_wait(found); status != cudaSuccess) {
    return result(status);
  }
  if (!found->items.empty() && !advance({found, found->end() - 1})) {
    return result(cudaErrorNotReady);
  }
  host_waited(*found, found->end());
  return result(failure_of(*found));
}

cudaError_t cudaDeviceSynchronize() {
  auto held = lock();
  if (cudaError_t const status = check_no_capture(); status != cudaSuccess) {
    return result(status);
  }
  force_device(held, current_device());
  return result(device_failure());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  // Without the lock, since the function may wait for another thread, as a test's gate does.
  return result(enqueue(stream, "host function", [function, data] {
    auto const held = lock();
    int const levels = held.mutex()->release();
    function(data);
    held.mutex()->acquire(levels);
  }));
}

}  // extern "C"
