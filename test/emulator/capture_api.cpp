// SPDX-License-Identifier: Apache-2.0
// Stream capture: what is enqueued on the streams of a capture becomes a graph.

#include <algorithm>
#include <utility>

#include "state.hpp"

namespace cuda_emulator {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// Whether every node that another stream ended with comes before a tail of the origin.
bool joined(Capture const& capture) {
  std::vector<bool> before(capture.nodes.size(), false);
  for (std::size_t const tail : capture.origin->tails) {
    before[tail] = true;
  }
  for (std::size_t i = capture.nodes.size(); i-- > 0;) {
    if (before[i]) {
      for (std::size_t const earlier : capture.nodes[i].after) {
        before[earlier] = true;
      }
    }
  }
  return std::all_of(before.begin(), before.end(), [](bool is) { return is; });
}

// Takes the capture from all its streams.
void dissolve(std::shared_ptr<Capture> const& capture) {
  capture->ended = true;
  for (CUstream_st* const stream : capture->streams) {
    stream->capture = nullptr;
    stream->tails.clear();
  }
  std::erase(emulator().captures, capture);
}

cudaError_t end_capture(std::shared_ptr<CUstream_st> const& stream, cudaGraph_t* graph) {
  auto const capture = stream->capture;
  if (capture == nullptr) {
    return cudaErrorIllegalState;
  }
  if (capture->origin != stream.get()) {
    return break_capture(*capture, cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  cudaError_t const status = capture->broken != cudaSuccess ? cudaErrorStreamCaptureInvalidated
                             : joined(*capture)             ? cudaSuccess
                                                            : cudaErrorStreamCaptureUnjoined;
  dissolve(capture);
  if (status == cudaSuccess) {
    auto made = std::make_unique<CUgraph_st>();
    made->nodes = std::move(capture->nodes);
    made->accesses = accesses_of(made->nodes, stream->device);
    *graph = made.get();
    emulator().graphs.emplace(made.get(), std::move(made));
  }
  return status;
}

}  // namespace

cudaError_t break_capture(Capture& capture, cudaError_t error) {
  if (capture.broken == cudaSuccess) {
    capture.broken = error;
    report(std::string{"a stream capture became invalid: "} + cudaGetErrorName(error));
  }
  return error;
}

cudaError_t check_no_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  cudaError_t status = cudaSuccess;
  for (auto const& capture : emulator().captures) {
    bool const mine = capture->thread == std::this_thread::get_id() &&
                      capture->mode != cudaStreamCaptureModeRelaxed;
    if (mine || (capture->mode == cudaStreamCaptureModeGlobal &&
                 thread_mode == cudaStreamCaptureModeGlobal)) {
      status = break_capture(*capture, cudaErrorStreamCaptureUnsupported);
    }
  }
  return status;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (found == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (emulator().streams.count(stream) == 0) {
    return result(cudaErrorStreamCaptureUnsupported);  // the legacy stream
  }
  if (found->capture != nullptr) {
    return result(cudaErrorIllegalState);
  }
  static unsigned long long id = 0;
  auto capture = std::make_shared<Capture>();
  capture->id = ++id;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = found.get();
  capture->streams = {found.get()};
  found->capture = capture;
  emulator().captures.push_back(std::move(capture));
  return result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (graph == nullptr || found == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  *graph = nullptr;
  return result(end_capture(found, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  auto const held = lock();
  auto const found = find_stream(stream);
  if (found == nullptr || status == nullptr) {
    return result(cudaErrorInvalidValue);
  }
  *status = found->capture == nullptr               ? cudaStreamCaptureStatusNone
            : found->capture->broken == cudaSuccess ? cudaStreamCaptureStatusActive
                                                    : cudaStreamCaptureStatusInvalidated;
  return result(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  auto const held = lock();
  std::swap(thread_mode, *mode);
  return result(cudaSuccess);
}

}  // extern "C"
