// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::NcclSlot: what an NcclGroup keeps for each of its communicators.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <tandem/comm/operation.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::detail {

/// What a rank has queued, for messages.
struct NcclCall {
  Operation operation = Operation::barrier;
  Label label{};
};

/// "all-reduce #17 (bucket 2)", or "no operation" before the first.
inline std::string numbered(NcclCall const& call, std::uint64_t number) {
  if (number == 0) {
    return "no operation";
  }
  std::string const label = to_string(call.label);
  return std::string{name(call.operation)} + " #" + std::to_string(number) +
         (label.empty() ? "" : " (" + label + ")");
}

/// One rank's communicator in one group. NCCL does not let one thread abort a communicator while
/// another asks about it, hence the mutex; calls are short, since the communicator is non-blocking.
struct alignas(64) NcclSlot {
  std::mutex mutex;  // guards comm and the next three
  ncclComm_t comm = nullptr;
  NcclCall last{};
  std::uint64_t calls = 0;
  std::uint64_t latest = 0;   ///< its last call among those of the process's groups
  ncclComm_t made = nullptr;  ///< written by NCCL while it splits
  int rank = 0;               ///< among all ranks
  int position = 0;           ///< in the group, of
  int size = 0;               ///< so many ranks
  int group = -1;             ///< of the transport's options, or -1: all ranks
  std::atomic<std::uint64_t>* progress = nullptr;
  std::atomic<bool> waits{false};  ///< the rank's thread, for its GPU; of the group of all ranks
  cuda::Device device{};
  UniqueHandle<void*, cudaFree> word{};

  /// Zeros on the GPU, for barriers and warming up: as many, or two for each rank.
  static constexpr std::size_t least_words = 1024;
  std::size_t words = 0;

  /// @pre size is set
  void make_word(cuda::Device which) {
    device = which;
    words = std::max(least_words, 2 * static_cast<std::size_t>(size));
    cuda::ScopedDevice const scope{which};
    void* memory = nullptr;
    cuda::check(cudaMalloc(&memory, words * sizeof(std::int32_t)));
    word = UniqueHandle<void*, cudaFree>{memory};
    cuda::Stream const stream{which};
    cuda::check(cudaMemsetAsync(memory, 0, words * sizeof(std::int32_t), stream.get()));
    stream.synchronize();
  }

  [[nodiscard]] std::int32_t* word_data() const noexcept {
    return static_cast<std::int32_t*>(word.get());
  }
};

/// Holds all slots, in order.
class [[nodiscard]] NcclLocks {
 public:
  [[nodiscard]] explicit NcclLocks(std::span<NcclSlot> slots) : slots_{slots} {
    for (NcclSlot& slot : slots_) {
      slot.mutex.lock();
    }
  }
  NcclLocks(NcclLocks const&) = delete;
  NcclLocks& operator=(NcclLocks const&) = delete;
  ~NcclLocks() {
    for (NcclSlot& slot : slots_) {
      slot.mutex.unlock();
    }
  }

 private:
  std::span<NcclSlot> slots_;
};

/// Aborts communicators as one group of calls: all are told before the first is waited for.
inline void abort_nccl(std::vector<ncclComm_t> const& open) noexcept {
  if (open.empty()) {
    return;
  }
  static_cast<void>(ncclGroupStart());  // nothing is left to be done about errors
  for (ncclComm_t const comm : open) {
    static_cast<void>(ncclCommAbort(comm));
  }
  static_cast<void>(ncclGroupEnd());
}

}  // namespace tandem::detail
