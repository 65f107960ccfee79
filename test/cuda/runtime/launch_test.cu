// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/config.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

namespace launch_test {

struct Twice {
  int factor;
  TANDEM_HOST_DEVICE int operator()(int x) const { return factor * x; }
};

// y[place of the thread in the grid] = f(threads before it) + offset, for the first n.
template <class Function>
TANDEM_KERNEL void apply_kernel(int* y, Function f, std::int64_t n, double offset) {
  std::int64_t const block =
      (static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  std::int64_t const i = block * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = f(static_cast<int>(i)) + static_cast<int>(offset);
  }
}

}  // namespace launch_test

namespace {

using namespace tandem::cuda;
using launch_test::apply_kernel;
using launch_test::Twice;
using tandem::test::DeviceArray;

// Every thread in turns, for grids that are smaller than n.
__global__ void count_kernel(int* y, std::int64_t n) {
  std::int64_t const threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += threads) {
    y[i] = y[i] + 1;
  }
}

__global__ void nothing_kernel() {}

TEST_CASE("blocks_for covers n, and never more than a grid can have") {
  static_assert(blocks_for(0, 256) == 0);
  static_assert(blocks_for(1, 256) == 1);
  static_assert(blocks_for(256, 256) == 1);
  static_assert(blocks_for(257, 256) == 2);
  static_assert(blocks_for(INT64_MAX, 1) == 2147483647U);
  static_assert(blocks_for(INT64_MAX, INT64_MAX) == 1);
  static_assert(blocks_for(largest_grid, 1) == 2147483647U);
  static_assert(blocks_for(largest_grid + 1, 1) == 2147483647U);
  static_assert(blocks_for(10'000, 10, 64) == 64);
  static_assert(blocks_for(100, 10, 64) == 10);
  static_assert(blocks_for(0, 10, 64) == 0);
  CHECK(blocks_for(5, 2) == 3);
}

TEST_CASE("arguments are converted to the kernel's parameters") {
  RankDevice device{Device{0}};
  DeviceArray<int> const y{device, 5};
  launch(apply_kernel<Twice>, Grid{blocks_for(5, 4)}, 4, device.compute, y.data(), Twice{2}, 5,
         100.0F);  // n is an int here, and the offset a float
  CHECK(y.host() == std::vector{100, 102, 104, 106, 108});
}

TEST_CASE("a grid has three extents") {
  RankDevice device{Device{0}};
  DeviceArray<int> const y{device, 2 * 3 * 4 * 8};
  launch(apply_kernel<Twice>, Grid{2, 3, 4}, 8, device.compute, y.data(), Twice{1}, y.size(), 0);
  std::vector<int> const host = y.host();
  for (int i = 0; i < static_cast<int>(host.size()); ++i) {
    CHECK(host[static_cast<std::size_t>(i)] == i);
  }
}

TEST_CASE("threads may take several turns") {
  RankDevice device{Device{0}};
  DeviceArray<int> const y{device, std::vector<int>(1000, 0)};
  launch(count_kernel, blocks_for(1000, 32, 3), 32, device.compute, y.data(), 1000);
  CHECK(y.host() == std::vector<int>(1000, 1));
}

TEST_CASE("a grid without blocks launches nothing") {
  RankDevice device{Device{0}};
  DeviceArray<int> const y{device, {3}};
  CHECK_NOTHROW(launch(count_kernel, Grid{blocks_for(0, 32)}, 32, device.compute, y.data(), 1));
  CHECK_NOTHROW(launch(count_kernel, Grid{1, 0}, 32, device.compute, y.data(), 1));
  CHECK_NOTHROW(launch(count_kernel, Grid{1, 1, 0}, 32, device.compute, y.data(), 1));
  CHECK(y.host() == std::vector{3});
}

TEST_CASE("a kernel without parameters can be launched") {
  RankDevice device{Device{0}};
  CHECK_NOTHROW(launch(nothing_kernel, 1, 32, device.compute));
  device.compute.synchronize();
}

// y[i] of the kernel before it, which is still busy when this one may begin.
// Values stay small: nothing overflows.
__global__ void busy_kernel(int* y, int n, int rounds) {
  await_previous();
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  for (int round = 0; i < n && round < rounds; ++round) {
    y[i] = (y[i] * 3 + round) % 10007;
  }
}
__global__ void shift_kernel(int const* x, int* y, int n) {
  await_previous();
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    y[i] = x[n - 1 - i] + 1;
  }
}

TEST_CASE("kernels that begin before the one before them has ended read what that one wrote") {
  RankDevice device{Device{0}};
  int const n = 1 << 12;
  int const rounds = 200;
  auto const run = [&](bool overlaps, bool recorded) {
    DeviceArray<int> const x{device, std::vector<int>(n, 1)};
    DeviceArray<int> const y{device, std::vector<int>(n, 2)};
    device.compute.overlap_launches(overlaps);
    auto const queue = [&] {
      for (int turn = 0; turn < 4; ++turn) {
        launch(busy_kernel, Grid{n / 64}, 64, device.compute, x.data(), n, rounds);
        launch(shift_kernel, Grid{n / 64}, 64, device.compute, x.data(), y.data(), n);
        launch(shift_kernel, Grid{n / 64}, 64, device.compute, y.data(), x.data(), n);
      }
    };
    if (recorded) {
      Capture capture{device.compute};
      queue();
      Graph const graph = capture.finish();
      graph.launch(device.compute);
      graph.launch(device.compute);
      device.compute.synchronize();
    } else {
      queue();
      queue();
    }
    device.compute.overlap_launches(false);
    return x.host();
  };
  auto const expected = run(false, false);
  CHECK(run(true, false) == expected);
  CHECK(run(true, true) == expected);
}

#if defined(TANDEM_CUDA_EMULATED)
TEST_CASE("a kernel that may begin early and does not wait is found") {
  RankDevice device{Device{0}};
  DeviceArray<int> const y{device, {3}};
  device.compute.overlap_launches(true);
  cuda_emulator::set_quiet(true);
  launch(count_kernel, Grid{1}, 32, device.compute, y.data(), 1);
  CHECK_THROWS(device.compute.synchronize());
  CHECK(cuda_emulator::last_report().find("do not begin with await_previous()") !=
        std::string::npos);
  cuda_emulator::set_quiet(false);
  cuda_emulator::clear_errors();
}
#endif

TEST_CASE("a launch that is not possible throws with its place, and the stream stays usable") {
  RankDevice device{Device{0}};
  std::string message;
  int line = 0;
  try {
    line = __LINE__ + 1;
    launch(nothing_kernel, Grid{1}, 4096, device.compute);
  } catch (CudaError const& error) {
    message = error.what();
  }
  INFO(message);
  CHECK(message.find("launch_test.cu:" + std::to_string(line)) != std::string::npos);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  launch(nothing_kernel, Grid{1}, 32, device.compute);
  device.compute.synchronize();
}

TEST_CASE("a launch goes to its stream's GPU, whichever is current") {
  int const count = device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    RankDevice device{Device{ordinal}};
    DeviceArray<int> const y{device, {3}};
    ScopedDevice const other{Device{(ordinal + 1) % count}};
    launch(count_kernel, Grid{1}, 32, device.compute, y.data(), 1);
    CHECK(y.host() == std::vector{4});
    int current = -1;
    check(cudaGetDevice(&current));
    CHECK(current == (ordinal + 1) % count);
  }
}

}  // namespace
