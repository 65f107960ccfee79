// SPDX-License-Identifier: Apache-2.0
// Memory of the emulator: poison, quarantine, margins, limits, and pointers of the wrong kind.

#include <cmath>
#include <cstdint>

#include "test_support.hpp"

namespace {

using namespace emulator_test;

float* device_floats(std::size_t n) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, n * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(memory);
}

TEST_CASE("fresh memory is NaN, and aligned to 256 bytes but no more") {
  Array<float> x{100};
  auto const host = x.host();
  CHECK(std::all_of(host.begin(), host.end(), [](float v) { return std::isnan(v); }));
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 512 == 256);
}

// Reads and writes what is not its own any more; pointers in a struct are not checked at the
// launch.
struct Hidden {
  float* pointer;
};
TANDEM_KERNEL void touch_kernel(Hidden stale, float* y, bool write) {
  y[0] = stale.pointer[0];
  if (write) {
    stale.pointer[0] = 1.0F;
  }
}

TEST_CASE("reading freed memory gives NaN, writing it is reported") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> y{1};
  std::size_t const large = 40U << 20;  // four of these do not fit into the quarantine
  for (bool const write : {false, true}) {
    float* const freed = device_floats(large / sizeof(float));
    cudaMemset(freed, 0, large);
    cudaFree(freed);
    launch(touch_kernel, 1, 1, stream, Hidden{freed}, y.data(), write);
    cudaStreamSynchronize(stream.get());
    CHECK(std::isnan(y.host()[0]));
  }
  CHECK(cuda_emulator::last_report().empty());
  for (int i = 0; i < 4; ++i) {
    cudaFree(device_floats(large / sizeof(float)));
  }
  CHECK(misuse.says("a write to"));
  CHECK(misuse.says("after it was freed"));
}

TANDEM_KERNEL void outside_kernel(float* x, int at) { x[at] = 1.0F; }

TEST_CASE("a write outside of an allocation is reported when it is freed") {
  Stream const stream{Device{0}};
  for (int const at : {10, -1}) {
    Misuse const misuse;
    float* const x = device_floats(10);
    launch(outside_kernel, 1, 1, stream, x, at);
    cudaStreamSynchronize(stream.get());
    cudaFree(x);
    CHECK(misuse.says(at < 0 ? "a write before the begin of" : "a write past the end of"));
  }
}

TEST_CASE("copies check what the pointers are") {
  Misuse const misuse;
  Array<float> x{4};
  std::vector<float> host(8);
  CHECK(cudaMemcpy(host.data(), host.data() + 4, 16, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data(), x.data(), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data(), host.data(), 20, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data() + 1, host.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(x.data(), host.data(), 16, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemset(host.data(), 0, 16) == cudaErrorInvalidValue);
  CHECK(cudaMemset(x.data(), 0, 17) == cudaErrorInvalidValue);
  float* const freed = device_floats(4);
  cudaFree(freed);
  CHECK(cudaMemcpy(host.data(), freed, 16, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyPeerAsync(x.data(), 1, x.data(), 0, 16, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("which device is current matters where CUDA says so") {
  Misuse const misuse;
  Stream const stream{Device{1}};
  Array<float> plain{4};
  float* pooled = nullptr;
  REQUIRE(cudaMallocAsync(reinterpret_cast<void**>(&pooled), 16, stream.get()) == cudaSuccess);
  float* pinned = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&pinned), 16) == cudaSuccess);
  std::fill(pinned, pinned + 4, 1.0F);
  auto const copy = [&](float* to) {
    return cudaMemcpyAsync(to, pinned, 16, cudaMemcpyHostToDevice, stream.get());
  };
  CHECK(copy(plain.data()) == cudaSuccess);
  CHECK(copy(pooled) == cudaErrorInvalidValue);
  CHECK(misuse.says("memory of a pool on a stream of device 1, while device 0 is current"));
  CHECK(cudaMemsetAsync(pooled, 0, 16, stream.get()) == cudaErrorInvalidResourceHandle);
  CHECK(misuse.says("cudaMemsetAsync: a stream of device 1, while device 0 is current"));
  cudaSetDevice(1);
  CHECK(copy(pooled) == cudaSuccess);
  CHECK(cudaMemsetAsync(pooled, 0, 16, stream.get()) == cudaSuccess);
  // Between devices no access of one to the other is wanted.
  CHECK(cudaMemcpyAsync(plain.data(), pooled, 16, cudaMemcpyDeviceToDevice, stream.get()) ==
        cudaSuccess);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  cudaSetDevice(0);
  CHECK(all_equal(plain.host(), 0.0F));
  cudaFreeAsync(pooled, stream.get());
  cudaFreeHost(pinned);
}

TEST_CASE("a copy of rows keeps to its pitches") {
  Array<int> x{std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}};
  std::vector<int> host(6, -1);
  CHECK(cudaMemcpy2D(host.data(), 12, x.data(), 16, 8, 2, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == std::vector<int>{0, 1, -1, 4, 5, -1});
}

TEST_CASE("frees of what cannot be freed are errors") {
  Misuse const misuse;
  float* const x = device_floats(4);
  int local = 0;
  void* pinned = nullptr;
  cudaMallocHost(&pinned, 16);
  CHECK(cudaFree(x + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(&local) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(x) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFree(x) == cudaSuccess);
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("each device has so much memory and no more; queued frees count when they must") {
  cuda_emulator::set_memory_limit(1 << 20);
  std::size_t available = 0;
  std::size_t total = 0;
  cudaMemGetInfo(&available, &total);
  CHECK(total == 1 << 20);
  CHECK(available == total);
  Stream const stream{Device{0}};
  cudaMemGetInfo(&available, &total);
  std::size_t const beside = total - available;  // the stream's own
  void* first = nullptr;
  void* second = nullptr;
  CHECK(cudaMallocAsync(&first, 600 << 10, stream.get()) == cudaSuccess);
  cudaMemGetInfo(&available, &total);
  CHECK(available == total - beside - (600 << 10));
  CHECK(cudaMallocAsync(&second, 600 << 10, stream.get()) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaFreeAsync(first, stream.get()) == cudaSuccess);
  CHECK(cudaMallocAsync(&second, 600 << 10, stream.get()) == cudaSuccess);
  CHECK(cudaFreeAsync(second, stream.get()) == cudaSuccess);
  cudaStreamSynchronize(stream.get());
  cuda_emulator::set_memory_limit(std::size_t{4} << 30);
}

TEST_CASE("memory of a pool is there in stream order only") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Stream const other{Device{0}};
  std::size_t const before = cuda_emulator::live_allocations();
  float* x = nullptr;
  Array<float> y{1};
  cudaMallocAsync(reinterpret_cast<void**>(&x), 4, stream.get());
  launch(fill_kernel, 1, 1, other, x, 1, 1.0F);  // does not wait for the allocation
  cudaStreamSynchronize(other.get());
  launch(twice_kernel, 1, 1, stream, x, y.data(), 1);
  cudaStreamSynchronize(stream.get());
  CHECK(std::isnan(y.host()[0]));
  cudaFreeAsync(x, stream.get());
  CHECK(cudaFreeAsync(x, stream.get()) == cudaErrorInvalidValue);
  CHECK_THROWS(launch(fill_kernel, 1, 1, stream, x, 1, 1.0F));
  CHECK(misuse.says("whose free is queued"));
  cudaStreamSynchronize(stream.get());
  CHECK(cuda_emulator::live_allocations() == before + 1);  // y
}

TEST_CASE("pools are made, asked and destroyed") {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 2;
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  Stream const stream{Device{2}};
  void* memory = nullptr;
  CHECK(cudaMallocFromPoolAsync(&memory, 1000, pool, stream.get()) == cudaSuccess);
  std::uint64_t used = 0;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess);
  CHECK(used == 1000);
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, static_cast<char*>(memory) + 999);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 2);
  cudaPointerGetAttributes(&attributes, static_cast<char*>(memory) + 1000);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  cudaFreeAsync(memory, stream.get());
  CHECK(cudaMemPoolDestroy(pool) == cudaSuccess);
  CHECK(cudaMemPoolDestroy(pool) == cudaErrorInvalidValue);
  cudaStreamSynchronize(stream.get());
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("registered host memory counts as pinned") {
  std::vector<float> host(4, 1.0F);
  REQUIRE(cudaHostRegister(host.data(), 16, cudaHostRegisterDefault) == cudaSuccess);
  CHECK(cudaHostRegister(host.data() + 1, 4, 0) == cudaErrorHostMemoryAlreadyRegistered);
  Stream const stream{Device{0}};
  Array<float> x{4};
  cudaMemcpyAsync(x.data(), host.data(), 16, cudaMemcpyHostToDevice, stream.get());
  host.assign(4, 2.0F);  // too early
  cudaStreamSynchronize(stream.get());
  CHECK(all_equal(x.host(), 2.0F));
  CHECK(cudaHostUnregister(host.data()) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

}  // namespace
