// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a library of the emulator (cuBLASLt, cuDNN, NCCL) needs: put work on a stream, check
/// pointers.
///
/// Streams are lazy: work runs on the host thread that first waits for it, in stream order, with
/// the emulator's lock held. A function enqueued on a capturing stream becomes a node of the graph
/// and runs once for each launch of it. Work must not call the CUDA runtime.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

namespace cuda_emulator {

/// A recursive mutex that can be let go whatever its depth.
class Mutex {
 public:
  void lock();
  void unlock();
  /// Unlocks all levels of the calling thread, and returns how many they were.
  int release();
  void acquire(int levels);

 private:
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  int depth_ = 0;
};

using Held = std::unique_lock<Mutex>;

/// The emulator's one lock. Hold it around state that work functions share with the functions of an
/// API; work functions already hold it. Never wait for a stream or another thread while holding it.
[[nodiscard]] Held lock();

/// One item of one stream's order of work.
struct Ticket {
  std::shared_ptr<CUstream_st> stream;
  std::uint64_t position = 0;
};

/// Tries to do its work. Returns false if that cannot be done yet: it is called again when
/// something has changed. Must then have no effect that a second call would repeat.
using Attempt = std::function<bool()>;

/// Called in host order for each execution of an item: when it is enqueued, or, for a node of a
/// graph, at each launch of the graph. The ticket tells where the item stands; for a node, it is
/// the ticket of the whole launch. This is where a collective takes its number.
using Start = std::function<Attempt(Ticket const&)>;

/// Bytes that a piece of work reads, or writes.
struct Access {
  void const* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

/// Puts @p work at the end of @p stream. @p name appears in reports.
/// @param accesses  of it what is known: a conflict with other work that nothing orders is a fault
/// @return cudaErrorInvalidResourceHandle for a stream that does not exist; errors of the capture
cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work,
                    std::vector<Access> const& accesses = {});

/// The same for what computes: left out while set_computing(false) holds.
/// @param bytes  of its operands, each counted once, for graph_work(); -1: not known
cudaError_t enqueue_computation(cudaStream_t stream, std::string name, std::function<void()> work,
                                std::int64_t bytes = -1, std::vector<Access> const& accesses = {});

/// The same for work that may have to wait for other streams, as a collective does.
cudaError_t enqueue_retried(cudaStream_t stream, std::string name, Start start,
                            std::vector<Access> const& accesses = {});

/// Runs the ticket's stream up to and including its item, as far as that is possible without
/// blocking. To be called by an Attempt for those that it waits for, since nobody else may force
/// them.
/// @return whether the item is done
bool advance(Ticket const& ticket);

/// Wakes the threads that wait for something "not ready"; called after a change of library state
/// (a communicator was aborted, a peer has enqueued).
void notify_changed();

/// The device of @p stream, or -1 if there is no such stream.
[[nodiscard]] int device_of(cudaStream_t stream);

/// The calling thread's current device, as cudaGetDevice gives it.
[[nodiscard]] int current_device();

/// Whether @p stream takes part in a capture.
[[nodiscard]] bool is_capturing(cudaStream_t stream);

/// Whether [pointer, pointer + bytes) lies in one live allocation that kernels on @p device can
/// read and write: memory of that device or opened to it, or pinned host memory. Empty ranges
/// always do.
[[nodiscard]] bool device_can_access(void const* pointer, std::size_t bytes, int device);

/// Whether [pointer, pointer + bytes) lies in one live allocation of device memory, of any device
/// if @p device is -1.
[[nodiscard]] bool is_device_memory(void const* pointer, std::size_t bytes, int device = -1);

/// Fills @p bytes at @p pointer with the pattern of uninitialised memory: NaN for every type.
void poison(void* pointer, std::size_t bytes);

/// Prints "emulator: <text>" and keeps it for last_report(). For misuse that a return code alone
/// would not explain.
void report(std::string const& text);

/// Reports, and makes @p device fail with @p error from now on, as after a fault in a kernel.
void fail(int device, cudaError_t error, std::string const& text);

}  // namespace cuda_emulator
