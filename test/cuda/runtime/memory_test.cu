// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace {

using namespace tandem::cuda;
using tandem::test::DeviceArray;

static_assert(!std::is_copy_constructible_v<Buffer> && std::is_nothrow_move_assignable_v<Buffer>);
static_assert(!std::is_copy_constructible_v<PinnedBuffer>);
static_assert(!std::is_copy_constructible_v<MemoryPool>);

template <class T>
__global__ void add_at_kernel(T* x, std::int64_t index, T value) {
  if (threadIdx.x == 0) {
    x[index] = static_cast<T>(x[index] + value);
  }
}

template <class T>
void add_at(Stream const& stream, T* x, std::int64_t index, T value) {
  launch(add_at_kernel<T>, Grid{1}, 32, stream, x, index, value);
}

std::vector<unsigned char> bytes_of(RankDevice& device, Buffer const& buffer) {
  std::vector<unsigned char> bytes(buffer.bytes());
  check(cudaMemcpyAsync(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost,
                        device.compute.get()));
  device.compute.synchronize();
  return bytes;
}

TEST_CASE("a buffer is aligned and zero, also where memory was in use before") {
  RankDevice device{Device{0}};
  for (int round = 0; round < 3; ++round) {
    Buffer const buffer{device, 100'003};
    CHECK(buffer.bytes() == 100'003);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
    CHECK(buffer.as<float>() == reinterpret_cast<float*>(buffer.data()));
    CHECK(bytes_of(device, buffer) == std::vector<unsigned char>(100'003, 0));
    check(cudaMemsetAsync(buffer.data(), 0xFF, buffer.bytes(), device.compute.get()));
  }
}

TEST_CASE("buffers are made, cleared and copied, whatever device is current") {
  if (device_count() < 2) {
    return;
  }
  RankDevice device{Device{1}};
  {
    ScopedDevice const other{Device{0}};
    PinnedBuffer const host{64, Device{1}};
    Buffer const buffer{device, 64};
    std::memset(host.data(), 1, 64);
    copy_bytes(buffer.data(), host.data(), 64, cudaMemcpyHostToDevice, device.compute);
    clear_bytes(buffer.data(), 32, device.compute);
    copy_bytes(host.data(), buffer.data(), 64, cudaMemcpyDeviceToHost, device.compute);
    device.compute.synchronize();
    CHECK(host.as<char>()[31] == 0);
    CHECK(host.as<char>()[32] == 1);
  }
  int current = -1;
  CHECK(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
  std::thread{[] {  // a rank's own
    RankDevice const rank{tandem::DeviceSpec{.ordinal = 1}};
    int mine = -1;
    CHECK(cudaGetDevice(&mine) == cudaSuccess);
    CHECK(mine == 1);
  }}
      .join();
}

TEST_CASE("an empty buffer has no memory") {
  RankDevice device{Device{0}};
  Buffer const none;
  Buffer const zero{device, 0};
  CHECK(none.data() == nullptr);
  CHECK(none.bytes() == 0);
  CHECK(zero.data() == nullptr);
  CHECK(zero.bytes() == 0);
}

TEST_CASE("a moved buffer keeps its memory and leaves an empty one") {
  RankDevice device{Device{0}};
  Buffer first{device, 64};
  std::byte const* const memory = first.data();
  Buffer second{std::move(first)};
  CHECK(second.data() == memory);
  CHECK(second.bytes() == 64);
  CHECK(first.data() == nullptr);  // NOLINT(bugprone-use-after-move): empty, as documented
  CHECK(first.bytes() == 0);
  Buffer third{device, 128};
  third = std::move(second);
  CHECK(third.data() == memory);
  CHECK(third.bytes() == 64);
  Buffer& same = third;
  third = std::move(same);
  CHECK(third.data() == memory);
  CHECK(bytes_of(device, third) == std::vector<unsigned char>(64, 0));
}

std::uint64_t used_memory(RankDevice& device) {
  device.compute.synchronize();
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(device.pool.get(), cudaMemPoolAttrUsedMemCurrent, &bytes));
  return bytes;
}

TEST_CASE("every buffer goes back to the pool of its rank") {
  constexpr std::uint64_t unit = std::uint64_t{16} << 20U;  // so that no granularity shows
  check(cudaDeviceSynchronize());  // what the tests before have queued is over
  RankDevice device{Device{0}};
  CHECK(used_memory(device) == 0);
  {
    Buffer first{device, unit};
    CHECK(used_memory(device) >= unit);
    Buffer second{device, 2 * unit};
    first = std::move(second);
    CHECK(used_memory(device) >= 2 * unit);
    CHECK(used_memory(device) < 3 * unit);
    second = std::move(first);
  }
  CHECK(used_memory(device) == 0);
}

TEST_CASE("work that is queued before a buffer's end may still use it") {
  RankDevice device{Device{0}};
  DeviceArray<float> copy{device, 4};
  {
    Buffer const buffer{device, 4 * sizeof(float)};
    add_at(device.compute, buffer.as<float>(), 2, 5.0F);
    check(cudaMemcpyAsync(copy.data(), buffer.data(), buffer.bytes(), cudaMemcpyDeviceToDevice,
                          device.compute.get()));
  }
  CHECK(copy.host() == std::vector{0.0F, 0.0F, 5.0F, 0.0F});
}

TEST_CASE("more memory than the GPU has is an error that says how much there is") {
  RankDevice device{Device{0}};
  std::string message;
  try {
    Buffer const buffer{device, std::size_t{1} << 50U};
  } catch (tandem::Error const& error) {
    message = error.what();
  }
  std::size_t available = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&available, &total));
  INFO(message);
  CHECK(message.find("out of memory: GPU 0 was asked for 1125899906842624 bytes and has ") == 0);
  CHECK(message.find(" of " + std::to_string(total) +
                     " free; use a smaller batch or more microbatches") != std::string::npos);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  Buffer const after{device, 64};  // the device still works
  CHECK(bytes_of(device, after) == std::vector<unsigned char>(64, 0));
}

TEST_CASE("a pool is shared with the other GPUs that can reach it") {
  MemoryPool pool{Device{0}};
  CHECK(pool.device() == Device{0});
  for (int other = 0; other < device_count(); ++other) {
    CHECK_NOTHROW(pool.share_with(Device{other}));
  }
}

TEST_CASE("a pinned buffer is zero, movable, and a copy's two ends") {
  RankDevice device{Device{0}};
  PinnedBuffer out{4 * sizeof(int), device.device};
  PinnedBuffer back{4 * sizeof(int)};
  CHECK(out.bytes() == 16);
  for (int i = 0; i < 4; ++i) {
    CHECK(out.as<int>()[i] == 0);
    out.as<int>()[i] = i + 1;
  }
  Buffer const buffer{device, 16};
  check(
      cudaMemcpyAsync(buffer.data(), out.data(), 16, cudaMemcpyHostToDevice, device.compute.get()));
  check(cudaMemcpyAsync(back.data(), buffer.data(), 16, cudaMemcpyDeviceToHost,
                        device.compute.get()));
  device.compute.synchronize();
  CHECK(std::memcmp(out.data(), back.data(), 16) == 0);

  std::byte const* const memory = back.data();
  PinnedBuffer moved{std::move(back)};
  CHECK(moved.data() == memory);
  CHECK(back.data() == nullptr);  // NOLINT(bugprone-use-after-move): empty, as documented
  CHECK(back.bytes() == 0);
  out = std::move(moved);
  CHECK(out.data() == memory);
  CHECK(out.bytes() == 16);
  CHECK(moved.data() == nullptr);  // NOLINT(bugprone-use-after-move)
  CHECK(moved.bytes() == 0);
  CHECK(PinnedBuffer{}.data() == nullptr);
  CHECK(PinnedBuffer{0}.data() == nullptr);
}

TEST_CASE("a device array gives back what it was given") {
  RankDevice device{Device{0}};
  for (bool const unaligned : {false, true}) {
    DeviceArray<double> const array{device, {1.0, 2.0, 3.0}, {.unaligned = unaligned}};
    CHECK(array.size() == 3);
    CHECK(array.host() == std::vector{1.0, 2.0, 3.0});
    CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 256 == (unaligned ? sizeof(double) : 0));
  }
  CHECK(DeviceArray<float>{device, {5.0F}}.host() == std::vector{5.0F});  // not five of them
  CHECK(DeviceArray<float>{device, 0}.host().empty());
}

TEST_CASE("a device array without values is poison, which no sum hides") {
  RankDevice device{Device{0}};
  DeviceArray<float> const floats{device, 5, {.unaligned = true}};
  add_at(device.compute, floats.data(), 1, 1.0F);
  for (float const x : floats.host()) {
    CHECK(std::isnan(x));
  }
  for (double const x : DeviceArray<double>{device, std::int64_t{3}}.host()) {
    CHECK(std::isnan(x));
  }
  for (tandem::BFloat16 const x : DeviceArray<tandem::BFloat16>{device, 3}.host()) {
    CHECK(std::isnan(static_cast<float>(x)));
  }
  for (int const x : DeviceArray<int>{device, 3}.host()) {
    CHECK(x < -1'000'000);
  }
}

template <class T>
void check_that_guards_are_seen(RankDevice& device, bool unaligned) {
  for (std::int64_t const index : {-1, -3, 10, 12}) {
    DeviceArray<T> const array{device, std::vector<T>(10, T{1}), {.unaligned = unaligned}};
    add_at(device.compute, array.data(), index, T{1});
    INFO("index " << index);
    CHECK_THROWS_WITH(static_cast<void>(array.host()),
                      doctest::Contains("a kernel wrote outside of an array of 10 elements"));
  }
}

TEST_CASE("what is written, or added, outside of a device array is seen") {
  RankDevice device{Device{0}};
  for (bool const unaligned : {false, true}) {
    check_that_guards_are_seen<float>(device, unaligned);
    check_that_guards_are_seen<double>(device, unaligned);
    check_that_guards_are_seen<int>(device, unaligned);
    check_that_guards_are_seen<unsigned char>(device, unaligned);
  }
}

}  // namespace
