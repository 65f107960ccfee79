// SPDX-License-Identifier: Apache-2.0
// Captures and graphs of the emulator: what replays, and what must not be captured.

#include <emulator/stream_work.hpp>
#include <thread>

#include "test_support.hpp"

namespace {

using namespace emulator_test;

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { REQUIRE(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming) == cudaSuccess); }
  ~Event() { cudaEventDestroy(handle); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
};

void begin(Stream const& stream) {
  REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
}

cudaError_t end(Stream const& stream, cudaGraph_t* graph = nullptr) {
  cudaGraph_t recorded = nullptr;
  cudaError_t const status = cudaStreamEndCapture(stream.get(), &recorded);
  if (graph != nullptr) {
    *graph = recorded;
  } else if (recorded != nullptr) {
    cudaGraphDestroy(recorded);
  }
  return status;
}

// Orders what comes on `second` after what is on `first` now.
void join(Stream const& first, Stream const& second) {
  Event const event;
  CHECK(cudaEventRecord(event.handle, first.get()) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(second.get(), event.handle, 0) == cudaSuccess);
}

TANDEM_KERNEL void add_kernel(float* x, float value) { x[0] += value; }

TEST_CASE("a captured sequence runs at each launch, and not before") {
  Stream const stream{Device{0}};
  Array<float> x{std::vector<float>(1, 0.0F)};
  begin(stream);
  launch(add_kernel, 1, 1, stream, x.data(), 1.0F);
  launch(add_kernel, 1, 1, stream, x.data(), 10.0F);
  cudaGraph_t graph = nullptr;
  REQUIRE(end(stream, &graph) == cudaSuccess);
  std::size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 2);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  cudaStreamSynchronize(stream.get());
  CHECK(x.host()[0] == 0.0F);
  for (int i = 1; i <= 3; ++i) {
    CHECK(cudaGraphLaunch(exec, stream.get()) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(x.host()[0] == 11.0F * static_cast<float>(i));
  }
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(exec) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

// x = 1 on a stream; y = 2 x on a second, forked and joined; then z = 2 y on the first. Without
// `ordered` the second does not wait for x. Returns z of each of three replays.
std::vector<float> replayed(bool ordered) {
  Stream const main{Device{0}};
  Stream const side{Device{0}};
  Array<float> x{1};
  Array<float> y{1};
  Array<float> z{1};
  begin(main);
  if (!ordered) {
    join(main, side);
  }
  launch(fill_kernel, 1, 1, main, x.data(), 1, 1.0F);
  if (ordered) {
    join(main, side);
  }
  launch(twice_kernel, 1, 1, side, x.data(), y.data(), 1);
  join(side, main);
  launch(twice_kernel, 1, 1, main, y.data(), z.data(), 1);
  cudaGraph_t graph = nullptr;
  REQUIRE(end(main, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  std::vector<float> results;
  for (int i = 0; i < 3; ++i) {
    cudaMemset(x.data(), 0, sizeof(float));
    cudaGraphLaunch(exec, main.get());
    cudaStreamSynchronize(main.get());
    results.push_back(z.host()[0]);
  }
  cudaGraphExecDestroy(exec);
  return results;
}

TEST_CASE("a missing edge in a graph gives a wrong number in one of three replays") {
  CHECK(replayed(true) == std::vector<float>{4.0F, 4.0F, 4.0F});
  auto const wrong = replayed(false);
  CHECK(std::count(wrong.begin(), wrong.end(), 4.0F) < 3);
}

TEST_CASE("a missing edge in a graph is a fault when the capture ends") {
  Watched const watched;
  Misuse const misuse;
  Stream const main{Device{0}};
  Stream const side{Device{0}};
  Array<float> x{1};
  cudaGraph_t graph = nullptr;
  begin(main);
  join(main, side);
  launch(fill_kernel, 1, 1, main, x.data(), 1, 1.0F);
  cudaMemsetAsync(x.data(), 0, sizeof(float), side.get());
  join(side, main);
  CHECK(end(main, &graph) == cudaSuccess);
  CHECK(misuse.says("a race: memset writes 4 bytes"));
  CHECK(misuse.says("which are nodes of one graph"));
  cudaGraphDestroy(graph);
}

TEST_CASE("a graph's work is ordered as the streams that launch it") {
  Watched const watched;
  Misuse const misuse;
  Stream const main{Device{0}};
  Stream const other{Device{0}};
  Array<float> x{1};
  begin(main);
  launch(fill_kernel, 1, 1, main, x.data(), 1, 1.0F);
  cudaGraph_t graph = nullptr;
  REQUIRE(end(main, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, main.get());
  join(main, other);
  cudaMemsetAsync(x.data(), 0, sizeof(float), other.get());
  CHECK(cuda_emulator::last_report().empty());
  cudaGraphLaunch(exec, main.get());  // does not wait for it
  CHECK(
      misuse.says("some of them; no event, wait or edge orders the two, which are on two streams"));
  static_cast<void>(cudaStreamSynchronize(other.get()));
  static_cast<void>(cudaStreamSynchronize(main.get()));
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("work of a library is started anew at each launch of a graph") {
  Stream const stream{Device{0}};
  int started = 0;
  std::vector<int> ran;
  auto const start = [&](cuda_emulator::Ticket const&) -> cuda_emulator::Attempt {
    return [&, number = ++started] {
      ran.push_back(number);
      return true;
    };
  };
  begin(stream);
  CHECK(cuda_emulator::enqueue_retried(stream.get(), "collective", start) == cudaSuccess);
  CHECK(cuda_emulator::is_capturing(stream.get()));
  cudaGraph_t graph = nullptr;
  REQUIRE(end(stream, &graph) == cudaSuccess);
  CHECK(started == 0);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream.get());
  cudaGraphLaunch(exec, stream.get());
  CHECK(started == 2);
  CHECK(ran.empty());
  cudaStreamSynchronize(stream.get());
  CHECK(ran == std::vector<int>{1, 2});
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("a fork that is not joined is an error at the end") {
  Misuse const misuse;
  Stream const main{Device{0}};
  Stream const side{Device{0}};
  Array<float> x{1};
  begin(main);
  join(main, side);
  launch(fill_kernel, 1, 1, side, x.data(), 1, 1.0F);
  CHECK(end(main) == cudaErrorStreamCaptureUnjoined);
  // Both streams are usable again, and the work is gone.
  launch(fill_kernel, 1, 1, side, x.data(), 1, 2.0F);
  CHECK(cudaStreamSynchronize(side.get()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(main.get()) == cudaSuccess);
  CHECK(x.host()[0] == 2.0F);
}

// Begins a capture, misuses it, and ends it, which must then fail.
template <class F>
cudaError_t misused(F const& misuse) {
  Stream const stream{Device{0}};
  begin(stream);
  cudaError_t const status = misuse(stream);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  cudaStreamCaptureStatus state = cudaStreamCaptureStatusActive;
  CHECK(cudaStreamIsCapturing(stream.get(), &state) == cudaSuccess);
  CHECK(state == cudaStreamCaptureStatusNone);
  return status;
}

TEST_CASE("waiting and allocating in a capture are errors that spoil it") {
  Misuse const misuse;
  Stream const other{Device{0}};
  Array<float> x{1};
  Event const event;
  void* memory = nullptr;
  float local = 0.0F;
  CHECK(misused([](Stream const& s) { return cudaStreamSynchronize(s.get()); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([](Stream const& s) { return cudaStreamQuery(s.get()); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const&) { return cudaStreamSynchronize(other.get()); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([](Stream const&) { return cudaDeviceSynchronize(); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const&) { return cudaMalloc(&memory, 4); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const&) { return cudaMallocHost(&memory, 4); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const& s) { return cudaMallocAsync(&memory, 4, s.get()); }) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const&) {
          return cudaMemcpy(&local, x.data(), 4, cudaMemcpyDeviceToHost);
        }) == cudaErrorStreamCaptureImplicit);
  CHECK(misused([&](Stream const& s) {
          return cudaMemcpyAsync(x.data(), &local, 4, cudaMemcpyHostToDevice, s.get());
        }) == cudaErrorStreamCaptureUnsupported);
  CHECK(misused([&](Stream const& s) {
          cudaEventRecord(event.handle, s.get());
          return cudaEventQuery(event.handle);
        }) == cudaErrorCapturedEvent);
  CHECK(misused([&](Stream const& s) {
          cudaEventRecord(event.handle, other.get());
          return cudaStreamWaitEvent(s.get(), event.handle, 0);
        }) == cudaErrorStreamCaptureIsolation);
}

TEST_CASE("captures do not mix, and end where they began") {
  Misuse const misuse;
  Stream const first{Device{0}};
  Stream const second{Device{0}};
  Event const event;
  begin(first);
  begin(second);
  CHECK(cudaStreamBeginCapture(first.get(), cudaStreamCaptureModeThreadLocal) ==
        cudaErrorIllegalState);
  cudaEventRecord(event.handle, first.get());
  CHECK(cudaStreamWaitEvent(second.get(), event.handle, 0) == cudaErrorStreamCaptureMerge);
  CHECK(end(first) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(second) == cudaErrorStreamCaptureInvalidated);

  begin(first);
  join(first, second);
  CHECK(end(second) == cudaErrorStreamCaptureUnmatched);
  CHECK(end(first) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(first) == cudaErrorIllegalState);

  begin(first);
  cudaError_t elsewhere = cudaSuccess;
  std::thread{[&] { elsewhere = end(first); }}.join();
  CHECK(elsewhere == cudaErrorStreamCaptureWrongThread);
  CHECK(end(first) == cudaSuccess);
}

TEST_CASE("another thread may wait and allocate during a thread-local capture") {
  Stream const stream{Device{0}};
  begin(stream);
  cudaError_t status = cudaErrorUnknown;
  std::thread{[&] {
    void* memory = nullptr;
    status = cudaMalloc(&memory, 16);
    cudaFree(memory);
  }}.join();
  CHECK(status == cudaSuccess);
  CHECK(end(stream) == cudaSuccess);
}

TEST_CASE("two streams may launch one graph: the launches run in turn") {
  Stream const first{Device{0}};
  Stream const second{Device{0}};
  Array<float> x{std::vector<float>(1, 0.0F)};
  begin(first);
  launch(add_kernel, 1, 1, first, x.data(), 1.0F);
  cudaGraph_t graph = nullptr;
  REQUIRE(end(first, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateWithFlags(&exec, graph, 0);
  cudaGraphLaunch(exec, first.get());
  cudaGraphLaunch(exec, second.get());
  cudaStreamSynchronize(second.get());
  CHECK(x.host()[0] == 2.0F);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

}  // namespace
