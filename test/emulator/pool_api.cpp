// SPDX-License-Identifier: Apache-2.0
// Memory pools: allocation in stream order.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "state.hpp"

struct CUmemPoolHandle_st {
  int device = 0;
  std::uint64_t threshold = 0;
  std::uint64_t highest = 0;
  bool owned = false;       // made by cudaMemPoolCreate
  std::set<int> open_to{};  // other devices, by cudaMemPoolSetAccess
};

namespace cuda_emulator {

bool pool_is_open_to(int device, void const* pool) {
  return static_cast<CUmemPoolHandle_st const*>(pool)->open_to.count(device) != 0;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

namespace {

auto& pools() {
  static auto& all = *new std::map<cudaMemPool_t, std::unique_ptr<CUmemPoolHandle_st>>;
  return all;
}

cudaMemPool_t default_pool(int device) {
  static auto& defaults = *new std::map<int, cudaMemPool_t>;
  cudaMemPool_t& pool = defaults[device];
  if (pool == nullptr) {
    auto made = std::make_unique<CUmemPoolHandle_st>();
    made->device = device;
    pool = made.get();
    pools().emplace(pool, std::move(made));
  }
  return pool;
}

cudaError_t allocate_queued(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                            cudaStream_t stream) {
  auto const held = lock();
  auto const queue = find_stream(stream);
  if (pointer == nullptr || pools().count(pool) == 0 || queue == nullptr) {
    return cudaErrorInvalidValue;
  }
  *pointer = nullptr;
  if (queue->capture != nullptr) {  // CUDA would make a node of it; tandem must not
    return break_capture(*queue->capture, cudaErrorStreamCaptureUnsupported);
  }
  if (bytes == 0) {
    return cudaSuccess;
  }
  Allocation const* const made = allocate_or_drain(Kind::device, bytes, pool->device, pool);
  if (made == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  *pointer = made->begin;
  pool->highest = std::max<std::uint64_t>(pool->highest, used_bytes_of_pool(pool));
  // Until here the memory is somebody else's: what was written too early is lost.
  return enqueue(stream, "allocate",
                 [begin = made->begin, bytes] {
                   if (Allocation const* const a = find_allocation(begin, bytes); a != nullptr) {
                     poison(begin, bytes);
                   }
                 },
                 {{made->begin, bytes, true}});
}

}  // namespace

extern "C" {

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
  auto const held = lock();
  if (pool == nullptr || properties == nullptr ||
      properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice) {
    return result(cudaErrorInvalidValue);
  }
  if (properties->location.id < 0 || properties->location.id >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  auto made = std::make_unique<CUmemPoolHandle_st>();
  made->device = properties->location.id;
  made->owned = true;
  *pool = made.get();
  pools().emplace(made.get(), std::move(made));
  return result(cudaSuccess);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  auto const held = lock();
  auto const found = pools().find(pool);
  if (found == pools().end() || !found->second->owned) {
    return result(cudaErrorInvalidValue);
  }
  // Its memory is given back as streams get there: no other pool may have its handle till then.
  static auto& destroyed = *new std::vector<std::unique_ptr<CUmemPoolHandle_st>>;
  destroyed.push_back(std::move(found->second));
  pools().erase(found);
  return result(cudaSuccess);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  auto const held = lock();
  if (device < 0 || device >= device_count()) {
    return result(cudaErrorInvalidDevice);
  }
  *pool = default_pool(device);
  return result(cudaSuccess);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  auto const held = lock();
  if (pools().count(pool) == 0 || value == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    std::memcpy(&pool->threshold, value, sizeof pool->threshold);
  }
  return result(cudaSuccess);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  auto const held = lock();
  if (pools().count(pool) == 0 || value == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  std::uint64_t number = 0;
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      number = pool->threshold;
      break;
    case cudaMemPoolAttrUsedMemCurrent:
    case cudaMemPoolAttrReservedMemCurrent:
      number = used_bytes_of_pool(pool);
      break;
    case cudaMemPoolAttrUsedMemHigh:
    case cudaMemPoolAttrReservedMemHigh:
      number = pool->highest;
      break;
    default: {
      int const reuse = 1;
      std::memcpy(value, &reuse, sizeof reuse);
      return result(cudaSuccess);
    }
  }
  std::memcpy(value, &number, sizeof number);
  return result(cudaSuccess);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* access,
                                 size_t count) {
  auto const held = lock();
  bool valid = pools().count(pool) != 0 && (access != nullptr || count == 0);
  for (std::size_t i = 0; valid && i < count; ++i) {
    int const device = access[i].location.id;
    bool const none = access[i].flags == cudaMemAccessFlagsProtNone;
    valid = access[i].location.type == cudaMemLocationTypeDevice && device >= 0 &&
            device < device_count() &&
            (device == pool->device ? !none : is_peer(pool->device, device));
  }
  for (std::size_t i = 0; valid && i < count; ++i) {
    int const device = access[i].location.id;
    if (access[i].flags == cudaMemAccessFlagsProtNone) {
      pool->open_to.erase(device);
    } else {
      pool->open_to.insert(device);
    }
  }
  return result(valid ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  auto const held = lock();
  return result(pools().count(pool) != 0 ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return result(allocate_queued(pointer, bytes, pool, stream));
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  auto const held = lock();
  int const device = device_of(stream);
  if (device < 0) {
    return result(cudaErrorInvalidResourceHandle);
  }
  return result(allocate_queued(pointer, bytes, default_pool(device), stream));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  auto const held = lock();
  auto const queue = find_stream(stream);
  if (queue == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (pointer == nullptr) {
    return result(cudaSuccess);
  }
  Allocation* const a = find_allocation(pointer, 0);
  if (a == nullptr || a->begin != pointer || a->leaving || a->kind != Kind::device) {
    report("a free of memory " + std::string{describe_foreign(pointer)});
    return result(cudaErrorInvalidValue);
  }
  if (queue->capture != nullptr) {
    return result(break_capture(*queue->capture, cudaErrorStreamCaptureUnsupported));
  }
  a->leaving = true;
  note_accesses(*queue, "free", {{a->begin, a->bytes, true}});
  // Also on a device that has failed: memory must go away in destructors.
  append(queue, "free",
         [pointer](Ticket const&) -> Attempt { return [pointer] { return release(pointer); }; });
  return result(cudaSuccess);
}

}  // extern "C"
