// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Capture and Graph: work that is queued once, recorded instead of run, and replayed at one call.

#include <cstddef>

#include <cuda_runtime_api.h>

#include <tandem/core/contract.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// Recorded work, ready to run. Move-only; replayed as often as wanted, on one stream at a time.
class Graph {
 public:
  Graph() = default;

  /// Queues all of the recorded work on @p stream, of the device on which it was captured.
  /// @pre the memory and the communicators that the work uses are still there
  void launch(Stream const& stream) const {
    expects(static_cast<bool>(exec_), "Graph::launch: nothing was captured into this graph");
    ScopedDevice const scope{stream.device()};
    check(cudaGraphLaunch(exec_.get(), stream.get()));
  }

  /// Kernels, copies and fills, and what joins them.
  [[nodiscard]] std::size_t nodes() const noexcept { return exec_ ? nodes_ : 0; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(exec_); }

 private:
  friend class Capture;

  explicit Graph(cudaGraph_t recorded) {
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphGetNodes(recorded, nullptr, &nodes_));
    check(cudaGraphInstantiate(&exec, recorded, 0));
    exec_ = UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy>{exec};
  }

  UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy> exec_;
  std::size_t nodes_ = 0;
};

/// Records what is queued on a stream, and on those that wait for it, until finish().
///
/// Those other streams must have been waited for by then. Meanwhile this thread must not
/// synchronise nor allocate; other threads may (capture mode "thread local"). A capture that is
/// destroyed without finish(), as by an exception, discards what was recorded and leaves the stream
/// usable.
class [[nodiscard]] Capture {
 public:
  /// @pre @p stream outlives the capture
  [[nodiscard]] explicit Capture(Stream& stream) : stream_{&stream} {
    check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  }

  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;

  ~Capture() {
    if (stream_ != nullptr) {
      cudaGraph_t recorded = nullptr;
      static_cast<void>(cudaStreamEndCapture(stream_->get(), &recorded));
      static_cast<void>(cudaGetLastError());  // the exception says what was wrong
      Recorded const discarded{recorded};
    }
  }

  /// Ends the capture. Once only.
  /// @throws CudaError  something was queued that cannot be captured, or a stream was not joined
  [[nodiscard]] Graph finish() {
    expects(stream_ != nullptr, "Capture::finish: the capture has already ended");
    cudaGraph_t recorded = nullptr;
    cudaError_t const status = cudaStreamEndCapture(stream_->get(), &recorded);
    Recorded const owner{recorded};
    ScopedDevice const scope{stream_->device()};
    stream_ = nullptr;  // CUDA has ended the capture even where it reports an error
    check(status);
    return Graph{recorded};
  }

 private:
  using Recorded = UniqueHandle<cudaGraph_t, cudaGraphDestroy>;

  Stream* stream_;
};

}  // namespace tandem::cuda
