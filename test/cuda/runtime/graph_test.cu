// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/error.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/pinned.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

namespace {

using namespace tandem::cuda;
using tandem::test::DeviceArray;

static_assert(!std::is_copy_constructible_v<Graph> && std::is_nothrow_move_assignable_v<Graph>);
static_assert(!std::is_move_constructible_v<Capture>);

__global__ void add_kernel(int const* x, int* y) {
  if (threadIdx.x == 0) {
    *y = *y + *x;
  }
}

void add(Stream const& stream, DeviceArray<int> const& x, DeviceArray<int> const& y) {
  launch(add_kernel, Grid{1}, 32, stream, x.data(), y.data());
}

bool capturing(Stream const& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream.get(), &status));
  return status != cudaStreamCaptureStatusNone;
}

TEST_CASE("captured work runs when it is launched, as often as it is, and reads new values") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  Capture capture{device.compute};
  CHECK(capturing(device.compute));
  add(device.compute, x, y);
  add(device.compute, x, y);
  Graph const graph = capture.finish();
  CHECK_FALSE(capturing(device.compute));
  CHECK(graph.nodes() == 2);
  CHECK(static_cast<bool>(graph));
  CHECK(y.host() == std::vector{0});
  graph.launch(device.compute);
  CHECK(y.host() == std::vector{2});
  graph.launch(device.compute);
  add(device.compute, y, x);  // x = 1 + 4
  graph.launch(device.compute);
  CHECK(y.host() == std::vector{14});
}

TEST_CASE("a capture follows the communication stream there and back") {
  RankDevice device{Device{0}};
  Event mark{device.device};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  DeviceArray<int> const z{device, {0}};
  Capture capture{device.compute};
  add(device.compute, x, y);
  device.begin_on(device.communication);
  CHECK(capturing(device.communication));
  add(device.communication, y, z);
  device.mark_on(device.communication, mark);
  device.await_on(device.communication, mark);
  add(device.compute, z, y);
  Graph const graph = capture.finish();
  CHECK_FALSE(capturing(device.communication));
  CHECK(graph.nodes() == 3);
  graph.launch(device.compute);
  CHECK(y.host() == std::vector{2});  // 1, then z = 1
  graph.launch(device.compute);
  CHECK(y.host() == std::vector{7});  // 3, then z = 4
}

TEST_CASE("a stream that is not joined is an error, and all streams stay usable") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  {
    Capture capture{device.compute};
    device.begin_on(device.communication);
    add(device.communication, x, y);
    CHECK_THROWS_WITH_AS(static_cast<void>(capture.finish()),
                         doctest::Contains("cudaErrorStreamCaptureUnjoined"), CudaError);
    CHECK_THROWS_WITH_AS(static_cast<void>(capture.finish()),
                         doctest::Contains("Capture::finish: the capture has already ended"),
                         tandem::ContractError);
  }
  CHECK_FALSE(capturing(device.compute));
  CHECK_FALSE(capturing(device.communication));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  add(device.compute, x, y);
  CHECK(y.host() == std::vector{1});
}

TEST_CASE("a capture that an exception leaves is discarded") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  auto const leave = [&](bool forked) {
    Capture const capture{device.compute};
    add(device.compute, x, y);
    if (forked) {
      device.begin_on(device.communication);
      add(device.communication, x, y);
    }
    throw std::runtime_error{"in the middle"};
  };
  for (bool const forked : {false, true}) {
    CHECK_THROWS_WITH_AS(leave(forked), "in the middle", std::runtime_error);
    CHECK_FALSE(capturing(device.compute));
    CHECK_FALSE(capturing(device.communication));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(y.host() == std::vector{0});
  }
  Capture capture{device.compute};  // and another can begin
  add(device.compute, x, y);
  capture.finish().launch(device.compute);
  CHECK(y.host() == std::vector{1});
}

TEST_CASE("a stream that is captured already cannot be captured again") {
  RankDevice device{Device{0}};
  Capture const capture{device.compute};
  CHECK_THROWS_AS([&] { Capture const again{device.compute}; }(), CudaError);
}

TEST_CASE("while one thread captures, another may allocate") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  std::string error;
  Capture capture{device.compute};
  add(device.compute, x, y);
  std::thread{[&error] {
    try {
      PinnedBuffer const pinned{64};
      RankDevice other{Device{0}};
      other.compute.synchronize();
    } catch (tandem::Error const& caught) {
      error = caught.what();
    }
  }}.join();
  CHECK(error == "");
  capture.finish().launch(device.compute);
  CHECK(y.host() == std::vector{1});
}

TEST_CASE("an empty graph is a mistake to launch, an empty capture is not") {
  RankDevice device{Device{0}};
  Graph const none;
  CHECK_FALSE(static_cast<bool>(none));
  CHECK(none.nodes() == 0);
  CHECK_THROWS_WITH_AS(none.launch(device.compute),
                       doctest::Contains("Graph::launch: nothing was captured into this graph"),
                       tandem::ContractError);
  Graph const empty = Capture{device.compute}.finish();
  CHECK(empty.nodes() == 0);
  empty.launch(device.compute);
  device.compute.synchronize();
}

TEST_CASE("a moved graph runs, and leaves an empty one") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {1}};
  DeviceArray<int> const y{device, {0}};
  Capture capture{device.compute};
  add(device.compute, x, y);
  Graph first = capture.finish();
  Graph const second{std::move(first)};
  CHECK_FALSE(static_cast<bool>(first));  // NOLINT(bugprone-use-after-move): as documented
  CHECK(first.nodes() == 0);
  CHECK(second.nodes() == 1);
  second.launch(device.compute);
  CHECK(y.host() == std::vector{1});
}

TEST_CASE("copies and fills are captured too") {
  RankDevice device{Device{0}};
  DeviceArray<int> const x{device, {7}};
  DeviceArray<int> const y{device, {1}};
  Capture capture{device.compute};
  check(cudaMemsetAsync(y.data(), 0, sizeof(int), device.compute.get()));
  check(cudaMemcpyAsync(y.data(), x.data(), sizeof(int), cudaMemcpyDeviceToDevice,
                        device.compute.get()));
  add(device.compute, x, y);
  Graph const graph = capture.finish();
  CHECK(graph.nodes() == 3);
  CHECK(y.host() == std::vector{1});
  graph.launch(device.compute);
  graph.launch(device.compute);
  CHECK(y.host() == std::vector{14});
}

}  // namespace
