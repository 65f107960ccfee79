// SPDX-License-Identifier: Apache-2.0
// cudaMemcpy* and cudaMemset*: checked against the allocations, in stream order.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "memory.hpp"
#include "state.hpp"

using namespace cuda_emulator;

namespace {

// One side of a copy: `rows` rows of `width` bytes, `pitch` apart.
struct Area {
  void const* data;
  std::size_t pitch;
};

struct Copy {
  Area to;
  Area from;
  std::size_t width;
  std::size_t rows;

  [[nodiscard]] bool empty() const { return width == 0 || rows == 0; }
  [[nodiscard]] std::size_t span(Area const& area) const { return (rows - 1) * area.pitch + width; }

  // The first rows stand for the others.
  [[nodiscard]] std::vector<Access> accesses() const {
    std::vector<Access> all;
    for (std::size_t row = 0; row < std::min<std::size_t>(rows, 16); ++row) {
      all.push_back({static_cast<std::byte const*>(from.data) + row * from.pitch, width, false});
      all.push_back({static_cast<std::byte const*>(to.data) + row * to.pitch, width, true});
    }
    return all;
  }

  void run() const {
    auto* target = static_cast<std::byte*>(const_cast<void*>(to.data));
    auto const* source = static_cast<std::byte const*>(from.data);
    for (std::size_t row = 0; row < rows; ++row) {
      std::memmove(target + row * to.pitch, source + row * from.pitch, width);
    }
  }
};

enum class Side : unsigned char { device, pinned, host, bad };

Side side_of(Copy const& copy, Area const& area) {
  Allocation const* const a = find_allocation(area.data, copy.span(area));
  if (a != nullptr) {
    return a->leaving ? Side::bad : a->kind == Kind::device ? Side::device : Side::pinned;
  }
  // A pointer into an allocation whose end the copy passes, or to freed memory, is no host memory.
  bool const foreign = find_allocation(area.data, 1) != nullptr ||
                       std::string{describe_foreign(area.data)} == "which was freed";
  return area.data == nullptr || foreign ? Side::bad : Side::host;
}

// Whether the kind that the caller states fits what the pointers are.
bool fits(cudaMemcpyKind kind, Side to, Side from) {
  if (to == Side::bad || from == Side::bad) {
    return false;
  }
  bool const to_device = to == Side::device;
  bool const from_device = from == Side::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// A copy may go to a stream of another device than the current one, but CUDA's programming guide
// wants the stream's device to be current where memory is of a pool.
cudaError_t check_device_of_copy(Copy const& copy, int device) {
  if (device == current_device()) {
    return cudaSuccess;
  }
  for (Area const& area : {copy.to, copy.from}) {
    Allocation const* const a = find_allocation(area.data, copy.span(area));
    if (a != nullptr && a->pool != nullptr) {
      report("cudaMemcpyAsync: memory of a pool on a stream of device " + std::to_string(device) +
             ", while device " + std::to_string(current_device()) + " is current");
      return cudaErrorInvalidValue;
    }
  }
  return cudaSuccess;
}

cudaError_t copy_async(Copy const& copy, cudaMemcpyKind kind, cudaStream_t stream) {
  auto held = lock();
  auto const queue = find_stream(stream);
  if (queue == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (copy.empty()) {
    return cudaSuccess;
  }
  Side const to = side_of(copy, copy.to);
  Side const from = side_of(copy, copy.from);
  if (!fits(kind, to, from)) {
    report(
        "cudaMemcpyAsync: the pointers do not fit the kind of copy, or the sizes the allocations");
    return cudaErrorInvalidValue;
  }
  if (cudaError_t const status = check_device_of_copy(copy, queue->device); status != cudaSuccess) {
    return status;
  }
  if (queue->capture != nullptr && (to == Side::host || from == Side::host)) {
    // A replay would read memory that may be gone; CUDA takes it, tandem must not do it.
    return break_capture(*queue->capture, cudaErrorStreamCaptureUnsupported);
  }
  if (from == Side::host) {  // the source may change as soon as the call returns
    auto const* const bytes = static_cast<std::byte const*>(copy.from.data);
    auto const staged =
        std::make_shared<std::vector<std::byte> const>(bytes, bytes + copy.span(copy.from));
    Copy late = copy;
    late.from.data = staged->data();
    cudaError_t const status = enqueue(
        stream, "copy", [late, staged] { late.run(); },
        to == Side::host ? std::vector<Access>{} : copy.accesses());
    if (status == cudaSuccess && to == Side::host) {
      force_all(held, queue);
    }
    return status;
  }
  cudaError_t const status = enqueue(
      stream, "copy", [copy] { copy.run(); }, copy.accesses());
  if (status == cudaSuccess && to == Side::host) {
    force_all(held, queue);  // into pageable memory: returns when it is done
  }
  return status;
}

cudaError_t copy_now(Copy const& copy, cudaMemcpyKind kind) {
  auto held = lock();
  if (cudaError_t const status = check_no_capture(); status != cudaSuccess) {
    return cudaErrorStreamCaptureImplicit;
  }
  if (copy.empty()) {
    return cudaSuccess;
  }
  if (!fits(kind, side_of(copy, copy.to), side_of(copy, copy.from))) {
    report("cudaMemcpy: the pointers do not fit the kind of copy, or the sizes the allocations");
    return cudaErrorInvalidValue;
  }
  // The legacy stream waits for blocking streams only.
  force_device(held, current_device(), true);
  for (Access const& access : copy.accesses()) {
    note_host_access("cudaMemcpy", current_device(), access);
  }
  copy.run();
  return device_failure();
}

cudaError_t set_async(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes != 0 && !is_device_memory(pointer, bytes)) {
    auto const held = lock();
    Allocation const* const a = find_allocation(pointer, bytes);
    if (a == nullptr || a->leaving) {
      report(std::string{"cudaMemset of memory "} + describe_foreign(pointer));
      return cudaErrorInvalidValue;
    }
  }
  if (bytes == 0) {
    return device_of(stream) < 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
  }
  if (int const device = device_of(stream); device >= 0 && device != current_device()) {
    report("cudaMemsetAsync: a stream of device " + std::to_string(device) + ", while device " +
           std::to_string(current_device()) + " is current");
    return cudaErrorInvalidResourceHandle;
  }
  return enqueue(stream, "memset", [pointer, value, bytes] { std::memset(pointer, value, bytes); },
                 {{pointer, bytes, true}});
}

Copy line(void* to, void const* from, std::size_t bytes) { return {{to, 0}, {from, 0}, bytes, 1}; }

}  // namespace

extern "C" {

cudaError_t cudaMemcpy(void* to, void const* from, size_t bytes, cudaMemcpyKind kind) {
  return result(copy_now(line(to, from, bytes), kind));
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return result(copy_async(line(to, from, bytes), kind, stream));
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, void const* from, size_t from_pitch,
                         size_t width, size_t rows, cudaMemcpyKind kind) {
  return result(copy_now({{to, to_pitch}, {from, from_pitch}, width, rows}, kind));
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, void const* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  return result(copy_async({{to, to_pitch}, {from, from_pitch}, width, rows}, kind, stream));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, void const* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (bytes != 0 &&
      (!is_device_memory(to, bytes, to_device) || !is_device_memory(from, bytes, from_device))) {
    return result(cudaErrorInvalidValue);
  }
  return result(copy_async(line(to, from, bytes), cudaMemcpyDeviceToDevice, stream));
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return result(set_async(pointer, value, bytes, stream));
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return result(set_async(pointer, value, bytes, cudaStreamLegacy));
}

}  // extern "C"
