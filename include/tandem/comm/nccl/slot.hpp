// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::NcclSlot: what an NcclGroup keeps for each of its ranks, and the words for it.

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
#include <tandem/comm/patience.hpp>
#include <tandem/comm/transport_options.hpp>
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

/// One rank's communicator. NCCL does not let one thread abort a communicator while another asks
/// about it, hence the mutex; calls are short, since the communicator is non-blocking.
struct alignas(64) NcclSlot {
  std::mutex mutex;  // guards comm, last and calls
  ncclComm_t comm = nullptr;
  NcclCall last{};
  std::uint64_t calls = 0;
  std::atomic<std::uint64_t> progress{0};
  cuda::Device device{};
  UniqueHandle<void*, cudaFree> word{};

  /// A few zeros on the GPU, for barriers and warming up.
  static constexpr std::size_t words = 1024;

  void make_word(cuda::Device which) {
    device = which;
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

/// "ranks 2 and 3", "rank 0"
inline std::string rank_names(int first, int count) {
  if (count == 1) {
    return "rank " + std::to_string(first);
  }
  return "ranks " + std::to_string(first) + (count == 2 ? " and " : " to ") +
         std::to_string(first + count - 1);
}

/// "the ranks of other processes did not all come (2 of 4 live here: ranks 0 and 1)"
inline std::string not_all_came(int ranks, int first, int local) {
  if (local == ranks) {
    return "NCCL did not connect " + rank_names(first, local);
  }
  return "NCCL did not connect all " + std::to_string(ranks) + " ranks, of which " +
         rank_names(first, local) + " live in this process: another process did not come";
}

/// Why @p rank waits in vain, as far as this process can tell: which of its ranks are behind.
inline std::string nccl_time_out_text(std::span<NcclSlot> slots, int ranks, int first, int rank,
                                      TransportOptions const& options) {
  struct Seen {
    NcclCall last{};
    std::uint64_t calls = 0;
    std::string progress{};
  };
  auto const look = [&](int other) {
    NcclSlot& slot = slots[static_cast<std::size_t>(other - first)];
    std::lock_guard const lock{slot.mutex};
    Seen seen{slot.last, slot.calls, {}};
    if (options.describe_progress != nullptr) {
      seen.progress = ", " + options.describe_progress(other, slot.progress.load());
    }
    return seen;
  };
  Seen const mine = look(rank);
  std::string const time = to_string(options.timeout);
  std::string text;
  auto const local = static_cast<int>(slots.size());
  for (int other = first; other < first + local; ++other) {
    Seen const seen = look(other);
    if (other != rank && seen.calls < mine.calls) {
      text.append(text.empty() ? "rank " : "; rank ").append(std::to_string(other));
      text.append(" did not reach ").append(numbered(mine.last, mine.calls));
      text.append(" within ").append(time).append("; it was last in ");
      text.append(numbered(seen.last, seen.calls)).append(seen.progress);
    }
  }
  if (!text.empty()) {
    return text;
  }
  text = "rank " + std::to_string(rank) + " waited " + time + " for its GPU, last in " +
         numbered(mine.last, mine.calls) + mine.progress + "; ";
  if (local == ranks) {
    return text + "all ranks have come so far: do their calls match?";
  }
  return text + rank_names(first, local) + (local == 1 ? " has" : " have") +
         " come so far: look at the other processes, where the others live";
}

}  // namespace tandem::detail
